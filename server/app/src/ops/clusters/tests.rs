//! The whole table: configured and declared clusters together, in their order, with conditions and sources.

use tributary_model::{ClusterId, Code};
use tributary_remote::Validity;
use tributary_remote::roster::{
    ClaimStatus, Fault, ObjectStatus, RosterStatus, SecretLabel, Source, SourceHealth, SourceStatus, State,
};

use super::board::ConnectionFacts;
use super::*;

const ISTIO: Source = Source::Secrets(SecretLabel::Istio);

fn mk_cluster(name: &str, state: State, outcomes: Vec<(&str, Outcome)>) -> ClusterStatus {
    let claim =
        |(object, outcome): (&str, Outcome)| ClaimStatus { source: ISTIO, object: object.into(), outcome };
    ClusterStatus {
        cluster: ClusterId::new(name).unwrap(),
        registry: Some(RegistryName::new(name).unwrap()),
        state,
        since: Some(Mono(1_000)),
        leaves: None,
        source: None,
        policy: None,
        claims: outcomes.into_iter().map(claim).collect(),
    }
}

fn mk_refused(text: &str) -> Outcome {
    let code = Some(Code::KUBECONFIG_FIELD_REFUSED);
    Outcome::Refused(vec![Fault { code, ..Fault::text(text.to_owned()) }])
}

fn mk_view(clusters: Vec<ClusterStatus>) -> RemotesView {
    RemotesView { roster: RosterStatus { clusters, ..RosterStatus::default() }, ..RemotesView::default() }
}

fn report(view: &RemotesView) -> (Vec<ClusterItem>, Vec<ClusterSourceItem>) {
    report_of(view, &[])
}

fn report_of(
    view: &RemotesView,
    registries: &[RegistryStatus],
) -> (Vec<ClusterItem>, Vec<ClusterSourceItem>) {
    let config: Config =
        serde_saphyr::from_str("{clusterId: home, registries: [{kind: kubernetes, name: k}]}").unwrap();
    let report = ClusterReport {
        view,
        configured: &configured(&config),
        registries,
        runs: &BTreeMap::new(),
        counts: &RegistryCounts::default(),
        objects: &BTreeMap::new(),
        bound: bound(&config),
        now: Mono(5_000),
        wall: Timestamp::from_second(1_000).unwrap(),
    };
    (report.items(), report.sources(true))
}

#[test]
fn clusters_with_trouble_come_first_and_configured_ones_are_among_them() {
    let view = mk_view(vec![
        mk_cluster("a-joined", State::Joined, vec![("s/a", Outcome::Wins)]),
        mk_cluster("b-double", State::Joined, vec![("s/b", Outcome::Wins), ("s/c", Outcome::Conflicts)]),
        mk_cluster("home", State::Absent, vec![("s/home", Outcome::Ignored)]),
        mk_cluster("z-refused", State::Refused, vec![("s/z", mk_refused("users[0].user.exec is a program"))]),
    ]);
    let (items, _) = report(&view);
    let shown: Vec<_> = items.iter().map(|one| (&*one.name, &*one.state, &*one.source)).collect();
    let want = [
        ("z-refused", "Refused", "Secret s/z"),
        ("b-double", "Syncing", "Secret s/b"),
        ("home", "Syncing", "configuration"),
        ("a-joined", "Syncing", "Secret s/a"),
    ];
    assert_eq!(shown, want);
    let kinds: Vec<_> = items.iter().flat_map(|one| one.conditions.iter().map(|one| &*one.kind)).collect();
    assert_eq!(kinds, ["Refused", "Duplicate", "NotUsed"]);
    assert_eq!(items[0].reason, "Secret s/z: users[0].user.exec is a program");
    assert_eq!(
        items[1].conditions[0].message,
        "Secret s/c declares the cluster, too, and is not used: Secret s/b precedes it"
    );
    assert_eq!(items[1].claims[1].outcome, "Duplicate");
}

#[test]
fn expiry_and_rotations_are_those_of_the_connection() {
    let mut view = mk_view(vec![mk_cluster("east", State::Joined, vec![("s/a", Outcome::Wins)])]);
    let validity = Validity {
        from: Some(Timestamp::from_second(0).unwrap()),
        until: Timestamp::from_second(1_100).unwrap(),
    };
    let facts = ConnectionFacts { validity: Some(validity), rotations: 2, ..ConnectionFacts::default() };
    view.connections.insert(ClusterId::new("east").unwrap(), facts);
    let (items, _) = report(&view);
    let east = items.iter().find(|one| one.name == "east").unwrap();
    assert_eq!((east.credential_expires, east.rotations), (Some(validity.until), 2));
    assert_eq!(east.conditions[0].code, Code::CREDENTIAL_EXPIRES.to_string());
    assert!(east.conditions[0].message.contains("10 %"), "{:?}", east.conditions);
}

#[test]
fn configured_cluster_shows_when_its_credential_ends_and_whether_its_uid_is_known() {
    let mut live = state::tests::mk_live();
    let name = RegistryName::new("k").unwrap();
    live.id = std::sync::Arc::new(tributary_model::RegistryId { name, ..(*live.id).clone() });
    let mut view = mk_view(Vec::new());
    let validity =
        Validity { from: Timestamp::from_second(0).ok(), until: Timestamp::from_second(1_100).unwrap() };
    view.configured =
        [("home".to_owned(), board::ConfiguredCredential { validity, is_refreshed: false })].into();
    let shown = |live: &RegistryStatus| report_of(&view, std::slice::from_ref(live)).0.remove(0);
    live.identity = None;
    let one = shown(&live);
    assert!(one.unverified && one.identity.is_empty(), "it was read, and not its UID");
    assert_eq!(one.credential_expires, Some(validity.until));
    assert_eq!(
        one.conditions.iter().map(|of| of.code.as_str()).collect::<Vec<_>>(),
        ["TRB0711"],
        "at 1,000 s"
    );
    live.identity = tributary_model::Fingerprint::new("u-1").ok();
    assert!(!shown(&live).unverified);
    assert!(!report(&view).0[0].unverified, "it was not read yet");
}

/// A cluster that it does not list may be declared: a command that waits for a removal goes on.
#[test]
fn server_that_has_just_started_reports_that_it_read_nothing() {
    let (_, sources) = report(&RemotesView::default());
    assert_eq!(sources.iter().map(|one| one.state.as_str()).collect::<Vec<_>>(), ["Syncing"]);
}

#[test]
fn sources_show_what_they_cannot_read_and_faults_that_concern_no_cluster() {
    let mut view = mk_view(Vec::new());
    let source =
        |label, health| SourceStatus { source: Source::Secrets(label), health, objects: 1, beyond: 0 };
    view.roster.sources = vec![
        source(SecretLabel::Istio, SourceHealth::Synced),
        source(SecretLabel::Tributary, SourceHealth::Forbidden),
    ];
    let fault = Fault::text("data.a_b is not a cluster ID".to_owned());
    let object = ObjectStatus { source: ISTIO, object: "s/a".into(), faults: vec![fault], beyond: 3 };
    view.roster.objects = vec![object];
    let (_, sources) = report(&view);
    let shown: Vec<_> = sources.iter().map(|one| (&*one.name, &*one.state, one.faults.len())).collect();
    assert_eq!(
        shown,
        [("Secrets istio/multiCluster", "Synced", 2), ("Secrets tributary.dev/cluster", "Forbidden", 0)]
    );
    assert!(sources[1].reason.contains("rbac print"), "{}", sources[1].reason);
    assert_eq!(sources[0].faults[0].message, "data.a_b is not a cluster ID");
    view.may_lack_secrets = true;
    let (_, sources) = report(&view);
    assert!(sources[1].reason.contains("no cluster is added"), "{}", sources[1].reason);
}
