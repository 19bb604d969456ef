//! Resources that only one client receives: the inbound side of its own workload.

use std::sync::Arc;

use tributary_answer::{InboundPort, inbound, names};
use tributary_model::{Catalog, ClientKind, EncodedResource, WorkloadKey};

use super::fixed::any_address;
use super::{ClientClassKey, ResourceType};
use crate::encode;

/// Returns the inbound resources of a sidecar, by name. A client whose listeners bind their own ports
/// gets none, because its inbound traffic is not captured.
pub(crate) fn resources(
    catalog: &Catalog,
    class: &ClientClassKey,
    kind: ResourceType,
    own: &[WorkloadKey],
) -> Vec<Arc<EncodedResource>> {
    if class.kind != ClientKind::Sidecar || class.binds {
        return Vec::new();
    }
    match kind {
        ResourceType::Cluster => clusters(catalog, class.families, &inbound(catalog, own)),
        ResourceType::Listener => {
            let body = encode::listener::virtual_inbound(any_address(class), &inbound(catalog, own));
            vec![keep(encode::listener::VIRTUAL_INBOUND.into(), body)]
        }
        ResourceType::Endpoints | ResourceType::Route => Vec::new(),
    }
}

fn clusters(catalog: &Catalog, families: (bool, bool), ports: &[InboundPort]) -> Vec<Arc<EncodedResource>> {
    let timeout = catalog.settings.connect_timeout();
    let cluster = |port: &InboundPort| {
        let body = encode::cluster::inbound(port.target, port.protocol.is_http2(), timeout, families);
        keep(names::inbound_name(port.target), body)
    };
    let mut out: Vec<_> = ports.iter().map(cluster).collect();
    out.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    out
}

fn keep(name: String, body: Vec<u8>) -> Arc<EncodedResource> {
    Arc::new(EncodedResource::new(name.into(), body.into()))
}
