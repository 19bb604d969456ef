//! Patches and resources that are not what they should be: nothing panics, and what cannot be patched stays.

use proptest::prelude::*;
use prost_reflect::{Kind, MessageDescriptor};

use super::*;

#[test]
fn resource_that_does_not_decode_stays() {
    let patches = mk_patches(&json!([
        {"applyTo": "CLUSTER", "patch": {"operation": "MERGE", "value": {"connect_timeout": "1s"}}},
        {"applyTo": "LISTENER", "patch": {"operation": "MERGE", "value": {"stat_prefix": "x"}}},
        {"applyTo": "VIRTUAL_HOST", "patch": {"operation": "MERGE", "value": {"require_tls": "ALL"}}},
    ]));
    for body in [&[0xff; 9][..], &[0x0a, 0x7f], &[0x12, 3, 1, 2]] {
        assert_eq!(patches.cluster("outbound|80||a.test", body), Outcome::Same);
        assert_eq!(patches.listener("0.0.0.0_80", Side::Outbound, body), Outcome::Same);
    }
    assert_eq!(patches.table("80", Side::Outbound, &[0xff; 9]), Outcome::Same);
}

#[test]
fn filter_of_another_type_stays_and_later_patches_apply() {
    let tls = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
    let raw = "type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer";
    let socket = |of: &str| json!({"name": "s", "typed_config": {"@type": of}});
    let merge = |value: Json| json!({"applyTo": "CLUSTER", "patch": {"operation": "MERGE", "value": value}});
    let patches = mk_patches(&json!([
        merge(json!({"transport_socket": socket(raw)})),
        merge(json!({"connect_timeout": "1s"})),
    ]));
    let body =
        encoded(ApplyTo::Cluster, &json!({"name": "outbound|80||a.test", "transport_socket": socket(tls)}));
    let Outcome::Changed(now) = patches.cluster("outbound|80||a.test", &body) else { panic!("unchanged") };
    let now = decoded(ApplyTo::Cluster, &now);
    assert_eq!(now["transport_socket"], socket(tls));
    assert_eq!(now["connect_timeout"], "1s");
}

#[test]
fn nothing_is_put_behind_the_last_filter() {
    let hcm = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let manager = json!({"@type": hcm, "http_filters": [{"name": "r", "typed_config": {"@type": router}}]});
    let name = "envoy.filters.network.http_connection_manager";
    let chain = json!({"filters": [{"name": name, "typed_config": manager}]});
    let body = encoded(ApplyTo::Listener, &json!({"name": "0.0.0.0_80", "filter_chains": [chain]}));
    let of = |apply_to: &str, filter: Json| {
        let matched = json!({"listener": {"filterChain": {"filter": filter}}});
        let patch = json!({"operation": "INSERT_AFTER", "value": {"name": "x"}});
        mk_patches(&json!([{"applyTo": apply_to, "match": matched, "patch": patch}]))
    };
    let network = of("NETWORK_FILTER", json!({"name": name}));
    assert_eq!(network.listener("0.0.0.0_80", Side::Outbound, &body), Outcome::Same);
    let http = of("HTTP_FILTER", json!({"name": name, "subFilter": {"name": "r"}}));
    assert_eq!(http.listener("0.0.0.0_80", Side::Outbound, &body), Outcome::Same);
}

#[test]
fn listener_that_loses_its_chains_is_removed() {
    let body = encoded(ApplyTo::Listener, &json!({"name": "a", "filter_chains": [{"name": "x"}]}));
    let patches = mk_patches(&json!([{"applyTo": "FILTER_CHAIN", "patch": {"operation": "REMOVE"}}]));
    assert_eq!(patches.listener("a", Side::Outbound, &body), Outcome::Removed);
}

#[test]
fn added_host_takes_no_domain_of_another() {
    let table = json!({"name": "80", "virtual_hosts": [{"name": "a", "domains": ["a.test", "b.test"]}]});
    let add = |name: &str, domains: &[&str]| {
        let value = json!({"name": name, "domains": domains});
        json!({"applyTo": "VIRTUAL_HOST", "patch": {"operation": "ADD", "value": value}})
    };
    let patches =
        mk_patches(&json!([add("x", &["b.test", "x.test"]), add("y", &["x.test"]), add("z", &["z.test"])]));
    let body = encoded(ApplyTo::RouteConfiguration, &table);
    let Outcome::Changed(now) = patches.table("80", Side::Outbound, &body) else { panic!("unchanged") };
    let now = decoded(ApplyTo::RouteConfiguration, &now);
    let hosts = now["virtual_hosts"].as_array().unwrap();
    let shown: Vec<_> = hosts.iter().map(|host| (&host["name"], &host["domains"])).collect();
    let expected = json!([["a", ["a.test", "b.test"]], ["x", ["x.test"]], ["z", ["z.test"]]]);
    assert_eq!(json!(shown), expected);
}

#[test]
fn filter_beside_a_missing_one_is_not_inserted() {
    let name = "envoy.filters.network.http_connection_manager";
    let hcm = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let manager = json!({"@type": hcm, "http_filters": [{"name": "a"}]});
    let chain = json!({"filters": [{"name": name, "typed_config": manager}]});
    let body = encoded(ApplyTo::Listener, &json!({"name": "0.0.0.0_80", "filter_chains": [chain]}));
    for operation in ["INSERT_BEFORE", "INSERT_AFTER", "REPLACE", "REMOVE"] {
        for (sub, is_there) in [("missing", false), ("a", true)] {
            let filter = json!({"name": name, "subFilter": {"name": sub}});
            let patches = mk_patches(&json!([{
                "applyTo": "HTTP_FILTER",
                "match": {"listener": {"filterChain": {"filter": filter}}},
                "patch": {"operation": operation, "value": {"name": "x"}},
            }]));
            let outcome = patches.listener("0.0.0.0_80", Side::Outbound, &body);
            assert_eq!(outcome != Outcome::Same, is_there, "{operation} {sub}");
        }
    }
}

#[test]
fn many_merges_into_one_list_append_each_value_once() {
    let header = |n: usize| json!({"header": {"key": format!("x-{n}"), "value": "1"}});
    let merge = |n: usize| {
        let value = json!({"request_headers_to_add": [header(n)]});
        json!({"applyTo": "HTTP_ROUTE", "patch": {"operation": "MERGE", "value": value}})
    };
    let patches = mk_patches(&Json::Array((0..1000).map(merge).collect()));
    let route = json!({"match": {"prefix": "/"}});
    let table = json!({"name": "80", "virtual_hosts": [{"name": "a", "domains": ["*"], "routes": [route]}]});
    let body = encoded(ApplyTo::RouteConfiguration, &table);
    let Outcome::Changed(now) = patches.table("80", Side::Outbound, &body) else { panic!("unchanged") };
    let now = decoded(ApplyTo::RouteConfiguration, &now);
    let headers = now["virtual_hosts"][0]["routes"][0]["request_headers_to_add"].as_array().unwrap();
    assert_eq!(headers.len(), 1000);
}

/// Bytes that decide what a value is made of.
struct Choices<'b>(std::slice::Iter<'b, u8>);

impl Choices<'_> {
    fn of(&mut self, count: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or_default()) % count.max(1)
    }
    /// Returns a value with fields of a type, of which some have values of another type.
    fn message(&mut self, of: &MessageDescriptor, depth: usize) -> Json {
        let fields: Vec<_> = of.fields().collect();
        let mut out = serde_json::Map::new();
        for _ in 0..self.of(4) {
            let Some(field) = fields.get(self.of(fields.len())) else { break };
            let one = |this: &mut Self| match field.kind() {
                Kind::Message(of) if depth > 0 && this.of(8) > 0 => this.message(&of, depth - 1),
                _ => this.plain(),
            };
            let value = match field.is_list() && self.of(8) > 0 {
                true => (0..self.of(3)).map(|_| one(self)).collect(),
                false => one(self),
            };
            out.insert(field.name().to_owned(), value);
        }
        Json::Object(out)
    }
    fn plain(&mut self) -> Json {
        const LUA: &str = "envoy.extensions.filters.http.lua.v3.Lua";
        let all = json!([
            "x", "", 1, 0, -1, 1.5, u64::MAX, true, null, "1s", "-1s", "9e99", [], {}, ["a", {}], {"a": {}},
            {"@type": LUA, "inline_code": "x"}, {"@type": "no.Such"}, {"@type": 7}, {"@type": "google.protobuf.Any"},
        ]);
        let all = all.as_array().unwrap();
        all[self.of(all.len())].clone()
    }
}

proptest! {
    /// Whatever a value is, it is read or refused; what is read can be checked, merged and applied.
    #[test]
    fn any_value_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let types = Types::shared().unwrap();
        for (of, apply_to) in [
            (ApplyTo::Cluster, "CLUSTER"),
            (ApplyTo::Listener, "LISTENER"),
            (ApplyTo::HttpFilter, "HTTP_FILTER"),
            (ApplyTo::HttpRoute, "HTTP_ROUTE"),
        ] {
            let value = Choices(bytes.iter()).message(&types.get(of.message()).unwrap(), 4);
            let read = types.read(of.message(), &value);
            prop_assert_eq!(&read, &types.read(of.message(), &value), "one result");
            let Ok(read) = read else { continue };
            let kept = [true, false].map(|whole| types.check(of.message(), &read.bytes, whole).is_ok());
            prop_assert!(kept[1] || !kept[0], "what is valid as a whole is valid in part");
            let own = types.decode(of.message(), &read.bytes).unwrap();
            let mut twice = own.clone();
            tributary_descriptors::merge(&mut twice, &own);
            let encoded = tributary_descriptors::encode(&twice);
            prop_assert!(types.decode(of.message(), &encoded).is_some());
            if kept[1] && of != ApplyTo::HttpFilter {
                let patch = json!({"operation": "MERGE", "value": value});
                let patches = mk_patches(&json!([{"applyTo": apply_to, "patch": patch}]));
                let _ = patches.cluster("outbound|80||a.test", &read.bytes);
                let _ = patches.listener("0.0.0.0_80", Side::Outbound, &read.bytes);
                let _ = patches.table("80", Side::Outbound, &read.bytes);
            }
        }
    }

    #[test]
    fn any_bytes_are_split_without_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let patches = mk_patches(&json!([
            {"applyTo": "HTTP_ROUTE", "patch": {"operation": "REMOVE"}},
            {"applyTo": "VIRTUAL_HOST", "patch": {"operation": "ADD", "value": {"name": "x", "domains": ["x"]}}},
            {"applyTo": "HTTP_FILTER", "patch": {"operation": "INSERT_FIRST", "value": {"name": "x"}}},
        ]));
        let _ = patches.table("80", Side::Outbound, &body);
        let _ = patches.listener("0.0.0.0_80", Side::Outbound, &body);
    }
}
