//! Conditions of a host that several namespaces declare: they are those of the service that clients of the policy get.

use tributary_model::{
    Address, ClientDimensions, ClusterPolicy, DestinationRule, EndpointInputs, EndpointPolicy, Sidecar,
    Subset, SubsetRule,
};

use super::seen::{exported, mk_declared_in, mk_to_subset, shown_to, with_rule};
use super::*;

const HOST: &str = "x.example.com";

/// Returns a service of a namespace on a port, with an endpoint of these labels or with none.
fn mk_in(namespace: &str, port: u32, labels: Option<&[(&str, &str)]>) -> ServiceView {
    let view = mk_declared_in(namespace, &mk_served(HOST, false, vec![]));
    let own = view.ports[0].clone();
    let address = |labels: &[(&str, &str)]| Address {
        labels: labels.iter().copied().collect(),
        ..mk_address("10.0.0.1")
    };
    let inputs =
        EndpointInputs { service: view.key.clone(), ..mk_one(labels.map(address).into_iter().collect()) };
    let endpoints = Shared::new(ResourceInputs::new(inputs, ClientDimensions::KIND));
    let port = PortView { number: mk_port(port), endpoints, ..own };
    ServiceView { ports: [port].into(), ..view.as_ref().clone() }
}

/// Adds a rule of namespace shop with subset v1, which clients of a namespace have, or all.
fn ruled(view: ServiceView, client: Option<&str>) -> Arc<ServiceView> {
    let v1 = Subset::new("v1").unwrap();
    let labels = || [("version", "v1")].into_iter().collect();
    let from = [rule().0].into();
    let subsets = [(v1.clone(), Default::default())].into();
    let cluster = ClusterPolicy { whole: Default::default(), subsets, from };
    let endpoint =
        EndpointPolicy { subsets: [(v1, labels(), Default::default())].into(), ..Default::default() };
    with_rule(view, client, (cluster, endpoint))
}

fn rule() -> Declared {
    let subset = SubsetRule {
        name: Subset::new("v1").unwrap(),
        labels: [("version", "v1")].into_iter().collect(),
        policies: Default::default(),
    };
    let rule = DestinationRule { subsets: [subset].into(), ..mk_rule(HOST, &[]) };
    mk_policy("shop", "r", Policy::DestinationRule(rule))
}

fn only(namespaces: &[&str], view: ServiceView) -> ServiceView {
    let named = namespaces.iter().map(|name| mk_ns(name)).collect();
    let declared = mk_view(HOST, "shop", &[Visibility::Namespaces(named)]);
    ServiceView { declarations: declared.declarations.clone(), ..view }
}

const V1: Option<&[(&str, &str)]> = Some(&[("version", "v1")]);
const PLAIN: Option<&[(&str, &str)]> = Some(&[]);

#[test]
fn subset_of_a_rule_is_that_of_the_service_that_its_clients_get() {
    let found = |bank: ServiceView, shop: ServiceView| {
        let services = vec![ruled(bank, Some("shop")), ruled(shop, None)];
        let to_v1 = exported(mk_service("a", &[HOST], vec![mk_to_subset(HOST, "v1")]), &["."]);
        shown_to(services, vec![rule(), to_v1], &["shop", "bank"])
    };
    let lost = "r: TRB0447 no endpoint has the labels of these subsets: v1 of x.example.com:80";
    assert_eq!(found(mk_in("bank", 80, PLAIN), mk_in("shop", 80, V1)), [""; 0]);
    let empty = "a: TRB0457 these destinations have no endpoints: http[0] (v1 of shop/x.example.com)";
    assert_eq!(found(mk_in("bank", 80, V1), mk_in("shop", 80, PLAIN)), [lost, empty]);
    let hidden = || only(&["shop"], mk_in("shop", 80, V1));
    assert_eq!(found(only(&["bank"], mk_in("bank", 80, PLAIN)), hidden()), [""; 0]);
}

/// Returns the conditions of a VirtualService of namespace shop to a host of namespaces bank and shop.
fn of_two(
    bank: ServiceView,
    shop: ServiceView,
    export: &[&str],
    port: Option<u32>,
    clients: &[&str],
) -> Vec<String> {
    let to = port.map_or_else(|| HOST.to_owned(), |port| format!("{HOST}:{port}"));
    let route = || vec![mk_route(&[], &[&to])];
    let of = mk_service("a", &[HOST], route());
    let candidate = mk_candidate("a", HOST, Visibility::Public, route());
    let served = mk_served(HOST, true, vec![candidate]).ports[0].route.clone();
    let with = |view: ServiceView| {
        let port = PortView { route: served.clone(), ..view.ports[0].clone() };
        Arc::new(ServiceView { ports: [port].into(), ..view })
    };
    shown_to(vec![with(bank), with(shop)], vec![exported(of, export)], clients)
}

#[test]
fn destination_is_the_service_that_clients_get() {
    let of_bank = |bank: ServiceView, shop: ServiceView, port| {
        let both = || (bank.clone(), shop.clone());
        let found = |export: &[&str], clients: &[&str]| {
            let (bank, shop) = both();
            of_two(bank, shop, export, port, clients)
        };
        [
            found(&["."], &["shop", "bank"]),
            found(&["*"], &[]),
            found(&["*"], &["bank", "web"]),
            found(&["*"], &["shop"]),
        ]
    };
    let none = Vec::<String>::new;
    let some = |what: &str| {
        vec![format!(
            "a: TRB0474 some clients lack these destinations: http[0] (clients of namespace shop get shop/x.example.com, which has \
             no {what})"
        )]
    };
    let empty =
        || vec!["a: TRB0457 these destinations have no endpoints: http[0] (shop/x.example.com)".to_owned()];
    let of_80 = || (mk_in("bank", 80, PLAIN), mk_in("shop", 80, None));
    let (bank, shop) = of_80();
    assert_eq!(of_bank(bank, shop, None), [empty(), some("endpoints"), none(), empty()]);
    let portless = || {
        vec![
            "a: TRB0450 these destinations do not exist: http[0] (shop/x.example.com has no port 80)"
                .to_owned(),
        ]
    };
    let (bank, shop) = (mk_in("bank", 80, PLAIN), mk_in("shop", 81, PLAIN));
    assert_eq!(of_bank(bank, shop, Some(80)), [portless(), some("port 80"), none(), portless()]);
    let (bank, shop) = (mk_in("bank", 80, PLAIN), mk_in("shop", 81, PLAIN));
    assert_eq!(
        of_bank(bank, shop, None),
        [none(), none(), none(), none()],
        "each has the port of its clients"
    );
}

#[test]
fn sidecar_chooses_the_service_that_clients_get() {
    let egress = mk_egress(&[(None, &["bank/*", "shop/*"])]);
    let importing = mk_sidecar("shop", "s", Sidecar { egress, ..Sidecar::default() });
    let all = || vec![exported(mk_service("a", &[HOST], vec![mk_route(&[], &[HOST])]), &["."])];
    let services = || vec![mk_in("bank", 80, None).into(), mk_in("shop", 80, PLAIN).into()];
    assert_eq!(shown_to(services(), all(), &["shop"]), [""; 0]);
    let egress = mk_egress(&[(None, &["bank/*", "./none"])]);
    let of_bank = mk_sidecar("shop", "s", Sidecar { egress, ..Sidecar::default() });
    let found = |sidecar: Declared| {
        let all: Vec<Declared> = all().into_iter().chain([sidecar]).collect();
        let lines = shown_to(services(), all, &["shop"]);
        lines.into_iter().filter(|line| line.starts_with("a:")).collect::<Vec<_>>()
    };
    assert_eq!(found(importing), [""; 0]);
    let empty = "a: TRB0457 these destinations have no endpoints: http[0] (bank/x.example.com)";
    assert_eq!(found(of_bank), [empty]);
}
