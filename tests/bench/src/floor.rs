//! The floor: a raw TCP writer that sends as many bytes to as many clients, and nothing else.

use anyhow::Result;
use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

/// Serves the same shared bytes to whoever connects; ends when dropped.
pub(crate) async fn serve(bytes: Bytes) -> Result<(String, tokio::task::JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?.to_string();
    let task = tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                // A client that goes away early ends its own run, not the floor.
                let _ = tcp.write_all(&bytes).await;
            });
        }
    });
    Ok((addr, task))
}
