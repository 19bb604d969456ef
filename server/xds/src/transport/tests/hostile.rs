//! Clients that do not read, do not send, or send garbage.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::Code;

#[tokio::test]
async fn slow_reader_does_not_delay_others() {
    let big = "x".repeat(3 << 20);
    let served = Served::with(&[(ResourceType::Cluster, "big.x", &big)]).await;
    let mut slow_connection =
        Connection::with_window(TcpStream::connect(served.address).await.unwrap(), 1 << 16).await;
    let slow = slow_connection.delta().await;
    slow.subscribe(ResourceType::Cluster, &[]).await;
    served.reaches("sends", 1).await;
    let mut fast = served.connect().await.delta().await;
    fast.subscribe(ResourceType::Cluster, &[]).await;
    assert_eq!(fast.next().await.resources.len(), 1);
    for n in 0..20 {
        served.set(ResourceType::Cluster, "small.x", &n.to_string());
        assert_eq!(fast.bodies().await, [format!("small.x={n}")]);
    }
    let sends = served.count("sends");
    assert_eq!(sends, 22, "the slow stream has one message in flight and none queued");
    let mut slow = slow;
    assert_eq!(slow.next().await.resources.len(), 1);
    assert_eq!(slow.bodies().await, ["small.x=19"], "it skips generations");
}

#[tokio::test]
async fn stuck_stream_is_reset_and_others_go_on() {
    let big = "x".repeat(3 << 20);
    let served = Served::start(Limits { stuck: Duration::from_millis(100), ..Limits::default() }).await;
    served.set(ResourceType::Cluster, "big.x", &big);
    let tcp = TcpStream::connect(served.address).await.unwrap();
    let mut connection = Connection::with_window(tcp, 1 << 16).await;
    let mut slow = connection.delta().await;
    slow.subscribe(ResourceType::Cluster, &[]).await;
    served.reaches("streams_stuck", 1).await;
    served.reaches("streams_ended", 1).await;
    let mut received = 0;
    let error = loop {
        match timeout(SOON, slow.body.frame()).await.expect("neither data nor a reset arrives") {
            Some(Ok(frame)) => received += frame.into_data().map_or(0, |data| data.len()),
            Some(Err(error)) => break error,
            None => panic!("the stream ends without a reset"),
        }
    };
    assert!(received < big.len() / 2, "{received} bytes were sent to a client that did not read");
    assert!(format!("{error:?}").contains("CANCEL"), "{error:?}");
    let mut other = connection.delta().await;
    other.subscribe(ResourceType::Endpoints, &["a.x"]).await;
    assert_eq!(other.next().await.resources.len(), 1);
}

#[tokio::test]
async fn a_stream_without_a_request_ends_in_time() {
    let served =
        Served::start(Limits { first_message: Duration::from_millis(20), ..Limits::default() }).await;
    let mut stream = served.connect().await.sotw().await;
    assert_eq!(stream.end().await.0, Code::DeadlineExceeded);
}

#[tokio::test]
async fn connection_without_a_request_ends_in_time() {
    let served = Served::start(Limits { handshake: Duration::from_millis(20), ..Limits::default() }).await;
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let mut rest = Vec::new();
    let _ = timeout(SOON, silent.read_to_end(&mut rest)).await.expect("the connection stays open");
    assert_eq!(served.count("handshakes_failed"), 1);
}

#[tokio::test]
async fn connection_that_the_server_has_not_looked_at_is_not_cut() {
    let handshake = Duration::from_millis(100);
    let limits = Limits { handshake, first_message: handshake, message: handshake, ..Limits::default() };
    let served = Served::start(limits).await;
    served.set(ResourceType::Cluster, "a.x", "1");
    // everything runs on this thread, so neither side acts meanwhile
    let stall = || std::thread::park_timeout(handshake * 3);
    let mut connection = served.connect().await;
    tokio::task::yield_now().await;
    stall();
    let mut stream = connection.delta().await;
    stall();
    let request = DeltaRequest {
        node: mk_node("test-id"),
        type_url: ResourceType::Cluster.type_url().into(),
        ..DeltaRequest::default()
    };
    let message = frame(&request.encode());
    stream.tx.send(message.slice(..9)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    stall();
    stream.tx.send(message.slice(9..)).await.unwrap();
    assert_eq!(stream.bodies().await, ["a.x=1"]);
    assert_eq!(served.count("handshakes_failed"), 0);
}

#[tokio::test]
async fn half_open_socket_is_detected() {
    let limits = Limits {
        keepalive: Duration::from_millis(100),
        keepalive_timeout: Duration::from_secs(1),
        ..Limits::default()
    };
    let served = Served::start(limits).await;
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let mut tcp = TcpStream::connect(served.address).await.unwrap();
    // A client whose network fails after its first request.
    let (fail, failed) = tokio::sync::oneshot::channel();
    let relay = tokio::spawn(async move {
        let mut theirs = theirs;
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut theirs, &mut tcp) => {}
            _ = failed => {}
        }
        std::future::pending::<()>().await;
        drop((theirs, tcp));
    });
    let mut connection = Connection::over(ours).await;
    let mut stream = connection.delta().await;
    stream.subscribe(ResourceType::Cluster, &[]).await;
    stream.next().await;
    fail.send(()).unwrap();
    served.reaches("streams_ended", 1).await;
    assert!(!relay.is_finished());
    relay.abort();
}

#[tokio::test]
async fn garbage_is_rejected_and_others_are_served() {
    let served = Served::with(&[(ResourceType::Cluster, "a.x", "1")]).await;
    let mut raw = TcpStream::connect(served.address).await.unwrap();
    raw.write_all(&[0xff; 4096]).await.unwrap();
    let mut rest = Vec::new();
    let _ = timeout(SOON, raw.read_to_end(&mut rest)).await.expect("garbage keeps a connection open");
    let mut connection = served.connect().await;
    for (bytes, code) in [
        (frame(&[0xff; 64]), Code::InvalidArgument),
        (Bytes::from_static(&[1, 0, 0, 0, 0]), Code::Unimplemented),
        (Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff]), Code::ResourceExhausted),
        (Bytes::from_static(&[9, 0, 0, 0, 0]), Code::InvalidArgument),
    ] {
        let mut stream = connection.delta().await;
        stream.tx.send(bytes.clone()).await.unwrap();
        assert_eq!(stream.end().await.0, code, "{bytes:?}");
    }
    let mut stream = connection.delta().await;
    stream.subscribe(ResourceType::Cluster, &[]).await;
    assert_eq!(stream.bodies().await, ["a.x=1"]);
}

#[tokio::test]
async fn unfinished_message_ends_its_stream_and_returns_its_memory() {
    let limits = Limits { message: Duration::from_millis(50), inbound: 8 << 20, ..Limits::default() };
    let served = Served::start(limits).await;
    let mut connection = served.connect().await;
    let mut hostile = Vec::new();
    for _ in 0..20 {
        let stream = connection.delta().await;
        let head = tributary_proto::grpc::prefix(6 << 20);
        stream.tx.send([&head[..], &[7; 100]].concat().into()).await.unwrap();
        hostile.push(stream);
    }
    let mut honest = connection.delta().await;
    honest.subscribe(ResourceType::Endpoints, &["a.x"]).await;
    honest.next().await;
    for stream in &mut hostile {
        assert_eq!(stream.end().await.0, Code::DeadlineExceeded);
    }
    assert_eq!(served.server.inbound_bytes(), 0);
}

#[tokio::test]
async fn million_names_are_rejected() {
    let served = Served::with(&[]).await;
    let mut stream = served.connect().await.delta().await;
    let names: Vec<String> = (0..1_000_000).map(|n| format!("s{n}")).collect();
    let subscribe = names.iter().map(String::as_str).collect();
    let type_url = ResourceType::Endpoints.type_url().into();
    stream
        .send_delta(DeltaRequest { node: mk_node("x"), type_url, subscribe, ..DeltaRequest::default() })
        .await;
    let (code, message) = stream.end().await;
    assert_eq!(code, Code::ResourceExhausted);
    assert!(message.contains("262144"), "{message}");
}

#[tokio::test]
async fn more_connections_than_the_bound_are_closed() {
    let served = Served::start(Limits { connections: 1, ..Limits::default() }).await;
    let mut first = served.connect().await;
    let stream = first.delta().await;
    stream.subscribe(ResourceType::Cluster, &[]).await;
    let mut second = TcpStream::connect(served.address).await.unwrap();
    let mut rest = Vec::new();
    let _ = timeout(SOON, second.read_to_end(&mut rest)).await.expect("the second connection stays open");
    served.reaches("connections_refused", 1).await;
    drop((stream, first));
    served.reaches("streams_ended", 1).await;
    let again = async {
        loop {
            let tcp = TcpStream::connect(served.address).await.unwrap();
            if served.count("connections") > 1 {
                return tcp;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, again).await.expect("the connection slot is not released");
}

#[tokio::test]
async fn disconnected_client_leaves_no_state() {
    let served = Served::with(&[(ResourceType::Cluster, "a.x", "1")]).await;
    for _ in 0..20 {
        let mut connection = served.connect().await;
        let mut stream = connection.delta().await;
        stream.subscribe(ResourceType::Cluster, &[]).await;
        stream.next().await;
        connection.driver.abort();
    }
    served.reaches("streams_ended", 20).await;
    assert!(served.server.clients().is_empty() && served.server.interest().is_empty());
}

#[tokio::test]
async fn non_grpc_requests_get_an_http_status() {
    let served = Served::with(&[]).await;
    let mut connection = served.connect().await;
    let mk = |method: &str, kind: &str| {
        Request::builder()
            .method(method)
            .uri(format!("http://xds{ADS}StreamAggregatedResources"))
            .header("content-type", kind)
            .body(StreamBody::new(ReceiverStream(mpsc::channel(1).1)))
            .unwrap()
    };
    let get = connection.send.send_request(mk("GET", "application/grpc")).await.unwrap();
    let json = connection.send.send_request(mk("POST", "application/json")).await.unwrap();
    assert_eq!((get.status().as_u16(), json.status().as_u16()), (405, 415));
}
