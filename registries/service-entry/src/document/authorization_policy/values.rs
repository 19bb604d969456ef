//! Attributes and values of AuthorizationPolicies: which texts are valid, and what they mean.
//!
//! Validation reports what is wrong with a text, and conversion takes its meaning, both from the functions here.

use std::sync::Arc;

use tributary_model::{Attribute, Code, PortNumber, ValueMatch};

use crate::validate::range;

/// What is wrong with a text, and what to do.
pub(crate) struct Invalid(pub(crate) Code, pub(crate) &'static str);

/// Attributes without a name in brackets, by the keys of `when`.
const KEYS: [(&str, Attribute); 11] = [
    ("source.ip", Attribute::SourceIp),
    ("remote.ip", Attribute::RemoteIp),
    ("source.namespace", Attribute::Namespace),
    ("source.principal", Attribute::Principal),
    ("source.serviceAccount", Attribute::ServiceAccount),
    ("request.auth.principal", Attribute::RequestPrincipal),
    ("request.auth.audiences", Attribute::RequestAudience),
    ("request.auth.presenter", Attribute::RequestPresenter),
    ("destination.ip", Attribute::DestinationIp),
    ("destination.port", Attribute::DestinationPort),
    ("connection.sni", Attribute::ServerName),
];
/// What to write in place of a trust domain.
pub(crate) const TRUST_DOMAIN_FIX: &str = "compare the principal with DOMAIN/* in its place";
/// Longest service account with its namespace, as Istio bounds it.
const LONGEST_ACCOUNT: usize = 320;
/// Longest name of a namespace.
const LONGEST_NAMESPACE: usize = 63;

/// Returns the attribute that a key of `when` names.
pub(crate) fn attribute_of(key: &str) -> Result<Attribute, Invalid> {
    if let Some((_, of)) = KEYS.iter().find(|(known, _)| *known == key) {
        return Ok(of.clone());
    }
    if let Some(name) = key.strip_prefix("request.headers") {
        return header(name).ok_or(Invalid(Code::VALUE_INVALID, "write request.headers[NAME]"));
    }
    if let Some(path) = key.strip_prefix("request.auth.claims") {
        return claim(path).ok_or(Invalid(
            Code::VALUE_INVALID,
            "write request.auth.claims[NAME], or request.auth.claims[NAME][NAME] for a nested claim",
        ));
    }
    Err(unserved_key(key))
}

fn unserved_key(key: &str) -> Invalid {
    match key {
        "source.trustDomain" => Invalid(Code::FIELD_NOT_SERVED, TRUST_DOMAIN_FIX),
        "destination.namespace" => Invalid(Code::VALUE_INVALID, "declare the policy in that namespace"),
        key if key.starts_with("destination.labels") => {
            Invalid(Code::VALUE_INVALID, "write the labels to spec.selector.matchLabels")
        }
        key if key.starts_with("experimental.envoy.filters.") => {
            Invalid(Code::FIELD_NOT_SERVED, "metadata of filters is not compared: compare another attribute")
        }
        _ => {
            Invalid(Code::VALUE_INVALID, "see the reference page of AuthorizationPolicies for the attributes")
        }
    }
}

fn header(text: &str) -> Option<Attribute> {
    let name = text.strip_prefix('[')?.strip_suffix(']')?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && !b"[]".contains(&b));
    is_name.then(|| Attribute::Header(name.into()))
}

fn claim(text: &str) -> Option<Attribute> {
    let names = text.strip_prefix('[')?.strip_suffix(']')?.split("][");
    let names: Arc<[Arc<str>]> = names.map(Arc::from).collect();
    let is_name = |name: &Arc<str>| !name.is_empty() && !name.contains(['[', ']']);
    names.iter().all(is_name).then_some(Attribute::RequestClaim(names))
}

/// Returns what a text means as a value of an attribute, in a policy of this namespace.
pub(crate) fn value_of(of: &Attribute, text: &str, namespace: &str) -> Result<ValueMatch, Invalid> {
    if text.is_empty() {
        return Err(Invalid(Code::VALUE_INVALID, "an empty value matches nothing; remove it, or write `*`"));
    }
    match of {
        Attribute::SourceIp | Attribute::RemoteIp | Attribute::DestinationIp => {
            let range = range(text).map(|range| ValueMatch::Range(range.trunc()));
            range.ok_or(Invalid(Code::INVALID_ADDRESS, "write an IP address or a CIDR"))
        }
        Attribute::DestinationPort => port(text).map(ValueMatch::Port),
        Attribute::ServiceAccount => account(text, namespace),
        Attribute::Namespace => of_namespace(text),
        Attribute::Path => path(text),
        Attribute::Principal
        | Attribute::ServerName
        | Attribute::Host
        | Attribute::Method
        | Attribute::Header(_)
        | Attribute::RequestPrincipal
        | Attribute::RequestAudience
        | Attribute::RequestPresenter
        | Attribute::RequestClaim(_) => Ok(ValueMatch::of_text(text)),
    }
}

fn port(text: &str) -> Result<PortNumber, Invalid> {
    let digits = Some(text).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse().ok());
    let port = number.and_then(|number| PortNumber::new(number).ok());
    port.ok_or(Invalid(Code::INVALID_PORT, "write a port from 1 to 65535"))
}

/// A service account without a namespace is of that of the policy.
fn account(text: &str, own: &str) -> Result<ValueMatch, Invalid> {
    let (namespace, name) = text.split_once('/').unwrap_or((own, text));
    let is_valid = !namespace.is_empty()
        && !name.is_empty()
        && !name.contains('/')
        && !text.contains('*')
        && text.len() <= LONGEST_ACCOUNT;
    let fix = "write NAME or NAMESPACE/NAME without a wildcard, of up to 320 characters";
    is_valid
        .then(|| ValueMatch::Exact(format!("{namespace}/{name}").into()))
        .ok_or(Invalid(Code::VALUE_INVALID, fix))
}

/// Istio takes every star in a namespace as a wildcard; only one at an end can be expressed. Envoy compares such a value by a
/// regular expression, and refuses the listener if that is large: with the longest namespace it has 96 instructions of 100.
fn of_namespace(text: &str) -> Result<ValueMatch, Invalid> {
    let value = ValueMatch::of_text(text);
    match &value {
        ValueMatch::Exact(rest) | ValueMatch::Prefix(rest) | ValueMatch::Suffix(rest)
            if rest.contains('*') =>
        {
            Err(Invalid(Code::VALUE_INVALID, "write one wildcard at the beginning or the end"))
        }
        ValueMatch::Prefix(rest) | ValueMatch::Suffix(rest) if rest.len() > LONGEST_NAMESPACE => Err(
            Invalid(Code::VALUE_INVALID, "write up to 63 characters beside the wildcard, as a namespace has"),
        ),
        _ => Ok(value),
    }
}

/// A path is a template if it has a part `{*}` or `{**}`.
fn path(text: &str) -> Result<ValueMatch, Invalid> {
    let is_template = text.contains("{*}") || text.contains("{**}");
    let mut ended = false;
    for part in text.trim_matches('/').split('/') {
        match part {
            "{*}" | "{**}" if ended => {
                return Err(Invalid(Code::VALUE_INVALID, "write {**} as the last of its wildcards"));
            }
            "{*}" => {}
            "{**}" => ended = true,
            part if part.contains(['{', '}']) || (is_template && !is_literal(part)) => {
                return Err(Invalid(
                    Code::VALUE_INVALID,
                    "write {*} and {**} as whole segments, and letters, digits or -._~%!$&'()+,;:@= in others",
                ));
            }
            _ => {}
        }
    }
    match is_template {
        true if !text.starts_with('/') => Err(Invalid(Code::VALUE_INVALID, "begin a template with /")),
        true => Ok(ValueMatch::Template(text.into())),
        false => Ok(ValueMatch::of_text(text)),
    }
}

/// Whether a segment of a template consists of characters that a path may have.
fn is_literal(part: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~%!$&'()+,;:@=".contains(&b);
    !part.is_empty() && part.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(of: &Attribute, text: &str) -> Option<ValueMatch> {
        value_of(of, text, "shop").ok()
    }

    #[test]
    fn keys_name_attributes() {
        let header = |name: &str| Some(Attribute::Header(name.into()));
        let claim = |names: &[&str]| {
            Some(Attribute::RequestClaim(names.iter().map(|name| Arc::from(*name)).collect()))
        };
        let cases = [
            ("source.ip", Some(Attribute::SourceIp)),
            ("connection.sni", Some(Attribute::ServerName)),
            ("request.headers[X-Token]", header("X-Token")),
            ("request.headers[:authority]", header(":authority")),
            ("request.headers", None),
            ("request.headers[]", None),
            ("request.headers[a b]", None),
            ("request.headersX[a]", None),
            ("request.headers[a][b]", None),
            ("request.auth.claims[iss]", claim(&["iss"])),
            ("request.auth.claims[https://a.b/c][d]", claim(&["https://a.b/c", "d"])),
            ("request.auth.claims[a][]", None),
            ("request.auth.claims[[a]]", None),
            ("request.auth.claims.a", None),
            ("source.Ip", None),
            ("", None),
        ];
        for (key, want) in cases {
            assert_eq!(attribute_of(key).ok(), want, "{key}");
        }
    }

    #[test]
    fn keys_that_are_not_served_differ_from_unknown_ones() {
        let code = |key| attribute_of(key).err().map(|Invalid(code, _)| code);
        for key in ["source.trustDomain", "experimental.envoy.filters.a[b]"] {
            assert_eq!(code(key), Some(Code::FIELD_NOT_SERVED), "{key}");
        }
        for key in ["destination.namespace", "destination.labels[v]", "destination.name", "source.user"] {
            assert_eq!(code(key), Some(Code::VALUE_INVALID), "{key}");
        }
    }

    #[test]
    fn values_are_read_by_their_attribute() {
        let range = |text: &str| Some(ValueMatch::Range(text.parse().unwrap()));
        let exact = |text: &str| Some(ValueMatch::Exact(text.into()));
        let port = |number| Some(ValueMatch::Port(PortNumber::new(number).unwrap()));
        let long = "a".repeat(LONGEST_ACCOUNT + 1);
        let longest = format!("{}*", "n".repeat(LONGEST_NAMESPACE));
        let cases = [
            (Attribute::SourceIp, "10.0.0.1", range("10.0.0.1/32")),
            (Attribute::RemoteIp, "10.1.2.3/16", range("10.1.0.0/16")),
            (Attribute::DestinationIp, "2001:db8::/32", range("2001:db8::/32")),
            (Attribute::SourceIp, "10.0.0.0/33", None),
            (Attribute::SourceIp, "10.0.0.*", None),
            (Attribute::SourceIp, "fe80::1%eth0", None),
            (Attribute::DestinationPort, "1", port(1)),
            (Attribute::DestinationPort, "65535", port(65_535)),
            (Attribute::DestinationPort, "0", None),
            (Attribute::DestinationPort, "65536", None),
            (Attribute::DestinationPort, "+80", None),
            (Attribute::DestinationPort, "http", None),
            (Attribute::ServiceAccount, "pay", exact("shop/pay")),
            (Attribute::ServiceAccount, "web/front", exact("web/front")),
            (Attribute::ServiceAccount, "/front", None),
            (Attribute::ServiceAccount, "web/", None),
            (Attribute::ServiceAccount, "a/b/c", None),
            (Attribute::ServiceAccount, "web/*", None),
            (Attribute::ServiceAccount, &long, None),
            (Attribute::Namespace, "web", exact("web")),
            (Attribute::Namespace, "web-*", Some(ValueMatch::Prefix("web-".into()))),
            (Attribute::Namespace, "*", Some(ValueMatch::Present)),
            (Attribute::Namespace, "w*b", None),
            (Attribute::Namespace, "*web*", None),
            (Attribute::Namespace, &longest, Some(ValueMatch::Prefix(longest.trim_end_matches('*').into()))),
            (Attribute::Namespace, &format!("n{longest}"), None),
            (Attribute::Namespace, &format!("*{}", "n".repeat(64)), None),
            (Attribute::Principal, "a*b", exact("a*b")),
            (Attribute::Host, "*.shop.com", Some(ValueMatch::Suffix(".shop.com".into()))),
            (Attribute::Method, "", None),
        ];
        for (of, text, want) in cases {
            assert_eq!(value(&of, text), want, "{of:?} {text}");
        }
    }

    #[test]
    fn paths_are_texts_or_templates() {
        let template = |text: &str| Some(ValueMatch::Template(text.into()));
        let cases = [
            ("/pay", Some(ValueMatch::Exact("/pay".into()))),
            ("/pay/*", Some(ValueMatch::Prefix("/pay/".into()))),
            ("*/pay", Some(ValueMatch::Suffix("/pay".into()))),
            ("/pay[1]", Some(ValueMatch::Exact("/pay[1]".into()))),
            ("/pay/{*}", template("/pay/{*}")),
            ("/{*}/pay/{**}", template("/{*}/pay/{**}")),
            ("/{**}/pay/", template("/{**}/pay/")),
            ("/pay/{id}", None),
            ("/pay/{*}.json", None),
            ("/pay/{", None),
            ("/{**}/{*}", None),
            ("/{**}/a/{**}", None),
            ("/a*/{*}", None),
            ("/a[1]/{*}", None),
            ("/a//{*}", None),
            ("pay/{*}", None),
            ("{*}", None),
        ];
        for (text, want) in cases {
            assert_eq!(value(&Attribute::Path, text), want, "{text}");
        }
    }
}
