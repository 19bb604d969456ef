//! What the review of a token decides, and for how long.

use tributary_kube_client::{ReviewedToken, TokenUser};
use tributary_xds::token::ServiceAccount;

/// What a token grants, or the reason for its client why it proves nothing.
pub type Verdict<G> = Result<G, String>;

/// Decides by the status of a review whose account a token is of.
pub(crate) fn account_of(reviewed: &ReviewedToken, audiences: &[String]) -> Verdict<ServiceAccount> {
    let account = ServiceAccount::of_user(&user_of(reviewed, audiences)?.username);
    account.ok_or_else(|| "its user is no service account".to_owned())
}

/// Decides by the status of a review whose token it is. A cluster that states no audience has only compared the token with its own,
/// so the token could be one for its API.
pub(crate) fn user_of<'r>(reviewed: &'r ReviewedToken, audiences: &[String]) -> Verdict<&'r TokenUser> {
    let ReviewedToken { authenticated, user, audiences: of, error } = reviewed;
    if !authenticated {
        let why = if error.is_empty() { "no reason given" } else { error };
        return Err(format!("its cluster refuses it ({why})"));
    }
    if !of.iter().any(|audience| audiences.contains(audience)) {
        return Err("it is for another audience".to_owned());
    }
    Ok(user)
}

/// Times for which a verdict is kept.
pub(super) mod lasting {
    use std::time::Duration;

    use jiff::Timestamp;
    use tributary_registry_api::Credential;
    use tributary_remote::Validity;

    use super::Verdict;

    /// A granted token: clients that reconnect cost no request, and a deleted account opens no stream for longer.
    const GRANTED: Duration = Duration::from_secs(300);
    /// A refused token: a client in a loop costs few requests, and an account that was just created soon counts.
    const REFUSED: Duration = Duration::from_secs(10);

    /// Returns when a token expires, as it states it. Use it only for a token that its cluster granted.
    pub(in crate::tokens) fn ends(token: &Credential) -> Option<Timestamp> {
        Validity::of(Some(token), None).map(|validity| validity.until)
    }
    /// Returns for how long a verdict is kept: never longer than the token is valid.
    pub(in crate::tokens) fn of<G>(
        verdict: &Verdict<G>,
        until: Option<Timestamp>,
        now: Timestamp,
    ) -> Duration {
        if verdict.is_err() {
            return REFUSED;
        }
        let rest = until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
        rest.map_or(GRANTED, |rest| rest.min(GRANTED))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;

    fn mk(authenticated: bool, user: &str, audiences: &[&str]) -> ReviewedToken {
        let mut out = ReviewedToken { authenticated, ..ReviewedToken::default() };
        out.user.username = user.to_owned();
        out.audiences = audiences.iter().map(ToString::to_string).collect();
        out
    }

    #[test]
    fn only_a_service_account_with_one_of_the_audiences_is_granted() {
        const PAY: &str = "system:serviceaccount:shop:pay";
        let ours = ["istio-ca".to_owned(), "tributary".to_owned()];
        let of =
            |reviewed: ReviewedToken| account_of(&reviewed, &ours).map(|account| account.name.to_string());
        assert_eq!(of(mk(true, PAY, &["tributary"])), Ok("pay".to_owned()));
        assert_eq!(of(mk(true, PAY, &["other", "istio-ca"])), Ok("pay".to_owned()));
        for (reviewed, why) in [
            (mk(false, PAY, &["tributary"]), "refuses it (no reason given)"),
            (ReviewedToken { error: "it expired".into(), ..mk(false, "", &[]) }, "refuses it (it expired)"),
            (mk(true, PAY, &[]), "another audience"),
            (
                mk(true, PAY, &["https://kubernetes.default.svc", "tributary2", "Tributary"]),
                "another audience",
            ),
            (mk(true, "system:node:n1", &["tributary"]), "no service account"),
            (mk(true, "system:serviceaccount:shop:pay:x", &["tributary"]), "no service account"),
        ] {
            let refused = of(reviewed).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn verdict_is_kept_no_longer_than_the_token_is_valid() {
        let granted = || account_of(&mk(true, "system:serviceaccount:a:b", &["x"]), &["x".to_owned()]);
        let (now, at) =
            (Timestamp::from_second(1_000).unwrap(), |second| Timestamp::from_second(second).ok());
        let of = |until| lasting::of(&granted(), until, now).as_secs();
        assert_eq!(
            [of(None), of(at(90_000)), of(at(1_060)), of(at(1_000)), of(at(900))],
            [300, 300, 60, 0, 0]
        );
        assert_eq!(lasting::of::<()>(&Err(String::new()), at(90_000), now), Duration::from_secs(10));
    }
}
