//! Resources that are not about any service: they handle traffic that matches no service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tributary_answer::{names, vip};
use tributary_model::{Catalog, ClientDimensions, ClientKind, EncodedResource};

use super::fold::defaults;
use super::{ClientClassKey, ResourceType};
use crate::encode;

type Members = Arc<[Arc<EncodedResource>]>;

/// The fixed xDS clusters, cached for the last settings and each combination of IP families.
#[derive(Debug, Default)]
pub(crate) struct Fixed {
    last: Mutex<BTreeMap<(bool, bool), (Duration, Members)>>,
}

impl Fixed {
    /// Returns the fixed xDS clusters of a class, by name. Only a sidecar, which captures all traffic of a
    /// workload, needs them.
    pub(crate) fn clusters(&self, catalog: &Catalog, class: &ClientClassKey) -> Members {
        if class.kind != ClientKind::Sidecar {
            return Arc::from([]);
        }
        let timeout = catalog.settings.connect_timeout();
        let mut last = self.last.lock();
        if let Some((_, built)) = last.get(&class.families).filter(|(key, _)| *key == timeout) {
            return Arc::clone(built);
        }
        let built = clusters(timeout, class.families);
        last.insert(class.families, (timeout, Arc::clone(&built)));
        built
    }
    /// Returns the fixed resources of a type, beside those of service ports.
    pub(crate) fn of(&self, kind: ResourceType, catalog: &Catalog, class: &ClientClassKey) -> Members {
        if kind == ResourceType::Cluster { self.clusters(catalog, class) } else { Arc::from([]) }
    }
    /// Builds the listener that captures all outbound traffic; `None` if listeners bind their ports.
    pub(crate) fn listener(&self, catalog: &Catalog, class: &ClientClassKey) -> Option<Arc<EncodedResource>> {
        if class.kind != ClientKind::Sidecar || class.binds {
            return None;
        }
        let body = encode::listener::virtual_outbound(
            any_address(class),
            &defaults(catalog, class, ResourceType::Listener),
        );
        Some(Arc::new(EncodedResource::new(encode::listener::VIRTUAL_OUTBOUND.into(), body.into())))
    }
    /// Returns a fixed xDS cluster by name.
    pub(crate) fn cluster(
        &self,
        catalog: &Catalog,
        class: &ClientClassKey,
        name: &str,
    ) -> Option<Arc<EncodedResource>> {
        self.clusters(catalog, class).iter().find(|fixed| &*fixed.name == name).cloned()
    }
}

fn clusters(timeout: Duration, families: (bool, bool)) -> Members {
    let keep = |name: &str, body: Vec<u8>| Arc::new(EncodedResource::new(name.into(), body.into()));
    Arc::from([
        keep(names::BLACK_HOLE, encode::cluster::black_hole(timeout)),
        keep(names::INBOUND_PASSTHROUGH, encode::cluster::inbound_passthrough(timeout, families)),
        keep(names::PASSTHROUGH, encode::cluster::passthrough(timeout)),
    ])
}

/// Returns the unspecified addresses of the client's IP families.
pub(crate) fn any_address(class: &ClientClassKey) -> vip::ListenAddress {
    vip::any_address(&class.project(ClientDimensions::FAMILIES))
}
