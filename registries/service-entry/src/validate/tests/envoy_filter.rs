//! Each rule of an EnvoyFilter, with a document that breaks it and nothing else; and values that are read or refused as by
//! pilot-discovery.

use super::*;
use crate::read::decode::MOST_PATCHES;

const BAD: Code = Code::PATCH_MATCH_INVALID;
const MERGE: &str = "patch: {operation: MERGE, value: {}}";
const ADD: &str = "patch: {operation: ADD, value: {name: a}}";

fn mk_filter(spec: &str) -> String {
    mk_entry(spec).replace("kind: ServiceEntry", "kind: EnvoyFilter")
}

/// A filter of one patch, whose fields begin in line 8 at column 6.
fn mk_patch(fields: &str) -> String {
    mk_filter(&format!("  configPatches:\n  - {{{fields}}}\n"))
}

/// Checks that the document is refused with one fault, at the start of this text in line 8.
#[track_caller]
fn refused_at(text: &str, code: Code, start: &str, part: &str) {
    let line = text.lines().nth(7).unwrap();
    let column = line.find(start).unwrap_or_else(|| panic!("no {start:?} in {line:?}")) + 1;
    refused(text, &[(code, 8, u32::try_from(column).unwrap(), part)]);
}

#[test]
fn every_rule_of_an_envoy_filter_has_its_test() {
    let tests = include_str!("envoy_filter.rs");
    for (name, _) in super::super::envoy_filter::RULES {
        assert!(tests.contains(&format!("fn {name}()")), "no test is named {name}");
    }
}

const WHOLE: &str = "  workloadSelector: {labels: {app: pay}}
  priority: -10
  configPatches:
  - applyTo: HTTP_FILTER
    match:
      context: SIDECAR_INBOUND
      proxy: {proxyVersion: '^1\\.30', metadata: {a: b}}
      listener:
        portNumber: 8080
        name: virtualInbound
        filterChain:
          name: chain
          sni: a.example.com
          transportProtocol: tls
          applicationProtocols: 'h2,http/1.1'
          destinationPort: 8080
          filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}
    patch:
      operation: INSERT_BEFORE
      value:
        name: lua
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          defaultSourceCode: {inline_string: 'x'}
  - applyTo: HTTP_ROUTE
    match: {routeConfiguration: {portNumber: 80, name: '80', vhost: {name: a, domainName: b, route: {name: c, action: ROUTE}}}}
    patch: {operation: MERGE, value: {route: {timeout: 1h2m3.5s}}}
  - applyTo: CLUSTER
    match: {cluster: {service: a.example.com, portNumber: 80, subset: v1, name: n}}
    patch: {operation: REMOVE}
";

#[test]
fn envoy_filter_with_every_served_field_is_taken() {
    taken(&mk_filter(WHOLE));
    taken(&mk_filter("  {}\n"));
    taken(&mk_patch(
        "applyTo: CLUSTER, match: {context: WAYPOINT, cluster: {}, waypoint: {}}, patch: {operation: ADD, value: {name: 7}}",
    ));
}

#[test]
fn filter_size_is_within_limits() {
    let patch = format!("  - {{applyTo: CLUSTER, {ADD}}}\n");
    taken(&mk_filter(&format!("  configPatches:\n{}", patch.repeat(MOST_PATCHES))));
    let many = mk_filter(&format!("  configPatches:\n{}", patch.repeat(MOST_PATCHES + 7)));
    refused(&many, &[(Code::DOCUMENT_TOO_LARGE, 7, 3, "split the filter")]);
    let pairs: String = (0..70).map(|i| format!("k{i}: v, ")).collect();
    let many = mk_patch(&format!("applyTo: CLUSTER, match: {{proxy: {{metadata: {{{pairs}}}}}}}, {ADD}"));
    refused_at(&many, Code::DOCUMENT_TOO_LARGE, "{applyTo", "more than 64 entries");
    let long = "x".repeat(700_000);
    let value = format!("{{applyTo: CLUSTER, patch: {{operation: ADD, value: {{name: {long}}}}}}}");
    let large = mk_filter(&format!("  configPatches:\n  - {value}\n  - {value}\n"));
    refused(&large, &[(Code::DOCUMENT_TOO_LARGE, 9, 55, "more than 1 MiB")]);
}

#[test]
fn filter_selector_is_valid() {
    refused(
        &mk_filter("  workloadSelector: {labels: {app: 'pay-*'}}\n"),
        &[(Code::INVALID_NAME, 7, 21, "value of app")],
    );
}

#[test]
fn filter_priority_is_a_number() {
    refused(&mk_filter("  priority: 3000000000\n"), &[(Code::VALUE_INVALID, 7, 13, "range of 32 bits")]);
}

#[test]
fn patches_are_complete() {
    for (patch, at, field) in [
        (ADD, "{patch", "applyTo is missing"),
        ("applyTo: INVALID, patch: {operation: REMOVE}", "{applyTo", "applyTo is missing"),
        ("applyTo: CLUSTER", "{applyTo", "patch is missing"),
        ("applyTo: CLUSTER, patch: {value: {}}", "{value", "operation is missing"),
        ("applyTo: CLUSTER, patch: {operation: INVALID, value: {}}", "{operation", "operation is missing"),
        ("applyTo: CLUSTER, patch: {operation: ADD}", "{operation", "value is missing"),
    ] {
        refused_at(&mk_patch(patch), Code::MISSING_FIELD, at, field);
    }
    for (patch, at) in [
        ("applyTo: NOPE, patch: {operation: REMOVE}", "NOPE"),
        ("applyTo: CLUSTER, patch: {operation: MERGE_AND_REPLACE_LIST, value: {}}", "MERGE_AND"),
        ("applyTo: CLUSTER, match: {context: SIDECAR}, patch: {operation: REMOVE}", "SIDECAR"),
    ] {
        refused_at(&mk_patch(patch), Code::WRONG_TYPE, at, "write one of");
    }
}

#[test]
fn proxy_versions_are_patterns() {
    for pattern in ["(", "(?!1)x"] {
        let patch = format!("applyTo: CLUSTER, match: {{proxy: {{proxyVersion: '{pattern}'}}}}, {ADD}");
        refused_at(&mk_patch(&patch), BAD, &format!("'{pattern}"), "not a regular expression");
    }
    taken(&mk_patch(&format!("applyTo: CLUSTER, match: {{proxy: {{proxyVersion: ''}}}}, {ADD}")));
}

#[test]
fn matches_fit_the_changed_part() {
    for (apply_to, object) in [
        ("LISTENER", "cluster"),
        ("LISTENER_FILTER", "cluster"),
        ("HTTP_FILTER", "routeConfiguration"),
        ("CLUSTER", "listener"),
        ("VIRTUAL_HOST", "cluster"),
        ("HTTP_FILTER", "waypoint"),
    ] {
        let patch = format!("applyTo: {apply_to}, match: {{{object}: {{}}}}, {MERGE}");
        refused_at(&mk_patch(&patch), BAD, "{}", &format!("match.{object} is no match for"));
    }
    let both = mk_patch(&format!(
        "applyTo: EXTENSION_CONFIG, match: {{listener: {{name: a}}, cluster: {{}}}}, {ADD}"
    ));
    refused_at(&both, BAD, "{}", "several kinds");
}

#[test]
fn filter_matches_have_names() {
    let of = |apply_to: &str, filter: &str| {
        mk_patch(&format!(
            "applyTo: {apply_to}, match: {{listener: {{filterChain: {{filter: {{{filter}}}}}}}}}, {ADD}"
        ))
    };
    let hcm = "name: envoy.filters.network.http_connection_manager";
    for (apply_to, filter, part) in [
        ("NETWORK_FILTER", "", "filter.name is missing"),
        ("NETWORK_FILTER", &*format!("{hcm}, subFilter: {{name: x}}"), "is for applyTo HTTP_FILTER"),
        ("HTTP_FILTER", "name: envoy.filters.network.tcp_proxy, subFilter: {name: x}", "is for the filter"),
        ("HTTP_FILTER", &*format!("{hcm}, subFilter: {{}}"), "subFilter.name is missing"),
    ] {
        refused_at(&of(apply_to, filter), BAD, "{filterChain", part);
    }
    taken(&of("HTTP_FILTER", "name: envoy.http_connection_manager, subFilter: {name: x}"));
}

#[test]
fn values_keep_the_rules_of_envoys_api() {
    let of = |context: &str, patch: &str| {
        mk_patch(&format!("applyTo: VIRTUAL_HOST, match: {{context: {context}}}, patch: {{{patch}}}"))
    };
    let out = "SIDECAR_OUTBOUND";
    let added = "operation: ADD, value: {name: a}";
    refused_at(&of(out, added), Code::PATCH_VALUE_INVALID, "{name", "value.domains has 0 items");
    taken(&of("GATEWAY", added));
    taken(&of(out, "operation: MERGE, value: {name: a}"));
    let route = "operation: MERGE, value: {routes: [{name: a}]}";
    refused_at(&of(out, route), Code::PATCH_VALUE_INVALID, "{name", "routes[0].match is missing");
    let timeout = mk_patch("applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: -1s}}");
    refused_at(&timeout, Code::PATCH_VALUE_INVALID, "-1s", "must be more than 0s");
}

#[test]
fn values_are_messages_of_the_changed_part() {
    let of =
        |value: &str| mk_patch(&format!("applyTo: CLUSTER, patch: {{operation: MERGE, value: {value}}}"));
    for (value, at, part) in [
        ("{connect_timeout: 5}", "5}", "value.connect_timeout is a number"),
        (
            "{health_checks: [{}, {timeout: '1'}]}",
            "'1'",
            "value.health_checks[1].timeout \"1\" is not a duration",
        ),
        ("{lb_policy: NOPE}", "NOPE", "\"NOPE\" is not a value of"),
        ("{cluster_type: {typed_config: {'@type': a/no.Such}}}", "{'@type", "unknown type \"a/no.Such\""),
        ("{cluster_type: {typed_config: {a: 1}}}", "{a: 1", "has no `@type`"),
    ] {
        refused_at(&of(value), Code::PATCH_VALUE_INVALID, at, part);
    }
    refused_at(&of("[]"), Code::WRONG_TYPE, "[]", "must be a map of fields");
    warned(
        &of("{name: a, nope: {b: 1}}"),
        &[(Code::PATCH_FIELD_UNKNOWN, 8, 73, "patch.value.nope is not a field")],
    );
}
