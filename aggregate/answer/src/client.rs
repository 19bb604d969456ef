//! A client, and its reduction to what an answer reads.
//!
//! Built by xds from a node and the client's own workload; read here by nothing but [`project`]:
//! the other functions get the projection.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    ClientKind, ClusterId, Dims, Labels, Locality, Namespace, NetworkId, NodeName, Projection,
};

/// All that an answer may depend on. Clients of one class get the same bytes for everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class {
    /// What kind of client it is.
    pub kind: ClientKind,
    /// Its namespace; without one it sees only what is exported to all.
    pub namespace: Option<Namespace>,
    /// Its cluster.
    pub cluster: Option<ClusterId>,
    /// Its network.
    pub network: Option<NetworkId>,
    /// Where it runs.
    pub locality: Locality,
    /// Its node.
    pub node: Option<NodeName>,
    /// Whether it uses IPv4 and IPv6.
    pub families: (bool, bool),
    /// Whether its listeners bind their ports (INTERCEPTION_MODE=NONE).
    pub binds: bool,
    /// The DNS domain of its short names.
    pub domain: Option<Arc<str>>,
    /// Whether it captures DNS, so that it uses allocated addresses.
    pub dns_capture: bool,
}

impl Class {
    /// A client of this kind of which nothing else is known.
    #[must_use]
    pub fn new(kind: ClientKind) -> Self {
        Self {
            kind,
            namespace: None,
            cluster: None,
            network: None,
            locality: Locality::default(),
            node: None,
            families: (true, true),
            binds: false,
            domain: None,
            dns_capture: false,
        }
    }
    /// The client reduced to these dimensions.
    #[must_use]
    pub fn project(&self, dims: Dims) -> Projection {
        let has = |dim: Dims| dims.contains(dim);
        Projection {
            kind: has(Dims::KIND).then_some(self.kind),
            network: has(Dims::NETWORK).then(|| self.network.clone()),
            cluster: has(Dims::CLUSTER).then(|| self.cluster.clone()),
            locality: has(Dims::LOCALITY).then(|| self.locality.clone()),
            node: has(Dims::NODE).then(|| self.node.clone()),
            namespace: has(Dims::NAMESPACE).then(|| self.namespace.clone()),
            families: has(Dims::FAMILIES).then_some(self.families),
            binds: has(Dims::BINDS).then_some(self.binds),
            domain: has(Dims::DOMAIN).then(|| self.domain.clone()),
            dns_capture: has(Dims::DNS_CAPTURE).then_some(self.dns_capture),
        }
    }
}

/// One client: its class, and what only its own session reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The node id as the client said it.
    pub id: Arc<str>,
    /// Its own addresses, by which its workload is found.
    pub ips: Arc<[IpAddr]>,
    /// Its labels.
    pub labels: Labels,
    /// Everything that answers may depend on.
    pub class: Class,
}

impl Client {
    /// A client of this kind that has said nothing but its id.
    #[must_use]
    pub fn new(id: &str, kind: ClientKind) -> Self {
        Self { id: id.into(), ips: Arc::from([]), labels: Labels::default(), class: Class::new(kind) }
    }
}

/// The client reduced to these dimensions.
#[must_use]
pub fn project(client: &Client, dims: Dims) -> Projection {
    client.class.project(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projection_has_exactly_its_dimensions() {
        let class = Class { locality: Locality::parse("eu/1b"), ..Class::new(ClientKind::Grpc) };
        for dims in [Dims::NONE, Dims::KIND, Dims::LOCALITY | Dims::NODE, Dims::DOMAIN | Dims::BINDS] {
            assert_eq!(class.project(dims).dims(), dims);
        }
        let all = class.project(Dims::LOCALITY);
        assert_eq!(all.locality, Some(Locality::parse("eu/1b")));
        assert_eq!(all.kind, None, "an undeclared dimension could be read");
    }
}
