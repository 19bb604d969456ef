//! Writes to the Secrets that declare clusters, by the replica that holds the Lease: renewed tokens, and the UID of the cluster that
//! answered first.
//!
//! Runs only where `writes` lists `credentials`. [`tributary_remote::due`] decides what is due from what the driver publishes; this module
//! reads the Secret, requests a token of the remote cluster with the present one, checks the new one, and patches the Secret at the
//! version that it read. The effect returns through the watch of Secrets, on every replica: a renewed token is a rotation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tributary_core::{Core, RegistryStatus};
use tributary_kube_client::{Connection, Held, ObjectName, PatchOperation, Writer};
use tributary_model::ClusterId;
use tributary_registry_api::{Backoff, BackoffPolicy, Clock, SplitMix};
use tributary_remote::roster::{ClusterStatus, FOUND_UID};
use tributary_remote::{
    Allowed, Attempts, CredentialFacts, CredentialWork, EditRefused, RemoteServer, SECRETS, SecretWrite,
    StoredSecret, VettedKubeconfig, due, life,
};
use tributary_runtime::{Handle, StatusChanges};

use crate::document::{Findings, Outcome};
use crate::ops::clusters::board::{Board, RemotesView};
use crate::ops::clusters::findings::{PATIENCE, check};
use crate::wiring::cluster::{CREDENTIALS, Cluster};

/// Logs why the Lease cannot be read or written, each reason once, for as long as there is a candidate.
async fn log_failures(mut lease: watch::Receiver<Held>) {
    let mut logged = None;
    loop {
        let failure = lease.borrow_and_update().trouble.clone();
        if let Some(error) = failure.clone().filter(|_| failure != logged) {
            tracing::warn!(
                %error,
                "nothing is written to the Secrets of remote clusters: this replica cannot compete for the Lease; grant what `tributary rbac print` shows"
            );
            logged = failure;
        }
        if lease.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Least pause between two looks for what is due, so that changes of a moment are looked at together.
const LEAST: Duration = Duration::from_secs(2);
/// Longest pause: half of the life of a token passes without a change.
const LONGEST: Duration = Duration::from_secs(30);
/// Most writes at once.
const AT_ONCE: usize = 4;
/// Longest time of one write, with its requests to the remote cluster.
const EACH: Duration = Duration::from_secs(30);
/// Shortest life of a token that API servers issue.
const SHORTEST: Duration = Duration::from_secs(600);

/// Views of the remote clusters, as they are published.
type Views = watch::Receiver<Arc<RemotesView>>;

/// Writer of the Secrets of one config cluster.
pub(super) struct CredentialWriter {
    pub(super) home: Cluster,
    pub(super) board: Board,
    pub(super) handle: Handle,
    pub(super) allowed: Allowed,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) seed: u64,
}

impl CredentialWriter {
    /// Competes for the Lease and writes while it is held, until stopped; resigns then.
    pub(super) async fn run(self, stop: CancellationToken) {
        let (mut backoff, mut random) = (Backoff::new(BackoffPolicy::default()), SplitMix::seeded(self.seed));
        while !stop.is_cancelled() {
            let Some(connection) = self.open().await else {
                let pause = backoff.next(&mut random);
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => continue,
                }
            };
            backoff.reset();
            let leadership = self.home.leadership(&connection, CREDENTIALS);
            let (leads, ended) = (leadership.leads(), CancellationToken::new());
            let failures = log_failures(leadership.holder());
            let writer = Writer::new(connection.client());
            let work = async {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = self.work(&writer, leads, &mut random) => {}
                    () = self.home.connector().outdated(&connection) => {}
                    () = failures => {}
                }
                ended.cancel();
            };
            let ((), leadership) = tokio::join!(work, leadership.until(ended.cancelled()));
            leadership.resign().await;
        }
    }

    async fn open(&self) -> Option<Connection> {
        let home = self.home.clone();
        // the watch of Secrets reports why no connection opens
        tokio::task::spawn_blocking(move || home.open()).await.ok()?.ok()
    }

    /// Writes what is due while this replica leads; ends if its candidate does.
    async fn work(&self, writer: &Writer, mut leads: watch::Receiver<bool>, random: &mut SplitMix) {
        let mut attempts = Attempts::default();
        let mut changes = (self.board.changes(), self.handle.status_changes());
        loop {
            if !*leads.borrow_and_update() {
                // the next leader has its own
                self.board.set_failed_renewals(BTreeMap::new());
                if leads.wait_for(|leads| *leads).await.is_err() {
                    return;
                }
            }
            let view = self.board.view();
            let Ok(statuses) = self.handle.inspect(Core::status).await else { return };
            let facts = facts(&view, &statuses);
            let due = due(&view.roster, &facts, Timestamp::now());
            let open = attempts.open(self.clock.now(), due);
            let writes: Vec<_> =
                open.into_iter().map(|work| self.write(writer, work, &facts).boxed()).collect();
            let mut done = futures::stream::iter(writes).buffered(AT_ONCE);
            while let Some((work, result)) = done.next().await {
                self.note(&mut attempts, work, result, random);
            }
            self.board.set_failed_renewals(attempts.failed_renewals());
            self.rest(&attempts, &mut changes, &mut leads).await;
        }
    }

    /// Waits until something may be due: after a change of a cluster or its status, or when a failed write may be tried again; and for the
    /// end of the leadership.
    async fn rest(
        &self,
        attempts: &Attempts,
        (views, statuses): &mut (Views, StatusChanges),
        leads: &mut watch::Receiver<bool>,
    ) {
        let changed = async {
            tokio::select! {
                // without a sender the server stops
                _ = views.changed() => {}
                _ = statuses.next() => {}
                _ = leads.changed() => {}
            }
        };
        let retry = attempts.next_try().map_or(LONGEST, |next| next.since(self.clock.now()));
        // which one came does not matter
        let _ = tokio::time::timeout(retry.min(LONGEST), changed).await;
        tokio::time::sleep(LEAST).await;
    }

    fn note(
        &self,
        attempts: &mut Attempts,
        work: CredentialWork,
        result: Result<(), String>,
        random: &mut SplitMix,
    ) {
        let CredentialWork { cluster, secret, what } = work.clone();
        let error = result.clone().err().unwrap_or_default();
        let is_new = attempts.tried(self.clock.now(), work, result, random);
        // the log of clusters has a renewal that fails
        if is_new && matches!(what, SecretWrite::Identity(_)) {
            tracing::warn!(%cluster, secret, error, "the identity of a remote cluster was not written; trying again");
        }
    }

    async fn write(
        &self,
        writer: &Writer,
        work: CredentialWork,
        facts: &BTreeMap<ClusterId, CredentialFacts>,
    ) -> (CredentialWork, Result<(), String>) {
        let written =
            tokio::time::timeout(EACH, self.try_write(writer, &work, facts.get(&work.cluster))).await;
        let late = || Err(format!("no answer came within {} s", EACH.as_secs()));
        (work, written.unwrap_or_else(|_| late()))
    }

    async fn try_write(
        &self,
        writer: &Writer,
        work: &CredentialWork,
        facts: Option<&CredentialFacts>,
    ) -> Result<(), String> {
        let (namespace, name) = work.secret.split_once('/').unwrap_or(("", &work.secret));
        let name = ObjectName::new(namespace, name);
        let read = writer.read(&SECRETS, "v1", &name).await;
        let read = read.map_err(|why| format!("Secret {name} cannot be read: {why}"))?;
        let stored = StoredSecret::read(&read).map_err(|why| format!("Secret {name}: {why}"))?;
        let cluster = work.cluster.as_str();
        let steps = match &work.what {
            SecretWrite::Identity(uid) => {
                edited(stored.annotate(cluster, &[(FOUND_UID, Some(uid.as_str()))]))?
            }
            SecretWrite::Token(until) => {
                let present = stored.kubeconfig(cluster, &self.allowed).map_err(|why| why.to_string())?;
                // another replica was first, or the operator
                if present.expires() != Some(*until) || stored.annotation("renew") != Some("true") {
                    return Ok(());
                }
                let known = facts.and_then(|facts| facts.identity.as_ref()).map(ToString::to_string);
                let renewed = renew(cluster, &present, &self.allowed, known).await?;
                edited(stored.replace(cluster, &renewed))?
            }
        };
        if steps.is_empty() {
            return Ok(());
        }
        let patched = writer.patch(&SECRETS, "v1", &name, None, &steps).await;
        patched.map_err(|why| format!("Secret {name} cannot be patched: {why}"))?;
        match &work.what {
            SecretWrite::Token(_) => {
                tracing::info!(cluster, secret = %name, "token of a remote cluster renewed")
            }
            SecretWrite::Identity(uid) => {
                tracing::info!(cluster, secret = %name, %uid, "identity of a remote cluster written to its Secret");
            }
        }
        Ok(())
    }
}

fn edited(steps: Result<Vec<PatchOperation>, EditRefused>) -> Result<Vec<PatchOperation>, String> {
    steps.map_err(|refused| refused.to_string())
}

/// Returns what is known of each cluster. Of one in whose place another answers, no identity is written.
fn facts(view: &RemotesView, statuses: &[RegistryStatus]) -> BTreeMap<ClusterId, CredentialFacts> {
    let of = |one: &ClusterStatus| {
        let of_registry = |status: &&RegistryStatus| one.registry.as_ref() == Some(&status.id.name);
        let status = statuses.iter().find(of_registry).filter(|status| status.found_identity.is_none());
        let validity = view.connections.get(&one.cluster).and_then(|connection| connection.validity);
        let identity = status.and_then(|status| status.identity.clone());
        (one.cluster.clone(), CredentialFacts { identity, validity })
    };
    view.roster.clusters.iter().map(of).collect()
}

/// Requests a token of the account of the present one, with it, and returns the kubeconfig that has it. The new one is checked as it will
/// be used; `known` is the identity that the cluster must have.
async fn renew(
    cluster: &str,
    present: &VettedKubeconfig,
    allowed: &Allowed,
    known: Option<String>,
) -> Result<tributary_registry_api::Credential, String> {
    let (namespace, account) =
        present.account().ok_or("the credential in use is not the token of a service account")?;
    let account = ObjectName::new(&namespace, &account);
    let lasting = present.validity().and_then(life).map_or(SHORTEST, |life| life.max(SHORTEST));
    let server = RemoteServer::of(present).ok_or("its kubeconfig names no certificate authority")?;
    let connection = present.connect(allowed).map_err(|error| error.to_string())?;
    let issued = Writer::new(connection.client()).request_token(&account, lasting).await;
    let issued =
        issued.map_err(|why| format!("the cluster issues no token for its account {account}: {why}"))?;
    let made = server.kubeconfig(cluster, &issued.token, allowed);
    let (kubeconfig, renewed) = made.map_err(|refused| refused.to_string())?;
    let connection = renewed.connect(allowed).map_err(|error| error.to_string())?;
    usable(&check(&connection, renewed.server(), PATIENCE).await, known)?;
    Ok(kubeconfig)
}

fn usable(findings: &Findings, known: Option<String>) -> Result<(), String> {
    if let Some(failed) = findings.checks.iter().find(|one| one.outcome == Outcome::Failed) {
        return Err(format!("the new token cannot be used: {}: {}", failed.check, failed.detail));
    }
    match (&findings.identity, known) {
        (Some(found), Some(known)) if *found != known => {
            Err(format!("another cluster answers: its identity is {found}, not {known}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::document::Finding;

    use super::*;

    #[test]
    fn token_of_another_cluster_or_without_rights_is_not_written() {
        let findings = |outcome, identity: Option<&str>| Findings {
            identity: identity.map(str::to_owned),
            checks: vec![Finding::new("rights", outcome, "pods cannot be listed")],
            ..Findings::default()
        };
        let known = || Some("u-1".to_owned());
        assert_eq!(usable(&findings(Outcome::Warning, Some("u-1")), known()), Ok(()));
        assert_eq!(usable(&findings(Outcome::Ok, None), known()), Ok(()), "it is unverified");
        let other = usable(&findings(Outcome::Ok, Some("u-2")), known()).unwrap_err();
        assert!(other.contains("another cluster answers"), "{other}");
        let poor = usable(&findings(Outcome::Failed, Some("u-1")), known()).unwrap_err();
        assert!(poor.contains("pods cannot be listed"), "{poor}");
    }
}
