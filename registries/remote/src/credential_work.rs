//! What servers write to the Secrets that declare clusters: renewed tokens, and the UID of the cluster that answered first.
//!
//! The application calls it for the replica that leads, and carries out what is due. It is synchronous and pure: times and randomness
//! are passed in. It promises:
//!
//! - A token is renewed at half of its life, up to a tenth of the life earlier or later; the moment depends on cluster and token only,
//!   so that every replica shows the same one.
//! - Only a Secret with `tributary.dev/renew: "true"` whose credential is in use is renewed, and only one that declares a single cluster
//!   gets the UID.
//! - A write that failed is tried again after pauses of at most a minute, one that succeeded not before its effect had time to return.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tributary_model::{ClusterId, Fingerprint, Mono, Version};
use tributary_registry_api::{Backoff, BackoffPolicy, RandomSource, SplitMix};

use crate::kubeconfig::Validity;
use crate::roster::{ClusterStatus, Outcome, RosterStatus, SourceKind, State};

/// Share of a token's life by which its renewal is earlier or later than half of it.
const JITTER: f64 = 0.1;
/// Time in which the effect of a write returns through the watch of Secrets.
const RETURN: Duration = Duration::from_secs(60);

/// What is known of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CredentialFacts {
    /// Identity of the cluster that is served; `None` if it cannot be read, or another one answers.
    pub identity: Option<Fingerprint>,
    /// Validity of the credential that was taken last.
    pub validity: Option<Validity>,
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretWrite {
    /// The UID of the cluster that answered.
    Identity(Fingerprint),
    /// A new token in place of the one that ends at this time.
    Token(Timestamp),
}

/// Write that is due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CredentialWork {
    /// Cluster.
    pub cluster: ClusterId,
    /// `NAMESPACE/NAME` of its Secret.
    pub secret: String,
    /// What is written.
    pub what: SecretWrite,
}

/// Returns the time at which a token is renewed; `None` if it does not state when it was issued.
#[must_use]
pub fn renewal(cluster: &ClusterId, validity: Validity) -> Option<Timestamp> {
    let life = life(validity)?;
    let seed = Version::of(format!("{cluster} {}", validity.until).as_bytes());
    let unit = SplitMix::seeded(seed.0).unit();
    let age = life.mul_f64(0.5 - JITTER + 2.0 * JITTER * unit);
    validity.from?.checked_add(SignedDuration::try_from(age).ok()?).ok()
}

/// Returns true if the renewal of a token should have happened a tenth of its life ago.
#[must_use]
pub fn is_overdue(cluster: &ClusterId, validity: Validity, now: Timestamp) -> bool {
    let Some((due, life)) = renewal(cluster, validity).zip(life(validity)) else { return false };
    SignedDuration::try_from(life.mul_f64(JITTER)).is_ok_and(|late| now.duration_since(due) > late)
}

/// Returns how long a token is valid in all.
#[must_use]
pub fn life(validity: Validity) -> Option<Duration> {
    let life = validity.until.duration_since(validity.from?);
    Duration::try_from(life).ok().filter(|life| !life.is_zero())
}

/// Returns the writes that are due at `now`.
#[must_use]
pub fn due(
    roster: &RosterStatus,
    facts: &BTreeMap<ClusterId, CredentialFacts>,
    now: Timestamp,
) -> Vec<CredentialWork> {
    let of = |one: &ClusterStatus| {
        let Some((secret, facts)) = secret(one).zip(facts.get(&one.cluster)) else { return Vec::new() };
        let identity = facts.identity.clone().filter(|uid| lacks(one, uid) && declares_one(roster, secret));
        let token = token(one, facts, now);
        let all = [identity.map(SecretWrite::Identity), token.map(SecretWrite::Token)];
        let work = |what| CredentialWork { cluster: one.cluster.clone(), secret: secret.to_owned(), what };
        all.into_iter().flatten().map(work).collect()
    };
    roster.clusters.iter().flat_map(of).collect()
}

/// Returns the Secret whose credential a connected cluster uses.
fn secret(one: &ClusterStatus) -> Option<&str> {
    let used = one.claims.iter().find(|claim| claim.outcome == Outcome::Wins)?;
    let is_used = one.state == State::Joined && used.source.kind() == SourceKind::Secrets;
    is_used.then_some(&used.object)
}

/// Returns true if the Secret has not this UID.
fn lacks(one: &ClusterStatus, uid: &Fingerprint) -> bool {
    one.policy.as_ref().is_some_and(|policy| policy.found_uid.as_ref() != Some(uid))
}

/// An annotation speaks for every cluster of its Secret.
fn declares_one(roster: &RosterStatus, secret: &str) -> bool {
    let declares = |one: &&ClusterStatus| {
        let is_it =
            |of: &crate::roster::ClaimStatus| of.source.kind() == SourceKind::Secrets && of.object == secret;
        one.claims.iter().any(is_it)
    };
    roster.clusters.iter().filter(declares).count() == 1
}

fn token(one: &ClusterStatus, facts: &CredentialFacts, now: Timestamp) -> Option<Timestamp> {
    let is_renewed = one.policy.as_ref().is_some_and(|policy| policy.renew);
    let validity = facts.validity.filter(|_| is_renewed)?;
    (renewal(&one.cluster, validity)? <= now).then_some(validity.until)
}

/// Failure of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteFailure {
    /// Reason.
    pub reason: String,
    /// Time of the next try.
    pub next: Mono,
}

#[derive(Debug)]
struct Attempt {
    backoff: Backoff,
    next: Mono,
    reason: Option<String>,
}

/// Writes that were tried, and when each may be tried again.
#[derive(Debug, Default)]
pub struct Attempts(BTreeMap<CredentialWork, Attempt>);

impl Attempts {
    /// Returns the writes that may be tried now; forgets those that are no longer due.
    pub fn open(&mut self, now: Mono, due: Vec<CredentialWork>) -> Vec<CredentialWork> {
        self.0.retain(|work, _| due.contains(work));
        due.into_iter().filter(|work| self.0.get(work).is_none_or(|tried| tried.next <= now)).collect()
    }
    /// Records the result of a try. Returns true for a failure with a new reason.
    pub fn tried(
        &mut self,
        now: Mono,
        work: CredentialWork,
        result: Result<(), String>,
        random: &mut impl RandomSource,
    ) -> bool {
        let new = || Attempt { backoff: Backoff::new(BackoffPolicy::default()), next: now, reason: None };
        let attempt = self.0.entry(work).or_insert_with(new);
        let reason = result.err();
        if reason.is_some() {
            attempt.next = now.plus(attempt.backoff.next(random));
        } else {
            attempt.backoff.reset();
            attempt.next = now.plus(RETURN);
        }
        let is_new = reason.is_some() && reason != attempt.reason;
        attempt.reason = reason;
        is_new
    }
    /// Returns the time from which a write that is still due may be tried again.
    #[must_use]
    pub fn next_try(&self) -> Option<Mono> {
        self.0.values().map(|attempt| attempt.next).min()
    }
    /// Returns the renewals whose last try failed.
    #[must_use]
    pub fn failed_renewals(&self) -> BTreeMap<ClusterId, WriteFailure> {
        let of = |(work, attempt): (&CredentialWork, &Attempt)| {
            let SecretWrite::Token(_) = work.what else { return None };
            let reason = attempt.reason.clone()?;
            Some((work.cluster.clone(), WriteFailure { reason, next: attempt.next }))
        };
        self.0.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::{ClaimStatus, Policy, SecretLabel, Source};

    const DAY: i64 = 86_400;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn id(name: &str) -> ClusterId {
        ClusterId::new(name).unwrap()
    }

    fn of_a_day() -> Validity {
        Validity { from: Some(at(0)), until: at(DAY) }
    }

    fn mk_cluster(name: &str, source: Source, secret: &str, policy: Policy) -> ClusterStatus {
        ClusterStatus {
            cluster: id(name),
            registry: None,
            state: State::Joined,
            since: None,
            leaves: None,
            source: Some(source.kind()),
            policy: Some(policy),
            claims: vec![ClaimStatus { source, object: secret.to_owned(), outcome: Outcome::Wins }],
        }
    }

    fn shown(clusters: Vec<ClusterStatus>, uid: Option<&str>, now: i64) -> Vec<String> {
        let identity = uid.map(|uid| Fingerprint::new(uid).unwrap());
        let fact = |one: &ClusterStatus| {
            (one.cluster.clone(), CredentialFacts { identity: identity.clone(), validity: Some(of_a_day()) })
        };
        let facts = clusters.iter().map(fact).collect();
        let roster = RosterStatus { clusters, ..RosterStatus::default() };
        let text = |work: CredentialWork| match work.what {
            SecretWrite::Identity(uid) => format!("{} {} uid {uid}", work.cluster, work.secret),
            SecretWrite::Token(until) => {
                format!("{} {} token {}", work.cluster, work.secret, until.as_second())
            }
        };
        due(&roster, &facts, at(now)).into_iter().map(text).collect()
    }

    const SECRETS: Source = Source::Secrets(SecretLabel::Tributary);

    fn renewing() -> Policy {
        Policy { renew: true, ..Policy::default() }
    }

    #[test]
    fn token_is_renewed_around_half_of_its_life() {
        let mut moments = Vec::new();
        for number in 0..200 {
            let moment = renewal(&id(&format!("c{number}")), of_a_day()).unwrap().as_second();
            assert!((DAY * 4 / 10..=DAY * 6 / 10).contains(&moment), "{moment}");
            moments.push(moment);
        }
        let (first, last) = (moments.iter().min().unwrap(), moments.iter().max().unwrap());
        assert!(last - first > DAY / 10, "they are spread");
        assert_eq!(renewal(&id("a"), of_a_day()), renewal(&id("a"), of_a_day()), "on every replica");
        assert_eq!(renewal(&id("a"), Validity { from: None, ..of_a_day() }), None);
        assert_eq!(renewal(&id("a"), Validity { from: Some(at(DAY)), until: at(0) }), None);
    }

    #[test]
    fn renewal_is_overdue_a_tenth_of_the_life_later() {
        let due = renewal(&id("a"), of_a_day()).unwrap().as_second();
        assert!(!is_overdue(&id("a"), of_a_day(), at(due + DAY / 10 - 1)));
        assert!(is_overdue(&id("a"), of_a_day(), at(due + DAY / 10 + 1)));
    }

    #[test]
    fn only_annotated_secrets_in_use_are_renewed() {
        let one = |source, policy| vec![mk_cluster("a", source, "s/a", policy)];
        assert_eq!(shown(one(SECRETS, renewing()), None, DAY * 7 / 10), ["a s/a token 86400"]);
        assert!(shown(one(SECRETS, renewing()), None, DAY * 3 / 10).is_empty(), "it is too early");
        assert!(shown(one(SECRETS, Policy::default()), None, DAY).is_empty(), "nothing asks for it");
        assert!(shown(one(Source::Directory, renewing()), None, DAY).is_empty(), "a file is not written");
        let paused = ClusterStatus { state: State::Paused, ..one(SECRETS, renewing()).remove(0) };
        assert!(shown(vec![paused], None, DAY).is_empty());
    }

    #[test]
    fn identity_is_written_once_and_again_after_it_was_accepted() {
        let found = |uid: &str| Policy { found_uid: Fingerprint::new(uid).ok(), ..Policy::default() };
        let one = |policy| vec![mk_cluster("a", SECRETS, "s/a", policy)];
        assert_eq!(shown(one(Policy::default()), Some("u-1"), 0), ["a s/a uid u-1"]);
        assert!(shown(one(found("u-1")), Some("u-1"), 0).is_empty());
        assert_eq!(shown(one(found("u-1")), Some("u-2"), 0), ["a s/a uid u-2"]);
        assert!(shown(one(Policy::default()), None, 0).is_empty(), "it is not known");
        let both = ["a", "b"].map(|name| mk_cluster(name, SECRETS, "s/a", Policy::default()));
        assert!(shown(both.into(), Some("u-1"), 0).is_empty(), "an annotation speaks for both");
    }

    #[test]
    fn failed_write_is_tried_again_with_pauses_and_done_one_waits_for_its_effect() {
        let work = |until| CredentialWork {
            cluster: id("a"),
            secret: "s/a".to_owned(),
            what: SecretWrite::Token(at(until)),
        };
        let (mut attempts, mut random) = (Attempts::default(), SplitMix::seeded(1));
        let mut now = Mono(1_000);
        assert_eq!(attempts.open(now, vec![work(1)]), [work(1)]);
        assert!(attempts.tried(now, work(1), Err("401".to_owned()), &mut random), "it is new");
        for _ in 0..20 {
            assert!(attempts.open(now, vec![work(1)]).is_empty(), "not at once");
            let failure = attempts.failed_renewals()[&id("a")].clone();
            assert!(failure.next.since(now) <= Duration::from_secs(60) && failure.reason == "401");
            now = failure.next;
            assert_eq!(attempts.open(now, vec![work(1)]), [work(1)]);
            assert!(!attempts.tried(now, work(1), Err("401".to_owned()), &mut random), "it is known");
        }
        assert!(!attempts.tried(now, work(1), Ok(()), &mut random));
        assert!(attempts.failed_renewals().is_empty());
        assert!(attempts.open(now, vec![work(1)]).is_empty(), "its effect returns by the watch");
        assert_eq!(attempts.next_try(), Some(now.plus(RETURN)));
        assert_eq!(attempts.open(now, vec![work(2)]), [work(2)], "that of the new token");
        assert_eq!(attempts.open(now.plus(RETURN), vec![work(1)]), [work(1)], "it was overwritten");
    }
}
