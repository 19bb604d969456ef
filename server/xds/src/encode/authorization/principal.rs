//! Conditions on the client: its certificate, its address, and the headers and the token of its request.
//!
//! `rule` combines them, and `attributes` has those of each attribute. The text of a policy is in no regular expression where
//! other matchers do, because Envoy bounds the size of these. A certificate of the mesh has one URI, so that matchers which must
//! all match are about the same.

use std::sync::Arc;

use envoy_types::pb::envoy::config::rbac::v3::Principal;
use envoy_types::pb::envoy::config::rbac::v3::principal::{Authenticated, Identifier, Set};
use envoy_types::pb::envoy::r#type::matcher::v3::{MetadataMatcher, StringMatcher};
use tributary_model::ValueMatch;

use super::attributes::Condition;
use super::matchers::{claim_text, containing, exact, prefix, quoted, regex, suffix, text};
use super::rule::Term;

/// Scheme of identities.
const SCHEME: &str = "spiffe://";

impl Term for Principal {
    fn any() -> Self {
        of(Identifier::Any(true))
    }
    fn and(ids: Vec<Self>) -> Self {
        of(Identifier::AndIds(Set { ids }))
    }
    fn or(ids: Vec<Self>) -> Self {
        of(Identifier::OrIds(Set { ids }))
    }
    fn not(self) -> Self {
        of(Identifier::NotId(Box::new(self)))
    }
    fn of(condition: Condition) -> Option<Self> {
        if let Condition::Client(principal) = condition { Some(principal) } else { None }
    }
}

pub(super) const fn of(identifier: Identifier) -> Principal {
    Principal { identifier: Some(identifier) }
}

const fn authenticated(name: StringMatcher) -> Principal {
    of(Identifier::Authenticated(Authenticated { principal_name: Some(name) }))
}

/// Returns the condition that a client has an identity of one of these trust domains.
pub(super) fn of_domains(domains: &[Arc<str>]) -> Principal {
    Principal::or(domains.iter().map(|domain| authenticated(prefix(&format!("{SCHEME}{domain}/")))).collect())
}

/// `*` alone is any certificate with a name.
pub(super) fn identity(value: &ValueMatch) -> Option<Principal> {
    match value {
        ValueMatch::Exact(text) => Some(authenticated(exact(&format!("{SCHEME}{text}")))),
        ValueMatch::Prefix(text) => Some(authenticated(prefix(&format!("{SCHEME}{text}")))),
        ValueMatch::Suffix(text) => Some(identity_end(text)),
        ValueMatch::Present => Some(authenticated(regex(".+".into()))),
        ValueMatch::Template(_) | ValueMatch::Range(_) | ValueMatch::Port(_) => None,
    }
}

/// Returns the condition that an identity ends with a text; the scheme before it is no part of it.
fn identity_end(text: &str) -> Principal {
    let overlapping = SCHEME.char_indices().filter_map(|(at, _)| {
        let (start, shared) = SCHEME.split_at(at);
        text.starts_with(shared).then(|| authenticated(exact(&format!("{start}{text}"))).not())
    });
    let both = [prefix(SCHEME), suffix(text)].map(authenticated);
    Principal::and(both.into_iter().chain(overlapping).collect())
}

/// A star stands for any text wherever it is. One is in a regular expression, of which values have a bounded length.
pub(super) fn namespace(value: &ValueMatch) -> Option<Principal> {
    let text = text(value)?;
    if !text.contains('*') {
        return Some(authenticated(containing(&format!("/ns/{text}/"))));
    }
    let parts: Vec<String> = text.split('*').map(quoted).collect();
    Some(authenticated(regex(format!(".*/ns/{}/.*", parts.join(".*")))))
}

/// Identities may have parts before and after the account, which is a part as a whole. Before one of the namespace `sa`, of which
/// the name could be taken for the mark of an account, they have none.
pub(super) fn service_account(value: &ValueMatch) -> Option<Principal> {
    let text = text(value)?;
    let (namespace, account) = text.split_once('/')?;
    let (before, account) = if namespace == "sa" {
        (None, format!("/ns/sa/sa/{account}"))
    } else {
        (Some(containing(&format!("/ns/{namespace}/"))), format!("/sa/{account}"))
    };
    let ends = [suffix(&account), containing(&format!("{account}/"))].map(authenticated);
    let all = [prefix(SCHEME)].into_iter().chain(before).map(authenticated);
    Some(Principal::and(all.chain([Principal::or(ends.into())]).collect()))
}

pub(super) fn request_principals(values: &[ValueMatch]) -> Option<Principal> {
    let mut ids = values.iter().map(request_principal).collect::<Option<Vec<_>>>()?;
    if ids.len() == 1 { ids.pop() } else { Some(Principal::or(ids)) }
}

/// An issuer may have slashes, a subject has none. A star before a text without a slash stands for an issuer too, one after it
/// for a subject.
fn request_principal(value: &ValueMatch) -> Option<Principal> {
    let present = || regex(".+".into());
    let or_present =
        |text: &str, to: fn(&str) -> StringMatcher| if text.is_empty() { present() } else { to(text) };
    let (issuer, subject) = match value {
        ValueMatch::Present => (present(), present()),
        ValueMatch::Suffix(text) => match text.rsplit_once('/') {
            Some((issuer, subject)) => (or_present(issuer, suffix), exact(subject)),
            None => (present(), suffix(text)),
        },
        ValueMatch::Prefix(text) => match text.rsplit_once('/') {
            Some((issuer, subject)) => (exact(issuer), or_present(subject, prefix)),
            None => (prefix(text), present()),
        },
        ValueMatch::Exact(text) => {
            let (issuer, subject) = text.rsplit_once('/').unwrap_or((text, ""));
            (exact(issuer), exact(subject))
        }
        ValueMatch::Template(_) | ValueMatch::Range(_) | ValueMatch::Port(_) => return None,
    };
    let both = [claim_text("iss", issuer), claim_text("sub", subject)].map(metadata);
    Some(Principal::and(both.into()))
}

/// Its replacement is unknown to older Envoys.
#[allow(deprecated, reason = "the field that every Envoy reads")]
pub(super) const fn metadata(matcher: MetadataMatcher) -> Principal {
    of(Identifier::Metadata(matcher))
}
