//! Faults before an installation: each makes `check --before` red, and its correction green.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tributary_suites::front::Changes;
use tributary_suites::kube::{Login, Named};

use crate::checked::before;
use crate::site::Site;

/// Address that no process listens on.
const CLOSED: &str = "127.0.0.1:1";

/// Checks a configuration with one change.
async fn changed(
    site: &Site,
    good: &Value,
    change: impl FnOnce(&mut Value),
    red: (&str, &str),
) -> Result<()> {
    let mut config = good.clone();
    change(&mut config);
    let found = before(&site.write(&config)?).await?;
    found.is_red(&[red]).with_context(|| format!("the fault of {}", red.0))
}

#[tokio::test]
async fn each_fault_before_an_installation_is_red() -> Result<()> {
    let site = Site::start().await?;
    let good = site.document(&site.authority.server("xds")?)?;
    before(&site.write(&good)?).await?.is_green().context("without a fault")?;

    let red = ("before-config", "kubeconfg");
    changed(&site, &good, |config| config["registries"][0]["kubeconfg"] = json!("x"), red).await?;
    let held = TcpListener::bind("127.0.0.1:0").await?;
    let address = held.local_addr()?.to_string();
    let red = ("before-ports", &*format!("{address} is in use"));
    changed(&site, &good, |config| config["admin"]["listen"] = json!(address), red).await?;
    let red = ("before-namespace", "namespace absent does not exist");
    changed(&site, &good, |config| config["systemNamespace"] = json!("absent"), red).await?;
    let consul = format!("http://{CLOSED}");
    let red = ("before-consul", "check the addresses");
    changed(&site, &good, |config| config["registries"][1]["addresses"] = json!([consul]), red).await?;
    let kubeconfig = unreachable(&site)?;
    let red = ("before-cluster", CLOSED);
    changed(&site, &good, |config| config["registries"][0]["kubeconfig"] = json!(kubeconfig), red).await?;
    remotes(&site, &good).await?;
    kinds(&site, &good).await?;
    through_a_front(&site, &good).await?;
    before(&site.write(&good)?).await?.is_green().context("without a fault, again")
}

fn unreachable(site: &Site) -> Result<PathBuf> {
    let file = site.path("unreachable");
    let text = Login::user("reader").kubeconfig(
        &format!("https://{CLOSED}"),
        site.authority.certificate(),
        "default",
    );
    std::fs::write(&file, text)?;
    Ok(file)
}

/// A kubeconfig of a remote cluster leads to this machine, which is refused without an allowance.
async fn remotes(site: &Site, good: &Value) -> Result<()> {
    let folder = site.path("refused");
    std::fs::create_dir(&folder)?;
    std::fs::copy(unreachable(site)?, folder.join("away.yaml"))?;
    let red = ("before-remotes", "correct the kubeconfig in its file");
    changed(site, good, |config| config["remotes"] = json!({"directory": folder}), red).await
}

/// A CustomResourceDefinition is missing: the check passes, with a note.
async fn kinds(site: &Site, good: &Value) -> Result<()> {
    let gateways = Named {
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        namespace: None,
        name: "gateways.gateway.networking.k8s.io".to_owned(),
    };
    let config = site.write(good)?;
    site.cluster.api().remove(&gateways).await?;
    tributary_suites::eventually("the kind to be absent", crate::checked::LATER, || async {
        let found = before(&config).await?;
        found.is_green()?;
        found.has("before-kinds", "gateways.gateway.networking.k8s.io")
    })
    .await?;
    site.cluster.api().define().await
}

/// Another version of the API server, and another time.
async fn through_a_front(site: &Site, good: &Value) -> Result<()> {
    let (front, _outside, kubeconfig) = site.front().await?;
    let mut config = good.clone();
    config["registries"][0]["kubeconfig"] = json!(kubeconfig);
    let config = site.write(&config)?;
    before(&config).await?.is_green().context("through the front")?;
    front.set(Changes { fields: vec![("/version", "/gitVersion", json!("v1.19.16"))], ..Changes::default() });
    before(&config).await?.is_red(&[("before-version", "v1.19.16; the oldest supported version is 1.21")])?;
    front.set(Changes { seconds: -120, ..Changes::default() });
    before(&config).await?.is_red(&[("before-clock", "synchronize both clocks")])
}
