//! Conditions on the client: its certificate, its address, and the headers and the token of its request.

use envoy_types::pb::envoy::config::rbac::v3::Principal;
use envoy_types::pb::envoy::config::rbac::v3::principal::{Authenticated, Identifier, Set};
use envoy_types::pb::envoy::r#type::matcher::v3::{MetadataMatcher, StringMatcher};
use tributary_model::{Attribute, ValueMatch};

use super::aliases;
use super::matchers::{claim, claim_text, exact, header, prefix, quoted, range, regex, string, suffix, text};
use super::rule::{Context, Term};

/// Scheme of identities.
const SCHEME: &str = "spiffe://";

impl Term for Principal {
    fn any() -> Self {
        of(Identifier::Any(true))
    }
    fn and(ids: Vec<Self>) -> Self {
        of(Identifier::AndIds(Set { ids }))
    }
    fn not(self) -> Self {
        of(Identifier::NotId(Box::new(self)))
    }
    fn of(attribute: &Attribute, values: &[ValueMatch], context: &Context<'_>) -> Option<Self> {
        match attribute {
            Attribute::Principal => {
                let values: Vec<_> =
                    values.iter().flat_map(|value| aliases::names(value, context.domains)).collect();
                one_of(attribute, &values)
            }
            Attribute::RequestPrincipal => request_principals(values),
            Attribute::RequestAudience => claim(&["aud".into()], values).map(metadata),
            Attribute::RequestPresenter => claim(&["azp".into()], values).map(metadata),
            Attribute::RequestClaim(path) => claim(path, values).map(metadata),
            Attribute::Namespace
            | Attribute::ServiceAccount
            | Attribute::SourceIp
            | Attribute::RemoteIp
            | Attribute::DestinationIp
            | Attribute::DestinationPort
            | Attribute::ServerName
            | Attribute::Host
            | Attribute::Method
            | Attribute::Path
            | Attribute::Header(_) => one_of(attribute, values),
        }
    }
}

const fn of(identifier: Identifier) -> Principal {
    Principal { identifier: Some(identifier) }
}

fn or(ids: Vec<Principal>) -> Principal {
    of(Identifier::OrIds(Set { ids }))
}

fn one_of(attribute: &Attribute, values: &[ValueMatch]) -> Option<Principal> {
    let ids = values.iter().map(|value| Some(of(identifier(attribute, value)?)));
    Some(or(ids.collect::<Option<_>>()?))
}

fn identifier(attribute: &Attribute, value: &ValueMatch) -> Option<Identifier> {
    match attribute {
        Attribute::Principal => string(value, SCHEME).map(authenticated),
        Attribute::Namespace => namespace(value).map(authenticated),
        Attribute::ServiceAccount => service_account(value).map(authenticated),
        Attribute::SourceIp => range(value).map(Identifier::DirectRemoteIp),
        Attribute::RemoteIp => range(value).map(Identifier::RemoteIp),
        Attribute::Header(name) => header(name, value, false).map(Identifier::Header),
        Attribute::DestinationIp
        | Attribute::DestinationPort
        | Attribute::ServerName
        | Attribute::Host
        | Attribute::Method
        | Attribute::Path
        | Attribute::RequestPrincipal
        | Attribute::RequestAudience
        | Attribute::RequestPresenter
        | Attribute::RequestClaim(_) => None,
    }
}

const fn authenticated(name: StringMatcher) -> Identifier {
    Identifier::Authenticated(Authenticated { principal_name: Some(name) })
}

/// A star stands for any text wherever it is.
fn namespace(value: &ValueMatch) -> Option<StringMatcher> {
    let text = text(value)?;
    let parts: Vec<String> = text.split('*').map(quoted).collect();
    Some(regex(format!(".*/ns/{}/.*", parts.join(".*"))))
}

/// Identities may have parts before and after the account, which is a part as a whole.
fn service_account(value: &ValueMatch) -> Option<StringMatcher> {
    let text = text(value)?;
    let (namespace, account) = text.split_once('/')?;
    let (namespace, account) = (quoted(namespace), quoted(account));
    Some(regex(format!("{SCHEME}.+/ns/{namespace}/(.+/|)sa/{account}(/.+)?")))
}

fn request_principals(values: &[ValueMatch]) -> Option<Principal> {
    let mut ids = values.iter().map(request_principal).collect::<Option<Vec<_>>>()?;
    if ids.len() == 1 { ids.pop() } else { Some(or(ids)) }
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
const fn metadata(matcher: MetadataMatcher) -> Principal {
    of(Identifier::Metadata(matcher))
}
