//! Converts a RequestAuthentication to a policy.

use std::sync::Arc;

use tributary_model::{
    ClaimHeader, DeclaredPolicy, Fact, Policy, PolicyKey, PolicyKind, RequestAuthentication, TokenHeader,
    TokenKeys, TokenRule,
};

use crate::document::request_authentication::{self, keys, uri};
use crate::document::{Meta, Object, Text};

/// The policy of a document; none if it concerns no sidecar.
pub(super) fn fact(
    object: &Object,
    meta: &Meta,
    document: &request_authentication::RequestAuthentication,
) -> Option<Fact> {
    if !document.targets.is_empty() {
        return None;
    }
    let key = PolicyKey {
        kind: PolicyKind::RequestAuthentication,
        namespace: meta.namespace.clone(),
        name: Arc::clone(&meta.name),
    };
    let policy = Policy::RequestAuthentication(policy(document));
    Some(Fact::Policy(
        key,
        Arc::new(DeclaredPolicy { source: object.source(), created: meta.created, policy }),
    ))
}

fn policy(document: &request_authentication::RequestAuthentication) -> RequestAuthentication {
    let selector = document.selector.as_ref().map(|labels| labels.value.clone()).unwrap_or_default();
    if document.is_stand_in {
        return RequestAuthentication::stand_in(selector);
    }
    let mut ignored: Vec<Arc<str>> = document.ignored.iter().map(|path| Arc::clone(&path.value)).collect();
    let rules = document.rules.iter().enumerate();
    let rules = rules.map(|(at, one)| rule(&format!("spec.jwtRules[{at}]"), one, &mut ignored)).collect();
    ignored.sort();
    RequestAuthentication { selector, rules, ignored: ignored.into() }
}

fn rule(path: &str, rule: &request_authentication::TokenRule, ignored: &mut Vec<Arc<str>>) -> TokenRule {
    let value = |text: &Option<Text>| text.as_ref().map(|text| Arc::clone(&text.value));
    let headers = rule.headers.iter();
    let headers = headers.map(|(name, prefix)| (Arc::clone(&name.value), Arc::clone(&prefix.value)));
    let claims = rule.claim_headers.iter();
    let claims = claims.map(|(header, claim)| (Arc::clone(&header.value), Arc::clone(&claim.value)));
    TokenRule {
        issuer: value(&rule.issuer).unwrap_or_default(),
        audiences: values(&rule.audiences),
        keys: keys_of(path, rule, ignored),
        headers: headers.map(|(name, prefix)| TokenHeader { name, prefix }).collect(),
        params: values(&rule.params),
        cookies: values(&rule.cookies),
        forwards: rule.forwards,
        payload_header: value(&rule.payload_header),
        claim_headers: claims.map(|(header, claim)| ClaimHeader { header, claim }).collect(),
        spaced_claims: values(&rule.spaced_claims),
        timeout: rule.timeout,
    }
}

/// The keys of a rule; none if they are not valid, so that no token is accepted.
fn keys_of(path: &str, rule: &request_authentication::TokenRule, ignored: &mut Vec<Arc<str>>) -> TokenKeys {
    match (&rule.jwks, &rule.jwks_uri) {
        (Some(jwks), _) => {
            let Ok(set) = keys::read(&jwks.value) else { return TokenKeys::Undeclared };
            ignored.extend(set.unused.iter().map(|at| format!("{path}.jwks.keys[{at}]").into()));
            TokenKeys::Inline(set.text.into())
        }
        (None, Some(address)) => uri::read(&address.value).map_or(TokenKeys::Undeclared, TokenKeys::Fetched),
        (None, None) => TokenKeys::Undeclared,
    }
}

fn values(texts: &[Text]) -> Arc<[Arc<str>]> {
    texts.iter().map(|text| Arc::clone(&text.value)).collect()
}
