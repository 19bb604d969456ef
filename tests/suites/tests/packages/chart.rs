//! The chart as text: its rights equal those of `tributary rbac print`, wrong values are refused, and generated files are up to
//! date.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tributary_suites::deploy::{Helm, NAMESPACE, path, succeed};
use tributary_suites::kube::api::documents;
use tributary_suites::tools;

/// Rules by kind and namespace of their role, each with the subjects of its binding.
type Rights = BTreeMap<(String, String), BTreeSet<String>>;

/// Returns the rules and subjects of all roles. A cluster's role has no namespace.
fn rights(objects: &[Value]) -> Rights {
    let mut out = Rights::new();
    for object in objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let of = |field: &str| object[field].as_array().cloned().unwrap_or_default();
        let lines = match kind.strip_suffix("Binding") {
            Some(_) => of("subjects"),
            None if kind.ends_with("Role") => of("rules"),
            None => continue,
        };
        let role = kind.trim_end_matches("Binding").to_owned();
        out.entry((role, namespace.to_owned())).or_default().extend(lines.iter().map(sorted));
    }
    out
}

/// Returns a rule as text, its lists in order.
fn sorted(rule: &Value) -> String {
    let mut rule = rule.clone();
    for list in rule.as_object_mut().into_iter().flat_map(|fields| fields.values_mut()) {
        if let Some(list) = list.as_array_mut() {
            list.sort_by_key(ToString::to_string);
        }
    }
    rule.to_string()
}

pub(crate) fn find<'v>(objects: &'v [Value], kind: &str) -> Result<&'v Value> {
    objects.iter().find(|one| one["kind"] == kind).with_context(|| format!("no {kind} is rendered"))
}

/// Returns what `rbac print` prints for the configuration that the chart rendered.
async fn printed(objects: &[Value]) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("tributary.yaml");
    let text = find(objects, "ConfigMap")?["data"]["tributary.yaml"].as_str().context("a file")?;
    std::fs::write(&file, text)?;
    let account = find(objects, "ServiceAccount")?["metadata"]["name"].as_str().context("a name")?;
    let config = file.display().to_string();
    let args = ["rbac", "print", "--config", &config, "--system-namespace", NAMESPACE, "--account", account];
    documents(&succeed(tools::tributary()?, args).await?)
}

#[tokio::test]
async fn roles_of_the_chart_equal_rbac_print() -> Result<()> {
    let helm = Helm::new(None)?;
    let every = json!(["addresses", "serviceExports", "credentials"]);
    for values in [
        json!({}),
        json!({"xds": {"tokens": {"enabled": false}}}),
        json!({"revision": "blue", "serviceAccount": {"name": "other"}, "config": {"writes": every}}),
        json!({"revision": "default", "config": {"remotes": {"secrets": "on"}, "writes": ["addresses"]}}),
        json!({"config": {"remotes": {"secrets": "on"}, "writes": ["credentials"]}}),
        json!({"kubernetes": {"options": {"mcs": {"discovery": true, "host": true, "group": "mcs.example"}}}}),
        json!({"kubernetes": {"options": {"mcs": {"discovery": true}}}, "config": {"writes": ["serviceExports"]}}),
        json!({"kubernetes": {"options": {"namespaces": ["shop", "pay"], "meshConfig": "none"}}}),
        json!({"kubernetes": {"options": {"namespaces": ["shop", NAMESPACE]}}, "config": {"writes": every}}),
        json!({"admin": {"remote": {"enabled": true}}, "xds": {"tokens": {"enabled": false}}}),
        json!({"admin": {"remote": {"enabled": true, "tokens": {"enabled": false}, "viewers": ["ops"],
            "tls": {"clientCa": {"enabled": true}}}}, "xds": {"tokens": {"enabled": false}}}),
    ] {
        let objects = helm.render(&values).await?;
        let (have, want) = (rights(&objects), rights(&printed(&objects).await?));
        assert_eq!(have, want, "{values}");
    }
    let without = json!({"kubernetes": {"enabled": false}, "registries": [{"kind": "consul"}]});
    ensure!(rights(&helm.render(&without).await?).is_empty(), "without the cluster no right is needed");
    Ok(())
}

#[tokio::test]
async fn manifests_and_schema_are_those_of_the_chart() -> Result<()> {
    let helm = tools::helm()?.display().to_string();
    succeed(path("generate"), ["--check", &helm]).await?;
    let objects = Helm::new(None)?.render(&json!({})).await?;
    let mut manifests = Vec::new();
    for entry in std::fs::read_dir(path("manifests"))? {
        manifests.extend(documents(&std::fs::read_to_string(entry?.path())?)?);
    }
    let named = |all: &[Value]| -> BTreeSet<String> {
        all.iter().map(|one| format!("{} {}", one["kind"], one["metadata"]["name"])).collect()
    };
    let more = BTreeSet::from([format!("\"Namespace\" \"{NAMESPACE}\"")]);
    assert_eq!(named(&manifests), &named(&objects) | &more);
    let chart = documents(&std::fs::read_to_string(path("chart/Chart.yaml"))?)?;
    for field in ["version", "appVersion"] {
        assert_eq!(chart[0][field], env!("CARGO_PKG_VERSION"), "{field} is that of the workspace");
    }
    Ok(())
}

#[tokio::test]
async fn change_that_a_running_server_applies_restarts_no_pod() -> Result<()> {
    let helm = Helm::new(None)?;
    let template = async |values: Value| -> Result<Value> {
        Ok(find(&helm.render(&values).await?, "StatefulSet")?["spec"]["template"].clone())
    };
    let first = template(json!({})).await?;
    let live = json!({"config": {"settings": {"domain": "x.local"}, "log": {"level": "debug"},
        "metrics": {"istioNames": true}, "remotes": {"clusters": {"east": {}}}, "merge": {"byName": "off"}},
        "kubernetes": {"options": {"staleness": "degrade(10m)"}}});
    assert_eq!(template(live).await?, first);
    let remotes = json!({"config": {"remotes": {"secrets": "on"}}});
    let start = json!({"config": {"start": {"firstSyncTimeout": "1m"}}});
    for restarts in [json!({"drainSeconds": 20}), start, remotes] {
        assert_ne!(template(restarts).await?["metadata"], first["metadata"]);
    }
    let grace = |template: &Value| template["spec"]["terminationGracePeriodSeconds"].as_u64();
    assert_eq!(grace(&template(json!({"drainSeconds": 100, "preStopSeconds": 7})).await?), Some(122));
    Ok(())
}
