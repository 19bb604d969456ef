//! VirtualServices that a client's route tables and listeners are from.
//!
//! Lists of resources call it. Sidecars' tables name them in the metadata of their routes; those of gRPC targets and of
//! listeners follow from the functions that serve clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_answer::{ClientClass, ClusterName, applied_routes, connection_targets, resolve};
use tributary_model::{Catalog, ClientKind, PolicyKey, PortView};
use tributary_xds::answers::ResourceType;
use tributary_xds::session::{SentResource, SentView};

use super::sent_listener::SentListener;
use super::sent_tables::hosts_of;
use super::sessions::Found;

/// Most bytes of route tables and listeners that one list decodes for their rules.
const MAX_DECODED: usize = 8 << 20;

/// VirtualServices that route connections, with the xDS clusters to which they lead them.
type PlannedRules = BTreeMap<PolicyKey, BTreeSet<String>>;

/// VirtualServices of the resources of one client.
pub(super) struct RoutingRules<'a> {
    catalog: &'a Arc<Catalog>,
    class: &'a ClientClass,
    /// Those of each listener, once a listener is asked for.
    listeners: Option<BTreeMap<String, PlannedRules>>,
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
                match all.get(&*resource.name).cloned() {
                    Some(planned) => self.of_listener(view, resource, planned),
                    None => BTreeSet::new(),
                }
            }
            _ => BTreeSet::new(),
        }
    }
    fn of_target(&self, target: &ClusterName) -> Option<PolicyKey> {
        let view = resolve(self.catalog, target.host.as_str(), self.class.scope(), &mut ())?;
        applied_routes(view.port(target.port)?, self.class).requests.cloned()
    }
    /// Returns those that lead the connections of a listener as it was sent: another service may have the address and port of the
    /// one whose connections they route.
    fn of_listener(
        &mut self,
        view: &SentView,
        resource: &SentResource,
        planned: PlannedRules,
    ) -> BTreeSet<PolicyKey> {
        let body = view.body(resource).filter(|body| body.len() <= self.left);
        self.left -= body.as_ref().map_or(0, |body| body.len());
        let sent = body.and_then(SentListener::read);
        let leads = |to: &BTreeSet<String>| sent.as_ref().is_none_or(|sent| sent.leads_to_any(to));
        planned.into_iter().filter(|(_, to)| leads(to)).map(|(rule, _)| rule).collect()
    }
    fn of_table(&mut self, view: &SentView, resource: &SentResource) -> BTreeSet<PolicyKey> {
        let body = view.body(resource).filter(|body| body.len() <= self.left);
        let Some(body) = body else { return BTreeSet::new() };
        self.left -= body.len();
        hosts_of(body).iter().flat_map(|host| host.rules().into_iter().cloned()).collect()
    }
}

/// Returns the VirtualServices that route connections of each listener of a sidecar, with the xDS clusters to which they lead them.
fn of_listeners(catalog: &Catalog, class: &ClientClass) -> BTreeMap<String, PlannedRules> {
    let views = catalog.hosts.values().flat_map(|entry| entry.claimants.iter());
    let visible = views.filter(|view| class.scope().rank(view).is_some());
    let ports = visible.flat_map(|view| view.ports.iter());
    let mut out: BTreeMap<String, PlannedRules> = BTreeMap::new();
    for port in ports.filter(|port| may_route(port)) {
        for ((name, rule), to) in connection_targets(port, class) {
            if let Some(rule) = rule {
                out.entry(name).or_default().entry(rule).or_default().extend(to);
            }
        }
    }
    out
}

fn may_route(port: &PortView) -> bool {
    !port.listener.inputs.virtual_services.is_empty()
}
