//! Policies in the command line: read from files, kept while invalid, taken back when deleted.

use crate::world::{World, mk_bound, put};
use tributary_app::exit::Exit;

fn mk_sidecar(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n{spec}"
    )
}

const NARROW: &str = "  egress:\n  - hosts: [./*]\n";

#[tokio::test]
async fn sidecars_of_files_are_listed_kept_while_invalid_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "a.yaml", &mk_sidecar("narrow", NARROW));
    let world = World::start(&["--registry", &format!("file={}", dir.path().display())]).await;
    let table = world.until("get policies -o wide", "narrow").await;
    let row = table.lines().find(|line| line.contains("narrow")).unwrap();
    for part in ["Sidecar", "shop", "a.yaml:1:1", "Live"] {
        assert!(row.contains(part), "no {part:?} in {row}");
    }
    // an invalid document keeps its last good version, and names line and correction
    put(dir.path(), "a.yaml", &mk_sidecar("narrow", "  egress:\n  - hosts: [pay.example.com]\n"));
    let problems = world.until("get registries -o wide", "a.yaml:6:13").await;
    assert!(problems.contains("write NAMESPACE/HOST"), "{problems}");
    let table = world.until("get policies -o wide", "Quarantined").await;
    let kept = "a newer version is not valid, this one stays served: TRB0307 ";
    assert!(
        table.contains("narrow") && table.contains(kept) && table.contains("a.yaml:6:13: spec"),
        "{table}"
    );
    let yaml = world.run("get policies shop/narrow -o yaml").await.out;
    assert!(yaml.contains("status: Quarantined") && yaml.contains("- ./*"), "the served version: {yaml}");
    // an ignored field and a second Sidecar of the namespace are shown
    let pool = "  inboundConnectionPool: {tcp: {maxConnections: 3}}\n";
    put(dir.path(), "a.yaml", &mk_sidecar("narrow", &format!("{NARROW}{pool}")));
    put(dir.path(), "b.yaml", &mk_sidecar("other", NARROW));
    let table = world.until("get policies -o wide", "TRB0441,TRB0442").await;
    assert!(table.contains("these fields have no effect: spec.inboundConnectionPool"), "{table}");
    assert!(!table.contains("Quarantined"), "{table}");
    let names = world.run("get policies -n shop -o name").await;
    assert_eq!((names.exit, names.out.lines().count()), (Ok(Exit::Ok), 2), "{}", names.out);
    let one = world.run("get policies other -o json").await.out;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!((one["kind"].as_str(), one["items"][0]["name"].as_str()), (Some("PolicyList"), Some("other")));
    for (name, count) in
        [("shop/other", 1), ("Sidecar/shop/other", 1), ("other -n shop", 1), ("web/other", 0)]
    {
        let found = world.run(&format!("get policies {name} -o name")).await;
        assert_eq!(found.out.lines().count(), count, "{name}: {}", found.out);
    }
    let missing = world.run("get policies web/other").await.exit.unwrap_err();
    assert_eq!(missing.message, "policy `web/other` not found");
    let none = world.run("get policies EnvoyFilter").await;
    assert_eq!((none.exit, none.out.as_str()), (Ok(Exit::Ok), ""), "a kind without objects is a list");
    assert!(none.talk.contains("no policies"), "{}", none.talk);
    // deleted files take their policies back
    std::fs::remove_file(dir.path().join("a.yaml")).unwrap();
    std::fs::remove_file(dir.path().join("b.yaml")).unwrap();
    until_no_policy(&world).await;
}

#[tokio::test]
async fn sidecar_outlives_a_restart_without_its_source() {
    let home = tempfile::tempdir().unwrap();
    let (files, away, state) =
        (home.path().join("files"), home.path().join("away"), home.path().join("state"));
    std::fs::create_dir(&files).unwrap();
    put(&files, "a.yaml", &mk_sidecar("narrow", NARROW));
    let registry = format!("file={}", files.display());
    let state = state.display().to_string();
    let args = ["--registry", &registry, "--state-dir", &state, "--first-sync-timeout", "0"];
    let world = World::start(&args).await;
    world.until("get policies -o wide", "Live").await;
    world.server.stop().await;
    std::fs::rename(&files, &away).unwrap();
    let world = World { server: mk_bound(&args).await.unwrap().start().await.unwrap() };
    let table = world.until("get policies -o wide", "Stale").await;
    assert!(table.contains("narrow"), "{table}");
    // the source returns without the object
    std::fs::remove_file(away.join("a.yaml")).unwrap();
    std::fs::rename(&away, &files).unwrap();
    until_no_policy(&world).await;
}

async fn until_no_policy(world: &World) {
    let gone = async {
        while !world.run("get policies").await.out.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::world::LONG, gone).await.expect("the policies go with their files");
}

#[tokio::test]
async fn spec_is_shown_as_it_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let spec = "  workloadSelector:
    labels:
      app: front
  egress:
  - port:
      number: 9080
      protocol: HTTP
      name: web
    bind: 127.0.0.1
    captureMode: NONE
    hosts:
    - ./*
    - shop/*.example.com
  - hosts:
    - \"*/*\"
  ingress:
  - port:
      number: 80
    captureMode: IPTABLES
    defaultEndpoint: 127.0.0.1:8080
  - port:
      number: 81
    defaultEndpoint: unix:///run/app.sock
  outboundTrafficPolicy:
    mode: ALLOW_ANY
    egressProxy: {host: out.example.com, port: {number: 3128}}
";
    put(dir.path(), "a.yaml", &mk_sidecar("narrow", spec));
    let world = World::start(&["--registry", &format!("file={}", dir.path().display())]).await;
    world.until("get policies -o wide", "TRB0445").await;
    let out = world.run("get policies narrow -o json").await.out;
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    let want: serde_json::Value = serde_json::json!({
        "workloadSelector": {"labels": {"app": "front"}},
        "egress": [
            {"port": {"number": 9080, "protocol": "HTTP", "name": "web"}, "bind": "127.0.0.1", "captureMode": "NONE",
             "hosts": ["./*", "shop/*.example.com"]},
            {"hosts": ["*/*"]},
        ],
        "ingress": [
            {"port": {"number": 80}, "captureMode": "IPTABLES", "defaultEndpoint": "127.0.0.1:8080"},
            {"port": {"number": 81}, "defaultEndpoint": "unix:///run/app.sock"},
        ],
        "outboundTrafficPolicy": {
            "mode": "ALLOW_ANY", "egressProxy": {"host": "out.example.com", "port": {"number": 3128}},
        },
    });
    assert_eq!(out["items"][0]["spec"], want);
}

#[tokio::test]
async fn sidecar_that_was_never_valid_is_listed_as_not_served() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "a.yaml", &mk_sidecar("broken", "  egress:\n  - hosts: [pay.example.com]\n"));
    let world = World::start(&["--registry", &format!("file={}", dir.path().display())]).await;
    let table = world.until("get policies -o wide", "NotServed").await;
    assert!(table.contains("not valid: TRB0307 ") && table.contains("a.yaml:6:13: spec"), "{table}");
    let short = world.run("get policies").await;
    let row: Vec<&str> = short.out.lines().nth(1).unwrap().split_whitespace().collect();
    let named = ["Sidecar", "shop", "broken", "NotServed", "-", "unknown", "file", "TRB0307"];
    assert_eq!(row, named, "its selector is not known, and the code is that of the reason");
    assert!(short.talk.contains("`-o wide` has the reason"), "{}", short.talk);
    let yaml = world.run("get policies -o yaml").await.out;
    for absent in ["selector", "scope", "freshness", "created", "spec:"] {
        assert!(!yaml.lines().any(|line| line.trim_start().starts_with(absent)), "{absent}: {yaml}");
    }
    let ready = world.readyz().await;
    assert!(ready.contains("policy Sidecar shop/broken") && ready.contains("a.yaml:6:13"), "{ready}");
    put(dir.path(), "a.yaml", &mk_sidecar("broken", NARROW));
    let table = world.until("get policies", " Served ").await;
    assert!(!world.readyz().await.contains("policy Sidecar"));
    assert!(!table.contains("NotServed"), "{table}");
}

#[tokio::test]
async fn egress_hosts_and_selectors_that_match_nothing_are_conditions() {
    let dir = tempfile::tempdir().unwrap();
    let spec =
        "  workloadSelector: {labels: {app: frnot}}\n  egress:\n  - hosts: [./*, shop/pya.example.com]\n";
    put(dir.path(), "a.yaml", &mk_sidecar("narrow", spec));
    let world = World::start(&["--registry", &format!("file={}", dir.path().display())]).await;
    let table = world.until("get policies -o wide", "TRB0443,TRB0444").await;
    assert!(table.contains("match no service that its workloads may see: shop/pya.example.com;"), "{table}");
    assert!(table.contains("of namespace shop has its labels: app=frnot"), "{table}");
    put(
        dir.path(),
        "b.yaml",
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: pya, namespace: shop}\nspec:\n  hosts: [pya.example.com]\n  \
         ports: [{number: 80, name: http, protocol: HTTP}]\n  resolution: DNS\n---\napiVersion: networking.istio.io/v1\n\
         kind: WorkloadEntry\nmetadata: {name: vm, namespace: shop, labels: {app: frnot}}\nspec: {address: 10.0.0.9}\n",
    );
    let gone = async {
        while world.run("get policies").await.out.contains("TRB044") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::world::LONG, gone).await.expect("both match now");
}

const RULE: &str = "  host: pay.example.com
  workloadSelector: {}
  trafficPolicy:
    loadBalancer:
      consistentHash: {httpCookie: {name: user, ttl: 1m30s}, maglev: {tableSize: 251}}
      localityLbSetting: {distribute: [{from: eu, to: {us: 20, eu: 80}}]}
    connectionPool:
      tcp: {maxConnections: 3, connectTimeout: 250ms, idleTimeout: 1h}
      http: {maxRetries: 2, h2UpgradePolicy: UPGRADE}
    outlierDetection: {consecutive5xxErrors: 0, minHealthPercent: 10}
    portLevelSettings:
    - port: {number: 443}
      tls: {mode: MUTUAL, clientCertificate: /c, privateKey: /k, sni: pay}
    tunnel: {targetHost: a.b, targetPort: 80}
  subsets:
  - name: v1
    labels: {version: v1}
    trafficPolicy:
      loadBalancer: {simple: ROUND_ROBIN, warmup: {duration: 10s, minimumPercent: 12.5}}
";

fn mk_rule(spec: &str) -> String {
    mk_sidecar("pay", spec).replace("kind: Sidecar", "kind: DestinationRule")
}

#[tokio::test]
async fn destination_rules_of_files_are_listed_with_host_and_spec() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "a.yaml", &mk_rule(RULE));
    put(dir.path(), "b.yaml", &mk_sidecar("narrow", NARROW));
    let world = World::start(&["--registry", &format!("file={}", dir.path().display())]).await;
    world.until("get policies", "narrow").await;
    let table = world.until("get policies DestinationRule -o wide", "TRB0442").await;
    for part in ["HOST", "pay.example.com", "no effect: spec.trafficPolicy.tunnel"] {
        assert!(table.contains(part), "no {part:?} in {table}");
    }
    assert!(!table.contains("narrow"), "only one kind is named: {table}");
    let one = world.run("get policies DestinationRule/shop/pay -o json").await.out;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    let tls =
        serde_json::json!({"mode": "MUTUAL", "clientCertificate": "/c", "privateKey": "/k", "sni": "pay"});
    let warmup = serde_json::json!({"duration": "10s", "minimumPercent": 12.5});
    let want = serde_json::json!({
        "host": "pay.example.com",
        "trafficPolicy": {
            "loadBalancer": {
                "consistentHash": {"httpCookie": {"name": "user", "ttl": "90s"}, "maglev": {"tableSize": 251}},
                "localityLbSetting": {"enabled": true, "distribute": [{"from": "eu", "to": {"eu": 80, "us": 20}}]},
            },
            "connectionPool": {
                "tcp": {"maxConnections": 3, "connectTimeout": "0.25s", "idleTimeout": "3600s"},
                "http": {"maxRetries": 2, "h2UpgradePolicy": "UPGRADE"},
            },
            "outlierDetection": {"consecutive5xxErrors": 0, "minHealthPercent": 10},
            "portLevelSettings": [{"port": {"number": 443}, "tls": tls}],
        },
        "subsets": [{
            "name": "v1",
            "labels": {"version": "v1"},
            "trafficPolicy": {"loadBalancer": {"simple": "ROUND_ROBIN", "warmup": warmup}},
        }],
        "exportTo": ["shop"],
    });
    assert_eq!(one["items"][0]["spec"], want);
    // an invalid version is quarantined with the position of its field
    put(
        dir.path(),
        "a.yaml",
        &mk_rule("  host: pay.example.com\n  trafficPolicy: {tls: {credentialName: abc}}\n"),
    );
    let table = world.until("get policies pay -o wide", "Quarantined").await;
    assert!(table.contains("TRB0325 ") && table.contains("a.yaml:6:41: spec"), "{table}");
}

const ROUTES: &str = "  hosts: [pay.example.com]
  gateways: [mesh, web/in]
  http:
  - name: first
    match:
    - {name: m, uri: {prefix: /a}, ignoreUriCase: true, headers: {x: {exact: b}}, port: 80, sourceLabels: {app: web}}
    route:
    - {destination: {host: pay, subset: v1, port: {number: 81}}, weight: 90, headers: {request: {set: {Host: b.test}}}}
    - {destination: {host: b.test}, weight: 10}
    rewrite: {uri: /b}
    timeout: 500ms
    retries: {attempts: 2, retryOn: '5xx,503'}
    fault: {delay: {fixedDelay: 1s, percentage: {value: 12.5}}, abort: {grpcStatus: UNAVAILABLE}}
    mirror: {host: c.test}
    mirrorPercentage: {value: 1}
    corsPolicy: {allowOrigins: [{exact: a}], maxAge: 1m}
  - redirect: {uri: /to, derivePort: FROM_REQUEST_PORT}
    match: [{uri: {exact: /old}, gateways: [mesh]}]
  - directResponse: {status: 404, body: {bytes: aGk=}}
    match: [{method: {regex: GET}}]
  - delegate: {name: other}
  tls:
  - {match: [{sniHosts: [pay.example.com], port: 443}], route: [{destination: {host: b.test}}]}
  tcp:
  - {match: [{destinationSubnets: [10.1.0.0/16]}], route: [{destination: {host: b.test}, weight: 1}]}
";

#[tokio::test]
async fn virtual_services_of_files_are_listed_with_hosts_and_spec() {
    let dir = tempfile::tempdir().unwrap();
    let mk = |spec: &str| mk_sidecar("pay", spec).replace("kind: Sidecar", "kind: VirtualService");
    put(dir.path(), "a.yaml", &mk(ROUTES));
    let world = World::start(&["--registry", &format!("file={}", dir.path().display())]).await;
    let table = world.until("get policies VirtualService -o wide", "TRB0442").await;
    for part in ["pay.example.com", "no effect: spec.gateways[1]"] {
        assert!(table.contains(part), "no {part:?} in {table}");
    }
    let one = world.run("get policies VirtualService/shop/pay -o json").await.out;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    let to = |host: &str| serde_json::json!({"destination": {"host": host}});
    let want = serde_json::json!({
        "hosts": ["pay.example.com"],
        "http": [
            {
                "name": "first",
                "match": [{
                    "name": "m", "uri": {"prefix": "/a"}, "ignoreUriCase": true, "headers": {"x": {"exact": "b"}}, "port": 80,
                    "sourceLabels": {"app": "web"},
                }],
                "route": [
                    {
                        "destination": {"host": "pay", "subset": "v1", "port": {"number": 81}}, "weight": 90,
                        "headers": {"request": {"set": {":authority": "b.test"}}},
                    },
                    {"destination": {"host": "b.test"}, "weight": 10},
                ],
                "rewrite": {"uri": "/b"},
                "timeout": "0.5s",
                "retries": {"attempts": 2, "retryOn": "5xx,retriable-status-codes,503"},
                "fault": {
                    "delay": {"fixedDelay": "1s", "percentage": {"value": 12.5}}, "abort": {"grpcStatus": "UNAVAILABLE"},
                },
                "mirror": {"host": "c.test"},
                "mirrorPercentage": {"value": 1},
                "corsPolicy": {"allowOrigins": [{"exact": "a"}], "maxAge": "60s"},
            },
            {
                "match": [{"uri": {"exact": "/old"}, "gateways": ["mesh"]}],
                "redirect": {"uri": "/to", "derivePort": "FROM_REQUEST_PORT", "redirectCode": 301},
            },
            {
                "match": [{"method": {"regex": "GET"}}],
                "directResponse": {"status": 404, "body": {"bytes": "2 bytes"}},
            },
            {"delegate": {"name": "other", "namespace": "shop"}},
        ],
        "tls": [{"match": [{"sniHosts": ["pay.example.com"], "port": 443}], "route": [to("b.test")]}],
        "tcp": [{
            "match": [{"destinationSubnets": ["10.1.0.0/16"]}],
            "route": [{"destination": {"host": "b.test"}, "weight": 1}],
        }],
    });
    assert_eq!(one["items"][0]["spec"], want);
    // an invalid version is quarantined with the position of its field
    put(dir.path(), "a.yaml", &mk("  hosts: [pay.example.com]\n  http: [{redirect: {}}]\n"));
    let table = world.until("get policies pay -o wide", "Quarantined").await;
    assert!(table.contains("TRB0306 ") && table.contains("a.yaml:6:21: spec"), "{table}");
}

const FILTER: &str = "  workloadSelector: {labels: {app: pay}}
  priority: 3
  configPatches:
  - applyTo: CLUSTER
    match: {context: SIDECAR_OUTBOUND, cluster: {service: pay.example.com, portNumber: 80}}
    patch: {operation: MERGE, value: {connectTimeout: 1500ms}}
  - applyTo: BOOTSTRAP
    patch: {operation: MERGE, value: {}}
";

#[tokio::test]
async fn envoy_filters_of_files_are_listed_with_their_spec() {
    let mk_filter = |spec: &str| mk_sidecar("pay", spec).replace("kind: Sidecar", "kind: EnvoyFilter");
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "a.yaml", &mk_filter(FILTER));
    let world = World::start(&["--registry", &format!("file={}", dir.path().display())]).await;
    let table = world.until("get policies EnvoyFilter -o wide", "TRB0460").await;
    assert!(table.contains("spec.configPatches[1]"), "{table}");
    let one = world.run("get policies EnvoyFilter/shop/pay -o json").await.out;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    let cluster = serde_json::json!({"service": "pay.example.com", "portNumber": 80});
    let want = serde_json::json!({
        "workloadSelector": {"labels": {"app": "pay"}},
        "priority": 3,
        "configPatches": [
            {
                "applyTo": "CLUSTER",
                "match": {"context": "SIDECAR_OUTBOUND", "cluster": cluster},
                "patch": {"operation": "MERGE", "value": {"connect_timeout": "1.500s"}},
            },
            {"applyTo": "BOOTSTRAP", "patch": {"operation": "MERGE", "value": {}}},
        ],
    });
    assert_eq!(one["items"][0]["spec"], want);
    // an invalid value is quarantined with its position
    put(dir.path(), "a.yaml", &mk_filter(&FILTER.replace("1500ms", "1500")));
    let table = world.until("get policies pay -o wide", "Quarantined").await;
    assert!(
        table.contains("TRB0340 ") && table.contains("a.yaml:10:55: spec.configPatches[0].patch.value"),
        "{table}"
    );
}

#[tokio::test]
async fn objects_of_unserved_kinds_are_listed_with_their_meaning() {
    let dir = tempfile::tempdir().unwrap();
    let mk = |version: &str, kind: &str, name: &str| {
        format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{}}\n"
        )
    };
    put(dir.path(), "a.yaml", &mk_sidecar("narrow", NARROW));
    put(dir.path(), "b.yaml", &mk("telemetry.istio.io/v1", "Telemetry", "logs"));
    put(dir.path(), "c.yaml", &mk("extensions.istio.io/v1alpha1", "WasmPlugin", "plug"));
    let world = World::start(&["--registry", &format!("file={}", dir.path().display())]).await;
    let table = world.until("get policies -o wide", "plug").await;
    let row = table.lines().find(|line| line.contains("plug")).unwrap();
    for part in ["WasmPlugin", "NotServed", "TRB0327", "c.yaml:2:7", "do not pass through its filter"] {
        assert!(row.contains(part), "no {part:?} in {row}");
    }
    let rows: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(rows, ["narrow", "logs", "plug"], "what is served precedes");
    for (name, count) in [("Telemetry", 1), ("shop/plug", 1), ("Telemetry/shop/logs", 1), ("logs -n web", 0)]
    {
        let found = world.run(&format!("get policies {name} -o name")).await;
        assert_eq!(found.out.lines().count(), count, "{name}: {}", found.out);
    }
    let problems = world.until("get registries -o wide", "plug").await;
    assert!(
        problems.contains("Telemetry shop/logs") && problems.contains("write no access logs"),
        "{problems}"
    );
    let ready = world.readyz().await;
    assert!(!ready.contains("Telemetry") && !ready.contains("plug"), "nothing waits for them: {ready}");
    let live = world.run("analyze --live").await;
    assert!(live.out.contains("warning [WasmPlugin shop/plug]"), "{}", live.out);
    let files = world.run(&format!("analyze -f {}", dir.path().display())).await;
    assert_eq!(files.exit, Ok(Exit::Ok), "a warning is below the threshold: {}", files.out);
    assert!(files.out.contains("c.yaml:2:7: warning [WasmPlugin shop/plug]"), "{}", files.out);
    std::fs::remove_file(dir.path().join("c.yaml")).unwrap();
    let gone = async {
        while world.run("get policies").await.out.contains("plug") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::world::LONG, gone).await.expect("the row goes with its file");
}
