//! The raw ADS client: sends what a test requests, reads only on request, and never acknowledges on its own.
//! Session scenarios use it for requests that no real client sends; benches use many of them.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use envoy_types::pb::google::rpc::Status;
use h2::SendStream;
use h2::client::ResponseFuture;
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::{Answer, GrpcStatus, Variant, frame};

/// Connection parameters; the defaults are those of common gRPC clients.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// The `:authority` and scheme of the request.
    pub authority: String,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Flow-control window of the stream, in bytes.
    pub stream_window: u32,
    /// Flow-control window of the connection, in bytes.
    pub connection_window: u32,
    /// Token that goes with the stream, as a bearer token.
    pub token: Option<String>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            authority: "xds.test".to_owned(),
            scheme: "http",
            stream_window: 1 << 20,
            connection_window: 4 << 20,
            token: None,
        }
    }
}

#[derive(Debug)]
enum Incoming {
    Waiting(Option<ResponseFuture>),
    Open(Box<frame::Reader>),
}

/// Version and nonce of the last response of a type, which a further request of the type repeats.
#[derive(Debug, Clone, Default)]
struct Last {
    nonce: String,
    version: String,
    names: Vec<String>,
}

/// One ADS stream. To pause reading, do not call [`AdsClient::next`]: the windows then fill up and stay full.
#[derive(Debug)]
pub struct AdsClient {
    variant: Variant,
    node: Option<Node>,
    send: SendStream<Bytes>,
    incoming: Incoming,
    last: HashMap<String, Last>,
    connection: JoinHandle<()>,
}

/// Returns a node with that id and no other field.
pub fn node(id: &str) -> Node {
    Node { id: id.to_owned(), ..Node::default() }
}

impl AdsClient {
    /// Opens a plaintext stream to `addr`. The node goes with the first request.
    pub async fn connect(addr: SocketAddr, variant: Variant, node: Node) -> Result<Self> {
        let stream = TcpStream::connect(addr).await.with_context(|| format!("connect to {addr}"))?;
        stream.set_nodelay(true)?;
        Self::over(stream, variant, Some(node), Tuning::default()).await
    }

    /// Opens a stream over any transport, such as TLS; without a node if none is given.
    pub async fn over<T>(transport: T, variant: Variant, node: Option<Node>, tuning: Tuning) -> Result<Self>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(tuning.stream_window);
        builder.initial_connection_window_size(tuning.connection_window).max_frame_size(1 << 20);
        let (sender, connection) = builder.handshake(transport).await.context("start HTTP/2")?;
        let connection = tokio::spawn(async move {
            // The stream shows how the connection ended.
            let _ = connection.await;
        });
        let mut sender = sender.ready().await.context("wait for room for a stream")?;
        let mut request =
            Request::post(format!("{}://{}{}", tuning.scheme, tuning.authority, variant.path()))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .header("user-agent", "tributary-tests");
        if let Some(token) = &tuning.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(())?;
        let (response, send) = sender.send_request(request, false).context("open the stream")?;
        Ok(Self {
            variant,
            node,
            send,
            incoming: Incoming::Waiting(Some(response)),
            last: HashMap::new(),
            connection,
        })
    }

    /// Subscribes to `names` of a type. On SotW the list replaces the earlier one; on delta it is added. An
    /// empty first list is the wildcard.
    pub fn subscribe(&mut self, type_url: &str, names: &[&str]) -> Result<()> {
        let names = owned(names);
        match self.variant {
            Variant::Sotw => {
                self.last.entry(type_url.to_owned()).or_default().names = names;
                self.repeat(type_url, None)
            }
            Variant::Delta => {
                let request =
                    DeltaDiscoveryRequest { resource_names_subscribe: names, ..self.delta(type_url) };
                self.send_delta(request)
            }
        }
    }

    /// Unsubscribes from `names`.
    pub fn unsubscribe(&mut self, type_url: &str, names: &[&str]) -> Result<()> {
        match self.variant {
            Variant::Sotw => {
                let last = self.last.entry(type_url.to_owned()).or_default();
                last.names.retain(|name| !names.contains(&name.as_str()));
                self.repeat(type_url, None)
            }
            Variant::Delta => {
                let names = owned(names);
                let request =
                    DeltaDiscoveryRequest { resource_names_unsubscribe: names, ..self.delta(type_url) };
                self.send_delta(request)
            }
        }
    }

    /// Sends the first delta request of a returning client, with the versions that it holds.
    pub fn resume<'a>(
        &mut self,
        type_url: &str,
        names: &[&str],
        held: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<()> {
        let held = held.into_iter().map(|(name, version)| (name.to_owned(), version.to_owned()));
        let request = DeltaDiscoveryRequest {
            resource_names_subscribe: owned(names),
            initial_resource_versions: held.collect(),
            ..self.delta(type_url)
        };
        self.send_delta(request)
    }

    /// Acknowledges a response.
    pub fn ack(&mut self, answer: &Answer) -> Result<()> {
        self.reply(answer, &answer.nonce, None)
    }

    /// Rejects a response with this message.
    pub fn nack(&mut self, answer: &Answer, message: &str) -> Result<()> {
        self.reply(answer, &answer.nonce, Some(message))
    }

    /// Acknowledges, or rejects with a message, under a nonce of the test's choice.
    pub fn reply(&mut self, answer: &Answer, nonce: &str, message: Option<&str>) -> Result<()> {
        let last = self.last.entry(answer.type_url.clone()).or_default();
        nonce.clone_into(&mut last.nonce);
        if message.is_none() {
            last.version.clone_from(&answer.version);
        }
        match self.variant {
            Variant::Sotw => self.repeat(&answer.type_url, message),
            Variant::Delta => {
                let request = DeltaDiscoveryRequest {
                    response_nonce: nonce.to_owned(),
                    error_detail: message.map(refusal),
                    ..self.delta(&answer.type_url)
                };
                self.send_delta(request)
            }
        }
    }

    /// Sends a SotW request unchanged, except that the first request of this client gets the node.
    pub fn send_sotw(&mut self, mut request: DiscoveryRequest) -> Result<()> {
        request.node = request.node.or_else(|| self.node.take());
        self.send_bytes(frame::encode(&request))
    }

    /// Sends a delta request unchanged, except that the first request of this client gets the node.
    pub fn send_delta(&mut self, mut request: DeltaDiscoveryRequest) -> Result<()> {
        request.node = request.node.or_else(|| self.node.take());
        self.send_bytes(frame::encode(&request))
    }

    /// Sends arbitrary bytes on the stream: a prefixed message, or an invalid one.
    pub fn send_bytes(&mut self, bytes: Bytes) -> Result<()> {
        self.send.send_data(bytes, false).context("send on the stream")
    }

    /// Ends the client's side of the stream.
    pub fn half_close(&mut self) -> Result<()> {
        self.send.send_data(Bytes::new(), true).context("end our side of the stream")
    }

    /// Returns the next response. If the server ends the stream, the error is a [`GrpcStatus`].
    pub async fn next(&mut self, within: Duration) -> Result<Answer> {
        let bytes = crate::wait::in_time("an answer", within, self.message()).await?;
        match self.variant {
            Variant::Sotw => Answer::from_sotw(bytes),
            Variant::Delta => Answer::from_delta(bytes),
        }
    }

    /// Returns and acknowledges the next response, which must be of that type with exactly those names.
    pub async fn expect(&mut self, type_url: &str, names: &[&str], within: Duration) -> Result<Answer> {
        let answer =
            self.next(within).await.with_context(|| format!("waiting for {names:?} of {type_url}"))?;
        ensure!(
            answer.type_url == type_url,
            "expected {type_url}, got {} with {:?}",
            answer.type_url,
            answer.names()
        );
        let wanted: BTreeSet<String> = owned(names).into_iter().collect();
        ensure!(answer.names() == wanted, "expected {wanted:?} of {type_url}, got {:?}", answer.names());
        self.ack(&answer)?;
        Ok(answer)
    }

    /// Fails if anything arrives during `span`.
    pub async fn expect_nothing(&mut self, span: Duration) -> Result<()> {
        match tokio::time::timeout(span, self.next(span * 2)).await {
            Err(_) => Ok(()),
            Ok(Ok(answer)) => bail!("expected nothing, got {} with {:?}", answer.type_url, answer.names()),
            Ok(Err(error)) => Err(error.context("expected nothing")),
        }
    }

    /// Returns the status with which the server ends the stream; responses before it are skipped.
    pub async fn expect_end(&mut self, within: Duration) -> Result<GrpcStatus> {
        loop {
            match self.next(within).await {
                Ok(_) => {}
                Err(error) => {
                    return error.downcast::<GrpcStatus>().context("the stream did not end with a status");
                }
            }
        }
    }

    /// Returns the next message without its prefix.
    pub async fn message(&mut self) -> Result<Bytes> {
        let reader = self.reader().await?;
        match reader.next().await? {
            Some(bytes) => Ok(bytes),
            None => Err(reader.status().await?.into()),
        }
    }

    /// Waits for the head of the response, which a server may hold back until its first message.
    async fn reader(&mut self) -> Result<&mut frame::Reader> {
        if let Incoming::Waiting(response) = &mut self.incoming {
            let future = response.as_mut().ok_or_else(|| anyhow!("the stream has ended; open another"))?;
            let head = future.await;
            response.take();
            let head = head.context("wait for the server to accept the stream")?;
            ensure!(head.status().is_success(), "the server answered {}", head.status());
            if let Some(status) = GrpcStatus::from_headers(head.headers()) {
                return Err(status.into());
            }
            self.incoming = Incoming::Open(Box::new(frame::Reader::new(head.into_body())));
        }
        match &mut self.incoming {
            Incoming::Open(reader) => Ok(reader),
            Incoming::Waiting(_) => bail!("the stream is not open"),
        }
    }

    /// Sends the current SotW request again, with the version and nonce of the last response.
    fn repeat(&mut self, type_url: &str, message: Option<&str>) -> Result<()> {
        let last = self.last.get(type_url).cloned().unwrap_or_default();
        self.send_sotw(DiscoveryRequest {
            type_url: type_url.to_owned(),
            version_info: last.version,
            resource_names: last.names,
            response_nonce: last.nonce,
            error_detail: message.map(refusal),
            ..DiscoveryRequest::default()
        })
    }

    fn delta(&self, type_url: &str) -> DeltaDiscoveryRequest {
        DeltaDiscoveryRequest { type_url: type_url.to_owned(), ..DeltaDiscoveryRequest::default() }
    }
}

impl Drop for AdsClient {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn refusal(message: &str) -> Status {
    Status { code: 3, message: message.to_owned(), details: Vec::new() }
}
