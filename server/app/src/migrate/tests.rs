//! Tests of the report: outcomes by value, names that no table has, mesh configuration, tasks.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::config::istio;

fn istiod(args: &[&str], env: &[(&str, &str)]) -> Istiod {
    let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    let container = json!({"name": "discovery", "args": args, "env": env});
    let deployment = json!({"kind": "Deployment", "metadata": {"name": "istiod", "namespace": "istio-system"},
        "spec": {"template": {"spec": {"containers": [{"args": ["x"]}, container]}}}});
    assert!(Istiod::is_in(&deployment));
    Istiod::of(&deployment).unwrap()
}

fn of<'a>(items: &'a [Item], what: &str, name: &str) -> &'a Item {
    let found = items.iter().find(|item| item.what == what && item.name == name);
    found.unwrap_or_else(|| panic!("no {what} {name} in {items:?}"))
}

/// An istiod without any task that can be turned off.
const ALONE: [(&str, &str); 5] = [
    ("INJECT_ENABLED", "false"),
    ("VALIDATION_WEBHOOK_CONFIG_NAME", ""),
    ("ENABLE_CA_SERVER", "0"),
    ("PILOT_ENABLE_GATEWAY_API", "False"),
    ("PILOT_ENABLE_ANALYSIS", "false"),
];

#[test]
fn flags_are_read_in_every_form() {
    let istiod = istiod(
        &[
            "discovery",
            "--domain",
            "x.local",
            "--monitoringAddr=:15014",
            "--log_as_json",
            "--profile",
            "-n",
            "sys",
        ],
        &[],
    );
    let flags: Vec<_> = istiod.flags.iter().map(|flag| (flag.name.as_str(), flag.shown())).collect();
    let want = [
        ("domain", "x.local"),
        ("monitoringAddr", ":15014"),
        ("log_as_json", "true"),
        ("profile", "true"),
        ("n", "sys"),
    ];
    assert_eq!(flags, want.map(|(name, value)| (name, value.to_owned())));
    assert_eq!(istiod.name, "istio-system/istiod");
}

#[test]
fn outcome_depends_on_the_value() {
    let env = [
        ("PILOT_HTTP10", "1"),
        ("PILOT_ENABLE_REDIS_FILTER", "false"),
        ("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES", "false"),
        ("ISTIO_DUAL_STACK", "T"),
        ("PILOT_DEBOUNCE_AFTER", "1s"),
        ("REVISION", "canary"),
        ("PILOT_FROM_THE_FUTURE", "x"),
    ];
    let items =
        check(&istiod(&["discovery", "--registries=Kubernetes,Consul"], &env), &MeshTexts::default(), &[]);
    assert_eq!(of(&items, "flag", "registries").outcome, Outcome::Honoured);
    let outcome = |name: &str| {
        let item = of(&items, "variable", name);
        (item.outcome, item.lost)
    };
    assert_eq!(outcome("PILOT_HTTP10"), (Outcome::Refused, true));
    assert_eq!(outcome("PILOT_ENABLE_REDIS_FILTER"), (Outcome::NoEffectNeeded, false));
    assert_eq!(outcome("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES"), (Outcome::Refused, true));
    assert_eq!(outcome("ISTIO_DUAL_STACK"), (Outcome::Honoured, false));
    assert_eq!(outcome("PILOT_DEBOUNCE_AFTER"), (Outcome::NoEffectNeeded, false));
    assert_eq!(outcome("REVISION"), (Outcome::OtherName, false));
    assert_eq!(outcome("PILOT_FROM_THE_FUTURE"), (Outcome::Unknown, false));
    assert_eq!(of(&items, "variable", "REVISION").value, "canary");
    assert_eq!(
        of(&items, "variable", "PILOT_FROM_THE_FUTURE").value,
        "set",
        "an unknown one may be a secret"
    );
}

#[test]
fn values_from_elsewhere_are_named_and_count_as_set() {
    let container = json!({"args": ["discovery"], "env": [
        {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "PILOT_HTTP10", "valueFrom": {"configMapKeyRef": {"name": "more", "key": "x"}}},
    ], "envFrom": [{"secretRef": {"name": "hidden"}}]});
    let deployment =
        json!({"kind": "Deployment", "spec": {"template": {"spec": {"containers": [container]}}}});
    let items = check(&Istiod::of(&deployment).unwrap(), &MeshTexts::default(), &[]);
    assert_eq!(of(&items, "variable", "POD_NAMESPACE").value, "from field metadata.namespace");
    assert!(of(&items, "variable", "PILOT_HTTP10").lost, "a value that is not known may be in use");
    assert_eq!(of(&items, "variable", "envFrom Secret hidden").outcome, Outcome::Unknown);
}

#[test]
fn deployment_without_discovery_is_refused() {
    let other = json!({"kind": "Deployment", "metadata": {"name": "web", "namespace": "a"},
        "spec": {"template": {"spec": {"containers": [{"args": ["serve"]}]}}}});
    assert!(!Istiod::is_in(&other));
    assert!(Istiod::of(&other).unwrap_err().contains("Deployment a/web"));
}

#[test]
fn mesh_fields_are_those_that_the_reader_takes() {
    let mesh = "trustDomain: a.test\nenableTracing: maybe\nextensionProviders: [{name: x}]\nnewField: 1\n\
                defaultConfig: {discoveryAddress: x, gatewayTopology: {numTrustedProxies: 1}, tracing: {sampling: 5}}\n\
                outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}\n";
    let texts = MeshTexts { mesh: Some(mesh.into()), networks: Some("networks: {}".into()) };
    let items = mesh::check(&texts);
    let outcome = |name: &str| of(&items, "mesh", name).outcome;
    assert_eq!(outcome("trustDomain"), Outcome::Honoured);
    assert_eq!(outcome("enableTracing"), Outcome::Refused);
    assert_eq!(outcome("extensionProviders"), Outcome::Refused);
    assert_eq!(outcome("newField"), Outcome::Unknown);
    assert_eq!(outcome("defaultConfig"), Outcome::Honoured);
    assert_eq!(outcome("defaultConfig.discoveryAddress"), Outcome::NoEffectNeeded);
    assert_eq!(outcome("defaultConfig.gatewayTopology"), Outcome::Refused);
    assert_eq!(outcome("outboundTrafficPolicy.mode"), Outcome::Refused);
    assert_eq!(outcome("meshNetworks"), Outcome::Honoured);
    let broken = MeshTexts { mesh: Some("a: [".into()), networks: None };
    let found = mesh::check(&broken);
    assert_eq!(found.len(), 1, "one line for one fault: {found:?}");
    assert!(found[0].lost);
}

#[test]
fn tasks_are_in_use_by_default_and_can_be_turned_off() {
    let used = |env: &[(&str, &str)], mesh: &str| {
        let texts = MeshTexts { mesh: Some(mesh.to_owned()), networks: None };
        let items = tasks::check(&istiod(&["discovery"], env), &texts, &[]);
        items.into_iter().filter(|item| item.lost).map(|item| item.name).collect::<Vec<_>>()
    };
    assert_eq!(used(&[], ""), ["injection", "validation", "ca", "gateways"]);
    assert_eq!(used(&ALONE, "ingressControllerMode: OFF"), [""; 0]);
    let more = [ALONE.as_slice(), &[("PILOT_ENABLE_AMBIENT", "true"), ("EXTERNAL_CA", "x")]].concat();
    let telemetry = "defaultProviders: {metrics: [prometheus]}\n";
    let dns =
        "ingressControllerMode: OFF\ndefaultConfig: {proxyMetadata: {ISTIO_META_DNS_CAPTURE: 'true'}}\n";
    assert_eq!(used(&more, &format!("{telemetry}{dns}")), ["dns", "telemetry", "ambient"]);
}

#[test]
fn objects_of_the_cluster_decide_where_they_are_known() {
    let counts = |of: &dyn Fn(&str) -> Result<Option<u64>, String>| {
        tasks::KINDS.iter().map(|kind| (kind, of(kind.name))).collect::<Vec<Counted>>()
    };
    let none = counts(&|_| Ok(None));
    let items = check(&istiod(&["discovery"], &[]), &MeshTexts::default(), &none);
    assert!(!of(&items, "task", "gateways").lost && !of(&items, "kind", "WasmPlugin").lost);
    let some = counts(&|name| match name {
        "WasmPlugin" => Ok(Some(3)),
        "WorkloadGroup" => Ok(Some(1)),
        "Ingress" => Err("403".to_owned()),
        _ => Ok(Some(0)),
    });
    let items = check(&istiod(&["discovery"], &[]), &MeshTexts::default(), &some);
    assert_eq!(
        (of(&items, "kind", "WasmPlugin").value.as_str(), of(&items, "kind", "WasmPlugin").lost),
        ("3", true)
    );
    assert!(of(&items, "task", "registration").lost);
    let unread = of(&items, "kind", "Ingress");
    assert_eq!((unread.outcome, unread.lost), (Outcome::Unknown, false));
}

#[test]
fn tables_have_each_name_once_and_agree_with_what_serve_reads() {
    let tables =
        [flags::TABLE, variables::DISCOVERY, variables::SECURITY, variables::DATA_PLANE, mesh::TABLE];
    for table in tables {
        let names: BTreeSet<&str> = table.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), table.len());
        for row in table {
            assert!(!row.here.ends_with('.') && !row.here.is_empty(), "{}", row.name);
            assert!(row.same.iter().all(|value| value.to_ascii_lowercase() == *value), "{}", row.name);
            let task = row.here.split("the task `").nth(1).and_then(|rest| rest.split('`').next());
            assert!(
                task.is_none_or(|name| tasks::TASKS.iter().any(|task| task.name == name)),
                "{}",
                row.name
            );
        }
    }
    let all: BTreeSet<&str> = variables::TABLES.into_iter().flatten().map(|row| row.name).collect();
    assert_eq!(all.len(), variables::TABLES.iter().map(|table| table.len()).sum::<usize>());
    for (name, effect) in istio::rows() {
        let row = variables::find(name).unwrap_or_else(|| panic!("{name} is read and in no table"));
        let instead = effect.starts_with("no effect");
        assert_eq!(row.outcome == Outcome::OtherName, instead, "{name}: {effect}");
        assert!(instead || row.outcome == Outcome::Honoured, "{name}: {effect}");
    }
}
