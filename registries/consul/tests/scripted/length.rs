//! An answer that announces too many bytes is refused before its body arrives.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tributary_consul::answer::RequestFailure;
use tributary_consul::client::{Client, Get};

use crate::stage::mk_config;

#[tokio::test(flavor = "multi_thread")]
async fn announced_length_over_the_limit_is_refused_before_the_body() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = mk_config(&[&format!("http://{}", listener.local_addr().unwrap())]);
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1_024];
        let _ = stream.read(&mut request).await.unwrap();
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900000000000\r\n\r\n[";
        stream.write_all(head.as_bytes()).await.unwrap();
        // the rest never comes
        let _ = stream.read(&mut request).await;
    });
    let client = Client::new(&config, &config.addresses).unwrap();
    let get = Get {
        path: &["catalog", "services"],
        query: Vec::new(),
        timeout: Duration::from_secs(5),
        skip: None,
    };
    let fault = client.get(0, &get).await.unwrap_err();
    assert_eq!(fault.failure, RequestFailure::TooLarge, "{}", fault.reason);
    server.abort();
}
