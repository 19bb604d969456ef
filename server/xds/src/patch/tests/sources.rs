//! Filters that changed the parts of a route table.

use super::*;

/// Returns a filter of the namespace with one patch of a part of route tables.
fn filter(name: &str, apply_to: &str, matched: &Json, patch: &Json) -> String {
    let object = json!({
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"configPatches": [{
            "applyTo": apply_to,
            "match": {"routeConfiguration": matched},
            "patch": patch,
        }]},
    });
    object.to_string()
}
fn merge(value: &Json) -> Json {
    json!({"operation": "MERGE", "value": value})
}
fn host(name: &str, routes: &[&str]) -> Json {
    let route = |name: &&str| json!({"name": name, "match": {"prefix": "/"}, "route": {"cluster": "a"}});
    json!({"name": name, "domains": [name], "routes": routes.iter().map(route).collect::<Vec<_>>()})
}
fn mk_patches_of(filters: &[String]) -> Patches {
    let catalog = mk_catalog(&filters.join("\n---\n"));
    let (shop, labels) = (Namespace::new("shop").unwrap(), Labels::default());
    let all = filters_of(&catalog, ClientKind::Sidecar, Some(&shop), &labels).patches(&ProxyFacts::default());
    Patches::new(&all.unwrap()).unwrap()
}

/// Returns the filters of the virtual host at a position, such as `table; host; first route | second route`.
fn shown(patches: &Patches, body: &[u8], at: usize) -> String {
    let (made, sources) = patches.host_sources("80", Side::Outbound, (body, at)).unwrap();
    assert_eq!(patches.table("80", Side::Outbound, body), Outcome::Changed(made));
    let names = |keys: &[PolicyKey]| keys.iter().map(|key| &*key.name).collect::<Vec<_>>().join(",");
    let routes: Vec<String> = sources.routes.iter().map(|keys| names(keys)).collect();
    format!("{}; {}; {}", names(&sources.table), names(&sources.host), routes.join(" | "))
}

#[test]
fn filters_are_those_of_the_virtual_host_and_its_routes() {
    let of_host = |name: &str| json!({"vhost": {"name": name}});
    let of_route = |host: &str, route: &str| json!({"vhost": {"name": host, "route": {"name": route}}});
    let prefix = json!({"request_headers_to_remove": ["x"]});
    let added = json!({"name": "new", "match": {"prefix": "/new"}, "route": {"cluster": "b"}});
    let filters = [
        filter("all", "ROUTE_CONFIGURATION", &json!({"name": "80"}), &merge(&prefix)),
        filter("host", "VIRTUAL_HOST", &of_host("a"), &merge(&prefix)),
        filter("route", "HTTP_ROUTE", &of_route("a", "r2"), &merge(&prefix)),
        filter("first", "HTTP_ROUTE", &of_host("a"), &json!({"operation": "INSERT_FIRST", "value": added})),
        filter("gone", "HTTP_ROUTE", &of_route("b", "r1"), &json!({"operation": "REMOVE"})),
        filter("without", "VIRTUAL_HOST", &of_host("c"), &json!({"operation": "REMOVE"})),
        filter("more", "VIRTUAL_HOST", &json!({}), &json!({"operation": "ADD", "value": host("e", &["r1"])})),
        filter("other", "VIRTUAL_HOST", &json!({"portNumber": 81}), &merge(&prefix)),
    ];
    let hosts = [host("a", &["r1", "r2"]), host("b", &["r1", "r2"]), host("c", &["r1"]), host("d", &["r1"])];
    let body = encoded(ApplyTo::RouteConfiguration, &json!({"name": "80", "virtual_hosts": hosts}));
    let patches = mk_patches_of(&filters);
    let all: Vec<String> = (0..4).map(|at| shown(&patches, &body, at)).collect();
    assert_eq!(all, ["all; host; first |  | route", "all; gone; ", "all; ; ", "all; more; "]);
    assert_eq!(patches.host_sources("80", Side::Outbound, (&body, 4)), None, "only four are left");
    assert_eq!(patches.host_sources("82", Side::Inbound, (&body, 9)), None);
}
