//! One client's stream: connection, requests, acknowledgements and received resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use prost::Message as _;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Mode, Shared};
use crate::wire::{self, CDS, EDS, LDS, RDS, Response};

/// One ADS stream on its own connection.
pub(super) struct Stream {
    shared: Arc<Shared>,
    delta: bool,
    send: h2::SendStream<Bytes>,
    /// The response's head is awaited with the first message, because a server may wait for the first request.
    head: Option<h2::client::ResponseFuture>,
    body: Option<h2::RecvStream>,
    pending: BytesMut,
    node: Option<Vec<u8>>,
    /// Names of the EDS subscription, which SotW acknowledgements repeat.
    names: Arc<Vec<String>>,
    pub(super) held: BTreeMap<String, BTreeSet<String>>,
}

impl Stream {
    pub(super) async fn open(shared: &Arc<Shared>, n: usize) -> Result<Self> {
        Self::open_as(shared, n, shared.mode).await
    }

    pub(super) async fn open_as(shared: &Arc<Shared>, n: usize, mode: Mode) -> Result<Self> {
        Self::open_with(shared, n, mode, 1 << 20).await
    }

    pub(super) async fn open_with(shared: &Arc<Shared>, n: usize, mode: Mode, window: u32) -> Result<Self> {
        let tcp = tokio::net::TcpStream::connect(&shared.addr).await.context("connect")?;
        tcp.set_nodelay(true)?;
        let client = match &shared.tls {
            None => handshake(tcp, window).await?,
            Some(tls) => {
                let name = ServerName::try_from("localhost").context("the name of the server")?;
                handshake(tls.connect(name, tcp).await.context("TLS handshake")?, window).await?
            }
        };
        let delta = mode.is_delta();
        let (send, head) = call(client, delta).await?;
        let (held, namespace) = (BTreeMap::new(), mode.namespace(n));
        let (shared, pending, names) = (Arc::clone(shared), BytesMut::new(), Arc::default());
        Ok(Self {
            shared,
            delta,
            send,
            head: Some(head),
            body: None,
            pending,
            node: Some(node(n, &namespace, mode.is_meshed())),
            names,
            held,
        })
    }

    pub(super) async fn load(&mut self, validate: bool) -> Result<()> {
        let clusters = self.load_clusters().await?;
        let names: Vec<String> = clusters.resources.iter().map(|(_, _, body)| wire::name_of(body)).collect();
        if validate {
            check_clusters(&clusters)?;
        }
        let names: Vec<String> = names.into_iter().filter(|n| n.starts_with("outbound|")).collect();
        let assignments = self.load_endpoints(&names).await?;
        if validate {
            check_assignments(&assignments)?;
        }
        let all = clusters.resources.len() + assignments.len();
        self.shared.resources.fetch_add(all as u64, Relaxed);
        for (_, _, body) in &assignments {
            self.held.insert(wire::name_of(body), addresses_if(body, self.shared.samples > 0));
        }
        Ok(())
    }

    pub(super) async fn load_clusters(&mut self) -> Result<Response> {
        self.ask(CDS, &[], None).await?;
        let response = self.next().await?;
        ensure!(response.type_url == CDS, "asked for xDS clusters, got {}", response.type_url);
        self.ack(&response).await?;
        Ok(response)
    }

    pub(super) async fn load_endpoints(&mut self, names: &[String]) -> Result<Vec<(String, String, Bytes)>> {
        self.names = Arc::new(names.to_vec());
        self.ask(EDS, names, None).await?;
        let mut all = Vec::with_capacity(names.len());
        while all.len() < names.len() {
            let mut response = self.next().await?;
            self.ack(&response).await?;
            if response.type_url == EDS {
                all.append(&mut response.resources);
            }
        }
        Ok(all)
    }

    pub(super) async fn load_listeners(&mut self) -> Result<()> {
        self.ask(LDS, &[], None).await?;
        let response = self.next_of(LDS).await?;
        ensure!(!response.resources.is_empty(), "no listeners");
        Ok(())
    }

    /// Loads the route table of port 80.
    pub(super) async fn load_routes(&mut self) -> Result<()> {
        self.ask(RDS, &["80".to_owned()], None).await?;
        let response = self.next_of(RDS).await?;
        ensure!(response.resources.len() == 1, "{} route tables", response.resources.len());
        Ok(())
    }

    /// Returns the next response of a type; acknowledges all until then.
    async fn next_of(&mut self, type_url: &str) -> Result<Response> {
        loop {
            let response = self.next().await?;
            self.ack(&response).await?;
            if response.type_url == type_url {
                return Ok(response);
            }
        }
    }

    /// Reconnects with every known version: the server may answer with nothing, or not at all for assignments.
    pub(super) async fn resume(&mut self) -> Result<()> {
        let known = self.shared.known.lock().clone();
        self.ask(CDS, &[], Some(&known)).await?;
        let response = self.next().await?;
        ensure!(response.resources.is_empty(), "{} xDS clusters were sent again", response.resources.len());
        self.ack(&response).await?;
        let names: Vec<String> = known.iter().filter(|(t, ..)| t == EDS).map(|(_, n, _)| n.clone()).collect();
        self.ask(EDS, &names, Some(&known)).await?;
        Ok(())
    }

    pub(super) async fn next(&mut self) -> Result<Response> {
        loop {
            if let Some(message) = cut(&mut self.pending) {
                return Ok(wire::response(message, self.delta));
            }
            if let Some(head) = self.head.take() {
                self.body = Some(body_of(head).await?);
            }
            let body = self.body.as_mut().ok_or_else(|| anyhow!("the stream failed before"))?;
            let chunk = body.data().await.ok_or_else(|| anyhow!("the stream ended"))??;
            body.flow_control().release_capacity(chunk.len())?;
            self.shared.bytes.fetch_add(chunk.len() as u64, Relaxed);
            self.pending.extend_from_slice(&chunk);
        }
    }

    pub(super) async fn ask(
        &mut self,
        type_url: &str,
        names: &[String],
        known: Option<&[(String, String, String)]>,
    ) -> Result<()> {
        let mut out = BytesMut::new();
        if let Some(node) = self.node.take() {
            wire::put(&mut out, if self.delta { 1 } else { 2 }, &node);
        }
        let (type_field, name_field) = if self.delta { (2, 3) } else { (4, 3) };
        wire::put(&mut out, type_field, type_url.as_bytes());
        for name in names {
            wire::put(&mut out, name_field, name.as_bytes());
        }
        for (_, name, version) in known.unwrap_or_default().iter().filter(|(t, ..)| t == type_url) {
            let mut entry = BytesMut::new();
            wire::put(&mut entry, 1, name.as_bytes());
            wire::put(&mut entry, 2, version.as_bytes());
            wire::put(&mut out, 5, &entry);
        }
        self.write(&out).await
    }

    pub(super) async fn ack(&mut self, response: &Response) -> Result<()> {
        let mut out = BytesMut::new();
        if self.delta {
            wire::put(&mut out, 2, response.type_url.as_bytes());
            wire::put(&mut out, 6, response.nonce.as_bytes());
        } else {
            wire::put(&mut out, 1, response.version.as_bytes());
            let names: &[String] = match response.type_url.as_str() {
                EDS => &self.names,
                RDS => &["80".to_owned()],
                _ => &[],
            };
            names.iter().for_each(|name| wire::put(&mut out, 3, name.as_bytes()));
            wire::put(&mut out, 4, response.type_url.as_bytes());
            wire::put(&mut out, 5, response.nonce.as_bytes());
        }
        self.write(&out).await
    }

    async fn write(&mut self, message: &[u8]) -> Result<()> {
        let mut frame = wire::framed(message);
        while !frame.is_empty() {
            self.send.reserve_capacity(frame.len());
            let room = std::future::poll_fn(|cx| self.send.poll_capacity(cx)).await;
            let room = room.ok_or_else(|| anyhow!("the stream is closed"))??;
            let part = frame.split_to(room.min(frame.len()));
            self.send.send_data(part, false)?;
        }
        Ok(())
    }
}

fn addresses_if(body: &Bytes, wanted: bool) -> BTreeSet<String> {
    if wanted { addresses(body) } else { BTreeSet::new() }
}

async fn handshake<T>(io: T, window: u32) -> Result<SendRequest<Bytes>>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window).initial_connection_window_size(4 << 20).max_frame_size(1 << 20);
    let (client, connection) = builder.handshake::<_, Bytes>(io).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn call(
    client: SendRequest<Bytes>,
    delta: bool,
) -> Result<(h2::SendStream<Bytes>, h2::client::ResponseFuture)> {
    let method = if delta { "DeltaAggregatedResources" } else { "StreamAggregatedResources" };
    let path = format!("http://bench/envoy.service.discovery.v3.AggregatedDiscoveryService/{method}");
    let request =
        http::Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
    let mut client = client.ready().await?;
    let (response, send) = client.send_request(request.body(())?, false)?;
    Ok((send, response))
}

async fn body_of(head: h2::client::ResponseFuture) -> Result<h2::RecvStream> {
    let response =
        tokio::time::timeout(Duration::from_secs(60), head).await.context("no answer in 60 s")??;
    ensure!(response.status() == 200, "status {}", response.status());
    if let Some(status) = response.headers().get("grpc-status") {
        ensure!(status == "0", "grpc-status {status:?} {:?}", response.headers().get("grpc-message"));
    }
    Ok(response.into_body())
}

fn cut(pending: &mut BytesMut) -> Option<Bytes> {
    let header: [u8; 4] = pending.get(1..5)?.try_into().ok()?;
    let len = u32::from_be_bytes(header) as usize;
    if pending.len() < len + 5 {
        return None;
    }
    let mut message = pending.split_to(len + 5).freeze();
    Some(message.split_off(5))
}

/// Returns `Node { id, cluster, metadata }` of a sidecar of its own workload; Istio's agent gives it certificates if it is `meshed`.
fn node(n: usize, namespace: &str, meshed: bool) -> Vec<u8> {
    let mut fields = BytesMut::new();
    wire::put(&mut fields, 1, &field("NAMESPACE", namespace));
    if meshed {
        wire::put(&mut fields, 1, &field("ISTIO_VERSION", "1.30.3"));
    }
    let mut node = BytesMut::new();
    let address = format!("10.255.{}.{}", n >> 8 & 255, n & 255);
    let id = format!("sidecar~{address}~bench-{n}.{namespace}~{namespace}.svc.cluster.local");
    wire::put(&mut node, 1, id.as_bytes());
    wire::put(&mut node, 2, b"bench");
    wire::put(&mut node, 3, &fields);
    node.to_vec()
}

/// Returns a field of metadata that is a text.
fn field(name: &str, text: &str) -> BytesMut {
    let (mut value, mut entry) = (BytesMut::new(), BytesMut::new());
    wire::put(&mut value, 3, text.as_bytes());
    wire::put(&mut entry, 1, name.as_bytes());
    wire::put(&mut entry, 2, &value);
    entry
}

fn check_clusters(response: &Response) -> Result<()> {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    for (_, _, body) in &response.resources {
        let cluster = Cluster::decode(body.clone()).context("an xDS cluster does not decode")?;
        ensure!(!cluster.name.is_empty(), "an xDS cluster has no name");
    }
    Ok(())
}

fn check_assignments(all: &[(String, String, Bytes)]) -> Result<()> {
    use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
    for (_, _, body) in all {
        let cla = ClusterLoadAssignment::decode(body.clone()).context("an assignment does not decode")?;
        ensure!(!cla.endpoints.is_empty(), "assignment {} is empty", cla.cluster_name);
    }
    Ok(())
}

/// Returns the IP addresses of an assignment.
pub(super) fn addresses(body: &Bytes) -> BTreeSet<String> {
    use envoy_types::pb::envoy::config::core::v3::address::Address as Kind;
    use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, lb_endpoint::HostIdentifier};
    let Ok(cla) = ClusterLoadAssignment::decode(body.clone()) else { return BTreeSet::new() };
    let endpoints = cla.endpoints.into_iter().flat_map(|l| l.lb_endpoints);
    endpoints
        .filter_map(|e| match e.host_identifier {
            Some(HostIdentifier::Endpoint(e)) => e.address.and_then(|a| a.address),
            _ => None,
        })
        .filter_map(|a| match a {
            Kind::SocketAddress(s) => Some(s.address),
            _ => None,
        })
        .collect()
}
