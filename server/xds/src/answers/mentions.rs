//! Index of the hosts whose resources mention a client value, kept from one generation to the next.
//!
//! A value that few hosts mention is left to overlays; a value that many mention is part of the base, because
//! an overlay of them would be as large as a base.

use std::collections::BTreeSet;

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};
use tributary_answer::key::{Attr, Outcomes, mention_names};
use tributary_model::{Catalog, HostEntry, Hostname, PortView, ServiceView, Visibility};

use super::ResourceType;

type Mention = (ResourceType, Attr);

/// Hosts by the client values that they mention, in one generation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mentions {
    hosts: OrdMap<Mention, OrdSet<Hostname>>,
    common: OrdSet<Mention>,
    /// Magnitude of the number of hosts when all limits were last applied.
    scale: u32,
}

/// Number of mentions above which a value is common, and the number below which it is not any more.
#[derive(Debug, Clone, Copy)]
struct Limits {
    above: usize,
    below: usize,
}

/// Decides which values are common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layering {
    /// An overlay has at most this many hosts for each value.
    pub(crate) most: usize,
    /// It has at most this part of all hosts.
    pub(crate) part: usize,
}

impl Layering {
    pub(crate) const DEFAULT: Self = Self { most: 256, part: 8 };

    fn limits(self, catalog: &Catalog) -> Limits {
        let above = self.most.min(catalog.hosts.len() / self.part.max(1));
        Limits { above, below: above / 2 }
    }
}

impl Mentions {
    /// Computes the index of a generation from that of another.
    pub(crate) fn advance(&self, from: &Catalog, to: &Catalog, layering: Layering) -> Self {
        let (mut out, limits) = (self.clone(), layering.limits(to));
        for item in from.hosts.diff(&to.hosts) {
            let (host, before, after) = match item {
                DiffItem::Add(host, after) => (host, None, Some(after)),
                DiffItem::Remove(host, before) => (host, Some(before), None),
                DiffItem::Update { old: (_, before), new: (host, after) } => {
                    (host, Some(before), Some(after))
                }
            };
            let mentions = |entry: Option<&tributary_model::Shared<HostEntry>>| {
                entry.map_or_else(BTreeSet::new, |entry| of_host(entry))
            };
            out.change(host, &mentions(before), &mentions(after), limits);
        }
        out.rescale(to, limits);
        out
    }
    /// Returns the hosts that mention a value.
    pub(crate) fn hosts(&self, kind: ResourceType, attr: &Attr) -> Option<&OrdSet<Hostname>> {
        self.hosts.get(&(kind, attr.clone()))
    }
    /// Whether a value is part of the base.
    pub(crate) fn is_common(&self, kind: ResourceType, attr: &Attr) -> bool {
        self.common.contains(&(kind, attr.clone()))
    }
    fn change(
        &mut self,
        host: &Hostname,
        before: &BTreeSet<Mention>,
        after: &BTreeSet<Mention>,
        limits: Limits,
    ) {
        for gone in before.difference(after) {
            let mut hosts = self.hosts.remove(gone).unwrap_or_default();
            hosts.remove(host);
            self.put(gone, hosts, limits);
        }
        for added in after.difference(before) {
            let mut hosts = self.hosts.remove(added).unwrap_or_default();
            hosts.insert(host.clone());
            self.put(added, hosts, limits);
        }
    }
    fn put(&mut self, mention: &Mention, hosts: OrdSet<Hostname>, limits: Limits) {
        if hosts.len() > limits.above {
            self.common.insert(mention.clone());
        } else if hosts.is_empty() || hosts.len() < limits.below {
            self.common.remove(mention);
        }
        if !hosts.is_empty() {
            self.hosts.insert(mention.clone(), hosts);
        }
    }
    /// Applies the limits to every value after the number of hosts has doubled or halved.
    fn rescale(&mut self, catalog: &Catalog, limits: Limits) {
        let scale = catalog.hosts.len().checked_ilog2().unwrap_or_default();
        if scale == self.scale {
            return;
        }
        self.scale = scale;
        let many = self.hosts.iter().filter(|(_, hosts)| hosts.len() > limits.above);
        self.common = many.map(|(mention, _)| mention.clone()).collect();
    }
}

/// Returns what the resources of a host mention.
pub(crate) fn of_host(entry: &HostEntry) -> BTreeSet<Mention> {
    let mut out = BTreeSet::new();
    for view in entry.claimants.iter() {
        let others = view.audiences.iter().flat_map(|audience| audience.view.ports.iter());
        view.ports.iter().chain(others).for_each(|port| of_port(port, &mut out));
        if view.declarations.iter().any(|seen| seen.declaration.alias_target().is_some()) {
            mention_names(&view.key.host, &mut |attr| {
                out.insert((ResourceType::Route, attr));
            });
        }
    }
    if let Some(routes) = &entry.routes {
        Outcomes::mentions(&**routes, &mut |attr| {
            out.insert((ResourceType::Route, attr));
        });
    }
    if !is_equal_for_all(entry) {
        let namespaces: BTreeSet<_> = entry.claimants.iter().flat_map(|view| audiences(view)).collect();
        for kind in ResourceType::ALL {
            out.extend(namespaces.iter().map(|ns| (kind, Attr::Namespace(ns.clone()))));
        }
    }
    out
}

fn of_port(port: &PortView, out: &mut BTreeSet<Mention>) {
    let mut add = |kind, attr| {
        out.insert((kind, attr));
    };
    Outcomes::mentions(&*port.cluster, &mut |attr| add(ResourceType::Cluster, attr));
    Outcomes::mentions(&*port.endpoints, &mut |attr| add(ResourceType::Endpoints, attr));
    Outcomes::mentions(&*port.listener, &mut |attr| add(ResourceType::Listener, attr));
    Outcomes::mentions(&*port.route, &mut |attr| add(ResourceType::Route, attr));
}

/// Whether a host means the same service to clients of every namespace.
fn is_equal_for_all(entry: &HostEntry) -> bool {
    let public = |view: &ServiceView| view.declarations.iter().all(|d| d.visibility == Visibility::Public);
    entry.claimants.len() == 1 && entry.claimants.iter().all(|view| public(view))
}

/// Returns the namespaces whose clients may see a service differently from a client without a namespace.
fn audiences(view: &ServiceView) -> impl Iterator<Item = tributary_model::Namespace> + '_ {
    let lists = view.declarations.iter().filter_map(|d| match &d.visibility {
        Visibility::Namespaces(list) => Some(list),
        _ => None,
    });
    std::iter::once(&view.key.namespace).chain(lists.flat_map(|list| list.iter())).cloned()
}
