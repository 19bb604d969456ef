//! Where a workload runs, and the labels that say so (`registries.md` 1.4).

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::labels::{CLUSTER, LOCALITY, LOCALITY_LEGACY, NETWORK, REGION, SUBZONE, TLS_MODE, ZONE};
use tributary_model::{Labels, Locality, NetworkId, Topology};

use super::Context;
use crate::document::WorkloadSpec;

/// Places, shared by all workloads of a document that run in the same one.
#[derive(Default)]
pub(super) struct Places(BTreeMap<Topology, Arc<Topology>>);

impl Places {
    /// A workload's place. What lies inside the mesh lies in the network of its surroundings where it names
    /// none itself; an endpoint `outside` is reached as it is.
    pub(super) fn of(
        &mut self,
        spec: &WorkloadSpec,
        labels: &Labels,
        outside: bool,
        context: &Context,
    ) -> Arc<Topology> {
        let around =
            || super::address::ip(spec).filter(|_| !outside).and_then(|ip| context.around.network_of(ip));
        self.shared(Topology {
            cluster: Some(context.cluster.clone()),
            network: network(spec, labels).or_else(around),
            locality: locality(spec, labels),
            node: None,
        })
    }
    /// A place of which only the cluster is known.
    pub(super) fn cluster(&mut self, context: &Context) -> Arc<Topology> {
        self.shared(Topology { cluster: Some(context.cluster.clone()), ..Topology::default() })
    }
    fn shared(&mut self, place: Topology) -> Arc<Topology> {
        if let Some(known) = self.0.get(&place) {
            return known.clone();
        }
        let shared = Arc::new(place.clone());
        self.0.insert(place, shared.clone());
        shared
    }
}

/// The specification's word, else the label's.
fn network(spec: &WorkloadSpec, labels: &Labels) -> Option<NetworkId> {
    let said = spec.network.as_ref().map(|network| &*network.value).filter(|network| !network.is_empty());
    NetworkId::new(said.or_else(|| labels.get(NETWORK))?).ok()
}

fn locality(spec: &WorkloadSpec, labels: &Labels) -> Locality {
    if let Some(said) = spec.locality.as_ref().filter(|locality| !locality.value.is_empty()) {
        return Locality::parse(&said.value);
    }
    let label = labels.get(LOCALITY).or_else(|| labels.get(LOCALITY_LEGACY));
    label.map(Locality::parse_label).unwrap_or_default()
}

/// Labels with topology added. They say the network by which the address is routed, whatever they said
/// before: routing and labels never disagree.
pub(super) fn augmented(labels: &Labels, place: &Topology) -> Labels {
    let locality = &place.locality;
    let parts = [(REGION, &*locality.region), (ZONE, &*locality.zone), (SUBZONE, &*locality.subzone)];
    let cluster = place.cluster.as_ref().map(|cluster| (CLUSTER, cluster.as_str()));
    let network = place.network.as_ref().map(|network| (NETWORK, network.as_str()));
    labels.with(parts.into_iter().filter(|(_, part)| !part.is_empty()).chain(cluster).chain(network))
}

/// The label's word, else whether the workload has an identity to prove.
pub(super) fn speaks_mesh_tls(labels: &Labels, account: &str) -> bool {
    labels.get(TLS_MODE).map_or(!account.is_empty(), |mode| mode == "istio")
}
