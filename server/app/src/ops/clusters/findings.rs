//! What the checks of a credential found: name, connection, authentication, version, clock, identity and rights.
//!
//! The commands `cluster check`, `add` and `rotate` call it from where they run, and the server for `cluster check --all --connect`.
//! Every finding is a function of what was answered; [`check`] makes the requests with the credential that the server uses. It reads only.

use std::time::Duration;

use http::Uri;
use jiff::{SignedDuration, Timestamp};
use tributary_kube_client::{ApiFailure, Connection, Preflight, preflight};
use tributary_model::Code;

use super::kinds::{is_required, kinds};
use crate::document::{Finding, Findings, Outcome};

/// Largest difference of two clocks that is not reported.
const SKEW: SignedDuration = SignedDuration::from_secs(60);
/// How long a new account may be unknown to its API server.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two requests.
const PACE: Duration = Duration::from_millis(200);

/// Checks a connection. A new account needs a moment until its token and its rights are known to every part of the API server: a refusal
/// is repeated for `patience`.
pub async fn check(connection: &Connection, server: &str, patience: Duration) -> Findings {
    let name = resolve(server).await;
    if name.outcome == Outcome::Failed {
        return Findings { checks: vec![name], ..Findings::default() };
    }
    let end = tokio::time::Instant::now() + patience;
    loop {
        let answer = preflight(connection, kinds()).await;
        let may_follow = match &answer {
            Ok(found) => found.unread.iter().any(|(_, why)| matches!(why, ApiFailure::Forbidden(_))),
            Err(why) => matches!(why, ApiFailure::Unauthorized(_)),
        };
        let next = tokio::time::Instant::now() + PACE;
        if !may_follow || next >= end {
            return judge(name, answer.map_err(|why| of_server(why, server)), Timestamp::now());
        }
        tokio::time::sleep_until(next).await;
    }
}

/// Returns the findings of a connection that cannot be made.
#[must_use]
pub fn unconnected(why: &str) -> Findings {
    let finding = Finding::new("connection", Outcome::Failed, why).coded(Code::CLUSTER_UNREACHABLE);
    Findings { checks: vec![finding], ..Findings::default() }
}

/// Names the server in a failure that has no answer of it.
fn of_server(why: ApiFailure, server: &str) -> ApiFailure {
    match why {
        ApiFailure::Unreachable(text) => {
            ApiFailure::Unreachable(format!("{}: {text}", host_and_port(server)))
        }
        other => other,
    }
}

/// Returns host and port of a URL, without the rest of it, which can hold a credential.
#[must_use]
pub fn host_and_port(url: &str) -> String {
    let uri = url.parse::<Uri>().ok();
    let port = uri.as_ref().and_then(Uri::port_u16).unwrap_or(443);
    let host = uri.as_ref().and_then(Uri::host);
    host.map_or_else(|| "an address that is not valid".to_owned(), |host| format!("{host}:{port}"))
}

/// Resolves the name of a server.
async fn resolve(server: &str) -> Finding {
    const CHECK: &str = "name";
    let uri = server.parse::<Uri>().ok();
    let Some(host) = uri.as_ref().and_then(Uri::host) else {
        return unresolved(format!("{server} has no host"));
    };
    if host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok() {
        return Finding::new(CHECK, Outcome::Ok, format!("{host} is an address"));
    }
    let port = uri.as_ref().and_then(Uri::port_u16).unwrap_or(443);
    match tokio::net::lookup_host((host, port)).await {
        Ok(all) => {
            let all: Vec<String> = all.map(|address| address.ip().to_string()).collect();
            Finding::new(CHECK, Outcome::Ok, format!("{host} is {}", all.join(", ")))
        }
        Err(error) => unresolved(format!("{host} is not found: {error}")),
    }
}

fn unresolved(why: String) -> Finding {
    Finding::new("name", Outcome::Failed, why).coded(Code::CLUSTER_UNREACHABLE)
}

/// Returns the findings of an answer.
fn judge(name: Finding, answer: Result<Preflight, ApiFailure>, now: Timestamp) -> Findings {
    let mut checks = vec![name];
    let found = match answer {
        Ok(found) => found,
        Err(why) => {
            checks.extend(refused(&why));
            return Findings { checks, ..Findings::default() };
        }
    };
    checks.push(Finding::new("connection", Outcome::Ok, "TCP and TLS"));
    checks.push(Finding::new("authentication", Outcome::Ok, "the credential is accepted"));
    checks.push(Finding::new("version", Outcome::Ok, found.version.as_str()));
    checks.push(clock(found.date.as_deref(), now));
    checks.push(match &found.identity {
        Ok(uid) => Finding::new("identity", Outcome::Ok, uid.to_string()),
        Err(why) => {
            Finding::new("identity", Outcome::Warning, format!("unverified: it cannot be read: {why}"))
        }
    });
    checks.extend(rights(&found.unread));
    Findings {
        checks,
        version: Some(found.version),
        identity: found.identity.ok().map(|uid| uid.to_string()),
    }
}

/// Returns the findings of an answer that concerns every request.
fn refused(why: &ApiFailure) -> Vec<Finding> {
    let failed = |check: &str, code: Code| {
        Finding::new(check, Outcome::Failed, format!("{why}; {}", code.info().next)).coded(code)
    };
    match why {
        ApiFailure::Unauthorized(_) | ApiFailure::Forbidden(_) => vec![
            Finding::new("connection", Outcome::Ok, "TCP and TLS"),
            failed("authentication", Code::CLUSTER_CREDENTIAL_REFUSED),
        ],
        _ => vec![failed("connection", Code::CLUSTER_UNREACHABLE)],
    }
}

fn rights(unread: &[(String, ApiFailure)]) -> Vec<Finding> {
    if unread.is_empty() {
        return vec![Finding::new("rights", Outcome::Ok, "every kind can be listed")];
    }
    let code = Code::CLUSTER_RIGHT_MISSING;
    let finding = |(kind, why): &(String, ApiFailure)| {
        let outcome = if is_required(kind) { Outcome::Failed } else { Outcome::Warning };
        let detail = format!("{kind} cannot be listed: {why}; {}", code.info().next);
        Finding::new("rights", outcome, detail).coded(code)
    };
    unread.iter().map(finding).collect()
}

/// Compares the clock of the server with the own one. Tokens are valid between two times.
fn clock(date: Option<&str>, now: Timestamp) -> Finding {
    let parsed = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    let Some(at) = parsed.map(|zoned| zoned.timestamp()) else {
        return Finding::new("clock", Outcome::Warning, "the server states no time");
    };
    let skew = at.duration_since(now).abs();
    let detail = format!("{} s apart", skew.as_secs());
    Finding::new("clock", if skew > SKEW { Outcome::Warning } else { Outcome::Ok }, detail)
}

#[cfg(test)]
mod tests {
    use tributary_model::Fingerprint;

    use super::*;

    fn mk(unread: &[(&str, ApiFailure)]) -> Preflight {
        Preflight {
            version: "v1.34.1".into(),
            date: Some("Fri, 13 Feb 2009 23:31:30 GMT".into()),
            identity: Fingerprint::new("u-1").map_err(|_| ApiFailure::NotFound(String::new())),
            unread: unread.iter().map(|(kind, why)| ((*kind).to_owned(), why.clone())).collect(),
        }
    }

    fn judged(answer: Result<Preflight, ApiFailure>) -> Vec<(String, Outcome)> {
        let name = Finding::new("name", Outcome::Ok, "");
        let found = judge(name, answer, Timestamp::from_second(1_234_567_890).unwrap());
        let worst = found.checks.iter().any(|one| one.outcome == Outcome::Failed);
        assert_eq!(found.are_good(), !worst);
        found.checks.iter().skip(1).map(|one| (one.check.clone(), one.outcome)).collect()
    }

    fn of(all: &[(&str, Outcome)]) -> Vec<(String, Outcome)> {
        all.iter().map(|(check, outcome)| ((*check).to_owned(), *outcome)).collect()
    }

    #[test]
    fn each_answer_has_its_findings() {
        use Outcome::{Failed, Ok as Good, Warning};
        let refused = || ApiFailure::Forbidden("no".into());
        let base = [
            ("connection", Good),
            ("authentication", Good),
            ("version", Good),
            ("clock", Good),
            ("identity", Good),
        ];
        let with = |last| of(&base.iter().copied().chain([last]).collect::<Vec<_>>());
        assert_eq!(judged(Ok(mk(&[]))), with(("rights", Good)));
        assert_eq!(judged(Ok(mk(&[("pods", refused())]))), with(("rights", Failed)));
        for optional in ["nodes", "gateways", "workloadentries"] {
            assert_eq!(judged(Ok(mk(&[(optional, refused())]))), with(("rights", Warning)), "{optional}");
        }
        let unknown = judged(Err(ApiFailure::Unauthorized("no".into())));
        assert_eq!(unknown, of(&[("connection", Good), ("authentication", Failed)]));
        assert_eq!(judged(Err(ApiFailure::Unreachable("no".into()))), of(&[("connection", Failed)]));
        let nameless = Preflight { identity: Err(refused()), ..mk(&[]) };
        assert!(judged(Ok(nameless)).contains(&("identity".to_owned(), Warning)));
    }

    #[test]
    fn server_is_named_without_a_credential() {
        assert_eq!(host_and_port("https://user:hunter2@a.test:6443/x?token=hunter2"), "a.test:6443");
        assert_eq!(host_and_port("https://[fd00::1]"), "[fd00::1]:443");
        assert_eq!(host_and_port("hunter2 x"), "an address that is not valid");
        let why = of_server(ApiFailure::Unreachable("refused".into()), "https://10.0.0.1:6443");
        assert_eq!(why.to_string(), "no answer: 10.0.0.1:6443: refused");
    }

    #[test]
    fn clocks_that_differ_are_reported() {
        let at = |seconds: i64| {
            let now = Timestamp::from_second(1_234_567_890 + seconds).unwrap();
            clock(Some("Fri, 13 Feb 2009 23:31:30 GMT"), now)
        };
        assert_eq!((at(30).outcome, at(-30).outcome), (Outcome::Ok, Outcome::Ok));
        assert_eq!((at(300).outcome, at(-300).outcome), (Outcome::Warning, Outcome::Warning));
        assert_eq!(at(300).detail, "300 s apart");
        assert_eq!(clock(None, Timestamp::UNIX_EPOCH).outcome, Outcome::Warning);
    }

    #[tokio::test]
    async fn addresses_need_no_name() {
        assert_eq!(resolve("https://10.0.0.1:6443").await.outcome, Outcome::Ok);
        assert_eq!(resolve("https://[fd00::1]:6443").await.outcome, Outcome::Ok);
        assert_eq!(resolve("https://").await.outcome, Outcome::Failed);
    }
}
