//! Checked kubeconfigs, as `cluster check` shows them: built from the verdict of each cluster that a file declares, and from what its
//! API server answered.
//!
//! Items hold names, addresses and times, and no credential.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tributary_model::Code;
use tributary_remote::{Declared, Refusal, VettedKubeconfig};

use super::clusters::{ClaimItem, ClusterItem, FaultItem};
use super::finding::{Finding, Findings, TriedCluster};

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// A server would connect with it.
    Accepted,
    /// Its form is accepted, and its credential is no longer valid.
    Expired,
    /// A server would not use it.
    Refused,
    /// A server would connect with it, and could not read what it needs.
    Unusable,
}

/// Cluster that a file declares, with its verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedCluster {
    /// Cluster ID: the key of the Secret; of a kubeconfig the name of its file.
    pub cluster: String,
    /// File, and the Secret in it as `NAMESPACE/NAME`.
    pub source: String,
    /// Verdict.
    pub verdict: Verdict,
    /// Address of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How it authenticates: `token`, `client certificate`, `password`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authentication: Vec<String>,
    /// Time at which its credential expires, if the credential states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Version of its API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Identity of the cluster: the UID of its namespace `kube-system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Why it is not accepted, and what an accepted one lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<CheckReason>,
    /// What was found where it was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Finding>,
}

/// Reason for a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckReason {
    /// Code from the table of codes.
    pub code: String,
    /// Path of the field; empty for the whole document.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// Line in the kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What is wrong, with the field and the next step.
    pub message: String,
    /// Flag that would allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opt_in: Option<String>,
}

impl CheckedCluster {
    /// Returns the item of a declared cluster at `now`.
    #[must_use]
    pub fn new(declared: Declared, file: &str, now: Timestamp) -> Self {
        let Declared { cluster, secret, verdict } = declared;
        let source = if secret.is_empty() { file.to_owned() } else { format!("{file}, Secret {secret}") };
        let item = Self::named(cluster, source);
        match verdict {
            Ok(vetted) => item.accepted(&vetted, now),
            Err(refused) => {
                let reasons = refused.0.iter().map(CheckReason::of).collect();
                Self { verdict: Verdict::Refused, reasons, ..item }
            }
        }
    }
    /// Returns the item of a file that cannot be read.
    #[must_use]
    pub fn unread(cluster: String, file: String, code: Code, why: String) -> Self {
        let reason = CheckReason {
            code: code.to_string(),
            field: String::new(),
            line: None,
            message: why,
            opt_in: None,
        };
        Self { verdict: Verdict::Refused, reasons: vec![reason], ..Self::named(cluster, file) }
    }
    /// Returns an accepted item of which nothing else is known.
    fn named(cluster: String, source: String) -> Self {
        Self {
            cluster,
            source,
            verdict: Verdict::Accepted,
            server: None,
            authentication: Vec::new(),
            expires: None,
            version: None,
            identity: None,
            reasons: Vec::new(),
            checks: Vec::new(),
        }
    }
    fn accepted(self, vetted: &VettedKubeconfig, now: Timestamp) -> Self {
        let expires = vetted.expires();
        let is_over = expires.is_some_and(|at| at <= now);
        Self {
            verdict: if is_over { Verdict::Expired } else { Verdict::Accepted },
            server: Some(vetted.server().to_owned()),
            authentication: vetted.authentication().into_iter().map(str::to_owned).collect(),
            expires,
            reasons: is_over.then(CheckReason::expired).into_iter().collect(),
            ..self
        }
    }
    /// Adds what was found where it was tried. Without an object of an optional kind, such as a node, the cluster can be served.
    #[must_use]
    pub fn found(mut self, findings: Findings) -> Self {
        if !findings.are_good() && self.verdict == Verdict::Accepted {
            self.verdict = Verdict::Unusable;
        }
        let known: Vec<String> = self.reasons.iter().map(|reason| reason.code.clone()).collect();
        // what the server reports of its own connection is not repeated
        let new = findings.checks.iter().filter(|one| !one.code.is_empty() && !known.contains(&one.code));
        self.reasons.extend(new.map(|one| CheckReason::of_item(&one.code, &one.detail)));
        self.version = findings.version;
        self.identity = findings.identity.or(self.identity);
        self.checks = findings.checks;
        self
    }
}

/// Adds what a running server found when it tried its clusters. Clusters of the configuration, which have no declaration, are added.
#[must_use]
pub fn with_tries(mut all: Vec<CheckedCluster>, tried: Vec<TriedCluster>) -> Vec<CheckedCluster> {
    for TriedCluster { cluster, source, server, findings } in tried {
        let at = all.iter().position(|one| one.cluster == cluster && one.source == source);
        let item = match at {
            Some(at) => all.remove(at),
            None => CheckedCluster::named(cluster, source),
        };
        let server = server.or_else(|| item.server.clone());
        let item = CheckedCluster { server, ..item }.found(findings);
        all.insert(at.unwrap_or(all.len()), item);
    }
    all
}

/// Returns every declaration of a running server's clusters, as the server judged it.
#[must_use]
pub fn of_clusters(clusters: &[ClusterItem], now: Timestamp) -> Vec<CheckedCluster> {
    let claims = clusters.iter().flat_map(|one| one.claims.iter().map(move |claim| (one, claim)));
    claims.map(|(one, claim)| of_claim(one, claim, now)).collect()
}

/// Conditions of a cluster whose used declaration does not work.
const NOT_WORKING: [&str; 3] = ["NewCredential", "NotChanged", "CredentialExpired"];

/// Returns why the used declaration of a cluster does not work, although every field is accepted.
fn not_working(one: &ClusterItem) -> Vec<CheckReason> {
    let is_refused = matches!(one.state.as_str(), "AuthFailed" | "Conflict");
    let state = is_refused.then(|| CheckReason::of_item(&one.code, &one.reason));
    let conditions = one.conditions.iter().filter(|of| NOT_WORKING.contains(&of.kind.as_str()));
    state.into_iter().chain(conditions.map(|of| CheckReason::of_item(&of.code, &of.message))).collect()
}

fn of_claim(one: &ClusterItem, claim: &ClaimItem, now: Timestamp) -> CheckedCluster {
    let is_used = claim.outcome == "Used";
    let expires = one.credential_expires.filter(|_| is_used);
    let is_over = expires.is_some_and(|at| at <= now);
    let expired = is_over.then(CheckReason::expired);
    let not_working = if is_used && !is_over { not_working(one) } else { Vec::new() };
    let unused = matches!(claim.outcome.as_str(), "Duplicate" | "NotUsed").then(|| {
        let code = Code::CLUSTER_CLAIM_UNUSED;
        CheckReason::of_server(code, format!("not used: {}; {}", code.info().title, code.info().next))
    });
    CheckedCluster {
        verdict: match claim.outcome.as_str() {
            "Refused" => Verdict::Refused,
            _ if is_over => Verdict::Expired,
            _ if !not_working.is_empty() => Verdict::Unusable,
            _ => Verdict::Accepted,
        },
        expires,
        identity: Some(one.identity.clone()).filter(|identity| is_used && !identity.is_empty()),
        reasons: claim
            .faults
            .iter()
            .map(CheckReason::of_fault)
            .chain(expired)
            .chain(unused)
            .chain(not_working)
            .collect(),
        ..CheckedCluster::named(one.name.clone(), claim.object.clone())
    }
}

impl CheckReason {
    fn of_fault(fault: &FaultItem) -> Self {
        Self {
            code: fault.code.clone(),
            field: fault.field.clone(),
            line: None,
            message: fault.message.clone(),
            opt_in: Some(fault.opt_in.clone()).filter(|opt_in| !opt_in.is_empty()),
        }
    }
    fn of_item(code: &str, message: &str) -> Self {
        let (code, message) = (code.to_owned(), message.to_owned());
        Self { code, field: String::new(), line: None, message, opt_in: None }
    }
    fn of_server(code: Code, message: String) -> Self {
        Self { code: code.to_string(), field: String::new(), line: None, message, opt_in: None }
    }
    fn of(refusal: &Refusal) -> Self {
        Self {
            code: refusal.code.to_string(),
            field: refusal.field.clone(),
            line: refusal.line,
            message: refusal.to_string(),
            opt_in: refusal.opt_in.map(|opt_in| opt_in.to_string()),
        }
    }
    fn expired() -> Self {
        let code = Code::CREDENTIAL_EXPIRED;
        Self::of_server(code, format!("the credential has expired; {}", code.info().next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Outcome;
    use crate::document::clusters::ClusterConditionItem;

    #[test]
    fn declaration_whose_credential_does_not_work_is_not_accepted() {
        let of = |state: &str, kind: &str| {
            let condition =
                ClusterConditionItem { kind: kind.into(), code: "TRB0713".into(), message: "401".into() };
            let one = ClusterItem {
                state: state.into(),
                code: "TRB0708".into(),
                reason: "refused".into(),
                conditions: vec![condition],
                claims: vec![ClaimItem { outcome: "Used".into(), ..ClaimItem::default() }],
                ..ClusterItem::default()
            };
            let checked = of_clusters(&[one], Timestamp::UNIX_EPOCH).remove(0);
            (checked.verdict, checked.reasons.into_iter().map(|reason| reason.code).collect::<Vec<_>>())
        };
        assert_eq!(of("Live", "NewCredential"), (Verdict::Unusable, vec!["TRB0713".to_owned()]));
        assert_eq!(of("AuthFailed", "Duplicate"), (Verdict::Unusable, vec!["TRB0708".to_owned()]));
        assert_eq!(of("Live", "Duplicate"), (Verdict::Accepted, vec![]));
    }

    #[test]
    fn tried_declarations_have_what_was_found_and_configured_clusters_are_added() {
        let claim = |object: &str, outcome: &str| ClaimItem {
            object: object.into(),
            outcome: outcome.into(),
            faults: Vec::new(),
        };
        let one = ClusterItem {
            name: "east".into(),
            claims: vec![claim("Secret s/a", "Used"), claim("file e", "Duplicate")],
            ..ClusterItem::default()
        };
        let tried = |cluster: &str, source: &str, outcome| {
            let checks = vec![Finding::new("connection", outcome, "why").coded(Code::CLUSTER_UNREACHABLE)];
            let findings = Findings { checks, ..Findings::default() };
            TriedCluster {
                cluster: cluster.into(),
                source: source.into(),
                server: Some("https://a".into()),
                findings,
            }
        };
        let results =
            vec![tried("home", "configuration", Outcome::Ok), tried("east", "file e", Outcome::Failed)];
        let all = with_tries(of_clusters(&[one], Timestamp::UNIX_EPOCH), results);
        let shown: Vec<_> =
            all.iter().map(|one| (one.source.as_str(), one.verdict, one.checks.len())).collect();
        let expected = [
            ("Secret s/a", Verdict::Accepted, 0),
            ("file e", Verdict::Unusable, 1),
            ("configuration", Verdict::Accepted, 1),
        ];
        assert_eq!(shown, expected);
        assert_eq!(all[1].reasons.last().map(|reason| reason.code.as_str()), Some("TRB0707"));
        assert_eq!(all[1].server.as_deref(), Some("https://a"));
    }

    #[test]
    fn declarations_of_a_server_have_its_verdict_and_its_setting() {
        let claim = |outcome: &str, faults| ClaimItem {
            object: "Secret s/a".into(),
            outcome: outcome.into(),
            faults,
        };
        let fault = FaultItem {
            code: "TRB0702".into(),
            field: "users[0].user.username".into(),
            message: "is a password".into(),
            opt_in: "remotes.allowKubeconfig: [basic]".into(),
        };
        let one = ClusterItem {
            name: "east".into(),
            credential_expires: Some(Timestamp::from_second(5).unwrap()),
            identity: "uid".into(),
            claims: vec![claim("Used", vec![]), claim("Duplicate", vec![]), claim("Refused", vec![fault])],
            ..ClusterItem::default()
        };
        let at = |second| of_clusters(std::slice::from_ref(&one), Timestamp::from_second(second).unwrap());
        let verdicts = |all: &[CheckedCluster]| all.iter().map(|one| one.verdict).collect::<Vec<_>>();
        let all = at(4);
        assert_eq!(verdicts(&all), [Verdict::Accepted, Verdict::Accepted, Verdict::Refused]);
        assert_eq!((all[0].identity.as_deref(), all[1].identity.as_deref()), (Some("uid"), None));
        assert!(all[0].reasons.is_empty() && all[1].reasons[0].code == "TRB0710", "{all:?}");
        assert_eq!(all[2].reasons[0].opt_in.as_deref(), Some("remotes.allowKubeconfig: [basic]"));
        assert_eq!(verdicts(&at(5))[0], Verdict::Expired);
    }
}
