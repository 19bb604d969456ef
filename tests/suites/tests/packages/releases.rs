//! Several releases of the chart in one cluster share no object, no pod, no Secret of a certificate and no dashboard.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tributary_suites::deploy::Helm;

use crate::chart::find;

/// Values with everything that has a name.
fn full(name: &str) -> Value {
    json!({
        "fullnameOverride": name,
        "kubernetes": {"options": {"namespaces": ["shop"]}},
        "certManager": {"enabled": true, "issuerRef": {"name": "mesh"}},
        "admin": {"remote": {"enabled": true, "service": true}},
        "serviceMonitor": {"enabled": true}, "prometheusRule": {"enabled": true}, "dashboards": {"enabled": true},
    })
}

/// Returns kind, namespace and name of each object; a cluster's object has no namespace.
fn objects_of(objects: &[Value]) -> BTreeSet<String> {
    objects
        .iter()
        .map(|one| format!("{} {} {}", one["kind"], one["metadata"]["namespace"], one["metadata"]["name"]))
        .collect()
}

/// Returns the Secrets of certificates, and uid and title of each dashboard.
fn names_in(objects: &[Value]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for object in objects {
        if object["kind"] == "Certificate" {
            out.insert(format!(
                "Secret {} {}",
                object["metadata"]["namespace"], object["spec"]["secretName"]
            ));
        }
        let files = object["data"].as_object().into_iter().flatten();
        for (_, text) in files.filter(|(name, _)| name.ends_with(".json")) {
            let dashboard: Value =
                text.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            out.insert(format!("uid {}", dashboard["uid"]));
            out.insert(format!("title {}", dashboard["title"]));
        }
    }
    out
}

#[tokio::test]
async fn releases_share_no_name_secret_or_dashboard() -> Result<()> {
    let helm = Helm::new(None)?;
    let (mut all, mut inner): (BTreeSet<String>, BTreeSet<String>) = Default::default();
    for (release, namespace, name) in [
        ("tributary", "tributary-system", ""),
        ("blue", "tributary-system", ""),
        ("tributary", "other", ""),
        // Joined by `-`, both would be `a-b-c`.
        ("one", "a", "b-c"),
        ("one", "a-b", "c"),
    ] {
        let objects = helm.render_for((release, namespace), &full(name)).await?;
        for (seen, names) in [(&mut all, objects_of(&objects)), (&mut inner, names_in(&objects))] {
            let shared: Vec<_> = names.intersection(seen).collect();
            ensure!(shared.is_empty(), "{release} in {namespace} shares {shared:?}");
            seen.extend(names);
        }
    }
    ensure!(inner.len() == 5 * (2 + 2 * 5), "each has two Secrets and five dashboards: {inner:?}");
    Ok(())
}

/// Whether all labels of a selector are those of an object.
fn selects(selector: &Value, labels: &Value) -> bool {
    selector
        .as_object()
        .is_some_and(|wanted| !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value))
}

#[tokio::test]
async fn selectors_of_a_release_select_its_own_pods_only() -> Result<()> {
    let helm = Helm::new(None)?;
    let own = helm.render_for(("tributary", "mesh"), &full("")).await?;
    let others = helm.render_for(("blue", "mesh"), &full("")).await?;
    let labels = |objects: &[Value]| -> Result<Value> {
        Ok(find(objects, "StatefulSet")?["spec"]["template"]["metadata"]["labels"].clone())
    };
    let mut selectors: Vec<Value> = Vec::new();
    for object in &own {
        let spec = &object["spec"];
        match object["kind"].as_str().unwrap_or_default() {
            "Service" => selectors.push(spec["selector"].clone()),
            "NetworkPolicy" => selectors.push(spec["podSelector"]["matchLabels"].clone()),
            "StatefulSet" | "PodDisruptionBudget" | "ServiceMonitor" => {
                selectors.push(spec["selector"]["matchLabels"].clone());
            }
            _ => {}
        }
    }
    assert_eq!(selectors.len(), 6, "{selectors:?}");
    for selector in selectors {
        ensure!(selects(&selector, &labels(&own)?), "{selector} does not select its own pods");
        ensure!(!selects(&selector, &labels(&others)?), "{selector} selects pods of another release");
    }
    Ok(())
}

#[tokio::test]
async fn certificates_have_the_names_of_services_and_replicas() -> Result<()> {
    let helm = Helm::new(None)?;
    let mut values = full("");
    values["replicas"] = json!(3);
    values["config"] = json!({"settings": {"domain": "x.local"}});
    values["certManager"]["dnsNames"] = json!(["xds.example"]);
    let objects = helm.render(&values).await?;
    let certificates: Vec<_> = objects.iter().filter(|one| one["kind"] == "Certificate").collect();
    assert_eq!(certificates.len(), 2);
    for certificate in certificates {
        let names: BTreeSet<&str> = certificate["spec"]["dnsNames"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for name in [
            "tributary.tributary-system.svc",
            "tributary.tributary-system.svc.x.local",
            "tributary-replicas.tributary-system.svc",
            "tributary-0.tributary-replicas.tributary-system.svc",
            "tributary-2.tributary-replicas.tributary-system.svc.x.local",
            "xds.example",
        ] {
            ensure!(names.contains(name), "{name} is not in {names:?}");
        }
    }
    // A client's name for a replica is the one that the StatefulSet gives it.
    let set = find(&objects, "StatefulSet")?;
    ensure!(
        set["spec"]["serviceName"] == "tributary-replicas" && set["metadata"]["name"] == "tributary",
        "{set}"
    );
    Ok(())
}
