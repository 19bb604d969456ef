//! A raw client that behaves like a data plane: it acknowledges responses, keeps the received resources, and
//! can subscribe to the endpoints of its xDS clusters on its own. Suites use it to wait for a state over either
//! protocol, and to count responses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::config::core::v3::address::Address as Kind;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint};
use prost::Message;
use tokio::time::timeout_at;

use crate::ads::answer::Item;
use crate::ads::{CDS, EDS, LDS};
use crate::{AdsClient, Answer, Variant};

/// Resources that a client holds: by type, by name.
pub type Held = BTreeMap<String, BTreeMap<String, Item>>;

/// A client, the resources it holds, and every response it received.
#[derive(Debug)]
pub struct Follower {
    client: AdsClient,
    variant: Variant,
    held: Held,
    answers: Vec<Answer>,
    follows_endpoints: bool,
}

impl Follower {
    /// Opens a stream with that node.
    pub async fn connect(addr: SocketAddr, variant: Variant, node: Node) -> Result<Self> {
        Ok(Self::over(AdsClient::connect(addr, variant, node).await?, variant))
    }

    /// Takes over an open stream.
    pub fn over(client: AdsClient, variant: Variant) -> Self {
        Self { client, variant, held: Held::new(), answers: Vec::new(), follows_endpoints: false }
    }

    /// Opens a stream, subscribes to all xDS clusters, and then to the endpoints of each, as Envoy does.
    pub async fn like_envoy(addr: SocketAddr, variant: Variant, node: Node) -> Result<Self> {
        let mut follower = Self::connect(addr, variant, node).await?;
        follower.follows_endpoints = true;
        follower.client.subscribe(CDS, &[])?;
        Ok(follower)
    }

    /// Returns the stream itself, for unusual requests.
    pub fn client(&mut self) -> &mut AdsClient {
        &mut self.client
    }

    /// Subscribes to names of a type; an empty first list is the wildcard.
    pub fn subscribe(&mut self, type_url: &str, names: &[&str]) -> Result<()> {
        self.client.subscribe(type_url, names)
    }

    /// Takes one response: acknowledges it and keeps its resources.
    pub async fn next(&mut self, within: Duration) -> Result<&Answer> {
        let answer = self.client.next(within).await?;
        self.client.ack(&answer)?;
        let before = self.endpoint_names()?;
        self.keep(&answer);
        if self.follows_endpoints && answer.type_url == CDS {
            self.ask_for_endpoints(&before)?;
        }
        self.answers.push(answer);
        self.answers.last().context("an answer was just put there")
    }

    /// Takes responses until `holds` returns a value.
    pub async fn until<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut holds: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T> {
        let deadline = crate::wait::deadline(within);
        loop {
            if let Some(value) = holds(self) {
                return Ok(value);
            }
            match timeout_at(deadline, self.next(within)).await {
                Ok(answer) => answer.map(drop).with_context(|| format!("waiting for {what}"))?,
                Err(_) => anyhow::bail!("{what}: not within {within:?}; it holds {:?}", self.summary()),
            }
        }
    }

    /// Takes responses until a type has exactly these names, except for the server's own xDS clusters.
    pub async fn holds(&mut self, type_url: &str, names: &[&str], within: Duration) -> Result<()> {
        let wanted: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let what = format!("{wanted:?} of {type_url}");
        self.until(&what, within, |now| (now.outbound(type_url) == wanted).then_some(())).await
    }

    /// Takes responses until an assignment has exactly these addresses.
    pub async fn has_endpoints(&mut self, name: &str, hosts: &[SocketAddr], within: Duration) -> Result<()> {
        let wanted: BTreeSet<String> = hosts.iter().map(ToString::to_string).collect();
        let what = format!("{wanted:?} behind {name}");
        self.until(&what, within, |now| (now.endpoints(name).ok()? == wanted).then_some(())).await
    }

    /// Takes responses until none arrives for `span`. Returns their number.
    pub async fn settle(&mut self, span: Duration) -> Result<usize> {
        let before = self.answers.len();
        // Dropping a pending read loses nothing: see the reader of frames.
        while let Ok(answer) = tokio::time::timeout(span, self.next(span * 100)).await {
            answer?;
        }
        Ok(self.answers.len() - before)
    }

    /// Returns the held names of a type.
    pub fn names(&self, type_url: &str) -> BTreeSet<String> {
        self.held.get(type_url).into_iter().flatten().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the held names of a type, without those that every client receives, such as PassthroughCluster.
    pub fn outbound(&self, type_url: &str) -> BTreeSet<String> {
        self.names(type_url).into_iter().filter(|name| !is_fixed(name)).collect()
    }

    /// Returns the held resources.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Returns name and version of every held resource of a type.
    pub fn versions(&self, type_url: &str) -> BTreeMap<String, String> {
        let items = self.held.get(type_url).into_iter().flatten();
        items.map(|(name, item)| (name.clone(), item.version.clone())).collect()
    }

    /// Returns name and bytes of every held resource of a type.
    pub fn bytes(&self, type_url: &str) -> BTreeMap<String, Vec<u8>> {
        let items = self.held.get(type_url).into_iter().flatten();
        items.map(|(name, item)| (name.clone(), item.value.to_vec())).collect()
    }

    /// Returns one held resource, decoded.
    pub fn decode<M: Message + Default>(&self, type_url: &str, name: &str) -> Result<M> {
        let item = self.held.get(type_url).and_then(|items| items.get(name));
        let item = item.with_context(|| format!("no {name} is held; there is {:?}", self.names(type_url)))?;
        M::decode(item.value.clone()).with_context(|| format!("decode {name}"))
    }

    /// Returns the addresses of a held assignment.
    pub fn endpoints(&self, name: &str) -> Result<BTreeSet<String>> {
        let assignment: ClusterLoadAssignment = self.decode(EDS, name)?;
        let endpoints = assignment.endpoints.iter().flat_map(|locality| &locality.lb_endpoints);
        endpoints.map(|endpoint| address(endpoint).context("an endpoint without an address")).collect()
    }

    /// Returns every response so far, or since [`Follower::forget`].
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// Returns the number of responses of a type.
    pub fn answers_of(&self, type_url: &str) -> usize {
        self.answers.iter().filter(|answer| answer.type_url == type_url).count()
    }

    /// Clears the recorded responses; held resources stay.
    pub fn forget(&mut self) {
        self.answers.clear();
    }

    fn keep(&mut self, answer: &Answer) {
        let items = self.held.entry(answer.type_url.clone()).or_default();
        // Clusters and listeners are complete on SotW: an absent one was removed.
        if self.variant == Variant::Sotw && [CDS, LDS].contains(&answer.type_url.as_str()) {
            items.clear();
        }
        items.extend(answer.resources.iter().map(|item| (item.name.clone(), item.clone())));
        for name in &answer.removed {
            items.remove(name);
        }
    }

    /// Returns the assignments that the held xDS clusters reference.
    fn endpoint_names(&self) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for item in self.held.get(CDS).into_iter().flat_map(BTreeMap::values) {
            let cluster = Cluster::decode(item.value.clone()).context("decode an xDS cluster")?;
            if cluster.cluster_discovery_type == Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())) {
                let asked = cluster.eds_cluster_config.map(|config| config.service_name).unwrap_or_default();
                names.insert(if asked.is_empty() { cluster.name } else { asked });
            }
        }
        Ok(names)
    }

    fn ask_for_endpoints(&mut self, before: &BTreeSet<String>) -> Result<()> {
        let now = self.endpoint_names()?;
        let texts = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>();
        if now == *before {
            return Ok(());
        }
        let (added, gone): (BTreeSet<String>, BTreeSet<String>) = match self.variant {
            Variant::Sotw => (now, BTreeSet::new()),
            Variant::Delta => {
                (now.difference(before).cloned().collect(), before.difference(&now).cloned().collect())
            }
        };
        let (added, gone) = (texts(&added), texts(&gone));
        for name in &gone {
            self.held.entry(EDS.to_owned()).or_default().remove(name);
        }
        let joined = |names: &[String]| names.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        ensure!(!added.iter().chain(&gone).any(String::is_empty), "an empty name among {}", joined(&added));
        if !gone.is_empty() {
            self.client.unsubscribe(EDS, &gone.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        if !added.is_empty() || self.variant == Variant::Sotw {
            self.client.subscribe(EDS, &added.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn summary(&self) -> BTreeMap<&str, Vec<&String>> {
        self.held.iter().map(|(kind, items)| (kind.as_str(), items.keys().take(20).collect())).collect()
    }
}

/// Returns true for clusters and listeners that do not depend on registries.
fn is_fixed(name: &str) -> bool {
    name.ends_with("Cluster") || name.starts_with("virtual")
}

/// Returns `ip:port` of an endpoint, or the path of its pipe.
pub fn address(endpoint: &LbEndpoint) -> Option<String> {
    let Some(HostIdentifier::Endpoint(endpoint)) = &endpoint.host_identifier else { return None };
    match endpoint.address.as_ref()?.address.as_ref()? {
        Kind::SocketAddress(socket) => match socket.port_specifier {
            Some(PortSpecifier::PortValue(port)) => {
                let ip: std::net::IpAddr = socket.address.parse().ok()?;
                Some(SocketAddr::new(ip, u16::try_from(port).ok()?).to_string())
            }
            _ => None,
        },
        Kind::Pipe(pipe) => Some(pipe.path.clone()),
        Kind::EnvoyInternalAddress(_) => None,
    }
}

/// Returns `name:port` of an endpoint that is a DNS name.
pub fn hostname(endpoint: &LbEndpoint) -> Option<String> {
    let Some(HostIdentifier::Endpoint(endpoint)) = &endpoint.host_identifier else { return None };
    let Kind::SocketAddress(socket) = endpoint.address.as_ref()?.address.as_ref()? else { return None };
    let Some(PortSpecifier::PortValue(port)) = socket.port_specifier else { return None };
    Some(format!("{}:{port}", socket.address))
}
