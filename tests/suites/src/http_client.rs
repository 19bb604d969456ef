//! A minimal HTTP GET for admin endpoints of Envoy and of the server under test.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::response::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

const WITHIN: Duration = Duration::from_secs(10);

/// Returns status and body of a GET for a host, with a further header.
pub async fn get_as(addr: SocketAddr, host: &str, header: (&str, &str)) -> Result<(StatusCode, String)> {
    let request = Request::get("/").header("host", host).header(header.0, header.1);
    let request = request.body(Empty::<Bytes>::new())?;
    let what = format!("GET {host} at {addr}");
    crate::wait::in_time(&what, WITHIN, send(addr, request)).await.with_context(|| what.clone())
}

/// Returns status and body of a GET for a host over a connection, such as one from another network namespace.
pub async fn get_over(stream: TcpStream, host: &str) -> Result<(StatusCode, String)> {
    let request = Request::get("/").header("host", host).body(Empty::<Bytes>::new())?;
    let work = async { over(stream, request).await.map(|(head, body)| (head.status, body)) };
    crate::wait::in_time(&format!("GET {host}"), WITHIN, work).await
}

/// Returns the head and the body of the answer to a request without a body.
pub async fn ask(addr: SocketAddr, request: Request<Empty<Bytes>>) -> Result<(Parts, String)> {
    let what = format!("{} {} at {addr}", request.method(), request.uri());
    crate::wait::in_time(&what, WITHIN, send_parts(addr, request)).await.with_context(|| what.clone())
}

/// Returns status and body of a GET.
pub async fn get(addr: SocketAddr, path: &str) -> Result<(StatusCode, String)> {
    request(addr, Method::GET, path).await
}

/// Returns status and body of a request without a body.
pub async fn request(addr: SocketAddr, method: Method, path: &str) -> Result<(StatusCode, String)> {
    let what = format!("{method} {addr}{path}");
    crate::wait::in_time(&what, WITHIN, exchange(addr, method, path)).await.with_context(|| what.clone())
}

/// Returns the body of a GET, which must be answered with 200.
pub async fn get_text(addr: SocketAddr, path: &str) -> Result<String> {
    match get(addr, path).await? {
        (StatusCode::OK, body) => Ok(body),
        (status, body) => bail!("{addr}{path} answered {status}: {body}"),
    }
}

/// Returns the JSON body of a GET, which must be answered with 200.
pub async fn get_json(addr: SocketAddr, path: &str) -> Result<serde_json::Value> {
    let text = get_text(addr, path).await?;
    serde_json::from_str(&text).with_context(|| format!("{addr}{path} is not JSON"))
}

async fn exchange(addr: SocketAddr, method: Method, path: &str) -> Result<(StatusCode, String)> {
    let request = Request::builder().method(method).uri(path).header("host", addr.to_string());
    send(addr, request.body(Empty::<Bytes>::new())?).await
}

async fn send(addr: SocketAddr, request: Request<Empty<Bytes>>) -> Result<(StatusCode, String)> {
    let (head, body) = send_parts(addr, request).await?;
    Ok((head.status, body))
}

async fn send_parts(addr: SocketAddr, request: Request<Empty<Bytes>>) -> Result<(Parts, String)> {
    over(TcpStream::connect(addr).await?, request).await
}

async fn over(stream: TcpStream, request: Request<Empty<Bytes>>) -> Result<(Parts, String)> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let work = async {
        let response = sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok((head, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::pin!(work, connection);
    tokio::select! {
        done = &mut work => done,
        _ = &mut connection => work.await,
    }
}
