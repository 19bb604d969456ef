//! Clients and their projections.
//!
//! xds builds a client from its node and its own workload. In this crate only [`project`] reads
//! clients; the serving functions get the projection.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    Catalog, CertificateFiles, CertificateSource, ClientDimensions, ClientKind, ClosedPorts, ClusterId,
    Labels, Locality, Namespace, NetworkId, NodeName, PeerModes, Projection, labels,
};

use crate::authorization::AuthorizationChain;
use crate::patches::ClientPatches;
use crate::scope::{ClientSidecar, Scope};
use crate::tokens::TokenChecks;

/// Client attributes that answers may depend on. Clients of one class get equal bytes for every resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientClass {
    /// Kind of client.
    pub kind: ClientKind,
    /// Namespace; a client without one sees public declarations only.
    pub namespace: Option<Namespace>,
    /// Sidecar that applies to it.
    pub sidecar: Option<Arc<ClientSidecar>>,
    /// Cluster.
    pub cluster: Option<ClusterId>,
    /// Network.
    pub network: Option<NetworkId>,
    /// Location.
    pub locality: Locality,
    /// Node.
    pub node: Option<NodeName>,
    /// Whether it uses IPv4, and whether it uses IPv6.
    pub families: (bool, bool),
    /// Whether its listeners bind their ports (INTERCEPTION_MODE=NONE).
    pub binds: bool,
    /// Ports on which its proxy cannot listen.
    pub closed: ClosedPorts,
    /// DNS domain that completes short names.
    pub domain: Option<Arc<str>>,
    /// Whether it captures DNS and therefore uses allocated addresses.
    pub dns_capture: bool,
    /// Where it has its certificates of the mesh.
    pub certificates: CertificateSource,
    /// Paths of its certificates, if it has files.
    pub certificate_files: Option<Arc<CertificateFiles>>,
    /// Labels that any policy compares; an absent one has an empty text.
    pub labels: Labels,
    /// Patches of EnvoyFilters that apply to it.
    pub patches: Option<Arc<ClientPatches>>,
    /// Which connections the ports of its workload accept; `None` for plain text alone.
    pub inbound: Option<Arc<PeerModes>>,
    /// AuthorizationPolicies of its workload.
    pub authorization: Option<Arc<AuthorizationChain>>,
    /// How its workload checks tokens of requests.
    pub tokens: Option<Arc<TokenChecks>>,
    /// Trust domains of the mesh, of a gRPC server alone: its listeners are encoded from its class, without a catalog.
    pub trust_domains: Option<Arc<[Arc<str>]>>,
    /// Whether its inbound listeners are withheld, because policies that may restrict them were never read.
    pub withholds_inbound: bool,
}

impl ClientClass {
    /// Creates a class of this kind with default values.
    #[must_use]
    pub fn new(kind: ClientKind) -> Self {
        Self {
            kind,
            namespace: None,
            sidecar: None,
            cluster: None,
            network: None,
            locality: Locality::default(),
            node: None,
            families: (true, true),
            binds: false,
            closed: ClosedPorts::default(),
            domain: None,
            dns_capture: false,
            certificates: CertificateSource::None,
            certificate_files: None,
            labels: Labels::default(),
            patches: None,
            inbound: None,
            authorization: None,
            tokens: None,
            trust_domains: None,
            withholds_inbound: false,
        }
    }
    /// Returns what clients of this class may see.
    #[must_use]
    pub fn scope(&self) -> Scope<'_> {
        Scope { namespace: self.namespace.as_ref(), sidecar: self.sidecar.as_deref() }
    }
    /// Reduces the client to these dimensions.
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
            closed: has(ClientDimensions::BINDS).then_some(self.closed),
            domain: has(ClientDimensions::DOMAIN).then(|| self.domain.clone()),
            dns_capture: has(ClientDimensions::DNS_CAPTURE).then_some(self.dns_capture),
            labels: has(ClientDimensions::LABELS).then(|| self.labels.clone()),
            certificates: has(ClientDimensions::CERTIFICATES).then(|| self.certificates.clone()),
            choices: None,
        }
    }
    /// Returns the labels that policies compare, of a client with these labels. Its location counts as labels, and
    /// precedes its own labels except for the network.
    #[must_use]
    pub fn compared(&self, catalog: &Catalog, own: &Labels) -> Labels {
        let value = |key: &str| {
            let own = own.get(key).unwrap_or_default();
            let place = self.place(key).unwrap_or_default();
            let first = if key == labels::NETWORK { [own, place] } else { [place, own] };
            first.into_iter().find(|value| !value.is_empty()).unwrap_or_default().into()
        };
        catalog.compared_labels.iter().map(|key| (Arc::clone(key), value(key))).collect()
    }
    fn place(&self, key: &str) -> Option<&str> {
        match key {
            labels::REGION => Some(&self.locality.region),
            labels::ZONE => Some(&self.locality.zone),
            labels::SUBZONE => Some(&self.locality.subzone),
            labels::NETWORK => self.network.as_ref().map(|network| network.as_str()),
            labels::CLUSTER => self.cluster.as_ref().map(|cluster| cluster.as_str()),
            labels::NODE => self.node.as_ref().map(|node| node.as_str()),
            _ => None,
        }
    }
}

/// Client: its class, and attributes that only its own session reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Node id, as the client sent it.
    pub id: Arc<str>,
    /// Own addresses, which identify its workload.
    pub ips: Arc<[IpAddr]>,
    /// Labels.
    pub labels: Labels,
    /// Attributes that answers may depend on.
    pub class: ClientClass,
    /// What it takes from this server to lead its traffic, for explanations.
    pub takes: Takes,
}

/// What a client takes from a server to lead its traffic. The rest is its own: a sidecar may have listeners of its own that name route
/// tables of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Takes {
    /// xDS clusters and their endpoints only.
    Clusters,
    /// Route tables as well.
    Routes,
    /// Listeners as well.
    Listeners,
}

impl Client {
    /// Creates a client with this id and kind, and default values.
    #[must_use]
    pub fn new(id: &str, kind: ClientKind) -> Self {
        let class = ClientClass::new(kind);
        Self { id: id.into(), ips: Arc::from([]), labels: Labels::default(), class, takes: Takes::Listeners }
    }
}

/// Reduces the client to these dimensions.
#[must_use]
pub fn project(client: &Client, dims: ClientDimensions) -> Projection {
    client.class.project(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_that_rules_compare_are_kept() {
        let keys = ["tier", labels::NETWORK, labels::REGION, "app"];
        let catalog = Catalog { compared_labels: keys.map(Arc::from).into(), ..Catalog::default() };
        let class = ClientClass {
            locality: Locality::parse("eu/1b"),
            network: NetworkId::new("net1").ok(),
            ..ClientClass::new(ClientKind::Sidecar)
        };
        let own = [("tier", "a"), ("other", "x"), (labels::REGION, "us"), (labels::NETWORK, "net2")];
        let got = class.compared(&catalog, &own.into_iter().collect());
        let want = [("tier", "a"), (labels::NETWORK, "net2"), (labels::REGION, "eu"), ("app", "")];
        assert_eq!(got, want.into_iter().collect());
        assert_eq!(class.compared(&Catalog::default(), &own.into_iter().collect()), Labels::default());
    }

    #[test]
    fn projection_has_exactly_its_dimensions() {
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
        assert_eq!(all.kind, None, "an undeclared dimension is readable");
    }
}
