//! Resources of a client's own workload: the inbound side of a sidecar, and of a gRPC server.
//!
//! They are interned by content, so that workloads with the same ports share one encoding and its bytes, however
//! many they are and whichever generation they ask in. Sessions hold the resources; the table holds none alive.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tributary_answer::vip::ListenAddress;
use tributary_answer::{
    GrpcServer, InboundPath, InboundPort, InboundSecurity, InboundTarget, OwnSide, grpc_server,
    inbound_security, listener_name, names, received,
};
use tributary_model::{Catalog, ClientKind, EncodedResource};

use super::counters::Counters;
use super::fixed::any_address;
use super::fold::handling;
use super::{ClientClassKey, ResourceType};
use crate::encode;
use crate::encode::defaults::Handling;

/// Everything that an inbound resource is encoded from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum InboundPlan {
    Cluster {
        port: InboundPort,
        to: InboundTarget,
        timeout: Duration,
        families: (bool, bool),
    },
    /// The listener for redirected connections.
    Virtual {
        bind: ListenAddress,
        ports: Box<[InboundPort]>,
        security: InboundSecurity,
        handling: Handling,
    },
    /// A listener with a socket of its own.
    Bound {
        bind: ListenAddress,
        port: InboundPort,
        security: InboundSecurity,
        handling: Handling,
    },
    /// The listener of a gRPC server.
    Server(GrpcServer),
}

/// The inbound resources in use, by content.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    live: HashMap<InboundPlan, Weak<EncodedResource>>,
    cleanup_at: usize,
}

impl Inbound {
    pub(crate) const FIRST_CLEANUP: usize = 1024;

    /// Returns the inbound resources of a sidecar, by name. A client whose listeners bind their own ports
    /// gets those that its Sidecar names.
    pub(crate) fn resources(
        &self,
        counters: &Counters,
        catalog: &Catalog,
        class: &ClientClassKey,
        kind: ResourceType,
        own: OwnSide<'_>,
    ) -> Vec<Arc<EncodedResource>> {
        if class.kind != ClientKind::Sidecar {
            return Vec::new();
        }
        let plans = plans(catalog, class, kind, own).into_iter();
        let mut out: Vec<_> = plans.map(|plan| self.get_or_encode(counters, kind, plan)).collect();
        out.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        out
    }
    /// Returns the listener that a gRPC server requests by this name.
    pub(crate) fn server(
        &self,
        counters: &Counters,
        class: &ClientClassKey,
        name: &str,
    ) -> Option<Arc<EncodedResource>> {
        let plan = InboundPlan::Server(grpc_server(class, name)?);
        Some(self.get_or_encode(counters, ResourceType::Listener, plan))
    }
    /// Returns the listener of this name that refuses every request.
    pub(crate) fn refusing(&self, counters: &Counters, name: &str) -> Option<Arc<EncodedResource>> {
        let plan = InboundPlan::Server(GrpcServer::refusing(name)?);
        Some(self.get_or_encode(counters, ResourceType::Listener, plan))
    }
    /// Returns the number of entries, including those that no session holds.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.lock().live.len()
    }
    /// Encodes under the lock: the encoding is small, and concurrent callers share it.
    fn get_or_encode(
        &self,
        counters: &Counters,
        kind: ResourceType,
        plan: InboundPlan,
    ) -> Arc<EncodedResource> {
        let mut table = self.table.lock();
        if let Some(found) = table.live.get(&plan).and_then(Weak::upgrade) {
            counters.hit(found.len);
            return found;
        }
        table.remove_unused();
        let made = Arc::new(plan.encode());
        counters.encoded(kind, made.len as usize);
        table.live.insert(plan, Arc::downgrade(&made));
        made
    }
}

impl Table {
    fn remove_unused(&mut self) {
        if self.live.len() >= self.cleanup_at.max(Inbound::FIRST_CLEANUP) {
            self.live.retain(|_, resource| resource.strong_count() > 0);
            self.cleanup_at = self.live.len() * 2;
        }
    }
}

impl InboundPlan {
    fn encode(&self) -> EncodedResource {
        let (name, body) = match self {
            Self::Cluster { port, to, timeout, families } => {
                (names::inbound_name(port.target), encode::cluster::inbound(*port, to, *timeout, *families))
            }
            Self::Virtual { bind, ports, security, handling } => {
                let name = encode::listener::VIRTUAL_INBOUND.to_owned();
                (name, encode::listener::virtual_inbound(*bind, ports, security, handling))
            }
            Self::Bound { bind, port, security, handling } => {
                let name = listener_name(bind.ip, port.target.get());
                (name, encode::listener::inbound(*bind, port, security, handling))
            }
            Self::Server(server) => (server.name.to_string(), encode::listener::grpc_server(server)),
        };
        EncodedResource::new(name.into(), body.into())
    }
}

fn plans(
    catalog: &Catalog,
    class: &ClientClassKey,
    kind: ResourceType,
    own: OwnSide<'_>,
) -> Vec<InboundPlan> {
    match kind {
        ResourceType::Cluster => {
            let (timeout, families) = (catalog.settings.connect_timeout(), class.families);
            let cluster =
                |path: InboundPath| InboundPlan::Cluster { port: path.port, to: path.to, timeout, families };
            received(catalog, class, own).into_iter().map(cluster).collect()
        }
        ResourceType::Listener if class.withholds_inbound => Vec::new(),
        ResourceType::Listener => listeners(catalog, class, &received(catalog, class, own)),
        ResourceType::Endpoints | ResourceType::Route | ResourceType::Secret => Vec::new(),
    }
}

/// Returns the listener for redirected connections, if there are any, and those that open a socket.
fn listeners(catalog: &Catalog, class: &ClientClassKey, paths: &[InboundPath]) -> Vec<InboundPlan> {
    let (security, handling) = (inbound_security(catalog, class), handling(catalog));
    let captured = paths.iter().filter(|path| path.bind.is_none()).map(|path| path.port);
    let captures = !class.binds;
    let all = captures.then(|| InboundPlan::Virtual {
        bind: any_address(class),
        ports: captured.collect(),
        security: security.clone(),
        handling: handling.clone(),
    });
    let bound = paths.iter().filter_map(|path| {
        let (port, security, handling) = (path.port, security.clone(), handling.clone());
        Some(InboundPlan::Bound { bind: path.bind?, port, security, handling })
    });
    all.into_iter().chain(bound).collect()
}
