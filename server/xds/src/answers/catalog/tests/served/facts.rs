//! Services and policies that random edits change, and a naive reading of which Sidecar applies.

use proptest::prelude::*;
use tributary_answer::ClientSidecar;
use tributary_fixtures::{mk_ns, mk_sidecar};
use tributary_model::{EgressListener, PolicyKey, PolicyView, Shared, Sidecar, Visibility};

use super::super::properties::{some_services, some_visibility};
use super::super::scopes::some_listeners;
use super::super::*;

/// Namespace whose policies apply to all namespaces.
pub(super) const ROOT: &str = "istio-system";

/// All facts.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) services: Vec<Svc>,
    pub(super) policies: imbl::OrdMap<PolicyKey, Shared<PolicyView>>,
}

#[derive(Debug, Clone)]
pub(super) enum Edit {
    Services(Vec<Svc>),
    Export(usize, Visibility),
    Ports(usize, Protocol),
    Endpoints(usize, u8),
    Put(&'static str, &'static str, &'static str, Arc<[EgressListener]>),
    Remove(&'static str, &'static str),
}

pub(super) fn some_edit() -> impl Strategy<Value = Edit> {
    let namespace = || prop::sample::select(vec!["shop", "web", "blog", ROOT]);
    let name = || prop::sample::select(vec!["a", "b"]);
    let app = prop::sample::select(vec!["", "", "pay", "none"]);
    let protocol = prop::sample::select(vec![Protocol::Http, Protocol::Grpc, Protocol::Tcp]);
    let at = || 0..7usize;
    prop_oneof![
        3 => some_services().prop_map(Edit::Services),
        3 => (at(), some_visibility()).prop_map(|(at, visibility)| Edit::Export(at, visibility)),
        3 => (at(), protocol).prop_map(|(at, protocol)| Edit::Ports(at, protocol)),
        3 => (at(), 1u8..6).prop_map(|(at, last)| Edit::Endpoints(at, last)),
        4 => (namespace(), name(), app, some_listeners()).prop_map(|(ns, name, app, egress)| Edit::Put(ns, name, app, egress)),
        2 => (namespace(), name()).prop_map(|(ns, name)| Edit::Remove(ns, name)),
    ]
}

pub(super) fn mk_put(
    namespace: &str,
    name: &str,
    app: &str,
    egress: &Arc<[EgressListener]>,
) -> (PolicyKey, Shared<PolicyView>) {
    let selector = [("app", app)].into_iter().filter(|(_, app)| !app.is_empty()).collect();
    mk_sidecar(namespace, name, Sidecar { selector, egress: Arc::clone(egress), ..Sidecar::default() })
}

impl Facts {
    pub(super) fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Services(services) => self.services.clone_from(services),
            Edit::Export(at, visibility) => self.change(*at, |svc| svc.visibility = visibility.clone()),
            Edit::Ports(at, protocol) => {
                self.change(*at, |svc| svc.ports = vec![(80, *protocol), (81, Protocol::Http)])
            }
            Edit::Endpoints(at, last) => {
                self.change(*at, |svc| svc.endpoints = vec![format!("10.0.0.{last}")])
            }
            Edit::Put(namespace, name, app, egress) => {
                let (key, view) = mk_put(namespace, name, app, egress);
                self.policies.insert(key, view);
            }
            Edit::Remove(namespace, name) => {
                let (key, _) = mk_put(namespace, name, "", &Arc::from([]));
                self.policies.remove(&key);
            }
        }
    }
    pub(super) fn change(&mut self, at: usize, change: impl FnOnce(&mut Svc)) {
        if let Some(svc) = self.services.get_mut(at) {
            change(svc);
        }
    }
    /// The Sidecar of a workload, by a naive reading.
    pub(super) fn sidecar(&self, namespace: &str, app: &str) -> Option<ClientSidecar> {
        let selects = |namespace: &str, app: &str| {
            let mut all = self.policies.iter().filter(|(key, _)| key.namespace == mk_ns(namespace));
            let of_app = |view: &PolicyView| {
                view.sidecar().is_some_and(|sidecar| sidecar.selector.get("app").unwrap_or("") == app)
            };
            all.find(|(_, view)| of_app(view))
        };
        let own = selects(namespace, app).or_else(|| selects(namespace, ""));
        let (key, view) = own.or_else(|| selects(ROOT, ""))?;
        view.sidecar().map(|sidecar| ClientSidecar::new(key, sidecar))
    }
}
