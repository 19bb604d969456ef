//! Patches that are left out of a part, because Envoy would refuse what they make of it.

use super::*;

const HOST: &str = "b.t.example:18080";

fn table(routes: &[Json]) -> Vec<u8> {
    let host = json!({"name": HOST, "domains": ["b.t.example"], "routes": routes});
    encoded(ApplyTo::RouteConfiguration, &json!({"name": "18080", "virtual_hosts": [host]}))
}
fn route(name: &str, action: &str, value: &Json) -> Json {
    json!({"name": name, "match": {"prefix": "/"}, action: value})
}
fn merge(apply_to: &str, value: &Json) -> Json {
    json!({"applyTo": apply_to, "patch": {"operation": "MERGE", "value": value}})
}
fn rules(patches: &Patches) -> Vec<(usize, String)> {
    patches.take_left_out().into_iter().map(|one| (one.at, one.rule.to_string())).collect()
}

#[test]
fn action_without_a_cluster_is_not_merged_into_another_action() {
    let timeout = merge("HTTP_ROUTE", &json!({"route": {"timeout": "5s"}}));
    let header = json!([{"header": {"key": "x", "value": "1"}}]);
    let patches =
        mk_patches(&json!([timeout, merge("HTTP_ROUTE", &json!({"request_headers_to_add": header}))]));
    let direct = route("direct", "direct_response", &json!({"status": 201}));
    let redirect = route("redirect", "redirect", &json!({"host_redirect": "c.t.example"}));
    let body = table(&[direct, redirect, route("routed", "route", &json!({"cluster": "c"}))]);
    let Outcome::Changed(now) = patches.table("18080", Side::Outbound, &body) else { panic!("unchanged") };
    let now = decoded(ApplyTo::RouteConfiguration, &now);
    let routes = &now["virtual_hosts"][0]["routes"];
    assert_eq!(routes[0]["direct_response"]["status"], 201);
    assert_eq!(routes[1]["redirect"]["host_redirect"], "c.t.example");
    assert_eq!(routes[2]["route"], json!({"cluster": "c", "timeout": "5s"}));
    assert!((0..3).all(|at| routes[at]["request_headers_to_add"] == header), "later patches apply: {routes}");
    let left_out = rules(&patches);
    assert_eq!((left_out.len(), left_out[0].0), (1, 0));
    assert!(left_out[0].1.starts_with("route needs one of the fields cluster, "), "{}", left_out[0].1);
    assert!(rules(&patches).is_empty(), "it is taken");
    assert_eq!(patches.used().count(), 2);
}

#[test]
fn table_without_another_patch_stays() {
    let patches = mk_patches(&json!([merge("HTTP_ROUTE", &json!({"route": {"timeout": "5s"}}))]));
    let body = table(&[route("direct", "direct_response", &json!({"status": 201}))]);
    assert_eq!(patches.table("18080", Side::Outbound, &body), Outcome::Same);
    assert_eq!((patches.used().count(), patches.take_sources().len()), (0, 0));
    assert_eq!(rules(&patches).len(), 1);
}

#[test]
fn action_with_a_cluster_replaces_another_one() {
    let value = json!({"route": {"cluster": "c", "timeout": "5s"}});
    let patches = mk_patches(&json!([merge("HTTP_ROUTE", &value)]));
    let body = table(&[route("direct", "direct_response", &json!({"status": 201}))]);
    let Outcome::Changed(now) = patches.table("18080", Side::Outbound, &body) else { panic!("unchanged") };
    let now = decoded(ApplyTo::RouteConfiguration, &now);
    assert_eq!(now["virtual_hosts"][0]["routes"][0]["route"], value["route"]);
    assert!(rules(&patches).is_empty());
}

#[test]
fn other_parts_that_would_lack_a_required_field_stay() {
    const MANAGER: &str = "envoy.filters.network.http_connection_manager";
    let hcm = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let manager = |value: Json| {
        let mut config = value;
        config["@type"] = json!(hcm);
        json!({"name": MANAGER, "typed_config": config})
    };
    let patches = mk_patches(&json!([
        merge("CLUSTER", &json!({"transport_socket": {"name": ""}})),
        merge("NETWORK_FILTER", &manager(json!({"tracing": {"provider": {}}}))),
    ]));
    let cluster = encoded(ApplyTo::Cluster, &json!({"name": "outbound|80||a.test"}));
    assert_eq!(patches.cluster("outbound|80||a.test", &cluster), Outcome::Same);
    let why = "name has 0 characters; it must have at least 1";
    assert_eq!(rules(&patches), [(0, why.to_owned())]);
    let chain = json!({"filters": [manager(json!({"stat_prefix": "a"}))]});
    let listener = encoded(ApplyTo::Listener, &json!({"name": "0.0.0.0_80", "filter_chains": [chain]}));
    assert_eq!(patches.listener("0.0.0.0_80", Side::Outbound, &listener), Outcome::Same);
    assert_eq!(rules(&patches), [(1, format!("tracing.provider.{why}"))]);
}
