//! Values of the chart: wrong ones are refused by their names before anything is applied, and what they render to is accepted by the
//! server.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tributary_suites::deploy::{Helm, fail, succeed};
use tributary_suites::tools;

use crate::chart::find;

/// Renders the chart and expects each of these texts in its error.
async fn refused(helm: &Helm, values: Value, named: &[&str]) -> Result<()> {
    let done = helm.run(&["template"], &values).await?;
    let error = String::from_utf8_lossy(&done.stderr);
    ensure!(!done.status.success(), "{values} is accepted");
    for name in named {
        ensure!(error.contains(name), "{name} is not in the error of {values}: {error}");
    }
    Ok(())
}

#[tokio::test]
async fn wrong_value_is_refused_by_its_name() -> Result<()> {
    let helm = Helm::new(None)?;
    let several = json!({"replica": 3, "replicas": 0, "state": {"kind": "disk"},
        "config": {"settings": {"domian": "x"}, "stateDir": "/x"},
        "registries": [{"kind": "consul", "token": "secret"}, {"kind": "etcd"}]});
    let named =
        ["'replica'", "/replicas", "/state/kind", "'domian'", "'stateDir'", "'token'", "/registries/1/kind"];
    refused(&helm, several, &named).await?;
    for (values, named) in [
        (json!({"kubernetes": {"enabled": false}}), "no registry is configured"),
        (json!({"certManager": {"enabled": true}}), "certManager.issuerRef.name is empty"),
        (json!({"serviceAccount": {"create": false}}), "serviceAccount.name is empty"),
    ] {
        refused(&helm, values, &[named]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn value_that_kubernetes_refuses_is_refused_by_its_name() -> Result<()> {
    let helm = Helm::new(None)?;
    let garbage = json!({
        "fullnameOverride": "Not_A_Name", "clusterId": "a b", "priorityClassName": "High", "env": [],
        "image": {"repository": "Not An Image", "tag": "a b"}, "imagePullSecrets": [{"nam": "x"}],
        "xds": {"maxConnectionAge": "soon", "tls": {"secret": "A"}}, "state": {"size": "1K", "storageClass": "a b"},
        "podDisruptionBudget": {"maxUnavailable": 0}, "resources": {"limits": {"memory": "lots"}},
        "podLabels": {"app.kubernetes.io/name": "other", "a": "b c"}, "podAnnotations": {"a b": "c"},
        "networkPolicy": {"xdsFrom": [{}], "adminFrom": [{"pods": {}}]}, "service": {"trafficDistribution": "Near"},
        "serviceMonitor": {"interval": "often"}, "prometheusRule": {"runbookBase": "docs"},
        "extraEnv": [{"name": "POD_NAMESPACE", "value": "x"}, {"name": "A", "value": 1}],
        "tolerations": [{"operator": "In"}], "nodeSelector": {"a": "b c"},
    });
    let named = [
        "/fullnameOverride",
        "/clusterId",
        "/priorityClassName",
        "'env'",
        "/image/repository",
        "/image/tag",
        "/imagePullSecrets/0",
        "/xds/maxConnectionAge",
        "/xds/tls/secret",
        "/state/size",
        "/state/storageClass",
        "/podDisruptionBudget/maxUnavailable",
        "/resources/limits/memory",
        "/podLabels/app.kubernetes.io~1name",
        "/podLabels/a'",
        "'a b' not allowed",
        "/networkPolicy/xdsFrom/0",
        "'pods'",
        "/service/trafficDistribution",
        "/serviceMonitor/interval",
        "/prometheusRule/runbookBase",
        "/extraEnv/0/name",
        "/extraEnv/1/value",
        "/tolerations/0/operator",
        "/nodeSelector/a'",
    ];
    refused(&helm, garbage, &named).await?;
    for budget in ["many", "0%", "101%"] {
        refused(
            &helm,
            json!({"podDisruptionBudget": {"maxUnavailable": budget}}),
            &["/podDisruptionBudget/maxUnavailable"],
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn values_that_contradict_each_other_are_refused_together() -> Result<()> {
    let helm = Helm::new(None)?;
    let contradictions = json!({
        "fullnameOverride": "1st",
        "xds": {"port": 15020}, "admin": {"port": 15017, "remote": {"enabled": true, "operators": ["ops"],
            "tokens": {"audiences": ["istio-ca"]}}},
        "extraEnv": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        "extraVolumes": [{"name": "tls", "emptyDir": {}}, {"name": "registry-0", "emptyDir": {}}, {"name": "a", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "absent", "mountPath": "/x"}, {"name": "a", "mountPath": "/x/"},
            {"name": "a", "mountPath": "/etc/tributary/config/more"}],
    });
    let named = [
        "the name \"1st\" is not that of a Service",
        "xds.port and health.port are both 15020",
        "admin.port and admin.remote.port are both 15017",
        "set admin.remote.tls.clientCa.enabled",
        "has istio-ca of xds.tokens.audiences",
        "extraEnv names A twice",
        "tls is a volume of the chart",
        "registry-0 is a volume of the chart",
        "absent is not in extraVolumes",
        "names /x twice",
        "/etc/tributary/config/more holds files of the server",
    ];
    refused(&helm, contradictions, &named).await?;
    let remote = |more: Value| {
        let mut remote = json!({"enabled": true, "tokens": {"enabled": false}});
        remote
            .as_object_mut()
            .into_iter()
            .for_each(|r| r.extend(more.as_object().cloned().unwrap_or_default()));
        json!({"admin": {"remote": remote}})
    };
    refused(&helm, remote(json!({})), &["admits no operator"]).await?;
    let unused = remote(json!({"tls": {"clientCa": {"enabled": true}}}));
    refused(&helm, unused, &["clientCa has no effect without names"]).await?;
    let shared = json!({"certManager": {"enabled": true, "issuerRef": {"name": "mesh"}}, "xds": {"tls": {"secret": "one"}},
        "admin": {"remote": {"enabled": true, "tls": {"secret": "one"}}}});
    refused(&helm, shared, &["xds.tls.secret and admin.remote.tls.secret are equal"]).await
}

#[tokio::test]
async fn pod_takes_volumes_variables_and_security_contexts_of_the_operator() -> Result<()> {
    let helm = Helm::new(None)?;
    let values = json!({
        "podSecurityContext": {"runAsUser": null, "runAsGroup": null, "fsGroup": null, "supplementalGroups": [7]},
        "securityContext": {"readOnlyRootFilesystem": false},
        "extraEnv": [{"name": "TRIBUTARY_LOG", "value": "debug"}],
        "extraVolumes": [{"name": "kubeconfigs", "secret": {"secretName": "remote"}}],
        "extraVolumeMounts": [{"name": "kubeconfigs", "mountPath": "/etc/tributary/kubeconfigs", "readOnly": true}],
    });
    let objects = helm.render(&values).await?;
    let pod = &find(&objects, "StatefulSet")?["spec"]["template"]["spec"];
    assert_eq!(
        pod["securityContext"],
        json!({"runAsNonRoot": true, "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"},
            "supplementalGroups": [7]})
    );
    let container = &pod["containers"][0];
    let context = &container["securityContext"];
    ensure!(
        context["readOnlyRootFilesystem"] == false && context["allowPrivilegeEscalation"] == false,
        "{context}"
    );
    let has = |list: &Value, one: &Value| list.as_array().is_some_and(|list| list.contains(one));
    for (list, one) in [
        (&container["env"], &values["extraEnv"][0]),
        (&container["volumeMounts"], &values["extraVolumeMounts"][0]),
        (&pod["volumes"], &values["extraVolumes"][0]),
    ] {
        ensure!(has(list, one), "{one} is not in {list}");
    }
    Ok(())
}

#[tokio::test]
async fn rendered_configuration_is_validated_without_the_files_of_the_pod() -> Result<()> {
    let (helm, folder) = (Helm::new(None)?, tempfile::tempdir()?);
    let file = folder.path().join("tributary.yaml").display().to_string();
    let validate = |more: &'static [&'static str]| {
        let start = ["config", "validate", &file].map(str::to_owned);
        start.into_iter().chain(more.iter().map(|flag| (*flag).to_owned())).collect::<Vec<_>>()
    };
    let write = async |values: Value| -> Result<()> {
        let objects = helm.render(&values).await?;
        let text = find(&objects, "ConfigMap")?["data"]["tributary.yaml"].as_str().context("no file")?;
        Ok(std::fs::write(&file, text)?)
    };
    write(json!({
        "registries": [{"kind": "consul", "addresses": ["https://consul.example:8501"], "tokenSecret": {"name": "t"},
            "caSecret": {"name": "c"}, "certSecret": {"name": "k"}}],
        "xds": {"tls": {"clientCa": {"enabled": true}}},
        "admin": {"remote": {"enabled": true, "viewers": ["ops"], "tls": {"clientCa": {"enabled": true}}}},
    }))
    .await?;
    let binary = tools::tributary()?;
    let error = fail(&binary, validate(&[])).await?;
    ensure!(error.contains("TRB0107") && error.contains("/etc/tributary/tls/tls.crt"), "{error}");
    succeed(&binary, validate(&["--without-files"])).await?;
    // What the schema of the values cannot know.
    write(json!({"config": {"settings": {"connectTimeout": "soon"}}})).await?;
    let error = fail(&binary, validate(&["--without-files"])).await?;
    ensure!(error.contains("connectTimeout"), "{error}");
    Ok(())
}

#[tokio::test]
async fn runbooks_of_alerts_are_links_once_their_base_is_named() -> Result<()> {
    let helm = Helm::new(None)?;
    let runbooks = async |base: &str| -> Result<Vec<String>> {
        let values = json!({"prometheusRule": {"enabled": true, "runbookBase": base}});
        let objects = helm.render(&values).await?;
        let groups =
            find(&objects, "PrometheusRule")?["spec"]["groups"].as_array().context("no groups")?.clone();
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten());
        Ok(rules
            .map(|rule| rule["annotations"]["runbook_url"].as_str().unwrap_or_default().to_owned())
            .collect())
    };
    let paths = runbooks("").await?;
    ensure!(
        paths.len() > 20
            && paths
                .iter()
                .all(|one| one.starts_with("docs/reference/alerts.md") && one.contains("#tributary")),
        "{paths:?}"
    );
    let links: Vec<String> = paths.iter().map(|one| format!("https://git.example/tributary/{one}")).collect();
    assert_eq!(runbooks("https://git.example/tributary/").await?, links);
    Ok(())
}
