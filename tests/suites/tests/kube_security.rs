//! AuthorizationPolicies, RequestAuthentications and PeerAuthentications of a real API server, while a sidecar serves by them: what the server cannot
//! read, and a start without the API server, open no inbound listener; what was never read gives none.

use std::time::Duration;

use anyhow::{Result, ensure};
use tributary_suites::ads::{LDS, node};
use tributary_suites::kube::api::{Named, documents};
use tributary_suites::kube::{
    Login, READ, READABLE, Watched, mk_namespace, mk_pod, mk_service, mk_slice, without,
};
use tributary_suites::{ApiServer, Follower, TestServer, Variant, eventually};

const SOON: Duration = Duration::from_secs(120);
const QUIET: Duration = Duration::from_secs(2);
const INBOUND: &str = "virtualInbound";

/// A kind of policy: its resource, its definition, and two specs of one object that differ in what they accept.
struct Kind {
    name: &'static str,
    resource: &'static str,
    definition: &'static str,
    specs: [&'static str; 2],
}

const AUTHORIZATION: Kind = Kind {
    name: "AuthorizationPolicy",
    resource: "authorizationpolicies",
    definition: include_str!("../crds/authorizationpolicies.yaml"),
    specs: [
        "{rules: [{to: [{operation: {methods: [GET]}}]}]}",
        "{rules: [{to: [{operation: {methods: [GET, POST]}}]}]}",
    ],
};

const TOKENS: Kind = Kind {
    name: "RequestAuthentication",
    resource: "requestauthentications",
    definition: include_str!("../crds/requestauthentications.yaml"),
    specs: [
        "{jwtRules: [{issuer: iss, jwksUri: 'http://keys.test/'}]}",
        "{jwtRules: [{issuer: other, jwksUri: 'http://keys.test/'}]}",
    ],
};

const PEERS: Kind = Kind {
    name: "PeerAuthentication",
    resource: "peerauthentications",
    definition: include_str!("../crds/peerauthentications.yaml"),
    specs: [
        "{selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}}",
        "{selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}, portLevelMtls: {80: {mode: PERMISSIVE}}}",
    ],
};

impl Kind {
    async fn put(&self, cluster: &ApiServer, spec: &str) -> Result<()> {
        let Self { name, .. } = self;
        let object = format!(
            "apiVersion: security.istio.io/v1\nkind: {name}\nmetadata: {{name: web, namespace: shop}}\nspec: {spec}\n"
        );
        cluster.api().apply_all(&documents(&object)?).await
    }
    /// Returns what a credential may read that must not read this kind.
    fn others(&self) -> Vec<&'static str> {
        without(READABLE.into_iter().find(|one| one.ends_with(self.resource)).unwrap_or_default())
    }
}

async fn cluster() -> Result<ApiServer> {
    let cluster = ApiServer::start().await?;
    let api = cluster.api();
    api.define().await?;
    let mut slice = mk_slice("shop", "web", "web-1", &["10.0.0.1"], &[("http", 80)]);
    slice["endpoints"][0]["targetRef"] =
        serde_json::json!({"kind": "Pod", "namespace": "shop", "name": "web"});
    api.apply_all(&[
        mk_namespace("shop"),
        mk_namespace("tributary-system"),
        mk_pod("shop", "web", "10.0.0.1", "n1", &[("app", "web")]),
        mk_service("shop", "web", &[("http", 80, 80)]),
        slice,
    ])
    .await?;
    api.allow("reader", &READ, &READABLE).await?;
    Ok(cluster)
}

fn watched(cluster: &ApiServer) -> Result<Watched> {
    Ok(Watched::by(cluster, &Login::user("reader"))?.arg("--first-sync-timeout").arg("1s"))
}

async fn sidecar(server: &TestServer) -> Result<Follower> {
    let id = node("sidecar~10.0.0.1~web.shop~shop.svc.cluster.local");
    let mut client = Follower::connect(server.xds(), Variant::Delta, id).await?;
    client.subscribe(LDS, &["*"])?;
    client.until("listeners", SOON, |now| (!now.names(LDS).is_empty()).then_some(())).await?;
    client.settle(QUIET).await?;
    Ok(client)
}

fn inbound(client: &Follower) -> Option<Vec<u8>> {
    client.bytes(LDS).remove(INBOUND)
}

/// Waits for an inbound listener that differs from these.
async fn differs(client: &mut Follower, from: &[&Option<Vec<u8>>]) -> Result<Option<Vec<u8>>> {
    let found = |now: &Follower| (!from.contains(&&inbound(now))).then_some(());
    client.until("another inbound listener", SOON, found).await?;
    client.settle(QUIET).await?;
    Ok(inbound(client))
}

async fn returns(client: &mut Follower, to: &Option<Vec<u8>>) -> Result<()> {
    client.until("the earlier inbound listener", SOON, |now| (inbound(now) == *to).then_some(())).await
}

async fn stays_while_forbidden_and_follows_its_definition(kind: &Kind) -> Result<()> {
    let cluster = cluster().await?;
    let (server, _config) = watched(&cluster)?.start().await?;
    let mut client = sidecar(&server).await?;
    let open = inbound(&client);
    ensure!(open.is_some(), "no inbound listener without policies: {:?}", client.names(LDS));
    kind.put(&cluster, kind.specs[0]).await?;
    let first = differs(&mut client, &[&open]).await?;
    // a 403 is no evidence, and an edit that cannot be read changes nothing
    cluster.api().allow("reader", &READ, &kind.others()).await?;
    cluster.restart().await?;
    let lacks = format!("watch of {}: the right is missing", kind.resource);
    eventually("the missing right", SOON, || async {
        let shown = server.registry("kubernetes-entries").await?.to_string();
        ensure!(shown.contains(&lacks), "{shown}");
        Ok(())
    })
    .await?;
    kind.put(&cluster, kind.specs[1]).await?;
    client.settle(QUIET).await?;
    ensure!(inbound(&client) == first, "the inbound listener changed");
    cluster.api().allow("reader", &READ, &READABLE).await?;
    let second = differs(&mut client, &[&open, &first]).await?;
    // without its definition there are no policies; with it again, everything is as before
    cluster.api().remove(&Named::of(&documents(kind.definition)?[0])?).await?;
    returns(&mut client, &open).await?;
    cluster.api().define().await?;
    kind.put(&cluster, kind.specs[1]).await?;
    returns(&mut client, &second).await
}

#[tokio::test]
async fn authorization_stays_while_forbidden_and_follows_its_definition() -> Result<()> {
    stays_while_forbidden_and_follows_its_definition(&AUTHORIZATION).await
}

#[tokio::test]
async fn checks_of_tokens_stay_while_forbidden_and_follow_their_definition() -> Result<()> {
    stays_while_forbidden_and_follows_its_definition(&TOKENS).await
}

#[tokio::test]
async fn modes_of_peers_stay_while_forbidden_and_follow_their_definition() -> Result<()> {
    stays_while_forbidden_and_follows_its_definition(&PEERS).await
}

/// A server that never read a kind does not know what the workload must refuse; one that read it remembers.
#[tokio::test]
async fn inbound_listeners_wait_for_policies_and_outlive_a_restart_without_the_api_server() -> Result<()> {
    let cluster = cluster().await?;
    let state = tempfile::tempdir()?;
    let watched = watched(&cluster)?.arg("--state-dir").arg(&state.path().to_string_lossy());
    AUTHORIZATION.put(&cluster, AUTHORIZATION.specs[0]).await?;
    PEERS.put(&cluster, PEERS.specs[1]).await?;
    TOKENS.put(&cluster, TOKENS.specs[0]).await?;
    cluster.api().allow("reader", &READ, &AUTHORIZATION.others()).await?;
    let (server, _config) = watched.start().await?;
    let mut client = sidecar(&server).await?;
    ensure!(inbound(&client).is_none(), "served without its policies: {:?}", client.names(LDS));
    let (_, clients, _) = server.command(&["get", "clients"]).await?;
    ensure!(clients.contains("TRB0611"), "{clients}");
    cluster.api().allow("reader", &READ, &READABLE).await?;
    let last = differs(&mut client, &[&None]).await?;
    server.stop(SOON).await?;
    cluster.daemon().kill();
    let (server, _config) = watched.start().await?;
    ensure!(inbound(&sidecar(&server).await?) == last, "another inbound listener after the restart");
    Ok(())
}
