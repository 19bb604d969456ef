//! Namespaces whose clients a policy concerns, and which of them may see a service.
//!
//! The conditions of DestinationRules and VirtualServices use it. Where workloads are not known, no namespace counts as
//! empty.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{Catalog, CollectionKind, ExportTo, Namespace, ServiceView, Visibility};

use super::Beside;
use crate::resolve::is_exported;
use crate::scope::Scope;

/// Namespaces that have a known workload or a connected client.
pub(super) type Inhabited<'c> = BTreeSet<&'c Namespace>;

/// Returns the namespaces with clients; `None` while workloads are not known.
pub(super) fn inhabited<'c>(catalog: &'c Catalog, beside: Beside<'c>) -> Option<Inhabited<'c>> {
    let is_unread = catalog.unread().any(|unread| unread.collection.kind == CollectionKind::Workloads);
    let workloads = catalog.workloads.keys().map(|key| &key.namespace);
    let clients = beside.clients.iter().map(|client| &client.namespace);
    (!is_unread && beside.elsewhere.is_none()).then(|| workloads.chain(clients).collect())
}

/// Returns the namespaces that an `exportTo` names if none of them has a client; else nothing.
pub(super) fn uninhabited<'e>(export: &'e ExportTo, inhabited: Option<&Inhabited<'_>>) -> Vec<&'e Namespace> {
    match (export, inhabited) {
        (ExportTo::Set(Visibility::Namespaces(named)), Some(inhabited))
            if !named.iter().any(|namespace| inhabited.contains(namespace)) =>
        {
            named.iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Namespaces of the clients that a policy concerns, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Concerned {
    named: BTreeSet<Namespace>,
    /// Whether clients of most others are concerned too, because it is not known which namespaces have clients.
    others: bool,
    /// Whether clients of every namespace are concerned, also of those without a known client.
    is_public: bool,
}

impl Concerned {
    /// Returns the clients that an `exportTo` of a policy of a namespace concerns.
    pub(super) fn of((export, own): (&ExportTo, &Namespace), inhabited: Option<&Inhabited<'_>>) -> Self {
        let known = |all: &Inhabited<'_>| all.iter().map(|&namespace| namespace.clone()).collect();
        let named = match export.resolve(&Visibility::Public) {
            Visibility::Namespaces(named) => named.iter().cloned().collect(),
            Visibility::Own => [own.clone()].into(),
            Visibility::Hidden => BTreeSet::new(),
            Visibility::Public => {
                return Self::everyone(own, inhabited.filter(|all| !all.is_empty()).map(known));
            }
        };
        Self { named, ..Self::default() }
    }
    fn everyone(own: &Namespace, known: Option<BTreeSet<Namespace>>) -> Self {
        let others = known.is_none();
        Self { named: known.unwrap_or_else(|| [own.clone()].into()), others, is_public: true }
    }
    /// Whether clients of any namespace may be concerned, because it is not known which namespaces have clients.
    pub(super) const fn may_be_anywhere(&self) -> bool {
        self.others
    }
    /// Adds the clients of another policy.
    pub(super) fn add(&mut self, other: Self) {
        self.named.extend(other.named);
        self.others |= other.others;
        self.is_public |= other.is_public;
    }
    /// Whether none of the clients of some services, of which there are some, has something. Clients of most namespaces are
    /// `None`.
    pub(super) fn all_lack(
        &self,
        views: &[&Arc<ServiceView>],
        has: impl Fn(Option<&Namespace>) -> bool,
    ) -> bool {
        let mut all = self.of_services(views).peekable();
        all.peek().is_some() && !all.any(has)
    }
    /// Whether none of the clients may see one of these services.
    pub(super) fn see_none(&self, views: &[&Arc<ServiceView>]) -> bool {
        self.all_lack(views, |client| see(views, client))
    }
    /// Iterates over the namespaces of the clients. Those that the `exportTo` of the services names have clients, known or not,
    /// for which the services are declared.
    pub(super) fn of_services<'s>(
        &'s self,
        views: &'s [&Arc<ServiceView>],
    ) -> impl Iterator<Item = Option<&'s Namespace>> {
        let named = views.iter().filter(|_| self.is_public).flat_map(|view| exported_to(view));
        self.named.iter().chain(named).map(Some).chain(self.others.then_some(None))
    }
}

/// Whether the clients of a namespace may see one of these services.
pub(super) fn see(views: &[&Arc<ServiceView>], client: Option<&Namespace>) -> bool {
    views.iter().any(|view| is_exported(view, Scope::of(client)))
}

/// Iterates over the namespaces whose clients may get another service of a host because of one: its own, and those that its
/// `exportTo` names.
pub(super) fn concerned_by(view: &ServiceView) -> impl Iterator<Item = &Namespace> {
    exported_to(view).chain([&view.key.namespace])
}

/// Iterates over the namespaces that the `exportTo` of a service names.
fn exported_to(view: &ServiceView) -> impl Iterator<Item = &Namespace> {
    view.declarations.iter().flat_map(|declared| declared.visibility.namespaces(&view.key.namespace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::*;

    fn mk_named(names: &[&str]) -> Visibility {
        let mut names: Vec<Namespace> = names.iter().map(|name| mk_ns(name)).collect();
        names.sort();
        Visibility::Namespaces(names.into())
    }

    fn mk_inhabited<'n>(names: &'n [Namespace]) -> Inhabited<'n> {
        names.iter().collect()
    }

    #[test]
    fn services_that_no_client_sees_are_hidden() {
        let (web, shop) = (["web"], ["shop", "web"]);
        let public = || ExportTo::Set(Visibility::Public);
        let named = |names: &[&str]| ExportTo::Set(mk_named(names));
        let cases: Vec<(Visibility, ExportTo, Option<&[&str]>, bool)> = vec![
            (Visibility::Public, named(&["web"]), None, false),
            (Visibility::Own, named(&["web"]), None, true),
            (Visibility::Own, named(&["shop", "web"]), None, false),
            (mk_named(&["api"]), named(&["web"]), Some(&web), true),
            // while clients are not known, those of the own namespace count
            (mk_named(&["api"]), public(), None, false),
            // those that the service is exported to have clients, known or not
            (mk_named(&["other"]), public(), None, false),
            (mk_named(&["other"]), public(), Some(&web), false),
            (mk_named(&["other"]), named(&["api"]), None, true),
            (Visibility::Own, public(), None, false),
            (Visibility::Own, ExportTo::Default, Some(&[]), false),
            (Visibility::Own, public(), Some(&web), false),
            (Visibility::Own, public(), Some(&shop), false),
            (Visibility::Hidden, public(), None, true),
            // it concerns no client
            (Visibility::Own, ExportTo::Set(Visibility::Hidden), Some(&web), false),
        ];
        for (at, (visibility, export, inhabited, want)) in cases.into_iter().enumerate() {
            let view = mk_view("pay.shop.svc", "shop", &[visibility]);
            let names: Option<Vec<Namespace>> =
                inhabited.map(|all| all.iter().map(|name| mk_ns(name)).collect());
            let inhabited = names.as_deref().map(mk_inhabited);
            let clients = Concerned::of((&export, &mk_ns("api")), inhabited.as_ref());
            assert_eq!(clients.see_none(&[&view]), want, "case {at}");
        }
    }

    #[test]
    fn clients_of_several_policies_are_those_of_each() {
        let of = |export: ExportTo, own: &str| Concerned::of((&export, &mk_ns(own)), None);
        let mut both = of(ExportTo::Set(Visibility::Own), "web");
        both.add(of(ExportTo::Set(Visibility::Own), "shop"));
        assert_eq!(both.named, [mk_ns("shop"), mk_ns("web")].into());
        assert!(both.all_lack(&[], |client| client == Some(&mk_ns("api")) || client.is_none()));
        both.add(of(ExportTo::Default, "api"));
        assert!(!both.all_lack(&[], |client| client.is_none()), "clients of most namespaces");
    }

    #[test]
    fn namespaces_without_clients_are_uninhabited() {
        let names = [mk_ns("web")];
        let inhabited = mk_inhabited(&names);
        let found = |export: &ExportTo, inhabited| uninhabited(export, inhabited).len();
        let named = |names: &[&str]| ExportTo::Set(mk_named(names));
        assert_eq!(found(&named(&["api", "shop"]), Some(&inhabited)), 2);
        assert_eq!(found(&named(&["api", "web"]), Some(&inhabited)), 0);
        assert_eq!(found(&named(&["api"]), None), 0, "clients are not known");
        assert_eq!(found(&ExportTo::Default, Some(&Inhabited::new())), 0);
    }
}
