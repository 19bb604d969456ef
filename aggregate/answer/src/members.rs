//! Lists the services in a client's sets, and the differences between two generations.
//!
//! CDS and LDS are sets: the public services (the base) plus an overlay of what a namespace sees
//! differently. `Catalog.scoped` lists the hosts of each overlay, so all namespaces share the fold of the
//! base. A Sidecar's imports are a set of their own. Both walks go in order of host; the cost of a difference is
//! proportional to the changes.

use std::sync::Arc;

use imbl::OrdSet;
use imbl::ordmap::DiffItem;
use tributary_model::{Catalog, Hostname, Namespace, ServiceView};

use crate::resolve::{own_routes, resolve};
use crate::scope::Scope;

/// Iterates over the services that a client of this scope receives, by host. The default scope gives the base.
pub fn members<'c>(
    catalog: &'c Catalog,
    scope: Scope<'c>,
) -> impl Iterator<Item = (&'c Hostname, &'c Arc<ServiceView>)> {
    hosts(catalog, scope)
        .filter_map(move |host| resolve(catalog, host.as_str(), scope, &mut ()).map(|view| (host, view)))
}

/// Iterates over the hosts that a client of this scope may receive, with or without a service.
pub(crate) fn hosts<'c>(catalog: &'c Catalog, scope: Scope<'c>) -> impl Iterator<Item = &'c Hostname> {
    let narrow = scope.egress().and_then(|egress| egress.candidates(catalog, scope.namespace));
    let all = narrow.is_none().then(|| catalog.hosts.keys());
    all.into_iter().flatten().chain(narrow.into_iter().flatten())
}

/// Returns the hosts that clients of this namespace may see differently from the base.
#[must_use]
pub fn overlay<'c>(catalog: &'c Catalog, namespace: &Namespace) -> Option<&'c OrdSet<Hostname>> {
    catalog.scoped.get(namespace).map(|hosts| &**hosts)
}

/// Host whose serving view differs between two generations.
#[derive(Debug, Clone)]
pub struct Difference<'c> {
    /// Host.
    pub host: &'c Hostname,
    /// View in the old generation.
    pub before: Option<&'c Arc<ServiceView>>,
    /// View in the new generation.
    pub after: Option<&'c Arc<ServiceView>>,
}

/// Iterates over the hosts whose serving view or own routes differ for clients of this scope, in order of host. Views
/// may share unchanged resource inputs: compare those by pointer before encoding.
pub fn differing<'c>(
    old: &'c Catalog,
    new: &'c Catalog,
    scope: Scope<'c>,
) -> impl Iterator<Item = Difference<'c>> {
    // from nothing, a Sidecar that names its hosts costs what it names
    let first = old.hosts.is_empty();
    let added = first.then(|| hosts(new, scope)).into_iter().flatten().filter_map(move |host| {
        let after = resolve(new, host.as_str(), scope, &mut ());
        let any = after.is_some() || own_routes(new, host, scope).is_some();
        any.then_some(Difference { host, before: None, after })
    });
    let changed = (!first).then(|| old.hosts.diff(&new.hosts)).into_iter().flatten();
    added.chain(changed.filter_map(move |item| {
        let host = match item {
            DiffItem::Add(host, _) | DiffItem::Remove(host, _) => host,
            DiffItem::Update { new: (host, _), .. } => host,
        };
        let before = resolve(old, host.as_str(), scope, &mut ());
        let after = resolve(new, host.as_str(), scope, &mut ());
        let same = match (before, after) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        let routes = [old, new].map(|catalog| own_routes(catalog, host, scope));
        (!same || routes[0] != routes[1]).then_some(Difference { host, before, after })
    }))
}

#[cfg(test)]
mod tests {
    use tributary_model::{
        EndpointInputs, HostEntry, HostPattern, PolicyKey, PolicyKind, RouteOwner, Shared, Sidecar,
        Visibility,
    };

    use super::*;
    use crate::PortSet;
    use crate::fixtures::*;
    use crate::scope::ClientSidecar;

    fn only(namespace: &str) -> Visibility {
        Visibility::Namespaces([mk_ns(namespace)].into())
    }
    fn mk_two_namespaces() -> Catalog {
        mk_catalog(vec![
            mk_view("cart.shop", "shop", &[Visibility::Public]),
            mk_view("cart.shop", "web", &[only("web")]),
            mk_view("pay.shop", "shop", &[only("web")]),
            mk_view("ship.shop", "shop", &[Visibility::Hidden]),
        ])
    }
    fn listed(catalog: &Catalog, namespace: Option<&str>) -> Vec<String> {
        let namespace = namespace.map(mk_ns);
        members(catalog, Scope::of(namespace.as_ref())).map(|(_, view)| view.key.to_string()).collect()
    }

    #[test]
    fn namespace_overlay_adds_and_overrides_services() {
        let catalog = mk_two_namespaces();
        assert_eq!(listed(&catalog, None), ["shop/cart.shop"]);
        assert_eq!(listed(&catalog, Some("web")), ["web/cart.shop", "shop/pay.shop"]);
        assert_eq!(listed(&catalog, Some("shop")), ["shop/cart.shop"]);
    }

    /// A client of web that imports `shop/pay.shop`, beside a VirtualService of shop with routes to `cart.other`.
    #[test]
    fn routes_of_an_imported_virtual_service_lead_to_hosts_that_are_not_imported() {
        let sidecar = Sidecar { egress: mk_egress(&[(None, &["shop/pay.shop"])]), ..Sidecar::default() };
        let (key, _) = mk_sidecar("web", "default", sidecar.clone());
        let (own, sidecar) = (mk_ns("web"), ClientSidecar::new(&key, &sidecar));
        let scope = Scope { namespace: Some(&own), sidecar: Some(&sidecar) };
        let views = ["pay.shop", "cart.other"].map(|host| mk_view(host, "shop", &[Visibility::Public]));
        let mine = mk_view("cart.other", "web", &[Visibility::Public]);
        let nothing = mk_catalog([&views[..], &[mine]].concat());
        let led = |namespace: &str, hosts: &[&str], visibility: Visibility| {
            let key =
                PolicyKey { kind: PolicyKind::VirtualService, namespace: mk_ns(namespace), name: "v".into() };
            let hosts = hosts.iter().map(|host| HostPattern::new(host).unwrap()).collect();
            let owner = RouteOwner { key, visibility, hosts, delegates: Arc::default() };
            let mut catalog = nothing.clone();
            let host = mk_host("cart.other");
            let entry = HostEntry::clone(&catalog.hosts[&host]);
            catalog
                .hosts
                .insert(host.clone(), Shared::new(HostEntry { led_by: [Arc::new(owner)].into(), ..entry }));
            catalog.led_to.insert(mk_ns(namespace), Shared::new([host].into_iter().collect()));
            catalog
        };
        let found = |catalog: &Catalog, scope| {
            members(catalog, scope).map(|(_, view)| view.key.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found(&nothing, scope), "shop/pay.shop");
        let public = || Visibility::Public;
        let to_cart = led("shop", &["pay.shop"], public());
        assert_eq!(found(&to_cart, scope), "web/cart.other shop/pay.shop", "the client's own service");
        assert_eq!(
            found(&led("shop", &["x.test", "*.shop"], public()), scope),
            "web/cart.other shop/pay.shop"
        );
        assert_eq!(
            found(&led("other", &["pay.shop"], public()), scope),
            "shop/pay.shop",
            "it is not imported"
        );
        assert_eq!(
            found(&led("shop", &["pay.shop"], Visibility::Own), scope),
            "shop/pay.shop",
            "nor visible"
        );
        assert_eq!(found(&to_cart, Scope::of(Some(&own))), found(&nothing, Scope::of(Some(&own))));
        let changed =
            differing(&nothing, &to_cart, scope).map(|one| one.host.to_string()).collect::<Vec<_>>();
        assert_eq!(changed, ["cart.other"]);
        assert_eq!(differing(&nothing, &to_cart, Scope::of(Some(&own))).count(), 0);
        // it has xDS clusters, and no listener or route
        let port =
            mk_port_view(EndpointInputs { service: mk_key("cart.other", "web"), ..mk_one(Vec::new()) });
        let view = resolve(&to_cart, "cart.other", scope, &mut ()).unwrap();
        let reach = [PortSet::Reached, PortSet::Imported, PortSet::Routed];
        assert_eq!(reach.map(|set| scope.admits(view, &port, set)), [true, false, false]);
    }

    #[test]
    fn differences_depend_on_the_namespace() {
        let old = mk_two_namespaces();
        let mut new = old.clone();
        let entry = HostEntry {
            claimants: [mk_view("pay.shop", "shop", &[only("web")])].into(),
            led_by: Arc::default(),
            routes: None,
        };
        new.hosts.insert(mk_host("pay.shop"), Shared::new(entry));
        new.hosts.remove("cart.shop");
        let hosts = |namespace: Option<&str>| {
            let namespace = namespace.map(mk_ns);
            let found = differing(&old, &new, Scope::of(namespace.as_ref()));
            found.map(|d| (d.host.to_string(), d.before.is_some(), d.after.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(hosts(None), [("cart.shop".to_owned(), true, false)]);
        assert_eq!(
            hosts(Some("web")),
            [("cart.shop".to_owned(), true, false), ("pay.shop".to_owned(), true, true)]
        );
        assert_eq!(differing(&old, &old.clone(), Scope::default()).count(), 0);
    }

    #[test]
    fn differences_from_nothing_are_the_members() {
        let (nothing, catalog) = (Catalog::default(), mk_two_namespaces());
        for namespace in [None, Some("web"), Some("shop")] {
            let namespace = namespace.map(mk_ns);
            let scope = Scope::of(namespace.as_ref());
            let found = differing(&nothing, &catalog, scope).map(|d| (d.host, d.before.is_none(), d.after));
            let all = members(&catalog, scope).map(|(host, view)| (host, true, Some(view)));
            let keys = |(host, added, view): (&Hostname, bool, Option<&Arc<ServiceView>>)| {
                (host.clone(), added, view.map(Arc::as_ptr))
            };
            assert_eq!(found.map(keys).collect::<Vec<_>>(), all.map(keys).collect::<Vec<_>>());
        }
    }

    #[test]
    fn invisible_claimant_makes_no_difference() {
        let old = mk_two_namespaces();
        let mut new = old.clone();
        let mut claimants = old.hosts.get("cart.shop").unwrap().claimants.to_vec();
        claimants.push(mk_view("cart.shop", "young", &[Visibility::Public]));
        new.hosts.insert(
            mk_host("cart.shop"),
            Shared::new(HostEntry { claimants: claimants.into(), led_by: Arc::default(), routes: None }),
        );
        assert_eq!(differing(&old, &new, Scope::default()).count(), 0);
        assert_eq!(differing(&old, &new, Scope::of(Some(&mk_ns("young")))).count(), 1);
    }
}
