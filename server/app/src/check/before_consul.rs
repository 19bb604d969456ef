//! Checks of each Consul before the installation: whether it answers, and what its token sees.

use jiff::SignedDuration;
use tributary_model::Code;

use super::before::{Before, ConsulFacts};
use super::finding::counted;
use super::{Finding, Found};
use crate::document::timestamp;

/// Time before the end of a token from which it is reported.
const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

fn without_consul(before: &Before) -> Option<Found> {
    before.consuls.is_empty().then(|| Found::skipped("no Consul is configured"))
}

/// Judges whether each Consul answers and has a leader.
pub(super) fn reached(before: &Before) -> Found {
    if let Some(found) = without_consul(before) {
        return found;
    }
    let finding = |one: &ConsulFacts| {
        let made = match &one.unreachable {
            Some(why) => Finding::error("no answer", none_answers(&one.addresses, why))
                .next("check the addresses of the registry, and that an agent or server listens there"),
            None if one.has_leader => return None,
            None => Finding::error("no leader", format!("{}: it has no leader", one.addresses))
                .next("see `consul operator raft list-peers`"),
        };
        Some(made.code(Code::SOURCE_UNREACHABLE).about("registry", one.name.as_str()))
    };
    let shown: Vec<&str> = before.consuls.iter().map(|one| &*one.addresses).collect();
    Found::new(shown.join("; "), before.consuls.iter().filter_map(finding).collect())
}

/// Describes Consuls of which none answers; the reason has the address of the last one.
fn none_answers(addresses: &str, why: &str) -> String {
    match addresses.split(", ").count() {
        1 => why.to_owned(),
        count => format!("none of {count} addresses answers, the last one with {why}"),
    }
}

/// Judges the token of each Consul that answers.
pub(super) fn token(before: &Before) -> Found {
    if let Some(found) = without_consul(before) {
        return found;
    }
    let answering = || before.consuls.iter().filter(|one| one.unreachable.is_none());
    if answering().next().is_none() {
        return Found::skipped("no Consul answers");
    }
    let services: usize = answering().map(|one| one.services).sum();
    Found::new(
        counted(services as u64, "service", "services"),
        answering()
            .filter_map(|one| of_token(one, before))
            .map(|(name, made)| made.about("registry", name))
            .collect(),
    )
}

fn of_token<'a>(one: &'a ConsulFacts, before: &Before) -> Option<(&'a str, Finding)> {
    let made = match (&one.refused, one.expires) {
        (Some(why), _) => Finding::error("refused", why.as_str())
            .next("correct the token: `tokenFile` of the registry, or CONSUL_HTTP_TOKEN_FILE")
            .code(Code::SOURCE_FORBIDDEN),
        (None, Some(at)) if at <= before.now => {
            Finding::error("expired", format!("the token expired at {}", timestamp(at)))
        }
        (None, Some(at)) if at.duration_since(before.now) < SOON => {
            Finding::warning("expires soon", format!("the token expires at {}", timestamp(at)))
                .next("create a new token, and write it to the token file, which is read again")
        }
        _ if one.is_filtered => {
            Finding::warning("answers are filtered", "the token sees a part of the services or nodes")
        }
        _ if one.services == 0 => {
            Finding::warning("no service is seen", "the catalog has no service for the token")
        }
        _ => return None,
    };
    Some((&one.name, made))
}
