//! Each rule of a DestinationRule, with a document that breaks it and nothing else.

use super::*;

/// A rule whose further fields begin at line 8.
fn mk_rule(rest: &str) -> String {
    mk_spec(&format!("  host: pay.example.com\n{rest}"))
}

fn mk_spec(spec: &str) -> String {
    mk_entry(spec).replace("kind: ServiceEntry", "kind: DestinationRule")
}

/// A rule whose load balancer has these fields, in line 8.
fn mk_balancer(fields: &str) -> String {
    mk_rule(&format!("  trafficPolicy: {{loadBalancer: {{{fields}}}}}\n"))
}

/// A rule whose locality setting has these fields, in line 8.
fn mk_locality(fields: &str) -> String {
    mk_balancer(&format!("localityLbSetting: {{{fields}}}"))
}

/// A rule whose TLS has these fields, in line 8.
fn mk_tls(fields: &str) -> String {
    mk_rule(&format!("  trafficPolicy: {{tls: {{{fields}}}}}\n"))
}

const BAD: Code = Code::VALUE_INVALID;

/// Checks that the document is refused with one fault, at the start of this text in line 8.
#[track_caller]
fn refused_at(text: &str, code: Code, start: &str, part: &str) {
    let line = text.lines().nth(7).unwrap();
    let column = line.find(start).unwrap_or_else(|| panic!("no {start:?} in {line:?}")) + 1;
    refused(text, &[(code, 8, u32::try_from(column).unwrap(), part)]);
}

#[test]
fn every_rule_of_a_destination_rule_has_its_test() {
    let tests = include_str!("destination_rule.rs");
    for (name, _) in super::super::destination_rule::RULES {
        assert!(tests.contains(&format!("fn {name}()")), "no test is named {name}");
    }
}

const WHOLE: &str = "  trafficPolicy:
    loadBalancer:
      consistentHash:
        httpCookie: {name: user, path: /, ttl: 0s, attributes: [{name: SameSite, value: Lax}]}
        ringHash: {minimumRingSize: 2048}
      localityLbSetting:
        enabled: true
        failover: [{from: eu, to: us}]
        failoverPriority: [\"version=v1\", topology.istio.io/network]
    connectionPool:
      tcp:
        maxConnections: 100
        connectTimeout: 30ms
        tcpKeepalive: {probes: 3, time: 7200s, interval: 1m15s}
        maxConnectionDuration: 1h
        idleTimeout: 0s
      http:
        http1MaxPendingRequests: 1
        http2MaxRequests: 2
        maxRequestsPerConnection: 3
        maxRetries: 4
        idleTimeout: 1h30m
        h2UpgradePolicy: DO_NOT_UPGRADE
        useClientProtocol: true
        maxConcurrentStreams: 5
        http2KeepAlive: {interval: 1s, timeout: 1s}
    outlierDetection:
      splitExternalLocalOriginErrors: true
      consecutiveLocalOriginFailures: 5
      consecutiveGatewayErrors: 0
      consecutive5xxErrors: 7
      interval: 5m
      baseEjectionTime: 15m
      maxEjectionPercent: 100
      minHealthPercent: 30
    tls: {mode: MUTUAL, clientCertificate: /c, privateKey: /k, caCertificates: /a, caCrl: /r, subjectAltNames: [a], sni: b}
    portLevelSettings:
    - port: {number: 80}
      loadBalancer: {simple: ROUND_ROBIN, warmup: {duration: 10s, minimumPercent: 12.5, aggression: 1.5}}
    tunnel: {targetHost: a.b, targetPort: 80}
  subsets:
  - name: v1
    labels: {version: v1}
    trafficPolicy: {loadBalancer: {simple: LEAST_CONN, warmupDurationSecs: 10s}}
  - name: all
  exportTo: [\".\", web]
";

#[test]
fn destination_rule_with_every_served_field_is_taken() {
    let text = mk_rule(WHOLE);
    taken(&text);
    for version in ["v1beta1", "v1alpha3"] {
        taken(&text.replace("networking.istio.io/v1\n", &format!("networking.istio.io/{version}\n")));
    }
    for host in ["\"*\"", "\"*.example.com\"", "pay", "pay.shop.svc.cluster.local"] {
        taken(&text.replace("pay.example.com", host));
    }
}

#[test]
fn what_decides_reach_or_identity_is_refused() {
    let not = Code::FIELD_NOT_SERVED;
    taken(&mk_tls("mode: ISTIO_MUTUAL, subjectAltNames: [a], insecureSkipVerify: true"));
    refused_at(&mk_tls("mode: SIMPLE, credentialName: abc"), not, "abc", "name files of the client");
    taken(&mk_tls("mode: SIMPLE, credentialName: \"\""));
    let selecting = mk_rule("  workloadSelector: {matchLabels: {app: a}}\n");
    refused_at(&selecting, not, "{matchLabels", "workloadSelector.matchLabels is not served");
}

#[test]
fn values_out_of_range_are_refused_with_their_position() {
    for (pool, start, part) in [
        ("tcp: {maxConnections: -1}", "-1", "write a number from 0 to 2147483647"),
        ("tcp: {maxConnections: 2147483648}", "2147483648", "write a number from 0"),
        ("tcp: {connectTimeout: 0s}", "0s", "write at least 1ms"),
        ("tcp: {connectTimeout: 1500us}", "1500us", "round it"),
        ("tcp: {connectTimeout: soon}", "soon", "write for example 10s"),
        ("tcp: {idleTimeout: 10us}", "10us", "write 0s, or at least 1ms"),
        ("tcp: {tcpKeepalive: {probes: 4294967296}}", "4294967296", "4294967295"),
    ] {
        let text = mk_rule(&format!("  trafficPolicy: {{connectionPool: {{{pool}}}}}\n"));
        refused_at(&text, BAD, start, part);
    }
    for (ejection, start, part) in [
        ("maxEjectionPercent: 101", "101", "from 0 to 100"),
        ("minHealthPercent: -1", "-1", "from 0 to 100"),
        ("consecutive5xxErrors: -1", "-1", "4294967295"),
    ] {
        let text = mk_rule(&format!("  trafficPolicy: {{outlierDetection: {{{ejection}}}}}\n"));
        refused_at(&text, BAD, start, part);
    }
    for (balancer, start, part) in [
        ("warmup: {duration: 1s, minimumPercent: 100.5}", "100.5", "from 0 to 100"),
        ("warmup: {duration: 1s, aggression: 0}", "0", "from 0.001 to 1000"),
        ("consistentHash: {useSourceIp: true, ringHash: {minimumRingSize: 8388609}}", "8388609", "8388608"),
    ] {
        refused_at(&mk_balancer(balancer), BAD, start, part);
    }
    let wrong = Code::WRONG_TYPE;
    refused_at(&mk_balancer("simple: ROUND"), wrong, "ROUND", "LEAST_REQUEST, LEAST_CONN");
    refused_at(&mk_tls("insecureSkipVerify: \"true\""), wrong, "\"true\"", "true or false, without quotes");
    refused(&mk_rule("  trafficPolicies: {}\n"), &[(Code::UNKNOWN_FIELD, 8, 3, "remove it")]);
}

#[test]
fn rule_names_a_host() {
    refused(&mk_spec("  subsets: []\n"), &[(Code::MISSING_FIELD, 7, 3, "add it")]);
    for host in ["\"\"", "\"a b\"", "\"a.*.b\""] {
        refused(&mk_spec(&format!("  host: {host}\n")), &[(Code::INVALID_HOST, 7, 9, "write a DNS name")]);
    }
}

#[test]
fn rule_size_is_within_limits() {
    let large = Code::DOCUMENT_TOO_LARGE;
    let subsets: String = (0..257).map(|i| format!("{{name: v{i}}},")).collect();
    refused(&mk_rule(&format!("  subsets: [{subsets}]\n")), &[(large, 7, 3, "spec.subsets has 257 items")]);
    let ports: String = (1..514).map(|i| format!("{{port: {{number: {i}}}, tls: {{}}}},")).collect();
    let ports = mk_rule(&format!("  trafficPolicy: {{portLevelSettings: [{ports}]}}\n"));
    refused(&ports, &[(large, 7, 3, "spec.trafficPolicy.portLevelSettings has 513")]);
    let names = "a.b,".repeat(257);
    let names = mk_tls(&format!("mode: SIMPLE, subjectAltNames: [{names}]"));
    refused(&names, &[(large, 7, 3, "tls.subjectAltNames has 257")]);
    let labels = "app,".repeat(257);
    let labels = mk_locality(&format!("failoverPriority: [{labels}]"));
    refused(&labels, &[(large, 7, 3, "localityLbSetting.failoverPriority has 257")]);
}

#[test]
fn rule_selector_is_valid() {
    let text = mk_rule("  workloadSelector: {matchLabels: {app: \"a*\"}}\n");
    refused(&text, &[(Code::FIELD_NOT_SERVED, 8, 21, "matchLabels is not served")]);
    taken(&mk_rule("  workloadSelector: {matchLabels: {}}\n  exportTo: [\".\", shop]\n"));
}

#[test]
fn rule_with_a_selector_stays_in_its_namespace() {
    for other in ["\"*\"", "web"] {
        let text = mk_rule(&format!("  workloadSelector: {{}}\n  exportTo: [\".\", {other}]\n"));
        refused(&text, &[(BAD, 9, 19, "write `.`")]);
    }
}

#[test]
fn rule_is_exported_to_namespaces() {
    for bad in ["\"~\"", "\"a b\"", "\"\""] {
        let text = mk_rule(&format!("  exportTo: [web, {bad}]\n"));
        refused(&text, &[(Code::INVALID_NAME, 8, 19, "write `*`, `.` or a namespace")]);
    }
}

#[test]
fn subsets_have_names() {
    refused_at(&mk_rule("  subsets: [{}]\n"), Code::MISSING_FIELD, "{}", "name is missing");
    for bad in ["a_b", "\"\"", "-a"] {
        let text = mk_rule(&format!("  subsets: [{{name: {bad}}}]\n"));
        refused_at(&text, Code::INVALID_NAME, bad, "use up to 63");
    }
    let twice = mk_rule("  subsets: [{name: v1}, {name: v1}]\n");
    refused(&twice, &[(Code::INVALID_NAME, 8, 32, "is that of spec.subsets[0]")]);
}

#[test]
fn subset_labels_are_valid() {
    let text = mk_rule("  subsets: [{name: v1, labels: {app: \"a*\"}}]\n");
    refused_at(&text, Code::INVALID_NAME, "{app", "spec.subsets[0].labels");
}

#[test]
fn policies_have_a_setting() {
    let missing = Code::MISSING_FIELD;
    refused_at(&mk_rule("  trafficPolicy: {}\n"), missing, "{}", "spec.trafficPolicy has no settings");
    let port = mk_rule("  trafficPolicy: {portLevelSettings: [{port: {number: 80}}]}\n");
    refused_at(&port, missing, "{port:", "portLevelSettings[0] has no settings");
    let subset = mk_rule("  subsets: [{name: v1, trafficPolicy: {}}]\n");
    refused_at(&subset, missing, "{}", "spec.subsets[0].trafficPolicy has no");
    taken(&mk_rule("  trafficPolicy: {retryBudget: {percent: 20}}\n"));
}

#[test]
fn port_settings_name_a_port() {
    let of = |port: &str| {
        mk_rule(&format!("  trafficPolicy: {{portLevelSettings: [{{{port}tls: {{mode: DISABLE}}}}]}}\n"))
    };
    refused_at(&of(""), Code::MISSING_FIELD, "{tls", "port.number is missing");
    refused_at(&of("port: {number: 0}, "), Code::INVALID_PORT, "0", "from 1 to 65535");
    taken(&of("port: {number: 65535}, "));
}

#[test]
fn balancers_have_one_algorithm() {
    let both = mk_balancer("simple: RANDOM, consistentHash: {useSourceIp: true}");
    refused_at(&both, BAD, "RANDOM", "both simple and consistentHash");
    let localities = mk_balancer("localityLbSetting: {}, zoneAwareLbSetting: {enabled: true}");
    refused_at(&localities, BAD, "{}", "both localityLbSetting and zoneAwareLbSetting");
}

#[test]
fn hashes_have_one_key() {
    let keys = mk_balancer("consistentHash: {useSourceIp: true, httpHeaderName: a}");
    refused_at(&keys, BAD, "{useSourceIp", "has 2 keys; keep one");
    let tables = mk_balancer("consistentHash: {useSourceIp: true, minimumRingSize: 9, ringHash: {}}");
    refused_at(&tables, BAD, "{useSourceIp", "has 2 algorithms; keep one");
    taken(&mk_balancer("consistentHash: {useSourceIp: true, minimumRingSize: 0, ringHash: {}}"));
}

#[test]
fn hash_keys_are_named() {
    let of = |key: &str| mk_balancer(&format!("consistentHash: {{{key}}}"));
    let name = Code::INVALID_NAME;
    refused_at(&of("httpHeaderName: \"a b\""), name, "\"a b\"", "not the name of a header");
    refused_at(&of("httpQueryParameterName: \"\""), name, "\"\"", "name the parameter");
    refused_at(&of("httpCookie: {ttl: 1s}"), Code::MISSING_FIELD, "{ttl", "httpCookie.name is missing");
    refused_at(&of("httpCookie: {name: \"\"}"), name, "\"\"", "httpCookie.name");
    let twice = "httpCookie: {name: a, attributes: [{name: b}, {name: b, value: c}]}";
    refused_at(&of(twice), BAD, "b, value", "occurs twice");
}

#[test]
fn hash_tables_have_a_size() {
    let of = |maglev: &str| mk_balancer(&format!("consistentHash: {{useSourceIp: true, maglev: {maglev}}}"));
    refused_at(&of("{}"), BAD, "{}", "tableSize is 0; write a prime number");
    refused_at(&of("{tableSize: 65536}"), BAD, "65536", "write a prime number");
    refused_at(&of("{tableSize: 5000011}"), BAD, "5000011", "write a prime number below 5000011");
    taken(&of("{tableSize: 65537}"));
}

#[test]
fn warmups_have_a_duration() {
    let text = mk_balancer("simple: ROUND_ROBIN, warmup: {aggression: 2}");
    refused_at(&text, Code::MISSING_FIELD, "{aggression", "warmup.duration is missing");
}

#[test]
fn localities_are_distributed_or_fail_over() {
    let both = mk_locality("distribute: [{from: a, to: {b: 100}}], failover: [{from: a, to: b}]");
    refused_at(&both, BAD, "{distribute", "both distribute and failover");
    let region = "failover: [{from: a, to: b}], failoverPriority: [topology.kubernetes.io/region]";
    refused_at(&mk_locality(region), BAD, "topology", "both order regions");
}

#[test]
fn shares_add_up_to_100() {
    let of = |to: &str| mk_locality(&format!("distribute: [{{from: \"*\", to: {{{to}}}}}]"));
    refused_at(&of("a: 60, b: 39"), BAD, "{from", "add up to 99");
    refused_at(&of("a: 100, b: 0"), BAD, "0}", "write a share from 1 to 100");
    taken(&of("a/b/*: 60, c: 40"));
}

#[test]
fn shares_have_separate_places() {
    let of = |distribute: &str| mk_locality(&format!("distribute: [{distribute}]"));
    refused_at(&of("{to: {a: 100}}"), Code::MISSING_FIELD, "{to", "from is missing");
    let nested = "{from: a, to: {b: 100}}, {from: a/c, to: {b: 100}}";
    refused_at(&of(nested), BAD, "a/c", "contains, or is in, another place");
    refused_at(&of("{from: a/*/c, to: {b: 100}}"), BAD, "a/*", "write `*` last");
    refused_at(&of("{from: a//c, to: {b: 100}}"), BAD, "a//c", "is not a place");
    refused_at(&of("{from: a, to: {b: 50, b/c: 50}}"), BAD, "b/c", "contains, or is in");
}

#[test]
fn regions_fail_over_to_others() {
    let of = |failover: &str| mk_locality(&format!("failover: [{failover}]"));
    refused_at(&of("{from: a}"), Code::MISSING_FIELD, "{from", "add from and to");
    refused_at(&of("{from: a, to: a}"), BAD, "{from", "name another region");
    refused_at(&of("{from: a, to: b/c}"), BAD, "b/c", "is not a region");
    refused_at(&of("{from: \"*\", to: b}"), BAD, "\"*\"", "is not a region");
}

#[test]
fn failover_labels_are_named() {
    let unnamed = mk_locality("failoverPriority: [\"=a\"]");
    refused_at(&unnamed, Code::INVALID_NAME, "\"=a\"", "failoverPriority[0]: key");
    taken(&mk_locality("failoverPriority: [topology.kubernetes.io/region, \"version=\"]"));
}

#[test]
fn pools_have_a_part() {
    let text = mk_rule("  trafficPolicy: {connectionPool: {}}\n");
    refused_at(&text, Code::MISSING_FIELD, "{}", "has neither tcp nor http");
    taken(&mk_rule("  trafficPolicy: {connectionPool: {tcp: {}}}\n"));
}

#[test]
fn pools_choose_one_version() {
    let of = |policy: &str| {
        let http = format!("http: {{useClientProtocol: true, h2UpgradePolicy: {policy}}}");
        mk_rule(&format!("  trafficPolicy: {{connectionPool: {{{http}}}}}\n"))
    };
    refused_at(&of("UPGRADE"), BAD, "true", "contradicts h2UpgradePolicy UPGRADE");
    taken(&of("DEFAULT"));
}

#[test]
fn local_failures_are_split() {
    let of = |failures: u32| {
        let ejection = format!("consecutiveLocalOriginFailures: {failures}");
        mk_rule(&format!("  trafficPolicy: {{outlierDetection: {{{ejection}}}}}\n"))
    };
    refused_at(&of(1), BAD, "1", "needs splitExternalLocalOriginErrors");
    taken(&of(0));
}

#[test]
fn mutual_tls_names_certificate_and_key() {
    let missing = Code::MISSING_FIELD;
    let want = [(missing, 8, 24, "tls.clientCertificate is missing"), (missing, 8, 24, "tls.privateKey")];
    refused(&mk_tls("mode: MUTUAL, privateKey: \"\""), &want);
    taken(&mk_tls("mode: MUTUAL, clientCertificate: /c, privateKey: /k"));
}

#[test]
fn tls_names_files_and_a_host() {
    refused_at(
        &mk_tls("mode: MUTUAL, clientCertificate: /a~b, privateKey: /k"),
        BAD,
        "{mode",
        "clientCertificate is no path",
    );
    let long = "a".repeat(4097);
    refused_at(
        &mk_tls(&format!("mode: SIMPLE, caCertificates: /{long}")),
        BAD,
        "{mode",
        "caCertificates is no path",
    );
    let long = "a".repeat(256);
    refused_at(&mk_tls(&format!("mode: SIMPLE, sni: {long}")), BAD, "{mode", "sni has more than 255 bytes");
    taken(&mk_tls("mode: SIMPLE, caCertificates: /a~b, caCrl: /c~d, sni: pay.example.com"));
    taken(&mk_tls("mode: MUTUAL, clientCertificate: /a, privateKey: /k"));
}

#[test]
fn insecure_tls_verifies_nothing() {
    let of = |more: &str| mk_tls(&format!("mode: SIMPLE, insecureSkipVerify: true{more}"));
    refused_at(&of(", caCertificates: /a"), BAD, "true", "contradicts caCertificates");
    refused_at(&of(", subjectAltNames: [a]"), BAD, "true", "contradicts caCertificates");
    taken(&of(""));
}
