//! Drain and age limit.

use super::*;

fn mk_quick() -> Limits {
    Limits { spread: Duration::from_millis(50), grace: Duration::from_secs(1), ..Limits::default() }
}

#[tokio::test]
async fn drain_ends_every_stream_and_stops_accepting() {
    let served = Served::start(mk_quick()).await;
    let mut streams = Vec::new();
    let mut connection = served.connect().await;
    for _ in 0..10 {
        let mut stream = connection.delta().await;
        stream.subscribe(ResourceType::Cluster, &[]).await;
        stream.next().await;
        streams.push(stream);
    }
    let (ended, _) = tokio::join!(served.server.drain(SOON), async {
        for stream in &mut streams {
            assert_eq!(stream.end().await.0, tonic::Code::Ok, "a drain is not an error");
        }
    });
    assert!(ended);
    assert!(TcpStream::connect(served.address).await.is_err(), "the listener is still open");
}

#[tokio::test]
async fn a_drain_has_a_deadline() {
    let served = Served::start(Limits { spread: SOON, ..mk_quick() }).await;
    let mut connection = served.connect().await;
    let mut stream = connection.delta().await;
    stream.subscribe(ResourceType::Cluster, &[]).await;
    stream.next().await;
    assert!(!served.server.drain(Duration::from_millis(10)).await);
}

#[tokio::test]
async fn an_old_connection_is_closed_gracefully() {
    let served = Served::start(Limits { max_age: Some(Duration::from_millis(50)), ..mk_quick() }).await;
    let mut connection = served.connect().await;
    let mut stream = connection.delta().await;
    stream.subscribe(ResourceType::Cluster, &[]).await;
    stream.next().await;
    assert_eq!(stream.end().await.0, tonic::Code::Ok);
    timeout(SOON, connection.driver).await.expect("the connection stays open").unwrap().unwrap();
    let mut again = served.connect().await.delta().await;
    again.subscribe(ResourceType::Cluster, &[]).await;
    again.next().await;
}

#[tokio::test]
async fn a_message_in_flight_is_not_cut_by_the_end() {
    let served = Served::start(mk_quick()).await;
    let big = "x".repeat(2 << 20);
    served.set(ResourceType::Cluster, "big.x", &big);
    let mut stream = served.connect().await.delta().await;
    stream.subscribe(ResourceType::Cluster, &[]).await;
    served.reaches("sends", 1).await;
    let (_, response) = tokio::join!(served.server.drain(SOON), stream.next());
    assert_eq!(response.resources[0].body.len(), big.len() + 6);
}
