//! The fields of a RequestAuthentication.
//!
//! Unknown fields are faults also in objects of a cluster: without one of its fields a rule could accept more.

use super::authorization_policy::{declared, targets};
use super::fields::Fields;
use super::peer_authentication::selector;
use crate::document::request_authentication::{RequestAuthentication, TokenRule};
use crate::document::{Located, Text};
use crate::read::fault::Faults;
use crate::read::node::Node;

pub(super) fn decode(spec: &Node, path: String, faults: &mut Faults) -> RequestAuthentication {
    faults.strictly(|faults| policy(spec, path, faults))
}

fn policy(spec: &Node, path: String, faults: &mut Faults) -> RequestAuthentication {
    let at = Located::new(spec.at, ());
    let Some(mut fields) = Fields::open(spec, path, faults) else {
        return RequestAuthentication { at, ..RequestAuthentication::default() };
    };
    let mut ignored = Vec::new();
    let selector = selector(&mut fields, &mut ignored, faults);
    let targets = targets(&mut fields, faults);
    let items = fields.list("jwtRules", faults).into_iter();
    let rules = items.filter_map(|(path, node)| {
        rule(declared(&path, node, "remove it", faults)?, path, &mut ignored, faults)
    });
    let rules = rules.collect();
    fields.finish(faults);
    RequestAuthentication { at, selector, targets, rules, ignored, is_stand_in: false }
}

fn rule(node: &Node, path: String, ignored: &mut Vec<Text>, faults: &mut Faults) -> Option<TokenRule> {
    let mut fields = Fields::open(node, path, faults)?;
    let jwks = fields.filled("jwks", faults);
    let rule = TokenRule {
        at: Located::new(node.at, ()),
        issuer: fields.filled("issuer", faults),
        audiences: fields.texts("audiences", faults),
        jwks_uri: address(&mut fields, jwks.is_some(), ignored, faults),
        jwks,
        headers: pairs(&mut fields, "fromHeaders", ["name", "prefix"], faults),
        params: fields.texts("fromParams", faults),
        cookies: fields.texts("fromCookies", faults),
        forwards: fields.flag("forwardOriginalToken", faults).is_some_and(|flag| flag.value),
        payload_header: fields.filled("outputPayloadToHeader", faults),
        claim_headers: pairs(&mut fields, "outputClaimToHeaders", ["header", "claim"], faults),
        spaced_claims: fields.texts("spaceDelimitedClaims", faults),
        timeout: fields.duration("timeout", faults).map(|timeout| timeout.value),
    };
    fields.finish(faults);
    Some(rule)
}

/// The address of keys, which has two names, and no effect beside keys.
fn address(
    fields: &mut Fields<'_>,
    has_keys: bool,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) -> Option<Text> {
    let [new, old] = ["jwksUri", "jwks_uri"].map(|name| (name, fields.filled(name, faults)));
    for (name, of) in [&new, &old] {
        if of.is_some() && (has_keys || (*name == old.0 && new.1.is_some())) {
            fields.ignored(name, ignored);
        }
    }
    new.1.or(old.1)
}

/// The items of a list with two texts each, of which an absent one is empty.
fn pairs(
    fields: &mut Fields<'_>,
    list: &'static str,
    names: [&'static str; 2],
    faults: &mut Faults,
) -> Vec<(Text, Text)> {
    let items = fields.list(list, faults).into_iter();
    let one = |(path, node): (String, &Node)| {
        let mut inner = Fields::open(declared(&path, node, "remove it", faults)?, path, faults)?;
        let mut text = |name| inner.text(name, faults).unwrap_or_else(|| Located::new(node.at, "".into()));
        let [first, second] = names.map(&mut text);
        inner.finish(faults);
        Some((first, second))
    };
    items.filter_map(one).collect()
}
