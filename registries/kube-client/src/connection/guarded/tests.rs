//! Addresses that are dialled, and those that are not.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::connection::Connection;
use crate::watch::send;

fn only(allowed: &'static str) -> AddressCheck {
    Arc::new(
        move |address| {
            if address.to_string() == allowed { Ok(()) } else { Err("is not allowed".to_owned()) }
        },
    )
}

/// Answers with the lists in turn, the last one for ever.
fn answers(lists: &'static [&'static [&'static str]]) -> Resolve {
    let turn = Arc::new(AtomicUsize::new(0));
    Arc::new(move |_, port| {
        let list = lists[turn.fetch_add(1, Ordering::Relaxed).min(lists.len() - 1)];
        let found = list.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).collect();
        Box::pin(std::future::ready(Ok(found)))
    })
}

async fn dial(connector: &GuardedConnector, uri: &str) -> Result<SocketAddr, String> {
    let stream = connector.clone().dial(uri.parse().unwrap()).await.map_err(|error| error.to_string())?;
    Ok(stream.inner().peer_addr().unwrap())
}

async fn listener() -> (tokio::net::TcpListener, u16) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn literal_addresses_are_checked_too() {
    let (_open, port) = listener().await;
    let uri = format!("https://127.0.0.1:{port}/api");
    let connector = GuardedConnector::new(only("127.0.0.1"));
    assert_eq!(dial(&connector, &uri).await.unwrap().port(), port);
    let connector = GuardedConnector::new(only("10.0.0.1"));
    assert_eq!(
        dial(&connector, &uri).await.unwrap_err(),
        "127.0.0.1 leads to 127.0.0.1, which is not allowed"
    );
    let mapped = format!("https://[::ffff:127.0.0.1]:{port}");
    let error = dial(&connector, &mapped).await.unwrap_err();
    assert_eq!(error, "::ffff:127.0.0.1 leads to ::ffff:127.0.0.1, which is not allowed");
}

#[tokio::test]
async fn name_that_resolves_to_another_address_is_checked_at_each_connect() {
    let (_open, port) = listener().await;
    let lists: &[&[&str]] = &[&["127.0.0.1"], &["127.0.0.2"]];
    let connector = GuardedConnector::resolving(only("127.0.0.1"), answers(lists));
    let uri = format!("https://api.test:{port}");
    assert_eq!(dial(&connector, &uri).await.unwrap().ip().to_string(), "127.0.0.1");
    assert_eq!(
        dial(&connector, &uri).await.unwrap_err(),
        "api.test leads to 127.0.0.2, which is not allowed"
    );
}

#[tokio::test]
async fn addresses_that_pass_are_dialled_and_others_are_not() {
    let (_open, port) = listener().await;
    let connector =
        GuardedConnector::resolving(only("127.0.0.1"), answers(&[&["127.0.0.2", "127.0.0.1", "::1"]]));
    let peer = dial(&connector, &format!("https://api.test:{port}")).await.unwrap();
    assert_eq!(peer.ip().to_string(), "127.0.0.1");
}

#[tokio::test]
async fn address_after_a_dead_one_is_tried() {
    let (_open, port) = listener().await;
    // nothing listens at the first address
    let connector = GuardedConnector::resolving(
        Arc::new(|_| Ok(())),
        answers(&[&["127.0.0.9", "127.0.0.1"], &["127.0.0.9"], &[]]),
    );
    let uri = format!("https://api.test:{port}");
    assert_eq!(dial(&connector, &uri).await.unwrap().ip().to_string(), "127.0.0.1");
    let error = dial(&connector, &uri).await.unwrap_err();
    assert!(error.starts_with(&format!("no connection to 127.0.0.9:{port}: ")), "{error}");
    assert_eq!(dial(&connector, &uri).await.unwrap_err(), "api.test does not resolve: it has no address");
}

/// A server that is allowed could otherwise lead requests, and their token, to one that is not.
#[tokio::test]
async fn redirect_of_an_api_server_is_not_followed() {
    let ((open, port), (other, away)) = (listener().await, listener().await);
    let answering = tokio::spawn(async move {
        let (mut stream, _) = open.accept().await.unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await.unwrap();
        let answer = format!(
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:{away}/api\r\ncontent-length: 0\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let config = kube::Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
    let connection = Connection::guarded(config, only("127.0.0.1"), "token".to_owned()).unwrap();
    let answer = send::names(connection.client(), "/api").await;
    assert!(answer.is_err(), "{answer:?}");
    answering.await.unwrap();
    assert!(other.accept().now_or_never().is_none(), "the request was sent to another server");
}
