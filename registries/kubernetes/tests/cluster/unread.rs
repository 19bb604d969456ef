//! Unreadable kinds: refused while running, failing, refused to the next run, uninstalled and installed.

use std::sync::Arc;
use std::time::Duration;

use tributary_kubernetes::{KubernetesFactory, RunMemory};
use tributary_model::{Fact, FactKey, RestartMode, Scope, Scopes, SourceState, Visibility};
use tributary_registry_api::RegistryFactory as _;
use tributary_scripted_api::{Answer, ApiServer, Verb};

use crate::fixture::{
    GATEWAYS, RunOf, factory_with, gateway, options_for_every_kind, serve_every_kind, service, slice,
};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Serves a cluster with an object of every kind.
fn shop() -> ApiServer {
    let server = serve_every_kind("pay", ["10.0.0.1", "10.0.0.2"]);
    server.put("services", service("cart"));
    server.put("endpointslices", slice("cart", "cart", &["10.0.0.3".to_owned()]));
    server
}

fn factory(server: &ApiServer) -> KubernetesFactory {
    factory_with(server, options_for_every_kind()).memory(Arc::new(RunMemory::default()))
}

/// Every kind, and the collections of its facts.
const KINDS: [(&str, &[&str]); 9] = [
    ("configmaps", &["configmaps/Gateways", "configmaps/Settings"]),
    ("endpointslices", &["cluster/Groups", "serviceexports/Groups"]),
    ("gateways", &["gateways/Gateways"]),
    ("namespaces", &[]),
    ("nodes", &[]),
    ("pods", &["cluster/Workloads"]),
    ("serviceexports", &["serviceexports/Groups", "serviceexports/Services"]),
    ("serviceimports", &["serviceimports/Services"]),
    ("services", &["cluster/Gateways", "cluster/Services", "serviceexports/Services"]),
];

fn withheld(run: &RunOf) -> Vec<&str> {
    run.withheld.keys().map(String::as_str).collect()
}

/// Refuses a kind; the suffix match excludes the paths of namespaced kinds.
fn refuse(server: &ApiServer, plural: &str, code: u16) {
    server.answer(&format!("/{plural}$"), None, usize::MAX, Answer::Status(code, "not for you"));
}

/// Whether a kind is refused or fails.
fn in_trouble(run: &RunOf, plural: &str) -> bool {
    let well = [SourceState::Live, SourceState::Syncing];
    run.status().parts.iter().any(|part| &*part.name == plural && !well.contains(&part.state))
}

async fn refused_and_restored(code: u16, ends: bool) {
    for (plural, collections) in KINDS {
        let server = shop();
        let mut run = RunOf::of(&server, &factory(&server));
        run.until("synced", RunOf::is_synced).await;
        run.pass(secs(5)).await;
        let facts = run.facts.clone();
        refuse(&server, plural, code);
        if ends {
            server.end(plural);
        }
        run.until("refused", |run| in_trouble(run, plural)).await;
        run.pass(secs(180)).await;
        assert_eq!(withheld(&run), collections, "{plural} {code}");
        let confirmed = run.confirmed.clone();
        run.pass(secs(180)).await;
        for (name, before) in confirmed.iter().filter(|(name, _)| !run.withheld.contains_key(*name)) {
            assert!(run.confirmed[name] > *before, "{plural} {code}: {name} is not confirmed");
        }
        assert_eq!((&run.facts, run.dropped.len()), (&facts, 0), "{plural} {code}");
        server.heal();
        run.until("back", |run| run.withheld.is_empty() && run.part(plural) == SourceState::Live).await;
        assert_eq!((&run.facts, run.dropped.len()), (&facts, 0), "{plural} {code}");
        run.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn right_lost_beside_a_watch_withholds_one_kind_only() {
    refused_and_restored(403, false).await;
}

#[tokio::test(start_paused = true)]
async fn right_lost_with_the_watch_withholds_one_kind_only() {
    refused_and_restored(403, true).await;
}

#[tokio::test(start_paused = true)]
async fn kind_failing_thrice_is_withheld_and_restored_unchanged() {
    refused_and_restored(500, true).await;
}

#[tokio::test(start_paused = true)]
async fn removals_of_other_kinds_apply_while_one_is_refused() {
    for (plural, _) in KINDS.into_iter().filter(|(plural, _)| *plural != "services") {
        let server = shop();
        let mut run = RunOf::of(&server, &factory(&server));
        run.until("synced", RunOf::is_synced).await;
        refuse(&server, plural, 403);
        server.end(plural);
        run.until("refused", |run| in_trouble(run, plural)).await;
        server.delete("services", "shop", "cart");
        run.until("removed", |run| !run.services().contains(&"cart".to_owned())).await;
        run.stop().await;
    }
}

/// Formats a fact without its visibility and topology, which may be unknown.
fn named(key: &FactKey) -> String {
    format!("{} {:?}", key.scope, key.item)
}

#[tokio::test(start_paused = true)]
async fn next_run_with_a_narrower_right_removes_nothing() {
    for (plural, collections) in KINDS {
        let server = shop();
        let factory = factory(&server);
        let mut first = RunOf::of(&server, &factory);
        first.until("synced", RunOf::is_synced).await;
        let facts = first.facts.clone();
        first.stop().await;
        refuse(&server, plural, 403);
        let mut next = RunOf::holding(&server, &factory, &["cluster", "gateways"]);
        next.until("refused", |run| in_trouble(run, plural)).await;
        next.pass(secs(60)).await;
        assert_eq!(withheld(&next), collections, "{plural}");
        for (key, fact) in &facts {
            let collection = key.collection();
            let closed = next.synced.contains_key(&format!("{}/{:?}", collection.scope, collection.kind));
            assert!(next.facts.contains_key(key) || !closed, "{plural} ends {}", named(key));
            // kinds that affect others are known from the first run
            if matches!(plural, "configmaps" | "namespaces" | "nodes" | "serviceexports") {
                assert_eq!(next.facts.get(key), Some(fact), "{plural} changes {}", named(key));
            }
        }
        server.heal();
        next.until("back", |run| run.withheld.is_empty() && run.is_synced()).await;
        assert_eq!(next.facts, facts, "{plural}");
        assert!(next.dropped.iter().all(|what| what.contains("Waiting")), "{plural}: {:?}", next.dropped);
        next.stop().await;
    }
}

fn settings(run: &RunOf) -> Option<(Option<Visibility>, Option<bool>)> {
    run.facts.values().find_map(|fact| match fact {
        Fact::Settings(settings) => Some((settings.default_export.clone(), settings.block_unknown)),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn unreadable_mesh_configuration_opens_nothing_at_start() {
    for code in [403, 500] {
        let server = shop();
        refuse(&server, "configmaps", code);
        let (send, mut context) = tributary_kube_client::cluster_context_channel();
        let factory = factory(&server).cluster_context(Arc::new(send));
        let mut run = RunOf::of(&server, &factory);
        run.until("withheld", |run| run.withheld.len() == 10).await;
        assert!(run.withheld.values().all(|why| why.why.contains("meshConfig: none")), "{:?}", run.withheld);
        run.pass(secs(120)).await;
        assert!(run.facts.is_empty() && run.synced.is_empty(), "{code}: {:?}", run.synced);
        assert!(context.borrow_and_update().as_ref().unwrap().withheld.is_some());
        server.heal();
        run.until("reported", RunOf::is_synced).await;
        assert_eq!(settings(&run), Some((Some(Visibility::Own), Some(true))), "{code}");
        assert!(context.borrow_and_update().as_ref().unwrap().withheld.is_none());
        run.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn mesh_configuration_is_not_read_where_the_option_is_none() {
    let server = shop();
    refuse(&server, "configmaps", 403);
    let mut options = options_for_every_kind();
    options.kinds.retain(|kind| *kind != tributary_kubernetes::Kind::MeshConfig);
    let mut run = RunOf::of(&server, &factory_with(&server, options));
    run.until("synced", RunOf::is_synced).await;
    assert_eq!(settings(&run), Some((None, None)));
    assert!(server.requests().iter().all(|request| !request.path.contains("configmaps")));
}

#[tokio::test(start_paused = true)]
async fn failing_server_withholds_nothing() {
    let server = shop();
    let mut run = RunOf::of(&server, &factory(&server));
    run.until("synced", RunOf::is_synced).await;
    server.answer("", None, usize::MAX, Answer::Status(503, "down"));
    KINDS.into_iter().for_each(|(plural, _)| server.end(plural));
    run.pass(secs(300)).await;
    assert_eq!((run.state(), withheld(&run)), (SourceState::Unreachable, vec![]));
    assert_eq!(run.beside["gateways"].state, SourceState::Unreachable);
    server.heal();
    run.live().await;
}

#[tokio::test(start_paused = true)]
async fn uninstalled_kind_ends_after_two_answers_and_returns() {
    let server = shop();
    let mut run = RunOf::of(&server, &factory(&server));
    run.until("synced", RunOf::is_synced).await;
    run.pass(secs(5)).await;
    let facts = run.facts.clone();
    server.uninstall("gateways");
    server.end("gateways");
    run.until("withheld", |run| withheld(run) == ["gateways/Gateways"]).await;
    run.pass(secs(25)).await;
    assert_eq!(run.facts, facts, "one answer proves nothing");
    run.until("ended", |run| run.withheld.is_empty()).await;
    assert_eq!((run.facts.len(), run.dropped.len()), (facts.len() - 1, 1));
    server.install(GATEWAYS);
    server.put("gateways", gateway());
    run.until("installed", |run| run.facts.len() == facts.len()).await;
}

#[tokio::test(start_paused = true)]
async fn uninstalled_kind_of_held_facts_needs_a_second_answer() {
    let server = shop();
    server.uninstall("gateways");
    let mut run = RunOf::holding(&server, &factory(&server), &["gateways"]);
    run.pass(secs(20)).await;
    assert_eq!(withheld(&run), ["gateways/Gateways"]);
    assert!(!run.synced.contains_key("gateways/Gateways"));
    run.until("ended", |run| run.synced.contains_key("gateways/Gateways")).await;
    assert!(run.withheld.is_empty());
}

#[tokio::test(start_paused = true)]
async fn identity_precedes_facts_and_is_omitted_where_unreadable() {
    let server = shop();
    let mut run = RunOf::of(&server, &factory(&server));
    run.until("synced", RunOf::is_synced).await;
    assert_eq!(run.identities, [("uid-1".to_owned(), 0)]);
    refuse(&server, "namespaces", 403);
    let mut blind = RunOf::of(&server, &factory(&server));
    blind.until("synced", RunOf::is_synced).await;
    assert!(blind.identities.is_empty(), "{:?}", blind.identities);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_exported_while_exports_are_unknown() {
    let server = shop();
    refuse(&server, "serviceexports", 403);
    let mut options = options_for_every_kind();
    options.mcs.auto_export = true;
    let (_leads, leads) = tokio::sync::watch::channel(true);
    let mut run = RunOf::of(&server, &factory_with(&server, options).exports(leads));
    run.pass(secs(120)).await;
    let writes = server.requests().iter().filter(|request| request.verb == Verb::Write).count();
    assert_eq!(writes, 0);
}

#[tokio::test]
async fn registry_shadows_and_names_the_scopes_that_it_reports() {
    let server = shop();
    let spec = factory(&server).spec();
    let scope = |name: &str| Scope::new(name).unwrap();
    let scopes = ["cluster", "serviceexports", "serviceimports", "gateways", "configmaps"].map(scope);
    assert_eq!((spec.scopes, spec.restart), (Scopes::Configured(scopes.into()), RestartMode::Shadow));
}
