//! Checks of running servers of this process that a real fault turns red, and its correction green again.

use serde_json::Value;
use tributary_suites::ads::{CDS, node};
use tributary_suites::{AdsClient, Authority, DnsServer, Variant};

use crate::world::{LONG, World, file_registry, mk_bound, mk_entry, mk_folder, put};

const SIDECAR: &str = "sidecar~10.9.0.9~web-1.web~web.svc.cluster.local";
const ROUTE: &str = "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: pay, namespace: shop}
spec: {hosts: [pay.test], http: [{route: [{destination: {host: pay.test}}]}]}
";
const RULE: &str = "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: pay, namespace: shop}
spec: {host: pay.test, trafficPolicy: {loadBalancer: {simple: RANDOM}}}
";

/// Returns the outcome and the findings of a check.
async fn outcome(world: &World, id: &str) -> (String, String) {
    let out = world.run("check -o json").await.out;
    let document: Value = serde_json::from_str(&out).unwrap();
    let item = document["items"].as_array().unwrap().iter().find(|item| item["check"] == id).unwrap();
    (item["outcome"].as_str().unwrap().to_owned(), item["findings"].to_string())
}

/// Waits until a check has an outcome and its findings contain a text.
async fn until(world: &World, id: &str, wanted: &str, text: &str) {
    let wait = async {
        loop {
            let (outcome, findings) = outcome(world, id).await;
            if outcome == wanted && findings.contains(text) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(LONG, wait).await;
    assert!(found.is_ok(), "{id} is never {wanted} with {text:?}: {:?}", outcome(world, id).await);
}

async fn mk_world(files: &[(&str, &str)]) -> (tempfile::TempDir, World) {
    let entry = mk_entry("pay", "pay.test", "10.0.0.1");
    let files = files.iter().map(|(name, text)| (*name, (*text).to_owned()));
    let dir = mk_folder(&files.chain([("pay.yaml", entry)]).collect::<Vec<_>>());
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    (dir, world)
}

#[tokio::test]
async fn configuration_file_that_is_not_valid_is_red() {
    let services = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]);
    let good = format!(
        "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries: [{{kind: file, path: {}}}]\n",
        services.path().display()
    );
    let dir = mk_folder(&[("config.yaml", good.clone())]);
    let file = dir.path().join("config.yaml").display().to_string();
    let world = World::start(&["--config", &file]).await;
    put(dir.path(), "config.yaml", &format!("{good}unknownField: 1\n"));
    until(&world, "config-reload", "Error", "unknownField").await;
    put(dir.path(), "config.yaml", &format!("{good}revision: canary\n"));
    until(&world, "config-reload", "Warning", "restart the server").await;
    put(dir.path(), "config.yaml", &good);
    until(&world, "config-reload", "Pass", "").await;
    world.server.stop().await;
}

#[tokio::test]
async fn expired_and_unusable_certificates_are_red() {
    let authority = Authority::new().unwrap();
    let old = authority.expired("xds").unwrap();
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]);
    let [cert, key] = [&old.certificate_file, &old.key_file].map(|file| file.display().to_string());
    let args = ["--registry", &file_registry(&dir), "--xds-cert", &cert, "--xds-key", &key];
    let world = World::start(&args).await;
    until(&world, "certificates", "Error", "expired at 2001-12-31").await;
    std::fs::write(&old.certificate_file, "no certificate").unwrap();
    until(&world, "certificate-files", "Error", "TRB0107").await;
    // the same files are replaced, as a rotation does
    authority.server("xds").unwrap();
    until(&world, "certificates", "Pass", "").await;
    until(&world, "certificate-files", "Pass", "").await;
    world.server.stop().await;
}

#[tokio::test]
async fn state_that_cannot_be_kept_is_red() {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]);
    let file = dir.path().join("pay.yaml").display().to_string();
    let world = World::start(&["--registry", &file_registry(&dir), "--state-dir", &file]).await;
    until(&world, "state-kept", "Error", "is not a directory").await;
    world.server.stop().await;
    let state = tempfile::tempdir().unwrap();
    let kept = state.path().join("state").display().to_string();
    let world = World::start(&["--registry", &file_registry(&dir), "--state-dir", &kept]).await;
    until(&world, "state-kept", "Pass", "").await;
    until(&world, "state-files", "Pass", "").await;
    let away = state.path().join("away");
    std::fs::rename(&kept, &away).unwrap();
    until(&world, "state-kept", "Error", "was deleted, so a restart would restore nothing").await;
    std::fs::rename(&away, &kept).unwrap();
    until(&world, "state-kept", "Pass", "").await;
    world.server.stop().await;
    // a journal that is damaged is set aside by the next start
    std::fs::write(state.path().join("state/journal.redb"), "damaged").unwrap();
    let world = World::start(&["--registry", &file_registry(&dir), "--state-dir", &kept]).await;
    until(&world, "state-files", "Warning", "journal.redb.unreadable-1").await;
    world.server.stop().await;
}

#[tokio::test]
async fn policy_without_a_destination_and_one_that_is_not_valid_are_red() {
    let (dir, world) = mk_world(&[("route.yaml", ROUTE), ("rule.yaml", RULE)]).await;
    until(&world, "policies-valid", "Pass", "").await;
    until(&world, "policy-conditions", "Pass", "null").await;
    put(dir.path(), "route.yaml", &ROUTE.replace("host: pay.test", "host: nowhere.test"));
    until(&world, "policy-conditions", "Warning", "TRB0450").await;
    put(dir.path(), "rule.yaml", &RULE.replace("RANDOM", "OTHER"));
    until(&world, "policies-valid", "Warning", "Quarantined").await;
    put(dir.path(), "rule.yaml", RULE);
    put(dir.path(), "route.yaml", ROUTE);
    until(&world, "policies-valid", "Pass", "").await;
    until(&world, "policy-conditions", "Pass", "null").await;
    world.server.stop().await;
}

#[tokio::test]
async fn client_that_rejects_a_response_is_red_until_it_accepts_one() {
    let (_dir, world) = mk_world(&[]).await;
    let xds = world.server.addresses().xds;
    let mut stream = AdsClient::connect(xds, Variant::Delta, node(SIDECAR)).await.unwrap();
    stream.subscribe(CDS, &["*"]).unwrap();
    let first = stream.next(LONG).await.unwrap();
    stream.nack(&first, "no such cluster type").unwrap();
    until(&world, "clients-synced", "Error", "no such cluster type").await;
    until(&world, "client-notes", "Warning", "TRB0606").await;
    let (_, notes) = outcome(&world, "client-notes").await;
    assert!(!notes.contains("no such cluster type"), "what was rejected is reported once: {notes}");
    drop(stream);
    until(&world, "clients-synced", "Pass", "").await;
    until(&world, "client-notes", "Pass", "").await;
    world.server.stop().await;
}

#[tokio::test]
async fn held_removal_is_red_until_it_is_released() {
    let (_dir, world) = crate::guard::mk_world().await;
    until(&world, "held-removals", "Warning", "TRB0203").await;
    for id in world.run("guard list -o name").await.out.lines() {
        world.run(&format!("guard release {}", id.rsplit('/').next().unwrap())).await.exit.unwrap();
    }
    until(&world, "held-removals", "Pass", "").await;
    world.server.stop().await;
}

#[tokio::test]
async fn network_without_a_usable_gateway_is_red_until_it_has_one() {
    use crate::gateways::{ip, mk_world, put};
    let dns = DnsServer::start().await.unwrap();
    let (_dir, world, run) = mk_world(&dns).await;
    put(&run, "unready", None);
    until(&world, "gateways", "Error", "no other gateway of the network is usable").await;
    put(&run, "eastwest", ip("203.0.113.9"));
    until(&world, "gateways", "Warning", "TRB0329").await;
    put(&run, "unready", ip("203.0.113.10"));
    until(&world, "gateways", "Pass", "").await;
    world.server.stop().await;
}

#[tokio::test]
async fn remote_cluster_that_is_refused_or_silent_is_red() {
    // the certificate of the example is as good as any: nothing answers
    let example = include_str!("../../../../docs/examples/clusters/east.yaml");
    let authority = example.lines().find(|line| line.contains("certificate-authority-data:")).unwrap().trim();
    let authority = authority.trim_start_matches("- ");
    let kubeconfig = |user: &str| {
        format!(
            "{{current-context: a, contexts: [{{name: a, context: {{cluster: c, user: u}}}}], clusters: [{{name: c, \
             cluster: {{server: 'https://127.0.0.1:1', {authority}}}}}], users: [{{name: u, user: {{{user}}}}}]}}"
        )
    };
    let remotes = mk_folder(&[("east.yaml", kubeconfig("exec: {command: x}"))]);
    let services = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.test", "10.0.0.1"))]);
    let config = mk_folder(&[(
        "config.yaml",
        format!(
            "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries: [{{kind: file, path: {}}}]\n\
             remotes: {{directory: {}, allowServerCidrs: [127.0.0.0/8]}}\nstart: {{firstSyncTimeout: 1ms}}\n",
            services.path().display(),
            remotes.path().display()
        ),
    )]);
    let file = config.path().join("config.yaml").display().to_string();
    let world = World::start(&["--config", &file]).await;
    until(&world, "cluster-declarations", "Warning", "TRB0702").await;
    until(&world, "clusters-live", "Error", "Refused").await;
    until(&world, "cluster-credentials", "Pass", "").await;
    // a token that expired in 2001
    put(remotes.path(), "east.yaml", &kubeconfig("token: e30.eyJleHAiOjEwMDAwMDAwMDB9.c2ln"));
    until(&world, "cluster-declarations", "Pass", "").await;
    until(&world, "clusters-live", "Error", "Unreachable").await;
    until(&world, "cluster-credentials", "Error", "TRB0705").await;
    world.server.stop().await;
}

#[tokio::test]
async fn server_that_waits_for_its_first_sync_is_not_ready() {
    let args = ["--registry", "consul=http://127.0.0.1:1", "--first-sync-timeout", "0s"];
    let world = World { server: mk_bound(&args).await.unwrap().start().await.unwrap() };
    until(&world, "server-ready", "Error", "registries have not synced").await;
    until(&world, "registries-live", "Error", "TRB0201").await;
    world.server.stop().await;
}
