//! The topology of a workload, and the labels that carry it (see docs/explanation/model.md).

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::labels::{CLUSTER, LOCALITY, LOCALITY_LEGACY, NETWORK, REGION, SUBZONE, TLS_MODE, ZONE};
use tributary_model::{Labels, Locality, NetworkId, Topology};

use super::context::Context;
use crate::address;
use crate::document::WorkloadSpec;

/// Topologies, shared by all workloads of a document with the same one.
#[derive(Default)]
pub(super) struct Topologies(BTreeMap<Topology, Arc<Topology>>);

impl Topologies {
    /// The topology of a workload. Inside the mesh, a workload without a network is in the network of its
    /// cluster context; an `outside` endpoint has only its own network.
    pub(super) fn of(
        &mut self,
        spec: &WorkloadSpec,
        labels: &Labels,
        outside: bool,
        context: &Context,
    ) -> Arc<Topology> {
        let inherited =
            || address::ip(spec).filter(|_| !outside).and_then(|ip| context.cluster_context.network_of(ip));
        self.shared(Topology {
            cluster: Some(context.cluster.clone()),
            network: network(spec, labels).or_else(inherited),
            locality: locality(spec, labels),
            node: None,
        })
    }
    /// A topology with only the cluster known.
    pub(super) fn cluster(&mut self, context: &Context) -> Arc<Topology> {
        self.shared(Topology { cluster: Some(context.cluster.clone()), ..Topology::default() })
    }
    fn shared(&mut self, topology: Topology) -> Arc<Topology> {
        if let Some(known) = self.0.get(&topology) {
            return known.clone();
        }
        let shared = Arc::new(topology.clone());
        self.0.insert(topology, shared.clone());
        shared
    }
}

/// The network of the specification, else of the label.
fn network(spec: &WorkloadSpec, labels: &Labels) -> Option<NetworkId> {
    let own = spec.network.as_ref().map(|network| &*network.value).filter(|network| !network.is_empty());
    NetworkId::new(own.or_else(|| labels.get(NETWORK))?).ok()
}

fn locality(spec: &WorkloadSpec, labels: &Labels) -> Locality {
    if let Some(own) = spec.locality.as_ref().filter(|locality| !locality.value.is_empty()) {
        return Locality::parse(&own.value);
    }
    let label = labels.get(LOCALITY).or_else(|| labels.get(LOCALITY_LEGACY));
    label.map(Locality::parse_label).unwrap_or_default()
}

/// Adds the topology to labels and replaces their network by that of the topology, so that routing
/// and labels agree.
pub(super) fn augmented(labels: &Labels, topology: &Topology) -> Labels {
    let locality = &topology.locality;
    let parts = [(REGION, &*locality.region), (ZONE, &*locality.zone), (SUBZONE, &*locality.subzone)];
    let cluster = topology.cluster.as_ref().map(|cluster| (CLUSTER, cluster.as_str()));
    let network = topology.network.as_ref().map(|network| (NETWORK, network.as_str()));
    labels.with(parts.into_iter().filter(|(_, part)| !part.is_empty()).chain(cluster).chain(network))
}

/// Whether a workload accepts mesh TLS: by its label, else if it has a service account.
pub(super) fn accepts_mesh_tls(labels: &Labels, account: &str) -> bool {
    labels.get(TLS_MODE).map_or(!account.is_empty(), |mode| mode == "istio")
}
