//! One conversation of an application over a connection: what it sends first, and which backend answered.

use std::net::TcpStream as StdStream;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What an application sends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Talk {
    /// HTTP/1.1 to this host.
    Http(&'static str),
    /// A gRPC call to this authority.
    Grpc(&'static str),
    /// Bytes that are neither HTTP nor TLS.
    Tcp,
    /// The first message of TLS, with this server name.
    Tls(&'static str),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The backend of this name answered.
    Reached(String),
    /// The proxy answered with this status.
    Status(u16),
    /// The connection ended without an answer.
    Closed,
}

const ANSWERS_WITHIN: Duration = Duration::from_secs(15);

/// Speaks over a connection, and returns who answered.
pub(crate) async fn speak(stream: StdStream, talk: Talk) -> Result<Outcome> {
    let stream = TcpStream::from_std(stream)?;
    let work = async {
        match talk {
            Talk::Http(host) => http(stream, host).await,
            Talk::Grpc(authority) => grpc(stream, authority).await,
            Talk::Tcp => plain(stream, b"\x01hello").await,
            Talk::Tls(name) => plain(stream, &hello(name)?).await,
        }
    };
    timeout(ANSWERS_WITHIN, work).await.context("no answer")?
}

async fn plain(stream: TcpStream, first: &[u8]) -> Result<Outcome> {
    let answer = exchange(stream, first).await;
    Ok(if answer.is_empty() { Outcome::Closed } else { Outcome::Reached(answer) })
}

/// Sends bytes and reads to the end; a reset is an end.
async fn exchange(mut stream: TcpStream, first: &[u8]) -> String {
    let mut answer = Vec::new();
    let _ = stream.write_all(first).await;
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn http(stream: TcpStream, host: &str) -> Result<Outcome> {
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let answer = exchange(stream, request.as_bytes()).await;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return Ok(Outcome::Closed) };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(match status.with_context(|| format!("answered {answer:?}"))? {
        200 => Outcome::Reached(body.to_owned()),
        status => Outcome::Status(status),
    })
}

async fn grpc(stream: TcpStream, authority: &str) -> Result<Outcome> {
    let Ok((mut sender, connection)) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await
    else {
        return Ok(Outcome::Closed);
    };
    let connection = tokio::spawn(connection);
    let request = Request::post(format!("http://{authority}/test.Echo/Call"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from_static(&[0; 5])))?;
    let response = sender.send_request(request).await;
    let outcome = match response {
        Err(_) => Outcome::Closed,
        Ok(response) => grpc_outcome(response).await?,
    };
    connection.abort();
    Ok(outcome)
}

/// The proxy answers a call that it refuses with a gRPC status in the headers and no message.
async fn grpc_outcome(response: http::Response<hyper::body::Incoming>) -> Result<Outcome> {
    let status = response.headers().get("grpc-status").cloned();
    let body = response.into_body().collect().await?.to_bytes();
    match (status, body.get(5..)) {
        (None, Some(name)) => Ok(Outcome::Reached(String::from_utf8_lossy(name).into_owned())),
        (status, _) => {
            let status = status.context("neither a message nor a status")?;
            Ok(Outcome::Status(status.to_str()?.parse()?))
        }
    }
}

/// Returns the bytes of a TLS client hello.
fn hello(name: &'static str) -> Result<Vec<u8>> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let mut connection = rustls::ClientConnection::new(config.into(), ServerName::try_from(name)?)?;
    let mut out = Vec::new();
    connection.write_tls(&mut out)?;
    Ok(out)
}
