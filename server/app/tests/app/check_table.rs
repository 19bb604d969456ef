//! Every check of the table over documents: each is red by what it is for, and green without it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;
use tributary_app::check::before::{self, Before, ClusterFacts, ConsulFacts, PortFacts, StateFacts};
use tributary_app::check::conditions::ConditionCountItem;
use tributary_app::check::{CheckItem, Documents, Finding, Judge, Outcome, TABLE, judge, merge};
use tributary_app::document::clients::ClientTypeItem;
use tributary_app::document::clusters::ClusterConditionItem;
use tributary_app::document::registries::{DetailItem, PartItem, ProblemItem, SourceItem};
use tributary_app::document::server::ReadinessItem;
use tributary_app::document::state::{JournalItem, StateItem};
use tributary_app::document::{
    CertificateItem, CheckedCluster, ClientItem, ClusterItem, ClusterSourceItem, ConditionItem, Findings,
    GatewayItem, HeldItem, ObjectItem, Outcome as Tried, PolicyItem, ReadinessDocument, RegistryItem,
    StateDocument, TriedCluster, Verdict, VersionDocument,
};
use tributary_app::exit::CommandError;

const NOW: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).unwrap()
}

/// Documents of a healthy server with one object of each sort.
fn healthy() -> Documents {
    let part = PartItem { name: "pods".into(), state: "Live".into(), ..PartItem::default() };
    let source = SourceItem {
        scope: "cluster".into(),
        state: "Live".into(),
        parts: vec![part],
        ..SourceItem::default()
    };
    let view = DetailItem { name: "ACL view".into(), value: "all".into(), ..DetailItem::default() };
    let doubtful =
        DetailItem { name: "doubtful".into(), value: "0".into(), number: Some(0), ..DetailItem::default() };
    let consul = SourceItem { details: vec![view, doubtful], parts: Vec::new(), ..source.clone() };
    let registry = |name: &str, kind: &str, source: SourceItem| RegistryItem {
        name: name.into(),
        kind: kind.into(),
        state: "Live".into(),
        sources: vec![source],
        ..RegistryItem::default()
    };
    let kind =
        |state: &str| ClientTypeItem { kind: "CDS".into(), state: state.into(), ..ClientTypeItem::default() };
    let tried = TriedCluster {
        cluster: "east".into(),
        source: "configuration".into(),
        server: None,
        findings: Findings {
            checks: vec![of_try("rights", Tried::Ok), of_try("clock", Tried::Ok)],
            ..Findings::default()
        },
    };
    Documents {
        server: "a".into(),
        now: at(0),
        server_time: Some(at(3)),
        reader_version: "1.0.0".into(),
        version: Some(VersionDocument { version: "1.0.0".into(), ..VersionDocument::default() }),
        readiness: Some(ReadinessDocument { ready: true, ..ReadinessDocument::default() }),
        config: json!({"lastReload": {"result": "applied", "error": null, "needsRestart": []}, "config": {"merge": 1}}),
        certificates: vec![certificate(90)],
        registries: vec![registry("r", "kubernetes", source), registry("c", "consul", consul)],
        clusters: vec![ClusterItem { name: "east".into(), state: "Live".into(), ..ClusterItem::default() }],
        sources: vec![ClusterSourceItem {
            name: "Secrets".into(),
            state: "Synced".into(),
            ..ClusterSourceItem::default()
        }],
        tried: Some(vec![tried]),
        gateways: vec![gateway("Used")],
        policies: vec![PolicyItem {
            kind: "Sidecar".into(),
            status: "Served".into(),
            ..PolicyItem::default()
        }],
        clients: vec![ClientItem {
            id: "x".into(),
            state: "SYNCED".into(),
            types: vec![kind("SYNCED")],
            ..ClientItem::default()
        }],
        state: Some(StateDocument {
            directory: "d".into(),
            journal: Some(JournalItem { open: true, ..JournalItem::default() }),
            registries: vec![StateItem { name: "r".into(), whole: true, ..StateItem::default() }],
            ..StateDocument::default()
        }),
        ..Documents::default()
    }
}

fn of_try(check: &str, outcome: Tried) -> tributary_app::document::Finding {
    tributary_app::document::Finding::new(check, outcome, "detail")
}

fn certificate(days: i64) -> CertificateItem {
    let day = 86_400;
    let (from, until) = (Some(at(-100 * day)), Some(at(days * day)));
    CertificateItem { name: "xDS certificate".into(), file: "c.pem".into(), from, until }
}

fn gateway(state: &str) -> GatewayItem {
    GatewayItem {
        network: "n".into(),
        state: state.into(),
        reason: "no address".into(),
        ..GatewayItem::default()
    }
}

fn condition(kind: &str, code: &str) -> ClusterConditionItem {
    ClusterConditionItem { kind: kind.into(), code: code.into(), message: "why".into() }
}

fn problem(code: &str) -> ProblemItem {
    ProblemItem { object: ObjectItem::default(), code: code.into(), message: "why".into() }
}

/// A change that makes documents of a running server red.
type Fault = fn(&mut Documents);

/// Faults of a running server, by check; several where a check has several reasons.
const FAULTS: &[(&str, Fault)] = &[
    ("server-answers", |d| d.silent = Some("refused".into())),
    ("server-answers", |d| d.missing = vec![("/debug/clients".into(), "503".into())]),
    ("server-ready", |d| {
        let check = ReadinessItem { name: "start".into(), ok: false, detail: "why".into() };
        d.readiness =
            Some(ReadinessDocument { ready: false, checks: vec![check], ..ReadinessDocument::default() });
    }),
    ("server-version", |d| d.reader_version = "2.0.0".into()),
    ("server-clock", |d| d.server_time = Some(at(-90))),
    ("cluster-clocks", |d| {
        d.tried.as_mut().unwrap()[0].findings.checks = vec![of_try("clock", Tried::Warning)]
    }),
    ("config-reload", |d| d.config["lastReload"]["error"] = json!("field x")),
    ("config-reload", |d| d.config["lastReload"]["needsRestart"] = json!(["xds.listen"])),
    ("rights", |d| d.registries[0].sources[0].parts[0].state = "Forbidden".into()),
    ("rights", |d| d.registries[1].sources[0].state = "AuthFailed".into()),
    ("kinds", |d| d.registries[0].sources[0].parts[0].state = "Broken".into()),
    ("registries-live", |d| d.registries[0].state = "Stale".into()),
    ("registries-live", |d| d.registries[0].reason = "the token file cannot be read".into()),
    ("registry-runs", |d| d.registries[0].needs_accept = true),
    ("registry-runs", |d| d.registries[0].failures = 2),
    ("registry-problems", |d| {
        d.registries[0].problems = vec![problem("TRB0304")];
        d.registries[0].problems_total = 1;
    }),
    ("clusters-live", |d| d.clusters[0].state = "AuthFailed".into()),
    ("clusters-live", |d| d.clusters[0].state = "Paused".into()),
    ("cluster-credentials", |d| d.clusters[0].conditions = vec![condition("CredentialExpired", "TRB0705")]),
    ("cluster-credentials", |d| d.clusters[0].conditions = vec![condition("CredentialExpires", "TRB0711")]),
    ("cluster-declarations", |d| d.clusters[0].conditions = vec![condition("Duplicate", "TRB0710")]),
    ("cluster-declarations", |d| d.sources[0].state = "Failed".into()),
    ("cluster-identities", |d| d.clusters[0].conditions = vec![condition("SameCluster", "TRB0717")]),
    ("cluster-identities", |d| d.clusters[0].found_identity = "u-2".into()),
    ("cluster-identities", |d| d.clusters[0].unverified = true),
    ("cluster-tries", |d| {
        d.tried.as_mut().unwrap()[0].findings.checks = vec![of_try("rights", Tried::Failed)]
    }),
    ("gateways", |d| d.gateways = vec![gateway("Unusable")]),
    ("gateways", |d| d.gateways[0].failing = "no such host".into()),
    ("certificates", |d| d.certificates = vec![certificate(-1)]),
    ("certificates", |d| d.certificates = vec![certificate(6)]),
    ("certificate-files", |d| d.config["certificateError"] = json!("TRB0107 c.pem")),
    ("consul-tokens", |d| d.registries[1].sources[0].details[0].value = "filtered by ACLs".into()),
    ("consul-tokens", |d| d.registries[1].sources[0].state = "AuthFailed".into()),
    ("service-conflicts", |d| {
        d.conditions =
            vec![ConditionCountItem { code: "TRB0401".into(), count: 2, ..ConditionCountItem::default() }];
    }),
    ("policies-valid", |d| d.policies[0].status = "NotServed".into()),
    ("policies-valid", |d| d.policies[0].status = "Quarantined".into()),
    ("policy-conditions", |d| {
        let one = ConditionItem { code: "TRB0449".into(), message: "why".into(), objects: Vec::new() };
        d.policies[0].conditions = vec![one];
    }),
    ("clients-synced", |d| d.clients[0].types[0].state = "ERROR".into()),
    ("clients-synced", |d| {
        d.clients[0].types[0].state = "STALE".into();
        d.clients[0].types[0].sent_millis_ago = Some(31_000);
    }),
    ("clients-synced", |d| {
        d.clients[0].types[0].state = "NOT SENT".into();
        d.clients[0].connected_millis = 31_000;
    }),
    ("client-notes", |d| d.clients[0].notes = vec!["TRB0606 xDS clusters without mesh TLS".into()]),
    ("held-removals", |d| {
        d.held = vec![HeldItem { id: "i".into(), registry: "r".into(), ..HeldItem::default() }]
    }),
    ("state-kept", |d| d.state.as_mut().unwrap().fault = "in use".into()),
    ("state-kept", |d| d.state.as_mut().unwrap().journal.as_mut().unwrap().last_error = "no space".into()),
    ("state-kept", |d| d.state.as_mut().unwrap().registries[0].whole = false),
    ("state-files", |d| d.state.as_mut().unwrap().set_aside = vec!["journal.bad".into()]),
];

/// Faults of the second of two replicas.
const REPLICA_FAULTS: &[(&str, Fault)] = &[
    ("replicas-answer", |d| *d = Documents::silent("b", "refused", at(0))),
    ("replicas-version", |d| d.version.as_mut().unwrap().version = "0.9.0".into()),
    ("replicas-registries", |d| d.registries[0].name = "other".into()),
    ("replicas-content", |d| d.registries[0].endpoints = 7),
    ("replicas-config", |d| d.config["config"]["merge"] = json!(2)),
];

fn healthy_before() -> Before {
    let cluster = ClusterFacts {
        name: "Kubernetes".into(),
        findings: Findings { version: Some("v1.36.3".into()), ..Findings::default() },
        system_namespace: Some("tributary-system".into()),
        has_namespace: Some(true),
        ..ClusterFacts::default()
    };
    let consul = ConsulFacts { name: "c".into(), has_leader: true, services: 1, ..ConsulFacts::default() };
    let remote = CheckedCluster {
        cluster: "east".into(),
        source: "east.yaml".into(),
        verdict: Verdict::Accepted,
        server: None,
        authentication: Vec::new(),
        expires: None,
        version: None,
        identity: None,
        reasons: Vec::new(),
        checks: Vec::new(),
    };
    Before {
        now: at(0),
        ports: vec![PortFacts { field: "xds.listen", address: "127.0.0.1:1".parse().unwrap(), error: None }],
        clusters: vec![cluster],
        certificates: Some(Ok(vec![certificate(90)])),
        state: Some(StateFacts { directory: "d".into(), error: None }),
        consuls: vec![consul],
        remotes: Some(Ok(vec![remote])),
        ..Before::default()
    }
}

/// A change that makes the facts before an installation red.
type FaultBefore = fn(&mut Before);

const FAULTS_BEFORE: &[(&str, FaultBefore)] = &[
    ("before-config", |b| b.config = Some(CommandError::config("field x"))),
    ("before-ports", |b| b.ports[0].error = Some(CommandError::plain("in use"))),
    ("before-cluster", |b| b.clusters[0].findings.checks = vec![of_try("connection", Tried::Failed)]),
    ("before-version", |b| b.clusters[0].findings.version = Some("v1.19.16".into())),
    ("before-version", |b| b.clusters[0].findings.version = Some("other".into())),
    ("before-clock", |b| b.clusters[0].findings.checks = vec![of_try("clock", Tried::Warning)]),
    ("before-rights", |b| b.clusters[0].missing_rights = vec!["list pods".into()]),
    ("before-rights", |b| b.clusters[0].unreviewed = Some("500".into())),
    ("before-namespace", |b| b.clusters[0].has_namespace = Some(false)),
    ("before-certificates", |b| b.certificates = Some(Err(CommandError::plain("mismatch")))),
    ("before-certificates", |b| b.certificates = Some(Ok(vec![certificate(-1)]))),
    ("before-state", |b| b.state.as_mut().unwrap().error = Some("not writable".into())),
    ("before-consul", |b| b.consuls[0].unreachable = Some("refused".into())),
    ("before-consul", |b| b.consuls[0].has_leader = false),
    ("before-consul-token", |b| b.consuls[0].refused = Some("403".into())),
    ("before-consul-token", |b| b.consuls[0].is_filtered = true),
    ("before-consul-token", |b| b.consuls[0].services = 0),
    ("before-consul-token", |b| b.consuls[0].expires = Some(at(3600))),
    ("before-remotes", |b| b.remotes = Some(Err("no such directory".into()))),
];

/// Checks whose findings are information: they pass, and have a finding.
const INFORMED: &[(&str, FaultBefore)] =
    &[("before-kinds", |b| b.clusters[0].missing_kinds = vec!["gateways".into()])];

fn outcome(items: &[CheckItem], id: &str) -> (Outcome, Vec<Finding>) {
    let item = items.iter().find(|item| item.check == id).unwrap_or_else(|| panic!("{id} has no result"));
    (item.outcome, item.findings.clone())
}

/// Requires that a fault makes its check red, with a next step, and that every other one keeps its result.
fn red(id: &str, green: &[CheckItem], found: &[CheckItem]) {
    let (result, findings) = outcome(found, id);
    assert!(result >= Outcome::Warning, "{id} passes: {findings:?}");
    assert!(findings.iter().all(|one| !one.next.is_empty()), "{id} has no next step: {findings:?}");
    assert_eq!(outcome(green, id).0, Outcome::Pass, "{id} is not green without its fault");
}

#[test]
fn every_check_has_a_red_and_a_green_case() {
    let (mut seen, green) = (BTreeSet::new(), judge(&healthy()));
    for (id, fault) in FAULTS {
        let mut documents = healthy();
        fault(&mut documents);
        red(id, &green, &judge(&documents));
        seen.insert(*id);
    }
    let second = || Documents { server: "b".into(), ..healthy() };
    let green = merge(&[healthy(), second()]);
    for (id, fault) in REPLICA_FAULTS {
        let mut other = second();
        fault(&mut other);
        red(id, &green, &merge(&[healthy(), other]));
        seen.insert(*id);
    }
    let green = before::judge(&healthy_before());
    for (id, fault) in FAULTS_BEFORE {
        let mut facts = healthy_before();
        fault(&mut facts);
        red(id, &green, &before::judge(&facts));
        seen.insert(*id);
    }
    for (id, fault) in INFORMED {
        let mut facts = healthy_before();
        fault(&mut facts);
        assert_eq!(outcome(&before::judge(&facts), id).1.len(), 1, "{id}");
        assert!(outcome(&green, id).1.is_empty(), "{id}");
        seen.insert(*id);
    }
    let known: BTreeSet<&str> = TABLE.iter().map(|info| info.id).collect();
    let missing: Vec<_> = known.difference(&seen).collect();
    assert!(missing.is_empty(), "checks without a red and a green case: {missing:?}");
}

#[test]
fn fault_of_one_kind_turns_no_unrelated_check_red() {
    let green = judge(&healthy());
    assert!(green.iter().all(|item| item.outcome == Outcome::Pass), "{green:#?}");
    let mut documents = healthy();
    documents.held = vec![HeldItem { registry: "r".into(), ..HeldItem::default() }];
    let red: Vec<String> = judge(&documents)
        .into_iter()
        .filter(|item| item.outcome > Outcome::Skipped)
        .map(|item| item.check)
        .collect();
    assert_eq!(red, ["held-removals"]);
}

#[test]
fn merged_finding_names_the_servers_that_have_it() {
    let mut first = healthy();
    first.held = vec![HeldItem { registry: "r".into(), ..HeldItem::default() }];
    let second = Documents { server: "b".into(), ..first.clone() };
    let third = Documents { server: "c".into(), ..healthy() };
    let (_, findings) = outcome(&merge(&[first, second, third]), "held-removals");
    assert_eq!(findings.iter().map(|one| one.servers.clone()).collect::<Vec<_>>(), [["a", "b"]]);
}

#[test]
fn silent_replica_hides_no_result_of_the_others() {
    let silent = Documents::silent("b", "refused", at(0));
    let items = merge(&[healthy(), silent.clone()]);
    assert_eq!(outcome(&items, "registries-live").0, Outcome::Pass);
    assert_eq!(outcome(&items, "replicas-answer").0, Outcome::Error);
    let all_silent = merge(&[silent]);
    assert_eq!(outcome(&all_silent, "server-answers").0, Outcome::Error);
    assert!(all_silent.iter().all(|item| !item.check.starts_with("replicas")), "one server has no replicas");
    assert!(TABLE.iter().any(|info| matches!(info.judge, Judge::Replicas(_))));
}
