//! The baseline: a consumer that reads the same cluster with the whole types and keeps every object.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;

use crate::process::Usage;
use crate::report::Table;

/// Objects per page, the default of client libraries.
const PAGE: u32 = 500;

/// Runs the consumer in a separate process and reports its cost.
pub(super) fn measure(kubeconfig: &Path, what: &str, table: &mut Table) -> Result<()> {
    let me = std::env::current_exe()?;
    let output = Command::new(me).arg("plain").arg(kubeconfig).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "the plain consumer failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut figures = text.split_whitespace().map(str::parse::<f64>);
    let mut figure = || {
        figures.next().ok_or_else(|| anyhow!("the plain consumer printed {text:?}"))?.context(text.clone())
    };
    table.add(format!("{what}: baseline, whole objects kept: CPU"), "ms", figure()?);
    table.add(format!("{what}: baseline, whole objects kept: resident"), "MB", figure()?);
    table.add(format!("{what}: baseline, whole objects kept: peak"), "MB", figure()?);
    Ok(())
}

/// Runs the consumer's process.
pub(crate) fn main(args: &[&str]) -> Result<()> {
    let [kubeconfig] = args else { return Err(anyhow!("usage: plain KUBECONFIG")) };
    // A second call finds a provider installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(consume(Path::new(kubeconfig)))
}

async fn consume(kubeconfig: &Path) -> Result<()> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let kept = (
        all::<Service>(&client).await?,
        all::<EndpointSlice>(&client).await?,
        all::<Pod>(&client).await?,
        all::<Node>(&client).await?,
    );
    let usage = Usage::of(std::process::id())?;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!("{} {} {}", usage.cpu.as_secs_f64() * 1e3, mb(usage.resident), mb(usage.peak));
    ensure!(!kept.0.is_empty() && !kept.1.is_empty(), "the cluster is empty");
    Ok(())
}

async fn all<K>(client: &Client) -> Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    let (mut kept, mut next) = (Vec::new(), None);
    loop {
        let mut params = ListParams::default().limit(PAGE);
        params.continue_token = next;
        let page = api.list(&params).await?;
        kept.extend(page.items);
        next = page.metadata.continue_.filter(|token| !token.is_empty());
        if next.is_none() {
            return Ok(kept);
        }
    }
}
