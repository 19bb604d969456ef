//! Malicious or faulty clients with the real binary. Each gets a clear status or is slowed down; meanwhile
//! another client is served at once, and the server's memory stays bounded.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::{BufMut, Bytes, BytesMut};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use envoy_types::pb::google::rpc::Status;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tributary_suites::ads::{CDS, EDS, client::Tuning, frame, node};
use tributary_suites::{
    AdsClient, Entry, Files, Follower, GrpcStatus, ServerOptions, TestServer, Variant, eventually, nowhere,
};

const SOON: Duration = Duration::from_secs(20);
/// Time limit in which a well-behaved client gets a change, whatever others do.
const AT_ONCE: Duration = Duration::from_secs(5);
const INVALID_ARGUMENT: i32 = 3;
const RESOURCE_EXHAUSTED: i32 = 8;

/// A server, and a well-behaved client.
struct World {
    files: Files,
    server: TestServer,
    good: Follower,
    moves: u8,
}

impl World {
    async fn start() -> Result<Self> {
        let files = Files::new()?;
        files.put("good.yaml", &good(1).yaml())?;
        files.put("other.yaml", &Entry::http("other.test", 80).at(nowhere(2)).yaml())?;
        let server = TestServer::start(ServerOptions::files(files.path())).await?;
        let mut client = Follower::like_envoy(server.xds(), Variant::Delta, node("good")).await?;
        client.has_endpoints(&good(1).cluster(), &[nowhere(1)], SOON).await?;
        Ok(Self { files, server, good: client, moves: 1 })
    }

    /// Asserts that a change reaches the well-behaved client at once.
    async fn unhurt(&mut self) -> Result<()> {
        self.moves += 1;
        let began = Instant::now();
        self.files.put("good.yaml", &good(self.moves).yaml())?;
        self.good.has_endpoints(&good(1).cluster(), &[nowhere(self.moves)], SOON).await?;
        ensure!(began.elapsed() < AT_ONCE, "a change took {:?} beside this", began.elapsed());
        self.server.process().check_running()
    }

    async fn raw(&self, variant: Variant) -> Result<AdsClient> {
        AdsClient::connect(self.server.xds(), variant, node("bad")).await
    }
}

fn good(last: u8) -> Entry {
    Entry::http("good.test", 80).at(nowhere(last))
}

fn is(status: &GrpcStatus, code: i32, text: &str) -> Result<()> {
    ensure!(status.code == code && status.message.contains(text), "wanted {code} with {text:?}: {status}");
    Ok(())
}

#[tokio::test]
async fn requests_without_a_node_are_rejected() -> Result<()> {
    let mut world = World::start().await?;
    for variant in Variant::BOTH {
        for node in [None, Some(Node::default())] {
            let stream = TcpStream::connect(world.server.xds()).await?;
            let mut client = AdsClient::over(stream, variant, node, Tuning::default()).await?;
            client.subscribe(EDS, &["x"])?;
            is(&client.expect_end(SOON).await?, INVALID_ARGUMENT, "node")?;
        }
    }
    world.unhurt().await
}

/// Unsupported types are skipped: the stream stays open, and supported types on it are answered.
#[tokio::test]
async fn unknown_types_are_skipped() -> Result<()> {
    let mut world = World::start().await?;
    for variant in Variant::BOTH {
        let mut client = world.raw(variant).await?;
        for kind in
            ["type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig", "nonsense", "", "\u{1F980}"]
        {
            client.subscribe(kind, &["x"])?;
        }
        client.subscribe(EDS, &["outbound|80||other.test"])?;
        client.expect(EDS, &["outbound|80||other.test"], SOON).await?;
    }
    world.unhurt().await
}

/// A million names exceed the bound of a session: the stream ends and names the bound.
#[tokio::test]
async fn million_names_are_rejected() -> Result<()> {
    let mut world = World::start().await?;
    let before = world.server.resident()?;
    for variant in Variant::BOTH {
        let names: Vec<String> = (0..1_000_000).map(|n| format!("n{n}")).collect();
        let mut client = world.raw(variant).await?;
        let bytes = match variant {
            Variant::Sotw => frame::encode(&DiscoveryRequest {
                node: Some(node("bad")),
                type_url: EDS.to_owned(),
                resource_names: names,
                ..DiscoveryRequest::default()
            }),
            Variant::Delta => frame::encode(&DeltaDiscoveryRequest {
                node: Some(node("bad")),
                type_url: EDS.to_owned(),
                resource_names_subscribe: names,
                ..DeltaDiscoveryRequest::default()
            }),
        };
        client.send_bytes(bytes)?;
        is(&client.expect_end(SOON * 2).await?, RESOURCE_EXHAUSTED, "names")?;
        world.unhurt().await?;
    }
    bounded(&mut world, before, 256 << 20).await
}

/// The same in small steps: the bound applies to the session, not to the request.
#[tokio::test]
async fn accumulated_names_are_rejected() -> Result<()> {
    let mut world = World::start().await?;
    let mut client = world.raw(Variant::Delta).await?;
    let ended = async {
        for batch in 0..40 {
            let names: Vec<String> = (0..10_000).map(|n| format!("outbound|80||n{n}-{batch}.test")).collect();
            client.subscribe(EDS, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
            match client.next(SOON).await {
                Ok(answer) => client.ack(&answer)?,
                Err(error) => return error.downcast::<GrpcStatus>(),
            }
        }
        anyhow::bail!("400,000 names were taken")
    };
    is(&ended.await?, RESOURCE_EXHAUSTED, "names")?;
    world.unhurt().await
}

#[tokio::test]
async fn names_and_nodes_beyond_their_bound_are_refused() -> Result<()> {
    let mut world = World::start().await?;
    for variant in Variant::BOTH {
        let mut client = world.raw(variant).await?;
        client.subscribe(EDS, &[&"n".repeat(5000)])?;
        is(&client.expect_end(SOON).await?, RESOURCE_EXHAUSTED, "name")?;
        let large = Value { kind: Some(Kind::StringValue("m".repeat(100 << 10))) };
        let fields = [("LABELS".to_owned(), large)].into_iter().collect();
        let node = Node { metadata: Some(Struct { fields }), ..node("bad") };
        let mut client = AdsClient::connect(world.server.xds(), variant, node).await?;
        client.subscribe(CDS, &[])?;
        is(&client.expect_end(SOON).await?, RESOURCE_EXHAUSTED, "metadata")?;
    }
    world.unhurt().await
}

/// Metadata nested deeper than any parser should follow.
#[tokio::test]
async fn nested_metadata_is_refused() -> Result<()> {
    let mut world = World::start().await?;
    let mut value = Value { kind: Some(Kind::StringValue("deep".to_owned())) };
    for _ in 0..90 {
        let fields = [("x".to_owned(), value)].into_iter().collect();
        value = Value { kind: Some(Kind::StructValue(Struct { fields })) };
    }
    let fields = [("LABELS".to_owned(), value)].into_iter().collect();
    let node = Node { metadata: Some(Struct { fields }), ..node("bad") };
    let mut client = AdsClient::connect(world.server.xds(), Variant::Sotw, node).await?;
    client.subscribe(CDS, &[])?;
    let status = client.expect_end(SOON).await?;
    ensure!([INVALID_ARGUMENT, RESOURCE_EXHAUSTED].contains(&status.code), "{status}");
    ensure!(status.message.contains("nest"), "{status}");
    world.unhurt().await
}

/// Thousands of acknowledgements of responses that were never sent: nothing is sent back, and the stream still
/// works.
#[tokio::test]
async fn nonce_spam_is_ignored() -> Result<()> {
    let mut world = World::start().await?;
    for variant in Variant::BOTH {
        let mut client = world.raw(variant).await?;
        client.subscribe(EDS, &["outbound|80||other.test"])?;
        let answer = client.expect(EDS, &["outbound|80||other.test"], SOON).await?;
        for spam in 0..3000 {
            client.reply(&answer, &format!("made-up-{spam}"), None)?;
        }
        world.unhurt().await?;
        client.expect_nothing(Duration::from_millis(300)).await?;
        client.ack(&answer)?;
    }
    Ok(())
}

/// A client that rejects everything is answered ever more slowly, and does not receive the same response again
/// and again.
#[tokio::test]
async fn endless_nacks_delay_no_other_client() -> Result<()> {
    let mut world = World::start().await?;
    for variant in Variant::BOTH {
        let mut client = world.raw(variant).await?;
        client.subscribe(EDS, &["outbound|80||other.test"])?;
        let answer = client.next(SOON).await?;
        for _ in 0..500 {
            client.nack(&answer, &"no ".repeat(3000))?;
        }
        world.unhurt().await?;
        client.expect_nothing(Duration::from_millis(300)).await?;
        let shown = eventually("the refusal to be shown", SOON, || async {
            let shown = world.server.client_type("bad", "EDS").await?;
            ensure!(shown["state"] == "ERROR", "{shown}");
            Ok(shown)
        })
        .await?;
        let length = shown["nack"].as_str().unwrap_or_default().len();
        ensure!((1..=4096).contains(&length), "{length} bytes of the client's text are kept");
        drop(client);
        world.server.shows("clients", SOON, |clients| clients.len() == 1).await?;
    }
    Ok(())
}

/// Many clients that request half a megabyte and read nothing: their responses are shared.
#[tokio::test]
async fn readers_that_stop_cost_a_bounded_amount() -> Result<()> {
    let mut world = World::start().await?;
    let hosts: Vec<SocketAddr> = (1..=100).map(nowhere).collect();
    for number in 0..100 {
        let entry = Entry::http(&format!("many-{number}.test"), 80).all(&hosts);
        world.files.put(&format!("many-{number}.yaml"), &entry.yaml())?;
    }
    let all: Vec<String> = (0..100).map(|n| format!("outbound|80||many-{n}.test")).collect();
    world
        .good
        .until("all services", SOON, |now| all.iter().all(|n| now.endpoints(n).is_ok()).then_some(()))
        .await?;
    let before = world.server.resident()?;
    let mut stopped = Vec::new();
    for number in 0..100 {
        let stream = TcpStream::connect(world.server.xds()).await?;
        let tuning = Tuning { stream_window: 1 << 16, connection_window: 1 << 16, ..Tuning::default() };
        let mut client =
            AdsClient::over(stream, Variant::BOTH[number % 2], Some(node("stopped")), tuning).await?;
        client.subscribe(EDS, &all.iter().map(String::as_str).collect::<Vec<_>>())?;
        stopped.push(client);
    }
    world.server.shows("clients", SOON, |clients| clients.len() == 101).await?;
    for _ in 0..5 {
        world.unhurt().await?;
    }
    bounded(&mut world, before, 32 << 20).await
}

/// Ten thousand Sidecars, each of a namespace of its own: a client costs its own scope, and a change delays no client.
#[tokio::test]
async fn ten_thousand_scopes_cost_a_bounded_amount() -> Result<()> {
    let mut world = World::start().await?;
    let before = world.server.resident()?;
    let sidecar = |n: usize| {
        format!(
            "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {{name: default, namespace: n{n}}}\n\
             spec:\n  egress: [{{hosts: [\"default/good.test\", \"*/h{n}.test\"]}}]\n---\n"
        )
    };
    world.files.put("sidecars.yaml", &(0..10_000).map(sidecar).collect::<String>())?;
    for n in [0, 4_999, 9_999] {
        let id = format!("sidecar~10.0.0.1~client.n{n}~n{n}.svc.cluster.local");
        let began = Instant::now();
        let mut client = Follower::like_envoy(world.server.xds(), Variant::Delta, node(&id)).await?;
        client.holds(CDS, &[&good(1).cluster()], SOON * 2).await?;
        ensure!(n == 0 || began.elapsed() < AT_ONCE, "connecting took {:?}", began.elapsed());
    }
    world.unhurt().await?;
    bounded(&mut world, before, 256 << 20).await
}

/// Half of a handshake, half of a frame, half of a message: each waits for ever and delays no other client.
#[tokio::test]
async fn half_open_sockets_delay_no_other_client() -> Result<()> {
    let mut world = World::start().await?;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut open = Vec::new();
    for bytes in [&[][..], &preface[..10], preface, &[preface, &[0, 0, 100, 4, 0][..]].concat()] {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(world.server.xds()).await?;
            stream.write_all(bytes).await?;
            open.push(stream);
        }
    }
    let mut client = world.raw(Variant::Sotw).await?;
    let whole = frame::encode(&DiscoveryRequest { node: Some(node("bad")), ..DiscoveryRequest::default() });
    client.send_bytes(whole.slice(..whole.len() - 3))?;
    world.unhurt().await?;
    drop(open);
    world.unhurt().await
}

/// Bytes that are not HTTP/2, and HTTP/2 whose messages are not protobuf.
#[tokio::test]
async fn garbage_ends_its_own_connection() -> Result<()> {
    let mut world = World::start().await?;
    for garbage in
        [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc], &[0xff; 4096]]
    {
        let mut stream = TcpStream::connect(world.server.xds()).await?;
        stream.write_all(garbage).await?;
        let mut rest = Vec::new();
        // A reset counts as an end too.
        let ended = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await;
        ensure!(ended.is_ok(), "the connection stays open after {garbage:?}");
    }
    for variant in Variant::BOTH {
        for message in [&[0xff; 64][..], &[0x0a, 0x80, 0x80, 0x80, 0x80, 0x08], b"\x22\x02\xc3\x28"] {
            let mut client = world.raw(variant).await?;
            client.send_bytes(framed(0, message))?;
            is(&client.expect_end(SOON).await?, INVALID_ARGUMENT, "")?;
        }
    }
    world.unhurt().await
}

fn framed(flag: u8, message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(flag);
    bytes.put_u32(message.len() as u32);
    bytes.put_slice(message);
    bytes.freeze()
}

/// A prefix that announces four gigabytes, and one with the compressed flag.
#[tokio::test]
async fn messages_beyond_the_bound_are_refused_before_they_are_read() -> Result<()> {
    let mut world = World::start().await?;
    let before = world.server.resident()?;
    for variant in Variant::BOTH {
        let mut client = world.raw(variant).await?;
        client.send_bytes(Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]))?;
        is(&client.expect_end(SOON).await?, RESOURCE_EXHAUSTED, "")?;
        let mut client = world.raw(variant).await?;
        client.send_bytes(framed(1, b"x"))?;
        let status = client.expect_end(SOON).await?;
        ensure!([INVALID_ARGUMENT, 12].contains(&status.code), "a compressed message: {status}");
    }
    world.unhurt().await?;
    bounded(&mut world, before, 32 << 20).await
}

/// Header blocks larger than any client needs.
#[tokio::test]
async fn large_headers_are_refused() -> Result<()> {
    let mut world = World::start().await?;
    let stream = TcpStream::connect(world.server.xds()).await?;
    let (sender, connection) = h2::client::handshake(stream).await?;
    let connection = tokio::spawn(connection);
    let mut sender = sender.ready().await?;
    let mut request = http::Request::post(
        "http://xds.test/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
    );
    for number in 0..200 {
        request = request.header(format!("x-{number}"), "y".repeat(4096));
    }
    let sent = sender.send_request(request.body(())?, true);
    let refused = match sent {
        Err(_) => true,
        Ok((response, _)) => match tokio::time::timeout(SOON, response).await? {
            Err(_) => true,
            Ok(response) => !response.status().is_success(),
        },
    };
    connection.abort();
    ensure!(refused, "almost a megabyte of headers was taken");
    world.unhurt().await
}

/// Unknown methods and paths.
#[tokio::test]
async fn unknown_methods_are_unimplemented() -> Result<()> {
    let mut world = World::start().await?;
    let stream = TcpStream::connect(world.server.xds()).await?;
    let (sender, connection) = h2::client::handshake(stream).await?;
    let connection = tokio::spawn(connection);
    let mut sender = sender.ready().await?;
    for path in ["/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats", "/", "/a/b/c"] {
        let request = http::Request::post(format!("http://xds.test{path}"));
        let request = request.header("content-type", "application/grpc").header("te", "trailers").body(())?;
        let (response, _) = sender.send_request(request, true)?;
        let response = tokio::time::timeout(SOON, response).await??;
        let status = GrpcStatus::from_headers(response.headers());
        ensure!(status.is_some_and(|status| status.code == 12), "{path}: {:?}", response.headers());
    }
    connection.abort();
    world.unhurt().await
}

/// Clients that connect and disconnect rapidly leave nothing behind.
#[tokio::test]
async fn a_storm_of_reconnects_leaves_nothing_behind() -> Result<()> {
    let mut world = World::start().await?;
    for round in 0..300 {
        let mut client = world.raw(Variant::BOTH[round % 2]).await?;
        client.subscribe(CDS, &[])?;
        if round % 3 == 0 {
            client.next(SOON).await?;
        }
    }
    world.unhurt().await?;
    world.server.shows("clients", SOON, |clients| clients.len() == 1).await?;
    Ok(())
}

/// A rejection with an invalid message, and one for a type that was never requested.
#[tokio::test]
async fn odd_rejections_are_accepted() -> Result<()> {
    let mut world = World::start().await?;
    let mut client = world.raw(Variant::Sotw).await?;
    let refusal =
        Status { code: -7, message: "\u{0}\u{7f}\n\r\"<b>\u{202e}".to_owned(), details: Vec::new() };
    client.send_sotw(DiscoveryRequest {
        type_url: EDS.to_owned(),
        resource_names: vec!["outbound|80||other.test".to_owned()],
        response_nonce: "x".to_owned(),
        error_detail: Some(refusal),
        ..DiscoveryRequest::default()
    })?;
    client.expect(EDS, &["outbound|80||other.test"], SOON).await?;
    let log = world.server.process().output();
    ensure!(
        !log.contains('\u{202e}') && !log.contains('\u{0}'),
        "the client writes into the log as it likes"
    );
    world.unhurt().await
}

/// Waits until the server's memory is within a bound of its earlier value.
async fn bounded(world: &mut World, before: u64, bound: u64) -> Result<()> {
    let server = parking_lot::Mutex::new(&mut world.server);
    eventually("memory to be bounded", SOON, || {
        let resident = server.lock().resident();
        async move {
            let grown = resident?.saturating_sub(before);
            ensure!(grown < bound, "it grew by {} MiB", grown >> 20);
            Ok(())
        }
    })
    .await
}
