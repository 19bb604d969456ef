//! Each rule of a VirtualService, with a document that breaks it and nothing else.

use super::*;

/// A VirtualService whose further fields begin at line 8.
fn mk_service(rest: &str) -> String {
    mk_spec(&format!("  hosts: [pay.example.com]\n{rest}"))
}

fn mk_spec(spec: &str) -> String {
    mk_entry(spec).replace("kind: ServiceEntry", "kind: VirtualService")
}

/// A VirtualService with a route of these fields, in line 8.
fn mk_route(fields: &str) -> String {
    mk_service(&format!("  http: [{{{fields}}}]\n"))
}

const TO: &str = "route: [{destination: {host: web}}]";

/// A route to a destination with these further fields.
fn mk_routed(fields: &str) -> String {
    mk_route(&format!("{TO}, {fields}"))
}

/// A route with a match of these fields.
fn mk_match(fields: &str) -> String {
    mk_routed(&format!("match: [{{{fields}}}]"))
}

const BAD: Code = Code::VALUE_INVALID;
const NAME: Code = Code::INVALID_NAME;
const MISSING: Code = Code::MISSING_FIELD;
const HOST: Code = Code::INVALID_HOST;
const LARGE: Code = Code::DOCUMENT_TOO_LARGE;
const NOT: Code = Code::FIELD_NOT_SERVED;

/// Checks that the document is refused with one fault in line 8, of this code and with this part in its message.
#[track_caller]
fn refused_with(text: &str, code: Code, part: &str) {
    let load = load_str(text, "f.yaml");
    assert!(load.documents.is_empty(), "it was accepted:\n{text}");
    let faults: Vec<_> = load.problems.iter().flat_map(|problem| &problem.faults).collect();
    let [fault] = &faults[..] else { panic!("{faults:#?}\n{text}") };
    assert_eq!((fault.code, fault.at.line), (code, 8), "{fault:?}");
    assert!(fault.message.contains(part), "{:?} does not contain {part:?}", fault.message);
}

#[test]
fn every_rule_of_a_virtual_service_has_its_test() {
    let tests = include_str!("virtual_service.rs");
    for (name, _) in super::super::virtual_service::RULES {
        assert!(tests.contains(&format!("fn {name}()")), "no test is named {name}");
    }
}

const WHOLE: &str = "  exportTo: [\".\", web]
  gateways: [mesh, istio-system/in]
  http:
  - name: whole
    match:
    - name: first
      uri: {regex: '/r[0-9]+(/.*)?'}
      ignoreUriCase: true
      scheme: {exact: https}
      method: {regex: GET|POST}
      authority: {prefix: pay.}
      headers: {x-a: {exact: ''}, X-B: {}, ':path': {prefix: /}}
      withoutHeaders: {x-c: {regex: '*'}, x-d: {regex: .*}}
      queryParams: {q: {regex: '[0-9]'}, r: {}}
      port: 80
      sourceLabels: {app: till}
      sourceNamespace: shop
      statPrefix: stats
    - {uri: {prefix: ''}, gateways: [mesh]}
    route:
    - destination: {host: pay, subset: v1, port: {number: 8080}}
      weight: 90
      headers: {request: {set: {Host: a.test}, add: {x: '%REQ(y)%'}, remove: [z]}, response: {add: {x-e: 100%%}}}
    - {destination: {host: '*.example.com'}, weight: 10}
    rewrite: {uriRegexRewrite: {match: '^/s/([^/]+)(/.*)$', rewrite: '\\2/i/\\1'}, authority: else.test}
    headers: {request: {set: {x-set: '1'}}}
    timeout: 0.5s
    retries: {attempts: 2, perTryTimeout: 1s, retryOn: '5xx,503', retryRemoteLocalities: true, retryIgnorePreviousHosts: false, backoff: 25ms}
    fault: {delay: {fixedDelay: 5s, percentage: {value: 0.0001}}, abort: {grpcStatus: UNAVAILABLE, percentage: {value: 100}}}
    mirrors: [{destination: {host: b.test}, percentage: {value: 12.5}}, {destination: {host: c.test}}]
    corsPolicy:
      allowOrigins: [{exact: 'https://a.test'}, {regex: 'https://c.*'}]
      allowMethods: [GET, POST]
      allowHeaders: [x-a, '*']
      exposeHeaders: [x-c]
      maxAge: 24h
      allowCredentials: true
      unmatchedPreflights: IGNORE
  - redirect: {uri: /to, authority: else.test, scheme: https, derivePort: FROM_REQUEST_PORT, redirectCode: 308}
    match: [{uri: {exact: /old}}]
  - {match: [{uri: {prefix: /old}}], redirect: {prefixRewrite: /new}}
  - directResponse: {status: 503, body: {bytes: aGVsbG8=}}
    headers: {response: {set: {x: y}}}
  - delegate: {name: other, namespace: web}
    directResponse: {status: 200}
    mirrorPercentage: {value: 1}
  - {route: [{destination: {host: a}}], mirror: {host: b}, mirror_percent: 20, fault: {abort: {httpStatus: 418}}, rewrite: {uri: /}}
  tls:
  - match: [{sniHosts: [pay.example.com, a.example.org], port: 443, destinationSubnets: [10.1.0.0/16, 10.2.0.1], sourceLabels: {a: b}}]
    route: [{destination: {host: b.test}, weight: 1}, {destination: {host: c.test}}]
  tcp:
  - match: [{port: 5000, destinationSubnets: ['2001:db8::/32'], sourceNamespace: shop, gateways: [mesh]}]
    route: [{destination: {host: b.test}}]
  - route: [{destination: {host: c.test}}]
";

#[test]
fn virtual_service_with_every_served_field_is_taken() {
    let text = mk_spec(&format!(
        "  hosts: [pay.example.com, '*.example.org', short, 10.0.0.1, '2001:db8::1']\n{WHOLE}"
    ));
    taken(&text);
    for version in ["v1beta1", "v1alpha3"] {
        taken(&text.replace("networking.istio.io/v1\n", &format!("networking.istio.io/{version}\n")));
    }
}

#[test]
fn what_a_virtual_service_cannot_have_is_refused() {
    let unknown = Code::UNKNOWN_FIELD;
    refused_with(&mk_routed("timeouts: 1s"), unknown, "did you mean timeout?");
    refused_with(&mk_routed("timeout: 0s"), BAD, "write at least 1ms");
    refused_with(&mk_routed("fault: {delay: {exponentialDelay: 1s}}"), NOT, "write fixedDelay");
    refused_with(&mk_routed("fault: {abort: {http2Error: X}}"), NOT, "write httpStatus");
    refused_with(&mk_routed("fault: {abort: {httpStatus: 600}}"), BAD, "from 200 to 599");
    refused_with(&mk_routed("fault: {abort: {grpcStatus: BAD}}"), BAD, "UNAVAILABLE");
    refused_with(&mk_routed("fault: {abort: {grpcStatus: OK, httpStatus: 500}}"), BAD, "keep one");
    refused_with(&mk_routed("mirror: {host: b}, mirrorPercent: 101"), BAD, "from 0 to 100");
    for value in ["100.1", "-1", "0.00001"] {
        let text = mk_routed(&format!("mirror: {{host: b}}, mirrorPercentage: {{value: {value}}}"));
        refused_with(&text, BAD, "from 0.0001 to 100");
    }
    refused_with(
        &mk_match("uri: {exact: /a, prefix: /b}"),
        BAD,
        "spec.http[0].match[0].uri has 2 conditions",
    );
    refused_with(&mk_route("redirect: {port: 80, derivePort: FROM_REQUEST_PORT}"), BAD, "keep one");
    refused_with(&mk_route("directResponse: {status: 200, body: {bytes: '!'}}"), BAD, "base64");
}

#[test]
fn service_size_is_within_limits() {
    let many = |item: &str, count: usize| format!("{item},").repeat(count);
    let hosts: String = (0..1_025).map(|i| format!("h{i}.test,")).collect();
    let hosts = mk_spec(&format!("  hosts: [{hosts}]\n  http: [{{{TO}}}]\n"));
    refused(&hosts, &[(LARGE, 7, 3, "spec.hosts has 1025 items")]);
    let matches = mk_routed(&format!("match: [{}]", many("{port: 80}", 20_000)));
    refused(&matches, &[(LARGE, 7, 3, "spec.http with its matches has 20001 items")]);
    let to = mk_route(&format!("route: [{}]", many("{destination: {host: a}, weight: 1}", 257)));
    refused(&to, &[(LARGE, 7, 3, "spec.http[0].route has 257")]);
    let mirrors = mk_routed(&format!("mirrors: [{}]", many("{destination: {host: a}}", 257)));
    refused(&mirrors, &[(LARGE, 7, 3, "spec.http[0].mirrors has 257")]);
    let removed = mk_routed(&format!("headers: {{response: {{remove: [{}]}}}}", many("a", 257)));
    refused(&removed, &[(LARGE, 7, 3, "spec.http[0].headers has 257")]);
    let names = many("pay.example.com", 257);
    let names = mk_service(&format!("  tls: [{{match: [{{sniHosts: [{names}]}}], {TO}}}]\n"));
    refused(&names, &[(LARGE, 7, 3, "spec.tls[0].match[0].sniHosts has 257")]);
}

#[test]
fn ten_thousand_matches_are_taken() {
    let matches: String = (0..10_000).map(|i| format!("{{uri: {{prefix: /{i}}}, name: m{i}}},")).collect();
    let start = std::time::Instant::now();
    taken(&mk_routed(&format!("match: [{matches}]")));
    assert!(start.elapsed().as_secs() < 20, "it took {:?}", start.elapsed());
}

#[test]
fn service_names_its_hosts() {
    for host in ["\"\"", "\"a b\"", "\"a.*.b\"", "10.1.0.0/16"] {
        let text = mk_spec(&format!("  http: [{{{TO}}}]\n  hosts: [{host}]\n"));
        refused_with(&text, HOST, "write a DNS name");
    }
    refused_with(&mk_spec(&format!("  http: [{{{TO}}}]\n  hosts: ['*']\n")), HOST, "name a domain");
    taken(&mk_spec(&format!("  http: [{{{TO}}}]\n  hosts: ['*']\n  gateways: [shop/in]\n")));
}

#[test]
fn hosts_are_apart() {
    for hosts in ["'*.a.test', b.a.test", "a.test, A.test", "'*.b.a.test', '*.a.test'"] {
        refused_with(&mk_spec(&format!("  http: [{{{TO}}}]\n  hosts: [{hosts}]\n")), BAD, "in common");
    }
    taken(&mk_spec(&format!("  http: [{{{TO}}}]\n  hosts: ['*.a.test', a.test, ba.test]\n")));
}

#[test]
fn delegates_have_http_routes_only() {
    let all = mk_spec(&format!("  http: [{{{TO}}}]\n  tcp: [{{{TO}}}]\n"));
    refused(&all, &[(BAD, 7, 3, "spec.tcp is set without hosts")]);
    let gateways = mk_spec(&format!("  http: [{{{TO}}}]\n  gateways: [mesh]\n"));
    refused(&gateways, &[(BAD, 7, 3, "spec.gateways is set without hosts")]);
    let nested = mk_spec("  http:\n  - delegate: {name: other}\n");
    refused_with(&nested, BAD, "spec.http[0].delegate is in a delegate");
    taken(&mk_spec(&format!("  http: [{{{TO}}}]\n")));
}

#[test]
fn service_has_routes() {
    refused(&mk_service(""), &[(MISSING, 7, 3, "add http, tls or tcp")]);
}

#[test]
fn service_is_exported_to_namespaces() {
    for namespace in ["\"~\"", "A/b", "\"\""] {
        let text = mk_service(&format!("  exportTo: [{namespace}]\n  http: [{{{TO}}}]\n"));
        refused_with(&text, NAME, "write `*`, `.` or a namespace");
    }
}

#[test]
fn gateways_are_named() {
    for gateway in ["A", "shop/", "shop/in/x", "\"\""] {
        let own = mk_service(&format!("  gateways: [{gateway}]\n  http: [{{{TO}}}]\n"));
        refused_with(&own, NAME, "spec.gateways[0]");
        refused_with(&mk_match(&format!("gateways: [{gateway}]")), NAME, "spec.http[0].match[0].gateways[0]");
    }
    taken(&mk_match("gateways: [in.shop.svc.cluster.local]"));
}

#[test]
fn clients_are_named() {
    refused_with(&mk_match("sourceNamespace: A"), NAME, "sourceNamespace");
    refused_with(&mk_match("sourceLabels: {a b: c}"), NAME, "sourceLabels");
    refused_with(&mk_match("port: 70000"), Code::INVALID_PORT, "spec.http[0].match[0].port");
    let tcp = |fields: &str| mk_service(&format!("  tcp: [{{match: [{{{fields}}}], {TO}}}]\n"));
    refused_with(&tcp("port: 70000"), Code::INVALID_PORT, "spec.tcp[0].match[0].port");
    refused_with(&tcp("sniHosts: [a]"), Code::UNKNOWN_FIELD, "sniHosts");
}

#[test]
fn destinations_are_named() {
    let to = |destination: &str| mk_route(&format!("route: [{{destination: {{{destination}}}}}]"));
    refused_with(&mk_route("route: [{weight: 1}]"), MISSING, "spec.http[0].route[0].destination is missing");
    refused_with(&to("subset: v1"), MISSING, "destination.host is missing");
    for host in ["'*'", "'a b'", "''"] {
        refused_with(&to(&format!("host: {host}")), HOST, "write the host of a service");
    }
    refused_with(&to("host: a, subset: v.1"), NAME, "destination.subset");
    for port in ["{}", "{number: 70000}"] {
        refused_with(&to(&format!("host: a, port: {port}")), Code::INVALID_PORT, "port.number");
    }
    refused_with(&mk_routed("mirror: {host: 'a b'}"), HOST, "spec.http[0].mirror.host");
    refused_with(&mk_routed("mirrors: [{percentage: {value: 1}}]"), MISSING, "mirrors[0].destination");
    let headers = "route: [{destination: {host: a}, headers: {}}]";
    refused_with(&mk_service(&format!("  tcp: [{{{headers}}}]\n")), Code::UNKNOWN_FIELD, "headers");
}

#[test]
fn weights_have_a_sum() {
    let of = |one: &str, other: &str| {
        mk_route(&format!(
            "route: [{{destination: {{host: a}}, weight: {one}}}, {{destination: {{host: b}}, weight: {other}}}, {{destination: {{host: b}}, weight: {other}}}]"
        ))
    };
    refused_with(&of("0", "0"), BAD, "are all 0");
    refused_with(&of("2147483647", "2147483647"), BAD, "add up to 6442450941");
    refused_with(&of("-1", "1"), BAD, "from 0 to");
    taken(&of("1", "1"));
}

#[test]
fn connections_have_a_destination() {
    refused_with(&mk_service("  tcp: [{match: [{port: 80}]}]\n"), MISSING, "spec.tcp[0].route is missing");
}

#[test]
fn subnets_are_ranges() {
    let tcp =
        |range: &str| mk_service(&format!("  tcp: [{{match: [{{destinationSubnets: [{range}]}}], {TO}}}]\n"));
    for range in ["10.0.0.0/33", "a.test", "10.0.0"] {
        refused_with(&tcp(range), BAD, "is not a range");
    }
    let ignored = mk_service(&format!("  tcp: [{{match: [{{sourceSubnet: 10.0.0.1}}], {TO}}}]\n"));
    taken(&ignored);
}

#[test]
fn server_names_are_those_of_hosts() {
    let tls = |found: &str| mk_service(&format!("  tls: [{{match: [{found}], {TO}}}]\n"));
    refused_with(&tls(""), MISSING, "spec.tls[0].match is missing");
    refused_with(&tls("{port: 443}"), MISSING, "sniHosts is missing");
    refused_with(&tls("{sniHosts: ['a b']}"), HOST, "write a DNS name");
    refused_with(&tls("{sniHosts: ['*.example.com']}"), BAD, "is not within a host");
}

#[test]
fn routes_have_one_action() {
    refused_with(&mk_route("name: a"), MISSING, "has no action");
    for (fields, part) in [
        ("redirect: {uri: /}", "route and redirect"),
        ("directResponse: {status: 200}", "route and directResponse"),
        ("delegate: {name: a}", "route and delegate"),
    ] {
        refused_with(&mk_routed(fields), BAD, part);
    }
    refused_with(&mk_route("redirect: {uri: /}, delegate: {name: a}"), BAD, "redirect and delegate");
    for fields in ["fault: {abort: {httpStatus: 500}}", "rewrite: {uri: /}"] {
        refused_with(&mk_route(&format!("redirect: {{uri: /}}, {fields}")), BAD, "without a destination");
        refused_with(&mk_route(&format!("directResponse: {{status: 200}}, {fields}")), BAD, "without");
        taken(&mk_route(&format!("delegate: {{name: a}}, directResponse: {{status: 200}}, {fields}")));
    }
}

#[test]
fn delegates_are_named() {
    refused_with(&mk_route("delegate: {}"), MISSING, "spec.http[0].delegate.name is missing");
    refused_with(&mk_route("delegate: {name: A}"), NAME, "delegate.name");
    refused_with(&mk_route("delegate: {name: a, namespace: A}"), NAME, "delegate.namespace");
}

#[test]
fn redirects_lead_elsewhere() {
    let to = |fields: &str| mk_route(&format!("redirect: {{{fields}}}"));
    refused_with(&to("redirectCode: 302"), MISSING, "changes nothing");
    refused_with(&to("uri: /, prefixRewrite: /"), BAD, "both uri and prefixRewrite");
    refused_with(&to("scheme: ftp"), BAD, "write http or https");
    refused_with(&to("uri: /, redirectCode: 300"), BAD, "write 301, 302");
    let exact = mk_route("match: [{uri: {exact: /a}}], redirect: {prefixRewrite: /}");
    refused_with(&exact, BAD, "by prefix");
}

#[test]
fn responses_have_a_status() {
    let of = |fields: &str| mk_route(&format!("directResponse: {{{fields}}}"));
    refused_with(&of("body: {string: a}"), MISSING, "status is missing");
    refused_with(&of("status: 600"), BAD, "from 200 to 599");
    refused_with(&of("status: 200, body: {string: a, bytes: YQ==}"), BAD, "keep one");
    let body = |size: usize| of(&format!("status: 200, body: {{string: {}}}", "a".repeat(size)));
    refused_with(&body((1 << 20) + 1), LARGE, "1048577 bytes");
    taken(&body(1 << 20));
}

#[test]
fn rewrites_change_something() {
    refused_with(&mk_routed("rewrite: {}"), MISSING, "changes nothing");
    refused_with(&mk_routed("rewrite: {uriRegexRewrite: {match: a}}"), MISSING, "add both");
    let both = "rewrite: {uri: /, uriRegexRewrite: {match: a, rewrite: b}}";
    refused_with(&mk_routed(both), BAD, "both uri and uriRegexRewrite");
}

#[test]
fn authority_is_set_once() {
    let set = "headers: {request: {set: {Host: a.test}}}";
    refused_with(&mk_routed(&format!("{set}, rewrite: {{authority: b.test}}")), BAD, "more than once");
    let twice = "headers: {request: {set: {Host: a.test}, add: {':authority': b.test}}}";
    refused_with(&mk_routed(twice), BAD, "more than once");
    taken(&mk_routed(set));
}

#[test]
fn changed_headers_are_valid() {
    let of = |fields: &str| mk_routed(&format!("headers: {{{fields}}}"));
    for fields in [
        "request: {set: {':path': a}}",
        "request: {add: {a b: a}}",
        "request: {remove: [Host]}",
        "response: {set: {host: a}}",
        "response: {remove: ['']}",
    ] {
        refused_with(&of(fields), NAME, "spec.http[0].headers.");
    }
    refused_with(&of("request: {set: {a: '%'}}"), BAD, "write %% for one");
    refused_with(&of("response: {set: {a: \"\\n\"}}"), BAD, "control character");
    let inner = "route: [{destination: {host: a}, headers: {request: {set: {a: '%'}}}}]";
    refused_with(&mk_route(inner), BAD, "spec.http[0].route[0].headers.request");
}

#[test]
fn retries_are_conditional() {
    for fields in ["perTryTimeout: 1s", "retryOn: 5xx", "retryRemoteLocalities: false"] {
        refused_with(&mk_routed(&format!("retries: {{{fields}}}")), BAD, "add attempts");
    }
    refused_with(&mk_routed("retries: {attempts: 1, retryOn: bad}"), BAD, "retryOn");
    refused_with(&mk_routed("retries: {attempts: -1}"), BAD, "from 0 to");
    taken(&mk_routed("retries: {}"));
}

#[test]
fn faults_delay_or_abort() {
    refused_with(&mk_routed("fault: {}"), MISSING, "add delay or abort");
    taken(&mk_routed("fault: {abort: {percentage: {value: 1}}}"));
}

#[test]
fn mirrors_are_declared_once() {
    let both = "mirror: {host: a}, mirrors: [{destination: {host: b}}]";
    refused_with(&mk_routed(both), BAD, "both mirror and mirrors");
}

#[test]
fn cors_names_origins_and_methods() {
    for (fields, code, part) in [
        ("allowOrigins: [{}]", BAD, "empty origin"),
        ("allowOrigins: [{prefix: ''}]", BAD, "empty origin"),
        ("allowOrigin: ['']", BAD, "empty origin"),
        ("allowMethods: [GOT]", BAD, "allowMethods"),
        ("allowHeaders: [a b]", NAME, "is not the name of a header"),
        ("exposeHeaders: ['']", NAME, "is not the name of a header"),
        ("maxAge: 1.5s", BAD, "whole seconds"),
    ] {
        refused_with(&mk_routed(&format!("corsPolicy: {{{fields}}}")), code, part);
    }
}

#[test]
fn matched_headers_are_named() {
    refused_with(&mk_match("headers: {a b: {}}"), NAME, "is not the name of a header");
    refused_with(&mk_match("withoutHeaders: {':other': {}}"), NAME, "is not the name of a header");
    refused_with(&mk_match("headers: {'@request.auth.claims.sub': {}}"), NOT, "gateways only");
    refused_with(&mk_match("queryParams: {'': {}}"), NAME, "name the parameter");
}

#[test]
fn matched_texts_are_not_empty() {
    for field in ["method: {prefix: ''}", "headers: {a: {prefix: ''}}", "queryParams: {a: {prefix: ''}}"] {
        refused_with(&mk_match(field), BAD, "prefix is empty");
    }
    taken(&mk_match("uri: {prefix: ''}"));
}

#[test]
fn patterns_are_those_of_proxies() {
    for field in ["uri: {regex: '('}", "headers: {a: {regex: '*'}}", "queryParams: {a: {regex: ''}}"] {
        refused_with(&mk_match(field), BAD, ".regex ");
    }
    refused_with(&mk_match("withoutHeaders: {a: {regex: '('}}"), BAD, ".regex ");
    refused_with(&mk_match(&format!("uri: {{regex: {}}}", "a".repeat(1_025))), BAD, "1025 bytes");
    refused_with(&mk_routed("corsPolicy: {allowOrigins: [{regex: '('}]}"), BAD, "allowOrigins[0].regex");
    let rewrite = |of: &str, to: &str| {
        mk_routed(&format!("rewrite: {{uriRegexRewrite: {{match: '{of}', rewrite: '{to}'}}}}"))
    };
    refused_with(&rewrite("(", "a"), BAD, "uriRegexRewrite.match");
    refused_with(&rewrite("a", "\\1"), BAD, "the expression has 0");
    let many: String = (0..2_001).map(|_| "{uri: {regex: a}},").collect();
    refused(&mk_routed(&format!("match: [{many}]")), &[(LARGE, 7, 3, "spec has 2001 patterns")]);
}
