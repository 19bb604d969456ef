//! Sidecars and exportTo: which backend a request reaches, by host, with the requests of each backend counted.

use futures::future::try_join_all;
use serde_json::json;
use tributary_suites::{Backend, ports};

use super::*;

/// Three services on one port, one of them in namespace `other`, and a stranger at the address to which connections go.
struct Scoped {
    world: World,
    pay: Backend,
    stock: Backend,
    hidden: Backend,
    stranger: Backend,
    hidden_entry: String,
}

const HOSTS: [&str; 4] = ["pay.test", "stock.test", "hidden.test", "unknown.test"];
/// Body of a rejected request.
const REJECTED: &str = "";

async fn mk_scoped() -> Result<Scoped> {
    let port = ports::free_port()?;
    let stranger = Backend::start_at("stranger", SocketAddr::from(([127, 0, 0, 9], port))).await?;
    let (pay, stock) = (Backend::start("pay").await?, Backend::start("stock").await?);
    let hidden = Backend::start("hidden").await?;
    let entry = |host: &str, backend: &Backend| Entry::http(host, port).at(backend.addr());
    let world = World::start(&[entry("pay.test", &pay), entry("stock.test", &stock)]).await?;
    let hidden_entry = entry("hidden.test", &hidden).yaml().replace("namespace: default", "namespace: other");
    let scoped = Scoped { world, pay, stock, hidden, stranger, hidden_entry };
    scoped.export("[\".\"]")?;
    Ok(scoped)
}

impl Scoped {
    /// Exports the service of namespace `other` to these namespaces.
    fn export(&self, to: &str) -> Result<()> {
        self.world.files.put("hidden.yaml", &format!("{}  exportTo: {to}\n", self.hidden_entry))
    }
    /// Gives namespace `default` a Sidecar with these imports.
    fn import(&self, hosts: &str, mode: &str) -> Result<()> {
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {{name: default, namespace: default}}\n\
             spec:\n  egress: [{{hosts: [{hosts}]}}]\n  outboundTrafficPolicy: {{mode: {mode}}}\n"
        );
        self.world.files.put("sidecar.yaml", &text)
    }
    /// Starts an Envoy of a namespace, to which connections are redirected.
    async fn envoy(&self, variant: Variant, namespace: &str) -> Result<Envoy> {
        let id = format!("sidecar~10.0.0.1~client.{namespace}~{namespace}.svc.cluster.local");
        let config = EnvoyConfig::new(self.world.xds(), variant).captured_sidecar("client").node_id(&id);
        let metadata = json!({"NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes"});
        let envoy = Envoy::start(&config.metadata(metadata)).await?;
        envoy.live(SOON).await?;
        Ok(envoy)
    }
    /// Waits until each host is answered by its backend, then sends ten requests to each and expects every one there.
    async fn answers(&self, envoy: &Envoy, wanted: [&str; 4]) -> Result<()> {
        for (host, wanted) in HOSTS.into_iter().zip(wanted) {
            eventually(&format!("{host} to be answered by {wanted:?}"), SOON, || async {
                let answer = envoy.redirected(self.stranger.addr(), host).await?;
                ensure!(answer == wanted, "{host} is answered by {answer:?}");
                Ok(())
            })
            .await?;
        }
        let counted = self.counted(envoy).await?;
        let expected = self.backends().map(|b| 10 * wanted.iter().filter(|name| **name == b.name()).count());
        ensure!(counted.map(usize::try_from) == expected.map(Ok), "received {counted:?}, not {expected:?}");
        Ok(())
    }
    fn backends(&self) -> [&Backend; 4] {
        [&self.pay, &self.stock, &self.hidden, &self.stranger]
    }
    /// Sends ten requests for each host at once, and returns how many each backend received.
    async fn counted(&self, envoy: &Envoy) -> Result<[u64; 4]> {
        let before = self.backends().map(Backend::requests);
        let hosts = HOSTS.iter().cycle().take(10 * HOSTS.len());
        try_join_all(hosts.map(|host| envoy.redirected(self.stranger.addr(), host))).await?;
        let after = self.backends().map(Backend::requests);
        Ok(std::array::from_fn(|at| after[at] - before[at]))
    }
}

async fn sidecar_decides(variant: Variant) -> Result<()> {
    let scoped = mk_scoped().await?;
    let envoy = scoped.envoy(variant, "default").await?;
    let other = scoped.envoy(variant, "other").await?;
    let everything = ["pay", "stock", "hidden", "stranger"];
    scoped.answers(&envoy, ["pay", "stock", "stranger", "stranger"]).await?;
    scoped.answers(&other, everything).await?;
    scoped.import("\"./pay.test\", \"other/*\"", "ALLOW_ANY")?;
    scoped.answers(&envoy, ["pay", "stranger", "stranger", "stranger"]).await?;
    scoped.import("\"./pay.test\", \"other/*\"", "REGISTRY_ONLY")?;
    scoped.answers(&envoy, ["pay", REJECTED, REJECTED, REJECTED]).await?;
    scoped.answers(&other, everything).await?;
    scoped.import("\"./stock.test\"", "REGISTRY_ONLY")?;
    scoped.answers(&envoy, [REJECTED, "stock", REJECTED, REJECTED]).await?;
    scoped.world.files.remove("sidecar.yaml")?;
    scoped.answers(&envoy, ["pay", "stock", "stranger", "stranger"]).await?;
    scoped.answers(&other, everything).await?;
    nothing_refused(&envoy).await?;
    nothing_refused(&other).await
}

#[tokio::test]
async fn requests_reach_imported_hosts_only_sotw() -> Result<()> {
    sidecar_decides(Variant::Sotw).await
}

#[tokio::test]
async fn requests_reach_imported_hosts_only_delta() -> Result<()> {
    sidecar_decides(Variant::Delta).await
}

async fn egress_proxy_receives_strangers(variant: Variant) -> Result<()> {
    let scoped = mk_scoped().await?;
    let envoy = scoped.envoy(variant, "default").await?;
    let port = scoped.stranger.addr().port();
    let proxy = format!("ALLOW_ANY, egressProxy: {{host: stock.test, port: {{number: {port}}}}}");
    scoped.import("\"./*\"", &proxy)?;
    scoped.answers(&envoy, ["pay", "stock", "stock", "stock"]).await?;
    scoped.import("\"./pay.test\"", &proxy)?;
    scoped.answers(&envoy, ["pay", REJECTED, REJECTED, REJECTED]).await?;
    scoped.import("\"./*\"", "ALLOW_ANY")?;
    scoped.answers(&envoy, ["pay", "stock", "stranger", "stranger"]).await?;
    nothing_refused(&envoy).await
}

#[tokio::test]
async fn unknown_hosts_reach_the_egress_proxy_sotw() -> Result<()> {
    egress_proxy_receives_strangers(Variant::Sotw).await
}

#[tokio::test]
async fn unknown_hosts_reach_the_egress_proxy_delta() -> Result<()> {
    egress_proxy_receives_strangers(Variant::Delta).await
}

#[tokio::test]
async fn requests_reach_exported_hosts_only() -> Result<()> {
    let scoped = mk_scoped().await?;
    for variant in Variant::BOTH {
        let envoy = scoped.envoy(variant, "default").await?;
        let other = scoped.envoy(variant, "other").await?;
        let (without, with) =
            (["pay", "stock", "stranger", "stranger"], ["pay", "stock", "hidden", "stranger"]);
        scoped.answers(&envoy, without).await?;
        scoped.export("[\".\", default]")?;
        scoped.answers(&envoy, with).await?;
        scoped.answers(&other, with).await?;
        scoped.export("[default]")?;
        scoped.answers(&other, without).await?;
        scoped.answers(&envoy, with).await?;
        scoped.export("[\"~\"]")?;
        scoped.answers(&envoy, without).await?;
        scoped.answers(&other, without).await?;
        scoped.export("[\".\"]")?;
        scoped.answers(&other, with).await?;
        scoped.answers(&envoy, without).await?;
        nothing_refused(&envoy).await?;
        nothing_refused(&other).await?;
    }
    Ok(())
}
