//! The floor: a raw TCP writer that sends the same number of bytes to the same number of clients.

use anyhow::Result;
use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

/// Serves the same shared bytes to every connection; ends when dropped.
pub(crate) async fn serve(bytes: Bytes) -> Result<(String, tokio::task::JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?.to_string();
    let task = tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                // A client that disconnects early ends its own connection only.
                let _ = tcp.write_all(&bytes).await;
            });
        }
    });
    Ok((addr, task))
}
