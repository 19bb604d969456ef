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

/// Whether no client that an `exportTo` of a namespace concerns may see one of these services, as far as clients are known.
pub(super) fn are_hidden(
    views: &[&Arc<ServiceView>],
    (export, own): (&ExportTo, &Namespace),
    inhabited: Option<&Inhabited<'_>>,
) -> bool {
    let sees = |client: &Namespace| views.iter().any(|view| is_exported(view, Scope::of(Some(client))));
    match export.resolve(&Visibility::Public) {
        Visibility::Namespaces(named) => !named.iter().any(sees),
        Visibility::Own => !sees(own),
        Visibility::Public | Visibility::Hidden => match inhabited.filter(|all| !all.is_empty()) {
            Some(all) => !all.iter().any(|client| sees(client)),
            None => views
                .iter()
                .flat_map(|view| view.declarations.iter())
                .all(|of| of.visibility == Visibility::Hidden),
        },
    }
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
            // every namespace may have clients while they are not known
            (Visibility::Own, public(), None, false),
            (Visibility::Own, ExportTo::Default, Some(&[]), false),
            (Visibility::Own, public(), Some(&web), true),
            (Visibility::Own, public(), Some(&shop), false),
            (Visibility::Hidden, public(), None, true),
        ];
        for (at, (visibility, export, inhabited, want)) in cases.into_iter().enumerate() {
            let view = mk_view("pay.shop.svc", "shop", &[visibility]);
            let names: Option<Vec<Namespace>> =
                inhabited.map(|all| all.iter().map(|name| mk_ns(name)).collect());
            let inhabited = names.as_deref().map(mk_inhabited);
            let found = are_hidden(&[&view], (&export, &mk_ns("api")), inhabited.as_ref());
            assert_eq!(found, want, "case {at}");
        }
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
