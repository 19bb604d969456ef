//! Each kind alone: absent, appearing, refused, removed, in an older version.

use std::sync::Arc;

use tributary_kube_client::{ClusterContext, cluster_context_channel};
use tributary_model::{AuthorizationAction, Evidence, Fact, Fingerprint, Namespace, Policy, SourceState};
use tributary_scripted_api::{Answer, ApiServer, ReceivedRequest};
use tributary_service_entry::{CrdOptions, Kinds};

use crate::fixture::{
    AUTHORIZATIONS, ENTRIES, FILTERS, Fixture, GROUPS, PEERS, RULES, SIDECARS, TOKENS, VIRTUALS, WORKLOADS,
    authorization, entry, filter, kind, peer, rule, secs, served, server, sidecar, tokens, virtual_service,
    workload,
};

const ALL: [&str; 10] =
    [ENTRIES, WORKLOADS, GROUPS, SIDECARS, RULES, VIRTUALS, FILTERS, PEERS, AUTHORIZATIONS, TOKENS];

#[tokio::test(start_paused = true)]
async fn absent_kinds_count_as_empty_until_they_appear() {
    let mut fixture = Fixture::all(ApiServer::new(&[kind(WORKLOADS)]));
    fixture.server.put(WORKLOADS, workload("w", "10.0.0.1"));
    fixture.until_listed(&ALL).await;
    assert_eq!(fixture.shown(), "w");
    fixture.pass(secs(60)).await;
    fixture.server.install(kind(ENTRIES));
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.until_shown("pay.example.com w").await;
    assert_eq!(fixture.states[ENTRIES], SourceState::Live);
}

#[tokio::test(start_paused = true)]
async fn uninstalled_kind_removes_only_its_own_objects() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.server.put(WORKLOADS, workload("w", "10.0.0.1"));
    fixture.until_shown("pay.example.com w").await;
    fixture.server.uninstall(ENTRIES);
    fixture.until_shown("w").await;
    assert!(
        fixture.evidence.iter().all(|evidence| *evidence == Evidence::Confirmed),
        "{:?}",
        fixture.evidence
    );
    fixture.server.install(kind(ENTRIES));
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.until_shown("pay.example.com w").await;
}

#[tokio::test(start_paused = true)]
async fn refused_kind_does_not_delay_other_kinds() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.server.put(WORKLOADS, workload("w", "10.0.0.1"));
    fixture.server.answer(WORKLOADS, None, usize::MAX, Answer::Status(403, "no right to list"));
    fixture.until_listed(&[ENTRIES, GROUPS]).await;
    fixture.until("given up", |f| f.withheld.contains(WORKLOADS)).await;
    assert_eq!(fixture.states[WORKLOADS], SourceState::Forbidden);
    assert_eq!(fixture.states[ENTRIES], SourceState::Live);
    assert_eq!((fixture.shown().as_str(), fixture.listed.contains(WORKLOADS)), ("pay.example.com", false));
    fixture.server.heal();
    fixture.until_shown("pay.example.com w").await;
    assert!(fixture.withheld.is_empty());
}

#[tokio::test(start_paused = true)]
async fn revoked_permission_withholds_and_removes_nothing() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.until_shown("pay.example.com").await;
    fixture.server.answer(ENTRIES, None, usize::MAX, Answer::Status(403, "no right to list"));
    fixture.until("reported", |f| f.states[ENTRIES] == SourceState::Forbidden).await;
    fixture.server.end(ENTRIES);
    fixture.pass(secs(600)).await;
    assert_eq!(fixture.shown(), "pay.example.com");
    assert!(fixture.withheld.contains(ENTRIES));
    fixture.server.heal();
    fixture.until("live", |f| f.states[ENTRIES] == SourceState::Live).await;
    fixture.until("read", |f| f.withheld.is_empty()).await;
    assert_eq!(fixture.puts, 2, "a service and its group, once each");
}

#[tokio::test(start_paused = true)]
async fn an_older_version_of_a_kind_is_read() {
    for version in ["v1beta1", "v1alpha3"] {
        let mut fixture = Fixture::all(ApiServer::new(&[served(ENTRIES, version)]));
        let mut old = entry("pay", "pay.example.com");
        old["apiVersion"] = format!("networking.istio.io/{version}").into();
        fixture.server.put(ENTRIES, old);
        fixture.until_shown("pay.example.com").await;
        fixture.until_listed(&ALL).await;
    }
}

/// Path of the requests for the cluster's identity; a credential without the right continues without it.
const IDENTITY: &str = "/api/v1/namespaces";

#[tokio::test(start_paused = true)]
async fn only_workload_entries_of_a_remote_cluster_are_requested() {
    let options = CrdOptions { kinds: Kinds::WorkloadEntries, ..CrdOptions::default() };
    let mut fixture = Fixture::new(server(), &options);
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.server.put(WORKLOADS, workload("w", "10.0.0.1"));
    fixture.until_listed(&[WORKLOADS]).await;
    fixture.pass(secs(120)).await;
    assert_eq!(fixture.shown(), "w");
    let asked = fixture.server.requests();
    assert!(asked.iter().all(|asked| asked.path.contains(WORKLOADS) || asked.path == IDENTITY), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn configured_namespaces_are_read_and_fail_separately() {
    let namespaces = ["shop", "closed"].map(|name| Namespace::new(name).unwrap()).to_vec();
    let options = CrdOptions { namespaces, ..CrdOptions::default() };
    let mut fixture = Fixture::new(server(), &options);
    let mut elsewhere = entry("far", "far.example.com");
    elsewhere["metadata"]["namespace"] = "elsewhere".into();
    fixture.server.put(ENTRIES, elsewhere);
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.server.answer(&format!("{IDENTITY}$"), None, usize::MAX, Answer::Status(403, "no ClusterRole"));
    fixture.server.answer("namespaces/closed/", None, usize::MAX, Answer::Status(403, "no right to list"));
    fixture.until_listed(&["serviceentries/shop", "workloadentries/shop"]).await;
    fixture.until("given up", |f| f.withheld.contains("serviceentries/closed")).await;
    assert_eq!(fixture.shown(), "pay.example.com");
    let asked = fixture.server.requests();
    // every account may ask which groups there are
    let of_a_role = |asked: &&ReceivedRequest| asked.path != IDENTITY && asked.path != "/apis";
    let all = asked.iter().filter(of_a_role).all(|asked| asked.path.contains("/namespaces/"));
    assert!(all, "a Role is enough: {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn kind_that_fails_three_times_is_withheld_alone() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.server.put(WORKLOADS, workload("w", "10.0.0.1"));
    fixture.until_shown("pay.example.com w").await;
    fixture.server.answer(ENTRIES, None, usize::MAX, Answer::Status(500, "webhook"));
    fixture.server.end(ENTRIES);
    fixture.until("withheld", |f| f.withheld.contains(ENTRIES)).await;
    fixture.server.delete(WORKLOADS, "shop", "w");
    fixture.until_shown("pay.example.com").await;
    assert_eq!(fixture.withheld.len(), 1, "the others are followed: {:?}", fixture.withheld);
    fixture.server.heal();
    fixture.until("read", |f| f.withheld.is_empty()).await;
    assert_eq!(fixture.shown(), "pay.example.com");
}

#[tokio::test(start_paused = true)]
async fn failing_server_withholds_nothing() {
    let mut fixture = Fixture::all(server());
    fixture.until_listed(&ALL).await;
    fixture.server.answer("", None, usize::MAX, Answer::Status(503, "down"));
    ALL.into_iter().for_each(|kind| fixture.server.end(kind));
    fixture.pass(secs(300)).await;
    assert!(fixture.withheld.is_empty(), "{:?}", fixture.withheld);
    assert_eq!(fixture.states[ENTRIES], SourceState::Unreachable);
}

#[tokio::test(start_paused = true)]
async fn scope_with_held_facts_ends_after_two_equal_answers() {
    let mut fixture = Fixture::all(ApiServer::new(&[kind(WORKLOADS)]));
    fixture.hold(ENTRIES);
    fixture.until_listed(&[WORKLOADS, GROUPS]).await;
    fixture.until("withheld", |f| f.withheld.contains(ENTRIES)).await;
    fixture.pass(secs(20)).await;
    assert!(!fixture.listed.contains(ENTRIES), "one answer is not a proof");
    fixture.until_listed(&[ENTRIES]).await;
    assert!(fixture.withheld.is_empty());
}

#[tokio::test(start_paused = true)]
async fn identity_of_the_cluster_is_reported_before_any_fact() {
    let (send, receive) = cluster_context_channel();
    let options = CrdOptions { cluster_context: Some(receive), ..CrdOptions::default() };
    let mut fixture = Fixture::new(server(), &options);
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.pass(secs(5)).await;
    let identity = Fingerprint::new("uid-1").ok();
    send.send_replace(Some(Arc::new(ClusterContext { identity, ..ClusterContext::default() })));
    fixture.until_shown("pay.example.com").await;
    assert_eq!(fixture.identities, [("uid-1".to_owned(), 0)]);
}

#[tokio::test(start_paused = true)]
async fn sidecars_stay_while_forbidden_and_go_with_their_definition() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(SIDECARS, sidecar("narrow", "./*"));
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.until_shown("pay.example.com Sidecar shop/narrow").await;
    fixture.server.answer(SIDECARS, None, usize::MAX, Answer::Status(403, "no right to list"));
    fixture.server.end(SIDECARS);
    fixture.until("withheld", |f| f.withheld.contains(SIDECARS)).await;
    fixture.pass(secs(600)).await;
    assert_eq!(
        (fixture.shown().as_str(), fixture.withheld.len()),
        ("pay.example.com Sidecar shop/narrow", 1)
    );
    fixture.server.heal();
    fixture.until("read", |f| f.withheld.is_empty()).await;
    // an invalid edit is quarantined alone
    fixture.server.put(SIDECARS, sidecar("narrow", "no-namespace"));
    fixture.until("the problem", |f| f.problems.contains_key("Sidecar shop/narrow")).await;
    assert_eq!(fixture.shown(), "pay.example.com Sidecar shop/narrow");
    fixture.server.put(SIDECARS, sidecar("narrow", "web/*"));
    fixture.until("no problem", |f| f.problems.is_empty()).await;
    assert_eq!(fixture.puts, 4, "a service, its group, and two versions of the policy");
    fixture.server.uninstall(SIDECARS);
    fixture.until_shown("pay.example.com").await;
    fixture.server.install(served(SIDECARS, "v1alpha3"));
    let mut old = sidecar("narrow", "./*");
    old["apiVersion"] = "networking.istio.io/v1alpha3".into();
    fixture.server.put(SIDECARS, old);
    fixture.until_shown("pay.example.com Sidecar shop/narrow").await;
    fixture.server.delete(SIDECARS, "shop", "narrow");
    fixture.until_shown("pay.example.com").await;
}

#[tokio::test(start_paused = true)]
async fn destination_rules_stay_while_forbidden_and_go_with_their_definition() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(RULES, rule("pay", "pay.example.com"));
    fixture.server.put(SIDECARS, sidecar("narrow", "./*"));
    fixture.until_shown("Sidecar shop/narrow DestinationRule shop/pay").await;
    fixture.server.answer(RULES, None, usize::MAX, Answer::Status(403, "no right to list"));
    fixture.server.end(RULES);
    fixture.until("withheld", |f| f.withheld.contains(RULES)).await;
    fixture.server.delete(SIDECARS, "shop", "narrow");
    fixture.until_shown("DestinationRule shop/pay").await;
    assert_eq!(fixture.withheld.len(), 1, "Sidecars are followed: {:?}", fixture.withheld);
    fixture.server.heal();
    fixture.until("read", |f| f.withheld.is_empty()).await;
    // an invalid edit is quarantined alone
    fixture.server.put(RULES, rule("pay", "a b"));
    fixture.until("the problem", |f| f.problems.contains_key("DestinationRule shop/pay")).await;
    assert_eq!(fixture.shown(), "DestinationRule shop/pay");
    fixture.server.put(RULES, rule("pay", "*.example.com"));
    fixture.until("no problem", |f| f.problems.is_empty()).await;
    assert_eq!(fixture.puts, 3, "a Sidecar, and two versions of the rule");
    fixture.server.uninstall(RULES);
    fixture.until_shown("").await;
    fixture.server.install(served(RULES, "v1alpha3"));
    let mut old = rule("pay", "pay");
    old["apiVersion"] = "networking.istio.io/v1alpha3".into();
    fixture.server.put(RULES, old);
    fixture.until_shown("DestinationRule shop/pay").await;
    fixture.server.delete(RULES, "shop", "pay");
    fixture.until_shown("").await;
}

#[tokio::test(start_paused = true)]
async fn virtual_services_stay_while_forbidden_and_go_with_their_definition() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(VIRTUALS, virtual_service("pay", "pay.example.com"));
    fixture.until_shown("VirtualService shop/pay").await;
    fixture.server.answer(VIRTUALS, None, usize::MAX, Answer::Status(403, "no right to list"));
    fixture.server.end(VIRTUALS);
    fixture.until("withheld", |f| f.withheld.contains(VIRTUALS)).await;
    assert_eq!((fixture.shown(), fixture.withheld.len()), ("VirtualService shop/pay".to_owned(), 1));
    fixture.server.heal();
    fixture.until("read", |f| f.withheld.is_empty()).await;
    // an invalid edit is quarantined alone
    fixture.server.put(VIRTUALS, virtual_service("pay", "a b"));
    fixture.server.put(VIRTUALS, virtual_service("till", "till.example.com"));
    fixture.until("the problem", |f| f.problems.contains_key("VirtualService shop/pay")).await;
    fixture.until_shown("VirtualService shop/pay VirtualService shop/till").await;
    fixture.server.put(VIRTUALS, virtual_service("pay", "*.example.org"));
    fixture.until("no problem", |f| f.problems.is_empty()).await;
    fixture.server.uninstall(VIRTUALS);
    fixture.until_shown("").await;
    fixture.server.install(served(VIRTUALS, "v1alpha3"));
    let mut old = virtual_service("pay", "pay");
    old["apiVersion"] = "networking.istio.io/v1alpha3".into();
    fixture.server.put(VIRTUALS, old);
    fixture.until_shown("VirtualService shop/pay").await;
}

#[tokio::test(start_paused = true)]
async fn envoy_filters_stay_while_forbidden_or_invalid() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(FILTERS, filter("pay", "ADD"));
    fixture.until_shown("EnvoyFilter shop/pay").await;
    fixture.server.answer(FILTERS, None, usize::MAX, Answer::Status(403, "no right to list"));
    fixture.server.end(FILTERS);
    fixture.until("withheld", |f| f.withheld.contains(FILTERS)).await;
    assert_eq!(fixture.shown(), "EnvoyFilter shop/pay");
    fixture.server.heal();
    fixture.until("read", |f| f.withheld.is_empty()).await;
    fixture.server.put(FILTERS, filter("pay", "NOPE"));
    fixture.until("the problem", |f| f.problems.contains_key("EnvoyFilter shop/pay")).await;
    assert_eq!(fixture.shown(), "EnvoyFilter shop/pay");
    fixture.server.put(FILTERS, filter("pay", "MERGE"));
    fixture.until("no problem", |f| f.problems.is_empty()).await;
    assert_eq!(fixture.puts, 2, "two versions of the filter");
    fixture.server.uninstall(FILTERS);
    fixture.until_shown("").await;
}

#[tokio::test(start_paused = true)]
async fn peer_authentications_stay_while_forbidden_or_invalid() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(PEERS, peer("pay", "STRICT"));
    fixture.until_shown("PeerAuthentication shop/pay").await;
    fixture.server.answer(PEERS, None, usize::MAX, Answer::Status(403, "no right to list"));
    fixture.server.end(PEERS);
    fixture.until("withheld", |f| f.withheld.contains(PEERS)).await;
    assert_eq!(fixture.shown(), "PeerAuthentication shop/pay");
    fixture.server.heal();
    fixture.until("read", |f| f.withheld.is_empty()).await;
    fixture.server.put(PEERS, peer("pay", "NOPE"));
    fixture.until("the problem", |f| f.problems.contains_key("PeerAuthentication shop/pay")).await;
    assert_eq!(fixture.shown(), "PeerAuthentication shop/pay");
    fixture.server.put(PEERS, peer("pay", "DISABLE"));
    fixture.until("no problem", |f| f.problems.is_empty()).await;
    assert_eq!(fixture.puts, 2, "two versions of the policy");
    fixture.server.uninstall(PEERS);
    fixture.until_shown("").await;
    fixture.server.install(served(PEERS, "v1beta1"));
    let mut old = peer("pay", "STRICT");
    old["apiVersion"] = "security.istio.io/v1beta1".into();
    fixture.server.put(PEERS, old);
    fixture.until_shown("PeerAuthentication shop/pay").await;
}

const PAY: &str = "AuthorizationPolicy shop/pay";

/// The action of the only policy, whether it stands in, and its selector.
fn served_authorization(fixture: &Fixture) -> (AuthorizationAction, bool, String) {
    let policy = fixture.facts.values().find_map(|fact| match fact {
        Fact::Policy(_, declared) => match &declared.policy {
            Policy::AuthorizationPolicy(policy) => Some(policy.clone()),
            _ => None,
        },
        _ => None,
    });
    let policy = policy.expect("a policy is served");
    let app = policy.selector.get("app").unwrap_or_default().to_owned();
    (policy.action.clone(), policy.is_stand_in(), app)
}

#[tokio::test(start_paused = true)]
async fn authorization_policies_stay_while_forbidden_or_invalid() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(AUTHORIZATIONS, authorization("pay", "ALLOW"));
    fixture.until_shown(PAY).await;
    fixture.server.answer(AUTHORIZATIONS, None, usize::MAX, Answer::Status(403, "no right to list"));
    fixture.server.end(AUTHORIZATIONS);
    fixture.until("withheld", |f| f.withheld.contains(AUTHORIZATIONS)).await;
    assert_eq!(fixture.shown(), PAY);
    fixture.server.heal();
    fixture.until("read", |f| f.withheld.is_empty()).await;
    // an unknown field may be a condition: it is not left out
    let mut widened = authorization("pay", "ALLOW");
    widened["spec"]["rules"][0]["novelty"] = serde_json::json!([]);
    fixture.server.put(AUTHORIZATIONS, widened);
    fixture.until("the problem", |f| f.problems.contains_key(PAY)).await;
    assert_eq!(served_authorization(&fixture), (AuthorizationAction::Allow, false, "pay".into()));
    fixture.server.put(AUTHORIZATIONS, authorization("pay", "DENY"));
    fixture.until("no problem", |f| f.problems.is_empty()).await;
    assert_eq!(served_authorization(&fixture), (AuthorizationAction::Deny, false, "pay".into()));
    fixture.server.uninstall(AUTHORIZATIONS);
    fixture.until_shown("").await;
    fixture.server.install(served(AUTHORIZATIONS, "v1beta1"));
    let mut old = authorization("pay", "AUDIT");
    old["apiVersion"] = "security.istio.io/v1beta1".into();
    fixture.server.put(AUTHORIZATIONS, old);
    fixture.until_shown(PAY).await;
}

#[tokio::test(start_paused = true)]
async fn authorization_policy_without_a_valid_version_refuses_everything() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(AUTHORIZATIONS, authorization("pay", "NOPE"));
    fixture.until("the problem", |f| f.problems.contains_key(PAY)).await;
    assert_eq!(served_authorization(&fixture), (AuthorizationAction::Deny, true, "pay".into()));
    fixture.server.put(AUTHORIZATIONS, authorization("pay", "ALLOW"));
    fixture.until("no problem", |f| f.problems.is_empty()).await;
    assert_eq!(served_authorization(&fixture), (AuthorizationAction::Allow, false, "pay".into()));
    fixture.server.put(AUTHORIZATIONS, authorization("pay", "NOPE"));
    fixture.until("the problem again", |f| f.problems.contains_key(PAY)).await;
    assert_eq!(served_authorization(&fixture), (AuthorizationAction::Allow, false, "pay".into()));
    fixture.server.delete(AUTHORIZATIONS, "shop", "pay");
    fixture.until_shown("").await;
    // one that restricts nothing needs nothing in its place
    let mut audit = authorization("pay", "AUDIT");
    audit["spec"]["rules"] = "none".into();
    fixture.server.put(AUTHORIZATIONS, audit);
    fixture.until("its problem", |f| f.problems.contains_key(PAY)).await;
    assert_eq!(fixture.shown(), "");
}

const CHECKED: &str = "RequestAuthentication shop/pay";

/// The number of rules of the only policy, whether it stands in, and its selector.
fn served_tokens(fixture: &Fixture) -> (usize, bool, String) {
    let policy = fixture.facts.values().find_map(|fact| match fact {
        Fact::Policy(_, declared) => match &declared.policy {
            Policy::RequestAuthentication(policy) => Some(policy.clone()),
            _ => None,
        },
        _ => None,
    });
    let policy = policy.expect("a policy is served");
    (policy.rules.len(), policy.is_stand_in(), policy.selector.get("app").unwrap_or_default().to_owned())
}

#[tokio::test(start_paused = true)]
async fn request_authentications_stay_while_forbidden_or_invalid() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(TOKENS, tokens("pay", "nowhere"));
    fixture.until("the problem", |f| f.problems.contains_key(CHECKED)).await;
    assert_eq!(served_tokens(&fixture), (0, true, "pay".into()), "no version is valid");
    fixture.server.put(TOKENS, tokens("pay", "https://keys.test/jwks"));
    fixture.until("no problem", |f| f.problems.is_empty()).await;
    assert_eq!(served_tokens(&fixture), (1, false, "pay".into()));
    fixture.server.answer(TOKENS, None, usize::MAX, Answer::Status(403, "no right to list"));
    fixture.server.end(TOKENS);
    fixture.until("withheld", |f| f.withheld.contains(TOKENS)).await;
    assert_eq!(served_tokens(&fixture), (1, false, "pay".into()));
    fixture.server.heal();
    fixture.until("read", |f| f.withheld.is_empty()).await;
    // an unknown field may be a condition on tokens: it is not left out
    let mut widened = tokens("pay", "https://keys.test/jwks");
    widened["spec"]["jwtRules"][0]["novelty"] = true.into();
    fixture.server.put(TOKENS, widened);
    fixture.until("the problem again", |f| f.problems.contains_key(CHECKED)).await;
    assert_eq!(served_tokens(&fixture), (1, false, "pay".into()));
    fixture.server.uninstall(TOKENS);
    fixture.until_shown("").await;
    fixture.server.install(served(TOKENS, "v1beta1"));
    let mut old = tokens("pay", "https://keys.test/jwks");
    old["apiVersion"] = "security.istio.io/v1beta1".into();
    fixture.server.put(TOKENS, old);
    fixture.until_shown(CHECKED).await;
}
