//! The named baseline: a plain ADS server that encodes for every stream, as most do.
//!
//! It serves the same content over the same HTTP/2 library; each stream builds and encodes its own resources
//! with prost. It has no optimisation and no deliberate delay.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Result;
use bytes::{Bytes, BytesMut};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tributary_proto::wire::{Field, Reader};

use crate::wire::{self, CDS, EDS};

/// Content that it serves.
pub(crate) struct Content {
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) assignments: Vec<ClusterLoadAssignment>,
}

/// Serves SotW ADS until dropped.
pub(crate) async fn serve(content: Arc<Content>) -> Result<(String, tokio::task::JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?.to_string();
    let task = tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let content = Arc::clone(&content);
            tokio::spawn(async move {
                let _ = tcp.set_nodelay(true);
                let service =
                    hyper::service::service_fn(move |request| answer(request, Arc::clone(&content)));
                // A broken connection is the client's concern.
                let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .max_send_buf_size(1 << 20)
                    .serve_connection(TokioIo::new(tcp), service)
                    .await;
            });
        }
    });
    Ok((addr, task))
}

type Body = StreamBody<tokio_stream_of::Frames>;

async fn answer(
    request: http::Request<Incoming>,
    content: Arc<Content>,
) -> Result<http::Response<Body>, Infallible> {
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(stream(request.into_body(), content, send));
    let mut response = http::Response::new(StreamBody::new(tokio_stream_of::Frames(receive)));
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/grpc"));
    Ok(response)
}

async fn stream(mut body: Incoming, content: Arc<Content>, send: mpsc::Sender<Frame<Bytes>>) {
    let mut pending = BytesMut::new();
    let mut nonce = 0u64;
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        pending.extend_from_slice(&data);
        while pending.len() >= 5 {
            let len = u32::from_be_bytes([pending[1], pending[2], pending[3], pending[4]]) as usize;
            if pending.len() < len + 5 {
                break;
            }
            let message = pending.split_to(len + 5).freeze().split_off(5);
            let Some(type_url) = first_request(message) else { continue };
            nonce += 1;
            let reply = wire::framed(&encode(&content, &type_url, nonce));
            if send.send(Frame::data(reply)).await.is_err() {
                return;
            }
        }
    }
}

/// Returns the type of a request that is not an acknowledgement.
fn first_request(message: Bytes) -> Option<String> {
    let (mut message, mut type_url) = (Reader::new(message), None);
    while let Some((number, value)) = wire::field(&mut message) {
        match (number, value) {
            (4, Field::Bytes(text)) => type_url = Some(String::from_utf8_lossy(&text).into_owned()),
            (5, Field::Bytes(nonce)) if !nonce.is_empty() => return None,
            _ => {}
        }
    }
    type_url
}

fn encode(content: &Content, type_url: &str, nonce: u64) -> Bytes {
    let bodies: Vec<Vec<u8>> = match type_url {
        CDS => content.clusters.iter().map(prost::Message::encode_to_vec).collect(),
        EDS => content.assignments.iter().map(prost::Message::encode_to_vec).collect(),
        _ => Vec::new(),
    };
    let mut out = BytesMut::new();
    wire::put(&mut out, 1, b"1");
    for body in bodies {
        let mut any = BytesMut::new();
        wire::put(&mut any, 1, type_url.as_bytes());
        wire::put(&mut any, 2, &body);
        wire::put(&mut out, 2, &any);
    }
    wire::put(&mut out, 4, type_url.as_bytes());
    wire::put(&mut out, 5, nonce.to_string().as_bytes());
    out.freeze()
}

impl Content {
    /// Decodes the resources that the server under test serves, so both send the same content.
    pub(crate) fn from_encoded(clusters: &[Bytes], assignments: &[Bytes]) -> Result<Self> {
        let clusters = clusters.iter().map(|b| Cluster::decode(b.clone())).collect::<Result<_, _>>()?;
        let assignments =
            assignments.iter().map(|b| ClusterLoadAssignment::decode(b.clone())).collect::<Result<_, _>>()?;
        Ok(Self { clusters, assignments })
    }
}

/// A channel as a stream of body frames.
mod tokio_stream_of {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use hyper::body::Frame;
    use tokio::sync::mpsc;

    /// Yields the channel's messages; never fails.
    pub(crate) struct Frames(pub(crate) mpsc::Receiver<Frame<Bytes>>);

    impl futures::Stream for Frames {
        type Item = Result<Frame<Bytes>, Infallible>;
        fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.0.poll_recv(cx).map(|frame| frame.map(Ok))
        }
    }
}
