//! What one client may see: its namespace, and what the Sidecar that applies to it imports.
//!
//! [`attach`] chooses the Sidecar; xds calls it when a client's labels or the policies change, and keeps the result
//! in the client's class. Resolution takes a [`Scope`] and nothing else of a client. The scope is computed from the
//! policies and never stored in the catalog: its cost follows the clients, not the policies
//! (`docs/decisions/0050-a-scope-is-computed-for-a-client.md`).

pub(crate) mod trace;

use std::sync::Arc;

use tributary_model::{
    Catalog, ClientKind, ForwardingServer, HostEntry, IngressListener, Labels, Namespace, OutboundMode,
    PolicyKey, PolicyKind, PolicyView, PortView, RouteOwner, ServiceView, Sidecar,
};

use crate::egress::{Egress, PortSet};

/// Sidecar as one client has it; for a router, what the Gateways that select it make it forward.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientSidecar {
    /// Its key, or that of the first Gateway.
    pub key: PolicyKey,
    /// What the client reaches; `None` for everything that it sees.
    pub egress: Option<Egress>,
    /// Treatment of connections to unknown hosts; the mesh's if absent.
    pub outbound: Option<OutboundMode>,
    /// Ports on which the client receives; those of its services if empty.
    pub ingress: Arc<[IngressListener]>,
    /// Servers of a router; absent for other clients.
    pub servers: Option<Arc<[ForwardingServer]>>,
}

impl ClientSidecar {
    /// Reads a Sidecar.
    #[must_use]
    pub fn new(key: &PolicyKey, sidecar: &Sidecar) -> Self {
        Self {
            key: key.clone(),
            egress: Egress::new(&sidecar.egress),
            outbound: sidecar.outbound.clone(),
            ingress: Arc::clone(&sidecar.ingress),
            servers: None,
        }
    }
    /// Whether this value was read from this very Sidecar.
    #[must_use]
    pub fn is(&self, key: &PolicyKey, sidecar: &Sidecar) -> bool {
        let same_egress = match &self.egress {
            Some(egress) => egress.is(&sidecar.egress),
            None => Egress::new(&sidecar.egress).is_none(),
        };
        same_egress
            && self.key == *key
            && self.outbound == sidecar.outbound
            && Arc::ptr_eq(&self.ingress, &sidecar.ingress)
    }
}

/// What a client may see. Costs two references.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope<'a> {
    /// Namespace of the client; a client without one sees public declarations only.
    pub namespace: Option<&'a Namespace>,
    /// Sidecar that applies to it.
    pub sidecar: Option<&'a ClientSidecar>,
}

impl<'a> Scope<'a> {
    /// Returns the scope of clients of a namespace without a Sidecar.
    #[must_use]
    pub const fn of(namespace: Option<&'a Namespace>) -> Self {
        Self { namespace, sidecar: None }
    }
    /// Returns what the client reaches; `None` for everything that it sees.
    #[must_use]
    pub fn egress(self) -> Option<&'a Egress> {
        self.sidecar?.egress.as_ref()
    }
    /// Returns the order of a service among those that the client may import: that of the egress listener, then
    /// its own namespace; `None` if no listener imports it.
    #[must_use]
    pub fn rank(self, view: &ServiceView) -> Option<(usize, bool)> {
        let listener = match self.egress() {
            Some(egress) => egress.rank(self.namespace, view)?,
            None => 0,
        };
        Some((listener, Some(&view.key.namespace) != self.namespace))
    }
    /// Whether it is that of a router, which reaches what it forwards and nothing that a route leads to.
    #[must_use]
    pub fn forwards(self) -> bool {
        self.sidecar.is_some_and(|sidecar| sidecar.servers.is_some())
    }
    /// Whether a port of a resolved service reaches the client.
    #[must_use]
    pub fn admits(self, view: &ServiceView, port: &PortView, set: PortSet) -> bool {
        let admits = |egress: &Egress| {
            egress.admits(self.namespace, &view.key, port.number, set)
                || set == PortSet::Reached && !self.forwards() && egress.rank(self.namespace, view).is_none()
        };
        self.egress().is_none_or(admits)
    }
    /// Whether a route of a VirtualService leads the client to a host that its Sidecar need not import.
    #[must_use]
    pub fn is_led_to(self, entry: &HostEntry) -> bool {
        let Some(egress) = self.egress().filter(|_| !self.forwards()) else { return false };
        let concerns = |owner: &RouteOwner| {
            owner.tier(self.namespace).is_some()
                && egress.imports_pattern(self.namespace, &owner.key.namespace, &owner.hosts)
        };
        entry.led_by.iter().any(|owner| concerns(owner))
    }
    /// Iterates over the ports of a resolved service that reach the client, by number.
    pub fn ports<'v>(
        self,
        view: &'v ServiceView,
        set: PortSet,
    ) -> impl Iterator<Item = &'v PortView> + use<'a, 'v> {
        view.ports.iter().filter(move |port| self.admits(view, port, set))
    }
}

/// Returns the Sidecar that applies to a client: one that selects its labels, else one for its whole namespace, else
/// one for the root namespace. Among several, the first in precedence applies, which is the oldest of a source.
#[must_use]
pub fn attach<'c>(
    catalog: &'c Catalog,
    kind: ClientKind,
    namespace: Option<&Namespace>,
    labels: &Labels,
) -> Option<(&'c PolicyKey, &'c Sidecar)> {
    let namespace = namespace.filter(|_| kind != ClientKind::Envoy && !catalog.policies.is_empty())?;
    let own = sidecars(catalog, namespace).filter(|(_, _, sidecar)| sidecar.selector.is_subset_of(labels));
    first(own).or_else(|| rooted(catalog))
}

/// Returns the Sidecars that apply to clients of a namespace, `None` for clients without one: to those that are known, by their labels,
/// else one per choice of labels. No namespace stands for those that declare no Sidecar.
#[must_use]
pub fn attachable<'a>(
    catalog: &Catalog,
    namespace: Option<&Namespace>,
    known: impl Iterator<Item = &'a Labels>,
) -> Vec<Option<ClientSidecar>> {
    let read = |(key, sidecar): (&PolicyKey, &Sidecar)| ClientSidecar::new(key, sidecar);
    let Some(namespace) = namespace else { return vec![rooted(catalog).map(read)] };
    let attached = |labels: &Labels| attach(catalog, ClientKind::Sidecar, Some(namespace), labels);
    let selectors = sidecars(catalog, namespace).map(|(_, _, sidecar)| &sidecar.selector);
    let mut found: Vec<_> = known.map(attached).collect();
    if found.is_empty() {
        found.extend(selectors.chain([&Labels::default()]).map(attached));
    }
    found.sort_by_key(|one| one.map(|(key, _)| key));
    found.dedup_by_key(|one| one.map(|(key, _)| key));
    found.into_iter().map(|one| one.map(read)).collect()
}

/// Returns the Sidecar of clients whose namespace has none for them.
fn rooted(catalog: &Catalog) -> Option<(&PolicyKey, &Sidecar)> {
    let root = catalog.settings.root_namespace()?;
    first(sidecars(catalog, &root).filter(|(_, _, sidecar)| sidecar.selector.is_empty()))
}

type Candidate<'c> = (&'c PolicyKey, &'c PolicyView, &'c Sidecar);

fn sidecars<'c>(
    catalog: &'c Catalog,
    namespace: &Namespace,
) -> impl Iterator<Item = Candidate<'c>> + use<'c> {
    let namespace = namespace.clone();
    let from = PolicyKey { kind: PolicyKind::Sidecar, namespace: namespace.clone(), name: "".into() };
    let all = catalog.policies.range(from..);
    all.take_while(move |(key, _)| key.kind == PolicyKind::Sidecar && key.namespace == namespace)
        .filter_map(|(key, view)| Some((key, &**view, view.sidecar()?)))
}

fn first<'c>(candidates: impl Iterator<Item = Candidate<'c>>) -> Option<(&'c PolicyKey, &'c Sidecar)> {
    let order = |(_, a, x): &Candidate<'c>, (_, b, y): &Candidate<'c>| {
        let by_selector = x.selector.is_empty().cmp(&y.selector.is_empty());
        by_selector.then_with(|| a.precedence_key().order(&b.precedence_key()))
    };
    candidates.min_by(order).map(|(key, _, sidecar)| (key, sidecar))
}

#[cfg(test)]
mod tests {
    use tributary_model::Shared;

    use super::*;
    use crate::fixtures::*;

    fn mk_selecting(selector: &[(&str, &str)]) -> Sidecar {
        Sidecar { selector: selector.iter().copied().collect(), ..Sidecar::default() }
    }
    /// A namespace, a name and the labels that it selects.
    type Policy<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    fn mk_policies(all: &[Policy<'_>]) -> Catalog {
        let policies =
            all.iter().map(|(namespace, name, labels)| mk_sidecar(namespace, name, mk_selecting(labels)));
        Catalog { policies: policies.collect(), ..Catalog::default() }
    }
    fn attached(
        catalog: &Catalog,
        kind: ClientKind,
        namespace: &str,
        labels: &[(&str, &str)],
    ) -> Option<String> {
        let labels = labels.iter().copied().collect();
        attach(catalog, kind, Some(&mk_ns(namespace)), &labels).map(|(key, _)| key.to_string())
    }

    #[test]
    fn selected_workloads_precede_the_namespace_and_that_the_root_namespace() {
        let catalog = mk_policies(&[
            ("istio-system", "all", &[]),
            ("istio-system", "some", &[("app", "pay")]),
            ("shop", "a", &[]),
            ("shop", "b", &[("app", "pay")]),
            ("shop", "c", &[("app", "pay"), ("version", "2")]),
            ("shoppers", "a", &[]),
        ]);
        let of =
            |namespace, labels: &[(&str, &str)]| attached(&catalog, ClientKind::Sidecar, namespace, labels);
        assert_eq!(of("shop", &[]).as_deref(), Some("Sidecar shop/a"));
        assert_eq!(of("shop", &[("app", "pay")]).as_deref(), Some("Sidecar shop/b"));
        assert_eq!(of("shop", &[("version", "2")]).as_deref(), Some("Sidecar shop/a"));
        assert_eq!(of("web", &[("app", "pay")]).as_deref(), Some("Sidecar istio-system/all"));
        let of_istio = of("istio-system", &[("app", "pay")]);
        assert_eq!(of_istio.as_deref(), Some("Sidecar istio-system/some"));
        assert_eq!(attached(&mk_policies(&[]), ClientKind::Sidecar, "shop", &[]), None);
    }

    #[test]
    fn plain_envoys_and_clients_without_namespace_have_no_sidecar() {
        let catalog = mk_policies(&[("istio-system", "all", &[]), ("shop", "a", &[])]);
        assert_eq!(attached(&catalog, ClientKind::Envoy, "shop", &[]), None);
        assert_eq!(attached(&catalog, ClientKind::Grpc, "shop", &[]).as_deref(), Some("Sidecar shop/a"));
        assert!(attach(&catalog, ClientKind::Sidecar, None, &Labels::default()).is_none());
    }

    #[test]
    fn oldest_of_several_sidecars_applies() {
        let mut catalog = mk_policies(&[("shop", "a", &[]), ("shop", "b", &[]), ("shop", "c", &[])]);
        let age = |key: &PolicyKey, view: &PolicyView, seconds| {
            let mut declared = (*view.declared).clone();
            declared.created = tributary_model::Timestamp::from_second(seconds).ok();
            (key.clone(), Shared::new(PolicyView { declared: declared.into(), ..view.clone() }))
        };
        let aged: Vec<_> = catalog
            .policies
            .iter()
            .zip([9, 3, 3])
            .map(|((key, view), seconds)| age(key, view, seconds))
            .collect();
        catalog.policies.extend(aged);
        let found = attached(&catalog, ClientKind::Sidecar, "shop", &[]);
        assert_eq!(found.as_deref(), Some("Sidecar shop/b"), "of equal age, the first by name");
    }
}
