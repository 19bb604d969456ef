//! Resources that are not about any service: where traffic goes that none claims.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tributary_answer::names;
use tributary_model::{Catalog, ClientKind, Encoded};

use super::ClassKey;
use crate::encode;

type Members = Arc<[Arc<Encoded>]>;

/// The fixed xDS clusters, kept for the settings that were seen last.
#[derive(Debug, Default)]
pub(crate) struct Fixed {
    last: Mutex<Option<(Duration, Members)>>,
}

impl Fixed {
    /// The fixed xDS clusters of a class, by name. Only a proxy beside a workload, whose traffic is
    /// captured whole, needs them.
    pub(crate) fn clusters(&self, catalog: &Catalog, class: &ClassKey) -> Members {
        if class.kind != ClientKind::Sidecar {
            return Arc::from([]);
        }
        let timeout = catalog.settings.connect_timeout();
        let mut last = self.last.lock();
        if let Some((_, made)) = last.as_ref().filter(|(seen, _)| *seen == timeout) {
            return Arc::clone(made);
        }
        let made = clusters(timeout);
        *last = Some((timeout, Arc::clone(&made)));
        made
    }
    /// A fixed xDS cluster by name.
    pub(crate) fn cluster(&self, catalog: &Catalog, class: &ClassKey, name: &str) -> Option<Arc<Encoded>> {
        self.clusters(catalog, class).iter().find(|fixed| &*fixed.name == name).cloned()
    }
}

fn clusters(timeout: Duration) -> Members {
    let keep = |name: &str, body: Vec<u8>| Arc::new(Encoded::new(name.into(), body.into()));
    Arc::from([
        keep(names::BLACK_HOLE, encode::cluster::black_hole(timeout)),
        keep(names::INBOUND_PASSTHROUGH, encode::cluster::inbound_passthrough(timeout)),
        keep(names::PASSTHROUGH, encode::cluster::passthrough(timeout)),
    ])
}
