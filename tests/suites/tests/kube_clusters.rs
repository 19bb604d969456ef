//! `tributary cluster check --connect` on a real API server, as a process of its own.

use std::process::{Command, Output};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tributary_suites::ApiServer;
use tributary_suites::kube::{Login, READ, READABLE};
use tributary_suites::tools;

/// Runs the check of one kubeconfig and returns its exit code and item.
fn check(text: &str, args: &[&str]) -> Result<(Option<i32>, Value)> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("east.kubeconfig");
    std::fs::write(&file, text)?;
    let mut command = Command::new(tools::tributary()?);
    command.args(["cluster", "check", "--connect", "-o", "json", "-f"]).arg(&file).args(args);
    let Output { status, stdout, stderr } = command.output()?;
    let shown = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(!shown.contains("-token"), "a token is shown: {shown}");
    let list: Value = serde_json::from_slice(&stdout).with_context(|| shown)?;
    Ok((status.code(), list["items"][0].clone()))
}

const HERE: [&str; 2] = ["--allow-server-cidr", "127.0.0.0/8"];

fn codes(item: &Value) -> Vec<&str> {
    item["reasons"].as_array().into_iter().flatten().filter_map(|reason| reason["code"].as_str()).collect()
}

#[tokio::test]
async fn accepted_cluster_shows_version_and_identity() -> Result<()> {
    let server = ApiServer::start().await?;
    server.api().allow("reader", &READ, &READABLE).await?;
    let text = std::fs::read_to_string(server.kubeconfig(&Login::user("reader"))?)?;
    let (code, item) = check(&text, &HERE)?;
    assert_eq!((code, item["verdict"].as_str()), (Some(0), Some("Accepted")), "{item}");
    assert!(item["version"].as_str().is_some_and(|version| version.starts_with("v1.")), "{item}");
    let namespace = server.api().list("v1", "Namespace").await?;
    let system =
        namespace.iter().find(|one| one["metadata"]["name"] == "kube-system").context("kube-system")?;
    assert_eq!(item["identity"], system["metadata"]["uid"]);
    Ok(())
}

#[tokio::test]
async fn each_reason_for_a_cluster_that_cannot_be_served_has_its_code() -> Result<()> {
    let server = ApiServer::start().await?;
    let text = std::fs::read_to_string(server.kubeconfig(&Login::user("reader"))?)?;
    // the form is refused before anything is dialled
    let (code, item) = check(&text, &[])?;
    assert_eq!((code, codes(&item)), (Some(3), vec!["TRB0704"]), "{item}");
    let unknown = std::fs::read_to_string(server.kubeconfig(&Login::Token("unknown-token".to_owned()))?)?;
    let (code, item) = check(&unknown, &HERE)?;
    assert_eq!((code, codes(&item)), (Some(3), vec!["TRB0708"]), "{item}");
    let poor = std::fs::read_to_string(server.kubeconfig(&Login::user("unprivileged"))?)?;
    let (code, item) = check(&poor, &HERE)?;
    assert_eq!((code, item["verdict"].as_str()), (Some(3), Some("Unusable")), "{item}");
    assert_eq!(codes(&item), ["TRB0709"; 7], "{item}");
    // namespaces, pods, services and endpointslices are required; nodes, gateways and workloadentries are not
    let checks = item["checks"].as_array().into_iter().flatten().filter(|one| one["check"] == "rights");
    let outcomes: Vec<_> = checks.filter_map(|one| one["outcome"].as_str()).collect();
    let of = |outcome: &str| outcomes.iter().filter(|one| **one == outcome).count();
    assert_eq!((of("Failed"), of("Warning")), (4, 3), "{item}");
    // another authority: the certificate of the server is not trusted
    let other = rcgen::generate_simple_self_signed(["other.test".to_owned()])?.cert.pem();
    let strange = Login::user("reader").kubeconfig(server.url(), &other, "default");
    let (code, item) = check(&strange, &HERE)?;
    assert_eq!((code, codes(&item)), (Some(3), vec!["TRB0707"]), "{item}");
    assert!(
        item["reasons"][0]["message"].as_str().is_some_and(|text| text.contains("certificate")),
        "{item}"
    );
    Ok(())
}
