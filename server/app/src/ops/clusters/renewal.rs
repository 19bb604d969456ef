//! Renewal of a cluster's token for operators: when it is due, and why it does not happen.
//!
//! The table of clusters calls it for Secrets with `tributary.dev/renew`. Only the replica that leads knows why a renewal fails; every
//! other one reports that it is overdue. A function of its arguments; no text holds a part of a credential.

use jiff::Timestamp;
use tributary_model::Code;
use tributary_remote::roster::{ClusterStatus, Outcome, SourceKind, State};
use tributary_remote::{Validity, is_overdue, renewal};

use super::board::RemotesView;
use crate::document::clusters::ClusterConditionItem;
use crate::document::timestamp;

/// Kind of the condition.
pub const NOT_RENEWED: &str = "NotRenewed";

/// Returns the time of the next renewal; `None` for a cluster that is not renewed.
pub(super) fn next(view: &RemotesView, one: &ClusterStatus, validity: Option<Validity>) -> Option<Timestamp> {
    validity.filter(|_| view.renews && is_annotated(one)).and_then(|validity| renewal(&one.cluster, validity))
}

/// Returns the condition of a cluster whose token is not renewed although its Secret has the annotation.
pub(super) fn condition(
    view: &RemotesView,
    one: &ClusterStatus,
    validity: Option<Validity>,
    now: Timestamp,
) -> Option<ClusterConditionItem> {
    if !is_annotated(one) || one.state != State::Joined {
        return None;
    }
    let expires = validity.map(|validity| format!("; it expires at {}", timestamp(validity.until)));
    let expires = expires.unwrap_or_default();
    let message = match (view.failed_renewals.get(&one.cluster), validity) {
        _ if !view.renews => {
            "annotation tributary.dev/renew has no effect: `writes` does not list `credentials`".to_owned()
        }
        (Some(failure), _) => format!("the renewal fails and is tried again: {}{expires}", failure.reason),
        (None, None) => {
            "annotation tributary.dev/renew has no effect: the credential states no expiry".to_owned()
        }
        (None, Some(validity)) => match renewal(&one.cluster, validity) {
            None => "annotation tributary.dev/renew has no effect: the credential states no time of issue"
                .to_owned(),
            Some(due) if is_overdue(&one.cluster, validity, now) => {
                let due = timestamp(due);
                format!(
                    "the renewal was due at {due} and did not happen; see the replica that holds the Lease{expires}"
                )
            }
            Some(_) => return None,
        },
    };
    let (kind, code) = (NOT_RENEWED.to_owned(), Code::TOKEN_NOT_RENEWED.to_string());
    Some(ClusterConditionItem { kind, code, message })
}

/// Returns true if the Secret that is used has the annotation.
fn is_annotated(one: &ClusterStatus) -> bool {
    let is_of_secret = |claim: &tributary_remote::roster::ClaimStatus| {
        claim.outcome == Outcome::Wins && claim.source.kind() == SourceKind::Secrets
    };
    one.policy.as_ref().is_some_and(|policy| policy.renew) && one.claims.iter().any(is_of_secret)
}

#[cfg(test)]
mod tests {
    use tributary_model::Mono;
    use tributary_remote::WriteFailure;
    use tributary_remote::roster::{ClaimStatus, Policy, SecretLabel, Source};

    use super::super::state::tests::mk_roster;
    use super::*;

    fn mk(renew: bool, source: Source) -> ClusterStatus {
        let claim = ClaimStatus { source, object: "s/a".into(), outcome: Outcome::Wins };
        let policy = Some(Policy { renew, ..Policy::default() });
        ClusterStatus { policy, claims: vec![claim], ..mk_roster(State::Joined, Vec::new()) }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    const SECRET: Source = Source::Secrets(SecretLabel::Tributary);

    #[test]
    fn next_renewal_is_shown_where_the_server_renews() {
        let validity = Some(Validity { from: Some(at(0)), until: at(1_000) });
        let view = |renews| RemotesView { renews, ..RemotesView::default() };
        let shown = next(&view(true), &mk(true, SECRET), validity).unwrap().as_second();
        assert!((400..=600).contains(&shown), "{shown}");
        assert_eq!(next(&view(false), &mk(true, SECRET), validity), None);
        assert_eq!(next(&view(true), &mk(false, SECRET), validity), None);
        assert_eq!(next(&view(true), &mk(true, Source::Directory), validity), None);
    }

    #[test]
    fn renewal_that_does_not_happen_has_its_reason() {
        let issued = Some(Validity { from: Some(at(0)), until: at(1_000) });
        let message = |view: &RemotesView, validity, now| {
            condition(view, &mk(true, SECRET), validity, at(now)).map(|one| one.message).unwrap_or_default()
        };
        let mut view = RemotesView::default();
        assert!(message(&view, issued, 0).ends_with("`writes` does not list `credentials`"));
        view.renews = true;
        assert_eq!(message(&view, issued, 300), "");
        let overdue = message(&view, issued, 900);
        assert!(overdue.contains("did not happen") && overdue.contains("it expires at 1970"), "{overdue}");
        assert!(message(&view, None, 0).ends_with("no expiry"));
        let endless = Some(Validity { from: None, until: at(1_000) });
        assert!(message(&view, endless, 0).ends_with("no time of issue"));
        let failure = WriteFailure { reason: "403".into(), next: Mono(5) };
        view.failed_renewals = [(mk(true, SECRET).cluster, failure)].into();
        let failed = message(&view, issued, 300);
        assert!(failed.starts_with("the renewal fails and is tried again: 403"), "{failed}");
        assert_eq!(condition(&view, &mk(false, SECRET), issued, at(900)), None, "nothing asks for it");
        let paused = ClusterStatus { state: State::Paused, ..mk(true, SECRET) };
        assert_eq!(condition(&view, &paused, issued, at(900)), None, "no connection renews it");
    }
}
