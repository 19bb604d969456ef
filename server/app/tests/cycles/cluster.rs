//! Scripted API servers behind one TLS port, each under a path of its own: a config cluster, and others that its Secrets declare.

use std::net::Ipv4Addr;

use axum::Router;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_model::ClusterId;
use tributary_scripted_api::{ApiServer, Kind};
use tributary_suites::kube::{Login, mk_namespace, mk_service, mk_slice};
use tributary_suites::tls::{Authority, TlsFront};

/// Host of the service that every remote cluster has.
pub(crate) const HOST: &str = "pay.shop.svc.cluster.local";
const SYSTEM: &str = "tributary-system";

/// Returns the name of a remote cluster.
pub(crate) fn name(at: usize) -> ClusterId {
    ClusterId::new(format!("remote-{at}")).unwrap()
}

/// The servers.
pub(crate) struct Lab {
    config: ApiServer,
    remotes: Vec<ApiServer>,
    authority: Authority,
    front: TlsFront,
    folder: TempDir,
}

impl Lab {
    /// Starts a config cluster without Secrets, and this number of others with a service each.
    pub(crate) async fn start(count: usize) -> Self {
        let (config, remotes) = (mk_cluster("config"), (0..count).map(mk_remote).collect::<Vec<_>>());
        let routes = Router::new().nest("/config", config.router());
        let routes = remotes
            .iter()
            .enumerate()
            .fold(routes, |routes, (at, remote)| routes.nest(&format!("/{at}"), remote.router()));
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let backend = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let authority = Authority::new().unwrap();
        let front = authority.front(&authority.server("clusters").unwrap(), backend, false).await.unwrap();
        Self { config, remotes, authority, front, folder: tempfile::tempdir().unwrap() }
    }
    /// Writes the configuration of a server, and returns its path. It probes rarely: a probe may open a connection of its own, which
    /// stays in the pool.
    pub(crate) fn config_file(&self) -> String {
        let path = |name: &str| self.folder.path().join(name);
        std::fs::write(path("kubeconfig"), self.kubeconfig("config", "config")).unwrap();
        let text = format!(
            "apiVersion: tributary.dev/v1alpha1\nkind: Config\n\
             remotes: {{secrets: on, drain: 0s, allowServerCidrs: [127.0.0.0/8]}}\n\
             registries:\n- {{kind: kubernetes, kubeconfig: {}, probeInterval: 10m, staleAfter: 30m}}\n",
            path("kubeconfig").display()
        );
        std::fs::write(path("config.yaml"), text).unwrap();
        path("config.yaml").display().to_string()
    }
    /// Writes a Secret for each remote cluster with this token.
    pub(crate) fn declare(&self, token: &str) {
        self.write(token, json!({}));
    }
    /// Requests the removal of each remote cluster.
    pub(crate) fn remove(&self) {
        self.write("removed", json!({"tributary.dev/remove": "true"}));
    }
    /// Deletes the Secrets.
    pub(crate) fn undeclare(&self) {
        for at in 0..self.remotes.len() {
            self.config.delete("secrets", SYSTEM, name(at).as_str());
        }
    }
    /// Forgets the requests and changes so far.
    pub(crate) fn forget(&self) {
        self.remotes.iter().chain([&self.config]).for_each(ApiServer::forget);
    }
    fn write(&self, token: &str, annotations: Value) {
        for at in 0..self.remotes.len() {
            let (name, kubeconfig) = (name(at), self.kubeconfig(&at.to_string(), token));
            let object = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {
                    "namespace": SYSTEM, "name": name.as_str(), "uid": format!("secret-{at}"),
                    "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"istio/multiCluster": "true"},
                    "annotations": annotations,
                },
                "data": {name.as_str(): k8s_openapi::ByteString(kubeconfig.into_bytes())},
            });
            self.config.put("secrets", object);
        }
    }
    fn kubeconfig(&self, path: &str, token: &str) -> String {
        let url = format!("https://{}/{path}", self.front.addr());
        Login::Token(token.to_owned()).kubeconfig(&url, self.authority.certificate(), "test")
    }
}

fn mk_cluster(uid: &str) -> ApiServer {
    let server = ApiServer::new(&Kind::OF_A_CLUSTER);
    server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": uid}}));
    server
}

fn mk_remote(at: usize) -> ApiServer {
    let server = mk_cluster(&format!("uid-{at}"));
    server.put("namespaces", mk_namespace("shop"));
    server.put("services", mk_service("shop", "pay", &[("http", 80, 8080)]));
    let ip = format!("10.0.0.{}", at + 1);
    server.put("endpointslices", mk_slice("shop", "pay", "pay-x", &[&ip], &[("http", 8080)]));
    server
}
