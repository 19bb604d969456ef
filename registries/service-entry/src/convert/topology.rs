//! The topology of a workload, and the labels that carry it (see docs/explanation/model.md).

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::labels::{LOCALITY, LOCALITY_LEGACY, TLS_MODE};
use tributary_model::{Labels, Locality, NetworkId, Topology};

use super::context::Context;
use crate::address;
use crate::document::WorkloadSpec;

/// Topologies, shared by all workloads of a document with the same one.
#[derive(Default)]
pub(super) struct Topologies(BTreeMap<Topology, Arc<Topology>>);

impl Topologies {
    /// The topology of a workload. Its network is that of its specification only, as in Istio.
    pub(super) fn of(&mut self, spec: &WorkloadSpec, labels: &Labels, context: &Context) -> Arc<Topology> {
        self.shared(Topology {
            cluster: Some(context.cluster.clone()),
            network: spec.network.as_ref().and_then(|network| NetworkId::new(&network.value).ok()),
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

fn locality(spec: &WorkloadSpec, labels: &Labels) -> Locality {
    if let Some(own) = spec.locality.as_ref().filter(|locality| !locality.value.is_empty()) {
        return Locality::parse(&own.value);
    }
    let label = labels.get(LOCALITY).or_else(|| labels.get(LOCALITY_LEGACY));
    label.map(Locality::parse_label).unwrap_or_default()
}

/// Adds the topology to labels, for selectors and subsets. The `inherited` network counts if the specification sets none;
/// it does not decide how the workload is reached.
pub(super) fn augmented(labels: &Labels, topology: &Topology, inherited: Option<NetworkId>) -> Labels {
    let network = topology.network.clone().or(inherited);
    Topology { network, ..topology.clone() }.labels(labels).over(labels)
}

/// The network that the cluster gives to the address of a workload.
pub(super) fn inherited_network(spec: &WorkloadSpec, context: &Context) -> Option<NetworkId> {
    address::ip(spec).and_then(|ip| context.cluster_context.network_of(ip))
}

/// Whether a workload accepts mesh TLS: by its label, else if it has a service account.
pub(super) fn accepts_mesh_tls(labels: &Labels, account: &str) -> bool {
    labels.get(TLS_MODE).map_or(!account.is_empty(), |mode| mode == "istio")
}
