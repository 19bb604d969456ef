//! Conversion of DestinationRules to policies.

use std::time::Duration;

use super::*;

fn rule(spec: &str) -> DestinationRule {
    let facts = facts(&mk("DestinationRule", "", &format!("  host: Pay.example.com\n{spec}")));
    let [Fact::Policy(key, declared)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!(key.to_string(), "DestinationRule shop/pay");
    let Policy::DestinationRule(rule) = declared.policy.clone() else { panic!("not a DestinationRule") };
    rule
}

fn policy(fields: &str) -> TrafficPolicy {
    rule(&format!("  trafficPolicy: {{{fields}}}\n")).policies.all
}

fn balancer(fields: &str) -> LoadBalancer {
    (*policy(&format!("loadBalancer: {{{fields}}}")).balancer.unwrap()).clone()
}

fn algorithm(fields: &str) -> Algorithm {
    balancer(fields).algorithm
}

fn ignored(rule: &DestinationRule) -> Vec<&str> {
    rule.ignored.iter().map(|path| &**path).collect()
}

#[test]
fn rule_keeps_host_export_and_subsets() {
    let rule = rule(
        "  exportTo: [\".\", web]\n  subsets:\n  - {name: v2, labels: {version: v2}, trafficPolicy: {tls: {mode: DISABLE}}}\n  - name: v1\n",
    );
    assert_eq!(rule.host.as_str(), "pay.example.com");
    let namespaces = ["shop", "web"].map(|name| Namespace::new(name).unwrap());
    assert_eq!(rule.export, ExportTo::Set(Visibility::Namespaces(namespaces.into())));
    let [v2, v1] = &rule.subsets[..] else { panic!("{:?}", rule.subsets) };
    assert_eq!((v2.name.as_str(), v2.labels.get("version")), ("v2", Some("v2")));
    assert_eq!(v2.policies.all.tls.as_deref(), Some(&ClientTls::Disable));
    assert_eq!((v1.name.as_str(), v1.labels.is_empty(), v1.policies.is_empty()), ("v1", true, true));
    assert!(rule.policies.is_empty() && rule.ignored.is_empty() && rule.selector.is_empty());
}

#[test]
fn rule_with_a_selector_concerns_its_namespace() {
    let own = ExportTo::Set(Visibility::Namespaces([Namespace::new("shop").unwrap()].into()));
    let empty = rule("  workloadSelector: {}\n");
    assert!(empty.selector.is_empty());
    assert_eq!(empty.export, own);
    assert_eq!(rule("").export, ExportTo::Default);
}

#[test]
fn first_settings_of_a_port_count() {
    let rule = rule(
        "  trafficPolicy:\n    portLevelSettings:\n    - {port: {number: 80}, tls: {mode: DISABLE}}\n    - {port: {number: 80}, tls: {mode: SIMPLE}}\n    - {port: {number: 81}, tls: {}}\n",
    );
    let tls = |port: u32| rule.policies.of(number(port)).tls.as_deref();
    assert_eq!(
        (rule.policies.ports.len(), tls(80), tls(81)),
        (2, Some(&ClientTls::Disable), Some(&ClientTls::Disable))
    );
    assert_eq!(ignored(&rule), ["spec.trafficPolicy.portLevelSettings[1]"]);
}

#[test]
fn algorithms_have_their_names_in_istio() {
    for (name, want) in [
        ("UNSPECIFIED", Algorithm::Usual),
        ("LEAST_CONN", Algorithm::LeastRequest),
        ("LEAST_REQUEST", Algorithm::LeastRequest),
        ("RANDOM", Algorithm::Random),
        ("ROUND_ROBIN", Algorithm::RoundRobin),
        ("PASSTHROUGH", Algorithm::Passthrough),
    ] {
        assert_eq!(algorithm(&format!("simple: {name}")), want, "{name}");
    }
    assert_eq!(algorithm(""), Algorithm::Usual);
}

#[test]
fn hashes_keep_key_and_size() {
    let of = |fields: &str| algorithm(&format!("consistentHash: {{{fields}}}"));
    let header = || HashKey::Header("x-user".into());
    assert_eq!(of("httpHeaderName: x-user"), Algorithm::RingHash(header(), None));
    assert_eq!(of("httpHeaderName: x-user, minimumRingSize: 9"), Algorithm::RingHash(header(), Some(9)));
    assert_eq!(
        of("httpHeaderName: x-user, ringHash: {minimumRingSize: 7}"),
        Algorithm::RingHash(header(), Some(7))
    );
    assert_eq!(
        of("httpHeaderName: x-user, maglev: {tableSize: 251}"),
        Algorithm::Maglev(header(), Some(251))
    );
    assert_eq!(of("useSourceIp: true"), Algorithm::RingHash(HashKey::SourceIp, None));
    assert_eq!(of("httpQueryParameterName: q"), Algorithm::RingHash(HashKey::Query("q".into()), None));
    let cookie = HashCookie {
        name: "user".into(),
        path: "/p".into(),
        ttl: Some(Duration::from_secs(5)),
        attributes: [("SameSite".into(), "Lax".into())].into(),
    };
    assert_eq!(
        of("httpCookie: {name: user, path: /p, ttl: 5s, attributes: [{name: SameSite, value: Lax}]}"),
        Algorithm::RingHash(HashKey::Cookie(cookie), None)
    );
}

#[test]
fn hash_without_a_key_is_random_and_shown() {
    for fields in ["useSourceIp: false", "ringHash: {}"] {
        let rule = rule(&format!("  trafficPolicy: {{loadBalancer: {{consistentHash: {{{fields}}}}}}}\n"));
        assert_eq!(rule.policies.all.balancer.as_ref().unwrap().algorithm, Algorithm::Random);
        assert_eq!(ignored(&rule), ["spec.trafficPolicy.loadBalancer.consistentHash"]);
    }
}

#[test]
fn localities_are_off_distributed_or_fail_over() {
    let of = |fields: &str| balancer(&format!("localityLbSetting: {{{fields}}}")).locality.unwrap();
    let none = || LocalityBalancing::Failover { regions: [].into(), labels: [].into() };
    assert_eq!(balancer("simple: RANDOM").locality, None);
    assert_eq!((of(""), of("enabled: true"), of("enabled: false")), (none(), none(), LocalityBalancing::Off));
    let labels = [
        FailoverLabel { key: "a".into(), value: None },
        FailoverLabel { key: "b".into(), value: Some("c.d".into()) },
        FailoverLabel { key: "e".into(), value: Some("".into()) },
    ];
    assert_eq!(
        of("failover: [{from: eu, to: us}], failoverPriority: [a, \"b=c.d\", \"e=\"]"),
        LocalityBalancing::Failover { regions: [("eu".into(), "us".into())].into(), labels: labels.into() }
    );
    let to = [("eu/*".into(), 80), ("us".into(), 20)];
    assert_eq!(
        of("distribute: [{from: \"eu/*\", to: {\"eu/*\": 80, us: 20}}]"),
        LocalityBalancing::Distribute([Distribution { from: "eu/*".into(), to: to.into() }].into())
    );
}

#[test]
fn warmup_precedes_its_deprecated_form() {
    let of = |fields: &str| balancer(fields).warmup.unwrap();
    let seconds = Duration::from_secs;
    let old = Warmup { duration: seconds(5), minimum: None, aggression: None };
    assert_eq!(of("warmupDurationSecs: 5s"), old);
    let new = Warmup { duration: seconds(90), minimum: Some(12_500), aggression: Some(1_500) };
    let both = "warmupDurationSecs: 5s, warmup: {duration: 1m30s, minimumPercent: 12.5, aggression: 1.5}";
    assert_eq!(of(both), new);
    let rule = rule(&format!("  trafficPolicy: {{loadBalancer: {{{both}}}}}\n"));
    assert_eq!(ignored(&rule), ["spec.trafficPolicy.loadBalancer.warmupDurationSecs"]);
}

#[test]
fn limits_of_zero_are_absent() {
    let pool = |fields: &str| (*policy(&format!("connectionPool: {{{fields}}}")).pool.unwrap()).clone();
    let zero = "tcp: {maxConnections: 0, tcpKeepalive: {probes: 0}}, http: {http1MaxPendingRequests: 0, http2MaxRequests: 0, maxRequestsPerConnection: 0, maxRetries: 0, maxConcurrentStreams: 0}";
    let keepalive = Some(Keepalive::default());
    assert_eq!(pool(zero), ConnectionPool { keepalive, ..ConnectionPool::default() });
    let set = "tcp: {maxConnections: 1, connectTimeout: 30ms, maxConnectionDuration: 1h, tcpKeepalive: {probes: 9, time: 2h, interval: 75s}}, http: {http1MaxPendingRequests: 2, http2MaxRequests: 3, maxRequestsPerConnection: 4, maxRetries: 5, maxConcurrentStreams: 6}";
    let seconds = Duration::from_secs;
    let keepalive = Keepalive { probes: Some(9), time: Some(seconds(7_200)), interval: Some(seconds(75)) };
    let want = ConnectionPool {
        max_connections: Some(1),
        connect_timeout: Some(Duration::from_millis(30)),
        keepalive: Some(keepalive),
        max_duration: Some(seconds(3_600)),
        max_pending: Some(2),
        max_requests: Some(3),
        max_requests_per_connection: Some(4),
        max_retries: Some(5),
        max_streams: Some(6),
        ..ConnectionPool::default()
    };
    assert_eq!(pool(set), want);
}

#[test]
fn idle_timeout_of_http_precedes_that_of_tcp() {
    let of = |fields: &str| {
        let pool = policy(&format!("connectionPool: {{{fields}}}")).pool.unwrap();
        (pool.idle_timeout.map(|d| d.as_secs()), pool.tcp_idle_timeout.map(|d| d.as_secs()))
    };
    assert_eq!(of("tcp: {idleTimeout: 0s}"), (Some(0), Some(0)));
    assert_eq!(of("tcp: {idleTimeout: 5s}, http: {idleTimeout: 7s}"), (Some(7), Some(5)));
    assert_eq!(of("http: {idleTimeout: 7s}"), (Some(7), None));
}

#[test]
fn version_of_http_is_that_of_port_policy_or_client() {
    let of = |fields: &str| policy(&format!("connectionPool: {{http: {{{fields}}}}}")).pool.unwrap().http;
    for (fields, want) in [
        ("h2UpgradePolicy: DEFAULT", PoolHttp::OfPort),
        ("h2UpgradePolicy: DO_NOT_UPGRADE", PoolHttp::OfPort),
        ("h2UpgradePolicy: UPGRADE", PoolHttp::Upgrade),
        ("useClientProtocol: true", PoolHttp::OfClient),
        ("useClientProtocol: false", PoolHttp::OfPort),
    ] {
        assert_eq!(of(fields), want, "{fields}");
    }
}

#[test]
fn ejection_distinguishes_zero_from_absent() {
    let of = |fields: &str| (*policy(&format!("outlierDetection: {{{fields}}}")).outliers.unwrap()).clone();
    assert_eq!(of(""), OutlierDetection::default());
    let fields = "consecutive5xxErrors: 0, consecutiveGatewayErrors: 3, splitExternalLocalOriginErrors: true, consecutiveLocalOriginFailures: 4, interval: 1s, baseEjectionTime: 2s, maxEjectionPercent: 0, minHealthPercent: 50";
    let want = OutlierDetection {
        server_errors: Some(0),
        gateway_errors: Some(3),
        local_failures: Some(4),
        splits_local: true,
        interval: Some(Duration::from_secs(1)),
        ejection_time: Some(Duration::from_secs(2)),
        max_ejected: None,
        min_healthy: 50,
    };
    assert_eq!(of(fields), want);
}

#[test]
fn tls_keeps_files_and_names() {
    let of = |fields: &str| (*policy(&format!("tls: {{{fields}}}")).tls.unwrap()).clone();
    assert_eq!(of(""), ClientTls::Disable);
    assert_eq!(of("mode: SIMPLE, sni: \"\""), ClientTls::Simple(TlsSettings::default()));
    let fields = "mode: MUTUAL, clientCertificate: /c, privateKey: /k, caCertificates: /a, caCrl: /r, subjectAltNames: [x, y], sni: z";
    let settings = TlsSettings {
        authorities: Some("/a".into()),
        revoked: Some("/r".into()),
        names: ["x".into(), "y".into()].into(),
        sni: Some("z".into()),
        insecure: false,
    };
    assert_eq!(of(fields), ClientTls::Mutual(settings, "/c".into(), "/k".into()));
    let insecure = TlsSettings { insecure: true, ..TlsSettings::default() };
    assert_eq!(of("mode: SIMPLE, insecureSkipVerify: true"), ClientTls::Simple(insecure));
}

#[test]
fn mesh_tls_of_a_rule_keeps_names_and_server_name() {
    let fields = "mode: ISTIO_MUTUAL, clientCertificate: /c, privateKey: /k, caCertificates: /a, caCrl: /r, \
                  subjectAltNames: [x], sni: z, insecureSkipVerify: true";
    let found = rule(&format!("  trafficPolicy:\n    tls: {{{fields}}}\n"));
    let settings =
        TlsSettings { names: ["x".into()].into(), sni: Some("z".into()), ..TlsSettings::default() };
    assert_eq!(found.policies.all.tls.as_deref(), Some(&ClientTls::IstioMutual(settings)));
    let names = ["caCertificates", "caCrl", "clientCertificate", "insecureSkipVerify", "privateKey"];
    let paths = names.map(|name| format!("spec.trafficPolicy.tls.{name}"));
    assert_eq!(ignored(&found), paths);
}

#[test]
fn fields_of_a_rule_without_effect_are_named() {
    let rule = rule(
        "  trafficPolicy:
    tunnel: {targetHost: a.b, targetPort: 80}
    proxyProtocol: {version: V2}
    retryBudget: {percent: 20}
    loadBalancer: {simple: RANDOM, zoneAwareLbSetting: {enabled: true}, warmup: {duration: 1s}}
    connectionPool: {http: {http2KeepAlive: {interval: 1s, timeout: 1s}}}
    outlierDetection: {consecutiveErrors: 3, outlierDetectionHttpErrorCodes: [500]}
    tls: {mode: DISABLE, sni: a}
  subsets:
  - name: v1
    trafficPolicy:
      loadBalancer:
        localityLbSetting: {enabled: false, failoverPriority: [a]}
      tls: {mode: SIMPLE, privateKey: /k}
",
    );
    assert_eq!(
        ignored(&rule),
        [
            "spec.subsets[0].trafficPolicy.loadBalancer.localityLbSetting.failoverPriority",
            "spec.subsets[0].trafficPolicy.tls.privateKey",
            "spec.trafficPolicy.connectionPool.http.http2KeepAlive",
            "spec.trafficPolicy.loadBalancer.warmup",
            "spec.trafficPolicy.loadBalancer.zoneAwareLbSetting",
            "spec.trafficPolicy.outlierDetection.consecutiveErrors",
            "spec.trafficPolicy.outlierDetection.outlierDetectionHttpErrorCodes",
            "spec.trafficPolicy.proxyProtocol",
            "spec.trafficPolicy.retryBudget",
            "spec.trafficPolicy.tls.sni",
            "spec.trafficPolicy.tunnel",
        ]
    );
}

#[test]
fn failover_without_ejection_is_shown() {
    let failover = "loadBalancer: {localityLbSetting: {failover: [{from: a, to: b}]}}";
    let labels = "loadBalancer: {localityLbSetting: {failoverPriority: [tier]}}";
    let (ejects, path) = ("outlierDetection: {}", "loadBalancer.localityLbSetting.failover");
    let port = |fields: &str| format!("portLevelSettings: [{{port: {{number: 80}}, {fields}}}]");
    // settings of the rule, settings of the subset, paths that have no effect
    let cases: Vec<(String, String, Vec<String>)> = vec![
        (failover.to_owned(), String::new(), vec![format!("spec.trafficPolicy.{path}")]),
        (labels.to_owned(), String::new(), vec![format!("spec.trafficPolicy.{path}Priority")]),
        (format!("{failover}, {ejects}"), String::new(), vec![]),
        (failover.to_owned(), ejects.to_owned(), vec![]),
        (
            failover.to_owned(),
            format!("{ejects}, loadBalancer: {{simple: RANDOM}}"),
            vec![format!("spec.trafficPolicy.{path}")],
        ),
        (ejects.to_owned(), failover.to_owned(), vec![]),
        (String::new(), failover.to_owned(), vec![format!("spec.subsets[0].trafficPolicy.{path}")]),
        (
            format!("{ejects}, {}", port(failover)),
            String::new(),
            vec![format!("spec.trafficPolicy.portLevelSettings[0].{path}")],
        ),
        (port(&format!("{failover}, {ejects}")), String::new(), vec![]),
    ];
    for (of_rule, of_subset, want) in cases {
        let policy = |fields: &str| match fields {
            "" => String::new(),
            fields => format!("trafficPolicy: {{{fields}}}"),
        };
        let text = format!("  {}\n  subsets: [{{name: v1, {}}}]\n", policy(&of_rule), policy(&of_subset));
        assert_eq!(ignored(&rule(&text)), want, "{text}");
    }
}
