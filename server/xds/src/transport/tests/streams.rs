//! Regular streams, and the health service.

use super::*;
use tonic::Code;
use tributary_model::ClientKind;
use tributary_proto::Names;

#[tokio::test]
async fn both_variants_are_served_on_one_connection() {
    let served =
        Served::with(&[(ResourceType::Cluster, "a.x", "1"), (ResourceType::Endpoints, "a.x", "1")]).await;
    let mut connection = served.connect().await;
    for mut stream in [connection.sotw().await, connection.delta().await] {
        assert_eq!(stream.headers["content-type"], "application/grpc");
        stream.subscribe(ResourceType::Cluster, &[]).await;
        assert_eq!(stream.bodies().await, ["a.x=1"]);
        stream.subscribe(ResourceType::Endpoints, &["a.x"]).await;
        assert_eq!(stream.bodies().await, ["a.x=1"]);
    }
    assert_eq!(served.count("connections"), 1);
}

#[tokio::test]
async fn change_wakes_only_subscribed_streams() {
    let served =
        Served::with(&[(ResourceType::Endpoints, "a.x", "1"), (ResourceType::Endpoints, "b.x", "1")]).await;
    let mut connection = served.connect().await;
    let (mut a, mut b) = (connection.delta().await, connection.delta().await);
    a.subscribe(ResourceType::Endpoints, &["a.x", "later.x"]).await;
    b.subscribe(ResourceType::Endpoints, &["b.x"]).await;
    assert_eq!((a.next().await.resources.len(), b.bodies().await), (2, vec!["b.x=1".to_owned()]));
    let wakeups = served.count("wakeups");
    served.set(ResourceType::Endpoints, "later.x", "1");
    assert_eq!(a.bodies().await, ["later.x=1"]);
    served.set(ResourceType::Endpoints, "a.x", "2");
    assert_eq!(a.bodies().await, ["a.x=2"]);
    assert_eq!(served.count("wakeups"), wakeups + 2, "the other stream was not woken");
    assert_eq!(served.count("wakeups_for_nothing"), 0);
}

#[tokio::test]
async fn small_responses_of_a_round_leave_together() {
    let served =
        Served::with(&[(ResourceType::Cluster, "a.x", "1"), (ResourceType::Endpoints, "a.x", "1")]).await;
    let mut connection = served.connect().await;
    let mut stream = connection.delta().await;
    stream.subscribe(ResourceType::Cluster, &[]).await;
    stream.next().await;
    stream.subscribe(ResourceType::Endpoints, &["a.x"]).await;
    stream.next().await;
    served.source.fake.build_all();
    served.set(ResourceType::Cluster, "a.x", "2");
    assert_eq!(stream.bodies().await, ["a.x=2"]);
    assert_eq!(stream.bodies().await, ["a.x=1"], "an xDS cluster that changed is followed by its assignment");
    assert_eq!((served.count("sends"), served.count("sends_joined")), (4, 1));
}

#[tokio::test]
async fn pushes_are_counted_by_type_and_cause() {
    let served =
        Served::with(&[(ResourceType::Cluster, "a.x", "1"), (ResourceType::Endpoints, "a.x", "1")]).await;
    let mut connection = served.connect().await;
    let mut stream = connection.delta().await;
    stream.subscribe(ResourceType::Endpoints, &["a.x"]).await;
    stream.next().await;
    served.set(ResourceType::Endpoints, "a.x", "2");
    stream.next().await;
    let of = |kind: ResourceType| served.server.counters().pushes.kinds().find(|of| of.kind == kind).unwrap();
    let taken = async {
        while of(ResourceType::Endpoints).seconds.count() < 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, taken).await.unwrap();
    let (sent, bytes) = (of(ResourceType::Endpoints), served.count("bytes_sent"));
    assert_eq!((sent.bytes.count(), sent.bytes.sum), (2, bytes as f64));
    assert_eq!(of(ResourceType::Cluster).bytes.count(), 0, "no client requested it");
    let changes = sent.convergence.map(|(change, times)| (change, times.count()));
    assert_eq!(changes, [("removal", 0), ("addition", 1)], "the first response is not a push");
    assert_eq!(served.server.counters().pushes.triggers()[0], ("hosts", 3));
}

#[tokio::test]
async fn gauges_follow_the_streams() {
    let served = Served::with(&[(ResourceType::Cluster, "a.x", "1")]).await;
    let mut connection = served.connect().await;
    let mut stream = connection.delta().await;
    stream.subscribe(ResourceType::Cluster, &[]).await;
    let response = stream.next().await;
    let gauges = &served.server.counters().clients;
    let sums = || {
        let streams: u64 = gauges.streams().iter().map(|(_, count)| count).sum();
        let rejected: u64 = gauges.nacked().iter().map(|(_, count)| count).sum();
        (streams, rejected)
    };
    assert!(gauges.streams().contains(&(ClientKind::Envoy, 1)));
    assert!(gauges.subscriptions().contains(&(ResourceType::Cluster, ClientKind::Envoy, 1)));
    assert_eq!(sums(), (1, 0));
    let error = Some(tributary_proto::ErrorDetail { message: "no".into(), ..Default::default() });
    let type_url = ResourceType::Cluster.type_url().into();
    let nonce = response.nonce;
    stream.send_delta(DeltaRequest { type_url, nonce, error, ..DeltaRequest::default() }).await;
    let becomes = async |wanted: (u64, u64)| {
        let changed = async {
            while sums() != wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, changed).await.unwrap();
    };
    becomes((1, 1)).await;
    assert!(gauges.nacked().contains(&(ResourceType::Cluster, 1)));
    drop((stream, connection));
    becomes((0, 0)).await;
}

#[tokio::test]
async fn server_is_writing_until_woken_streams_are_handled() {
    let served = Served::with(&[(ResourceType::Endpoints, "a.x", "1")]).await;
    let mut connection = served.connect().await;
    let mut stream = connection.delta().await;
    stream.subscribe(ResourceType::Endpoints, &["a.x"]).await;
    stream.next().await;
    served.set(ResourceType::Endpoints, "a.x", "2");
    assert!(served.server.is_writing(), "its task has not run yet");
    assert_eq!(stream.bodies().await, ["a.x=2"]);
    let written = async {
        while served.server.is_writing() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, written).await.unwrap();
}

#[tokio::test]
async fn no_wake_is_lost_between_subscribing_and_publishing() {
    let served = Arc::new(Served::with(&[]).await);
    let mut connection = served.connect().await;
    for n in 0..50 {
        let name = format!("h{n}.x");
        let mut stream = connection.delta().await;
        stream.subscribe(ResourceType::Endpoints, &[&name]).await;
        served.set(ResourceType::Endpoints, &name, "1");
        let mut response = stream.next().await;
        while response.resources[0].body != format!("{name}=1").as_bytes() {
            response = stream.next().await;
        }
    }
}

#[tokio::test]
async fn a_client_is_in_the_table_while_its_stream_lasts() {
    let served = Served::with(&[(ResourceType::Listener, "l.x", "1")]).await;
    let mut connection = served.connect().await;
    let mut stream = connection.sotw().await;
    stream.subscribe(ResourceType::Listener, &[]).await;
    let response = stream.next().await;
    let (catalog, now) = (served.source.current(), served.server.now());
    let rows = served.server.clients().rows(&catalog, now);
    assert_eq!((rows.len(), &*rows[0].node, rows[0].variant, rows[0].mode), (1, "test-id", "sotw", "bulk"));
    assert_eq!(rows[0].notes[0].code, tributary_model::Code::CLIENT_NO_PROFILE);
    assert_eq!(rows[0].types[0].sent_version.as_deref(), Some(response.version.as_str()));
    let found = served.server.clients().find("test-id");
    assert!(found[0].delivery(ResourceType::Listener, "l.x").version.is_some());
    drop((stream, connection));
    served.reaches("streams_ended", 1).await;
    let removed = async {
        while !served.server.clients().is_empty() || !served.server.interest().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, removed).await.unwrap();
}

#[tokio::test]
async fn first_request_requires_a_node() {
    let served = Served::with(&[]).await;
    let mut connection = served.connect().await;
    for node in [None, mk_node("")] {
        let mut stream = connection.sotw().await;
        let type_url = ResourceType::Cluster.type_url().into();
        stream.send_sotw(SotwRequest { node, type_url, ..SotwRequest::default() }).await;
        let (code, message) = stream.end().await;
        assert_eq!(code, Code::InvalidArgument);
        assert!(message.contains("missing node information"), "{message}");
    }
}

#[tokio::test]
async fn later_requests_need_no_node() {
    let served = Served::with(&[(ResourceType::Route, "r", "1")]).await;
    let mut stream = served.connect().await.sotw().await;
    stream.subscribe(ResourceType::Cluster, &[]).await;
    stream.next().await;
    let names: Names = ["r"].into_iter().collect();
    stream
        .send_sotw(SotwRequest {
            names,
            type_url: ResourceType::Route.type_url().into(),
            ..SotwRequest::default()
        })
        .await;
    assert_eq!(stream.bodies().await, ["r=1"]);
}

#[tokio::test]
async fn clients_wait_while_the_server_is_not_ready() {
    let served = Served::with(&[]).await;
    served.source.ready.store(false, Ordering::Release);
    let mut connection = served.connect().await;
    for mut stream in [connection.sotw().await, connection.delta().await] {
        let (code, message) = stream.end().await;
        assert_eq!(code, Code::Unavailable);
        assert!(message.starts_with("server is not ready to serve discovery information"), "{message}");
    }
}

#[tokio::test]
async fn unknown_methods_are_unimplemented() {
    let served = Served::with(&[]).await;
    let mut connection = served.connect().await;
    for path in [
        "/envoy.service.discovery.v3.ClusterDiscoveryService/StreamClusters",
        "/x",
        "/grpc.health.v1.Health/List",
    ] {
        let (tx, response) = connection.open(path).await;
        assert_eq!(Stream::new(tx, response, false).end().await.0, Code::Unimplemented, "{path}");
    }
}

const HEALTH: &str = "/grpc.health.v1.Health/";

async fn check(connection: &mut Connection, service: &str) -> (Option<Bytes>, Code) {
    let mut message = tributary_proto::wire::Writer::new();
    message.string(1, service);
    let mut stream = connection.call(&format!("{HEALTH}Check"), &message.finish()).await;
    let message = stream.message().await;
    (message, stream.end().await.0)
}

#[tokio::test]
async fn health_follows_readiness() {
    let served = Served::with(&[]).await;
    let mut connection = served.connect().await;
    assert_eq!(check(&mut connection, "").await, (Some(Bytes::from_static(&[8, 1])), Code::Ok));
    assert_eq!(check(&mut connection, "no.such.Service").await, (None, Code::NotFound));
    served.source.ready.store(false, Ordering::Release);
    let service = "envoy.service.discovery.v3.AggregatedDiscoveryService";
    assert_eq!(check(&mut connection, service).await, (Some(Bytes::from_static(&[8, 2])), Code::Ok));
}

#[tokio::test]
async fn a_health_watch_follows_readiness() {
    let served =
        Served::start(Limits { health_interval: Duration::from_millis(5), ..Limits::default() }).await;
    let mut connection = served.connect().await;
    let mut stream = connection.call(&format!("{HEALTH}Watch"), b"").await;
    assert_eq!(stream.message().await, Some(Bytes::from_static(&[8, 1])));
    served.source.ready.store(false, Ordering::Release);
    assert_eq!(stream.message().await, Some(Bytes::from_static(&[8, 2])));
}

#[tokio::test]
async fn client_connections_are_reported() {
    let served = Served::with(&[]).await;
    let mut connection = served.connect().await;
    let mut stream = connection.sotw().await;
    stream.subscribe(ResourceType::Cluster, &[]).await;
    stream.next().await;
    assert_eq!(*served.source.events.lock(), ["+test-id"]);
    drop((stream, connection));
    let removed = async {
        while served.source.events.lock().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, removed).await.unwrap();
    assert_eq!(*served.source.events.lock(), ["+test-id", "-"]);
}

/// Many readers while a writer publishes: no reader sees an older version, all see the last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_never_see_an_older_version() {
    const LAST: u64 = 300;
    let served = Arc::new(
        Served::with(&[(ResourceType::Cluster, "a.x", "0"), (ResourceType::Endpoints, "a.x", "0")]).await,
    );
    let mut readers = Vec::new();
    for n in 0..8 {
        let mut connection = served.connect().await;
        readers.push(tokio::spawn(async move {
            let mut stream = if n % 2 == 0 { connection.delta().await } else { connection.sotw().await };
            if n < 4 {
                stream.subscribe(ResourceType::Cluster, &[]).await;
            }
            stream.subscribe(ResourceType::Endpoints, &["a.x"]).await;
            let mut seen = 0;
            while seen < LAST {
                let response = stream.next().await;
                if response.type_url.as_str() == ResourceType::Endpoints.type_url() {
                    let body = String::from_utf8(response.resources[0].body.to_vec()).unwrap();
                    let value: u64 = body.strip_prefix("a.x=").unwrap().parse().unwrap();
                    assert!(value >= seen, "{value} after {seen}");
                    seen = value;
                }
            }
        }));
    }
    let writer = Arc::clone(&served);
    let writing = tokio::spawn(async move {
        for n in 1..=LAST {
            writer.set(ResourceType::Endpoints, "a.x", &n.to_string());
            tokio::task::yield_now().await;
        }
    });
    writing.await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }
}
