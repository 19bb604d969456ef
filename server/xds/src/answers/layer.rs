//! Layers of a set: a base that many classes share, and an overlay of the hosts that one class sees differently.
//!
//! The base belongs to a class of its own, whose rare values nothing mentions. A base is continued from
//! generation to generation as that class; an overlay is computed from the base of its own generation.
//! Equal overlays over one base are one set.

use std::collections::BTreeSet;
use std::sync::Arc;

use smallvec::SmallVec;
use tributary_answer::key::{self, Attr, attrs, key_of_names};
use tributary_answer::{key as key_of, overlay, own_routes, resolve};
use tributary_model::{Catalog, Hostname, PortView, Projection, ServiceView};

use super::generations::SetKey;
use super::mentions::Mentions;
use super::{ClientClassKey, ResourceType};

/// Everything that a set depends on in one generation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LayerKey {
    pub(crate) base: SetKey,
    pub(crate) over: Arc<[HostOutcome]>,
}

impl LayerKey {
    /// Returns the key of a base alone.
    pub(crate) fn of_base(base: SetKey) -> Self {
        Self { base, over: Arc::from([]) }
    }
}

/// What a host gives to a class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct HostOutcome {
    pub(crate) host: Hostname,
    /// Address of the service's view, which the catalog keeps alive; 0 without a service.
    view: usize,
    /// Address of its own routes, if the class may have them; 0 otherwise.
    routes: usize,
    keys: SmallVec<[Projection; 2]>,
}

/// The layers of one class and type.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) key: LayerKey,
    /// The class of the base.
    pub(crate) base: ClientClassKey,
    /// Hosts that may differ, those of the overlay among them.
    pub(crate) candidates: BTreeSet<Hostname>,
}

impl Layer {
    /// Whether the class has the base itself.
    pub(crate) fn is_base(&self) -> bool {
        self.key.over.is_empty()
    }
    /// Returns the hosts of the overlay, in order.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Hostname> {
        self.key.over.iter().map(|outcome| &outcome.host)
    }
    /// Returns what the hosts give to the class where it is not what they give to the base.
    pub(crate) fn outcomes(
        catalog: &Catalog,
        kind: ResourceType,
        class: &ClientClassKey,
        base: &ClientClassKey,
        hosts: &BTreeSet<Hostname>,
    ) -> Arc<[HostOutcome]> {
        let differing = |host: &Hostname| {
            let own = outcome(catalog, kind, class, host);
            (own != outcome(catalog, kind, base, host)).then_some(own)
        };
        hosts.iter().filter_map(differing).collect()
    }
}

/// Returns the class of the base.
pub(crate) fn base_of(class: &ClientClassKey, kind: ResourceType, mentions: &Mentions) -> ClientClassKey {
    ClientClassKey::alone(key::base(class, |attr| mentions.is_common(kind, attr)))
}

/// Returns the hosts that may give a class something else than its base.
pub(crate) fn candidates(
    catalog: &Catalog,
    class: &ClientClassKey,
    kind: ResourceType,
    mentions: &Mentions,
) -> BTreeSet<Hostname> {
    let rare = attrs(class).into_iter().filter(|attr| !mentions.is_common(kind, attr));
    let mut out = BTreeSet::new();
    for attr in rare {
        out.extend(mentions.hosts(kind, &attr).into_iter().flatten().cloned());
        if let Attr::Namespace(namespace) = &attr {
            out.extend(overlay(catalog, namespace).into_iter().flatten().cloned());
        }
    }
    out
}

fn outcome(catalog: &Catalog, kind: ResourceType, class: &ClientClassKey, host: &Hostname) -> HostOutcome {
    let view = resolve(catalog, host.as_str(), class.scope(), &mut ());
    let mut keys = SmallVec::new();
    if let Some(view) = view {
        keys.extend(view.ports.iter().map(|port| port_key(port, kind, class)));
        let has_names = kind == ResourceType::Route && view.alias_target().is_some();
        keys.extend(has_names.then(|| key_of_names(host, class)));
    }
    let is_route = kind == ResourceType::Route;
    let routes = is_route.then(|| own_routes(catalog, host, class.scope())).flatten();
    keys.extend(routes.map(|routes| key_of(routes, class)));
    HostOutcome {
        host: host.clone(),
        view: view.map_or(0, |view: &Arc<ServiceView>| Arc::as_ptr(view) as usize),
        routes: routes.map_or(0, |routes| Arc::as_ptr(&routes.0) as usize),
        keys,
    }
}

fn port_key(port: &PortView, kind: ResourceType, class: &ClientClassKey) -> Projection {
    match kind {
        ResourceType::Cluster => key_of(&port.cluster, class),
        ResourceType::Endpoints => key_of(&port.endpoints, class),
        ResourceType::Listener => key_of(&port.listener, class),
        ResourceType::Route => key_of(&port.route, class),
        ResourceType::Secret => Projection::default(),
    }
}
