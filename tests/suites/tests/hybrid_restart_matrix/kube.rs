//! A cluster with its own API server, read as Services and slices or as ServiceEntries and WorkloadEntries.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use tributary_suites::consul::PORT;
use tributary_suites::kube::api::documents;
use tributary_suites::kube::{
    CUSTOM_KINDS, Login, Named, READ, READABLE, mk_namespace, mk_service, mk_slices,
};
use tributary_suites::{ApiServer, Entry, eventually};

use crate::cell::SOON;
use crate::origin::{Origin, host};
use crate::table::Source;

const SHOP: &str = "shop";
const READER: &str = "reader";
/// The cluster.
pub(crate) struct Cluster {
    server: ApiServer,
    kubeconfig: PathBuf,
    /// Whether Tributary reads its custom resources.
    custom: bool,
}

impl Cluster {
    /// Starts it without any object.
    pub(crate) async fn start(custom: bool) -> Result<Self> {
        let server = ApiServer::start().await?;
        server.api().apply(&mk_namespace(SHOP)).await?;
        if custom {
            server.api().define().await?;
        }
        let kubeconfig = server.kubeconfig(&Login::user(READER))?;
        let cluster = Self { server, kubeconfig, custom };
        cluster.allow(&READABLE).await?;
        Ok(cluster)
    }
    /// Lets Tributary read these kinds, and waits until that is in force.
    async fn allow(&self, kinds: &[&str]) -> Result<()> {
        self.server.api().allow(READER, &READ, kinds).await?;
        let reader = self.server.api_as(&Login::user(READER))?;
        eventually("the rights to be in force", SOON, || async {
            let reads = reader.list("v1", "Service").await.is_ok();
            ensure!(reads != kinds.is_empty(), "they are not yet");
            Ok(())
        })
        .await
    }
    async fn service(&self, name: &str, last: &[u8]) -> Result<()> {
        let api = self.server.api();
        if self.custom {
            return api.apply_all(&entries(name, last)?).await;
        }
        let hosts: Vec<_> = last.iter().map(|last| host(*last)).collect();
        api.apply(&mk_service(SHOP, name, &[("http", PORT, PORT)])).await?;
        api.set_slices(SHOP, name, &mk_slices(SHOP, name, "http", &hosts)).await
    }
    async fn clear(&self) -> Result<()> {
        let api = self.server.api();
        let own = [("v1", "Service"), ("discovery.k8s.io/v1", "EndpointSlice")];
        for (version, kind) in if self.custom { &CUSTOM_KINDS[..2] } else { &own[..] } {
            for object in api.list(version, kind).await? {
                if object["metadata"]["namespace"] == SHOP {
                    api.remove(&Named::of(&object)?).await?;
                }
            }
        }
        Ok(())
    }
}

/// Returns an entry that selects its workloads, and a WorkloadEntry for each.
fn entries(name: &str, last: &[u8]) -> Result<Vec<Value>> {
    let metadata = |name: String| json!({"name": name, "namespace": SHOP});
    let mut all = documents(&Entry::http(&format!("{name}.test"), PORT).selects("app", name).yaml())?;
    all[0]["metadata"] = metadata(name.to_owned());
    all.extend(last.iter().enumerate().map(|(number, last)| {
        json!({
            "apiVersion": "networking.istio.io/v1",
            "kind": "WorkloadEntry",
            "metadata": metadata(format!("{name}-{number}")),
            "spec": {"address": host(*last).ip().to_string(), "labels": {"app": name}},
        })
    }));
    Ok(all)
}

impl Origin for Cluster {
    fn registry(&self) -> &'static str {
        if self.custom { "kubernetes-entries" } else { "kubernetes" }
    }
    fn config(&self) -> Value {
        json!({"kind": "kubernetes", "kubeconfig": self.kubeconfig, "probeInterval": "1s", "staleAfter": "5s"})
    }
    fn domain(&self) -> &'static str {
        if self.custom { "test" } else { "shop.svc.cluster.local" }
    }
    async fn set(&self, name: &str, last: &[u8]) -> Result<()> {
        self.service(name, last).await
    }
    async fn take(&self, source: Source) -> Result<()> {
        match source {
            Source::Up => Ok(()),
            Source::Paused => self.server.daemon().pause().await,
            Source::Killed => {
                self.server.daemon().kill();
                Ok(())
            }
            Source::Refusing => self.allow(&[]).await,
            Source::Empty => self.clear().await,
            Source::Blind => bail!("an API server answers 403 to who may not read"),
        }
    }
    async fn give_back(&self, source: Source) -> Result<()> {
        match source {
            Source::Paused => self.server.daemon().resume(),
            Source::Killed => self.server.restart().await,
            Source::Refusing => self.allow(&READABLE).await,
            Source::Up | Source::Empty | Source::Blind => Ok(()),
        }
    }
}
