//! A client, and its reduction to what an answer reads.
//!
//! Built by xds from a node and the client's own workload; read here by nothing but [`project`]:
//! the other functions get the projection.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    ClientDimensions, ClientKind, ClusterId, Labels, Locality, Namespace, NetworkId, NodeName, Projection,
};

/// All that an answer may depend on. Clients of one class get the same bytes for everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientClass {
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

impl ClientClass {
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
    pub fn project(&self, dims: ClientDimensions) -> Projection {
        let has = |dim: ClientDimensions| dims.contains(dim);
        Projection {
            kind: has(ClientDimensions::KIND).then_some(self.kind),
            network: has(ClientDimensions::NETWORK).then(|| self.network.clone()),
            cluster: has(ClientDimensions::CLUSTER).then(|| self.cluster.clone()),
            locality: has(ClientDimensions::LOCALITY).then(|| self.locality.clone()),
            node: has(ClientDimensions::NODE).then(|| self.node.clone()),
            namespace: has(ClientDimensions::NAMESPACE).then(|| self.namespace.clone()),
            families: has(ClientDimensions::FAMILIES).then_some(self.families),
            binds: has(ClientDimensions::BINDS).then_some(self.binds),
            domain: has(ClientDimensions::DOMAIN).then(|| self.domain.clone()),
            dns_capture: has(ClientDimensions::DNS_CAPTURE).then_some(self.dns_capture),
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
    pub class: ClientClass,
}

impl Client {
    /// A client of this kind that has said nothing but its id.
    #[must_use]
    pub fn new(id: &str, kind: ClientKind) -> Self {
        Self { id: id.into(), ips: Arc::from([]), labels: Labels::default(), class: ClientClass::new(kind) }
    }
}

/// The client reduced to these dimensions.
#[must_use]
pub fn project(client: &Client, dims: ClientDimensions) -> Projection {
    client.class.project(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projection_has_exactly_its_dimensions() {
        let class = ClientClass { locality: Locality::parse("eu/1b"), ..ClientClass::new(ClientKind::Grpc) };
        for dims in [
            ClientDimensions::NONE,
            ClientDimensions::KIND,
            ClientDimensions::LOCALITY | ClientDimensions::NODE,
            ClientDimensions::DOMAIN | ClientDimensions::BINDS,
        ] {
            assert_eq!(class.project(dims).dims(), dims);
        }
        let all = class.project(ClientDimensions::LOCALITY);
        assert_eq!(all.locality, Some(Locality::parse("eu/1b")));
        assert_eq!(all.kind, None, "an undeclared dimension could be read");
    }
}
