//! VirtualServices that a client's route tables and listeners are from.
//!
//! Lists of resources call it. Sidecars' tables name them in the metadata of their routes; those of gRPC targets and of
//! listeners follow from the functions that serve clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_answer::{ClientClass, ClusterName, applied_routes, leading_parts, resolve};
use tributary_model::{Catalog, ClientKind, PolicyKey, PortView};
use tributary_xds::answers::ResourceType;
use tributary_xds::session::{SentResource, SentView};

use super::sent_tables::hosts_of;
use super::sessions::Found;

/// Most bytes of route tables that one list decodes for their rules.
const MAX_DECODED: usize = 8 << 20;

/// VirtualServices of the resources of one client.
pub(super) struct RoutingRules<'a> {
    catalog: &'a Arc<Catalog>,
    class: &'a ClientClass,
    /// Those of each listener, once a listener is asked for.
    listeners: Option<BTreeMap<String, BTreeSet<PolicyKey>>>,
    left: usize,
}

impl<'a> RoutingRules<'a> {
    /// Prepares the look-up for a client.
    pub(super) fn new(catalog: &'a Arc<Catalog>, found: &'a Found) -> Self {
        Self { catalog, class: &found.client.class, listeners: None, left: MAX_DECODED }
    }
    /// Returns the VirtualServices of a route table or a listener, sorted; none of other resources.
    pub(super) fn rules(&mut self, view: &SentView, resource: &SentResource) -> BTreeSet<PolicyKey> {
        match resource.kind {
            ResourceType::Route => match resource.name.parse::<ClusterName>() {
                Ok(target) => self.of_target(&target).into_iter().collect(),
                Err(_) => self.of_table(view, resource),
            },
            ResourceType::Listener if self.class.kind == ClientKind::Sidecar => {
                let (catalog, class) = (self.catalog, self.class);
                let all = self.listeners.get_or_insert_with(|| of_listeners(catalog, class));
                all.get(&*resource.name).cloned().unwrap_or_default()
            }
            _ => BTreeSet::new(),
        }
    }
    fn of_target(&self, target: &ClusterName) -> Option<PolicyKey> {
        let view = resolve(self.catalog, target.host.as_str(), self.class.scope(), &mut ())?;
        applied_routes(view.port(target.port)?, self.class).requests.cloned()
    }
    fn of_table(&mut self, view: &SentView, resource: &SentResource) -> BTreeSet<PolicyKey> {
        let body = view.body(resource).filter(|body| body.len() <= self.left);
        let Some(body) = body else { return BTreeSet::new() };
        self.left -= body.len();
        hosts_of(body).iter().flat_map(|host| host.rules().into_iter().cloned()).collect()
    }
}

/// Returns the VirtualServices that route connections of each listener of a sidecar.
fn of_listeners(catalog: &Catalog, class: &ClientClass) -> BTreeMap<String, BTreeSet<PolicyKey>> {
    let views = catalog.hosts.values().flat_map(|entry| entry.claimants.iter());
    let visible = views.filter(|view| class.scope().rank(view).is_some());
    let ports = visible.flat_map(|view| view.ports.iter());
    let mut out: BTreeMap<String, BTreeSet<PolicyKey>> = BTreeMap::new();
    for port in ports.filter(|port| may_route(port)) {
        for part in leading_parts(port, class) {
            let name = part.name();
            if let Some(rule) = part.rule {
                out.entry(name).or_default().insert(rule);
            }
        }
    }
    out
}

fn may_route(port: &PortView) -> bool {
    !port.listener.inputs.virtual_services.is_empty()
}
