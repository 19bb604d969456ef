//! The rules of a RequestAuthentication: those of Istio, and those of Envoy, which refuses a listener otherwise.

use std::collections::BTreeSet;

use tributary_model::Code;

use super::load_balancer::is_token;
use super::{names, targets};
use crate::document::Text;
use crate::document::request_authentication::{RequestAuthentication, TokenRule, keys, uri};
use crate::read::fault::{Faults, Pos, clip};

pub(super) type Check = fn(&RequestAuthentication, &mut Faults);

/// Every rule by its name; the tests have the same names.
pub(super) const RULES: &[(&str, Check)] = &[
    ("tokens_size_is_within_limits", tokens_size_is_within_limits),
    ("tokens_selector_is_valid", tokens_selector_is_valid),
    ("tokens_workloads_are_selected_in_one_way", tokens_workloads_are_selected_in_one_way),
    ("tokens_targets_concern_no_sidecar", tokens_targets_concern_no_sidecar),
    ("rules_have_an_issuer_or_keys_to_fetch", rules_have_an_issuer_or_keys_to_fetch),
    ("inline_keys_are_read_by_envoy", inline_keys_are_read_by_envoy),
    ("addresses_of_keys_are_valid", addresses_of_keys_are_valid),
    ("names_of_places_are_not_empty", names_of_places_are_not_empty),
    ("headers_of_tokens_have_names", headers_of_tokens_have_names),
    ("headers_of_claims_have_no_tokens", headers_of_claims_have_no_tokens),
];

/// Maximum number of rules.
const MOST_RULES: usize = 256;
/// Maximum number of items of a list of a rule.
const MOST_ITEMS: usize = 256;
/// Maximum length of a text other than keys.
const LONGEST_TEXT: usize = 4_096;
/// Maximum length of the keys of all rules.
const LONGEST_KEYS: usize = 262_144;

type Named<'p> = (&'static str, &'p [Text]);

fn rules(policy: &RequestAuthentication) -> impl Iterator<Item = (String, &TokenRule)> {
    policy.rules.iter().enumerate().map(|(i, rule)| (format!("spec.jwtRules[{i}]"), rule))
}

/// The lists of texts of a rule.
fn lists(rule: &TokenRule) -> [Named<'_>; 4] {
    [
        ("audiences", &rule.audiences),
        ("fromParams", &rule.params),
        ("fromCookies", &rule.cookies),
        ("spaceDelimitedClaims", &rule.spaced_claims),
    ]
}

/// The texts of a rule but its keys and their address, which have bounds of their own.
fn texts(rule: &TokenRule) -> impl Iterator<Item = &Text> {
    let single = [&rule.issuer, &rule.payload_header].into_iter().flatten();
    let pairs = rule.headers.iter().chain(&rule.claim_headers).flat_map(|(a, b)| [a, b]);
    single.chain(pairs).chain(lists(rule).into_iter().flat_map(|(_, texts)| texts))
}

fn too_large(faults: &mut Faults, at: Pos, message: String) {
    faults.refuse(Code::DOCUMENT_TOO_LARGE, at, message);
}

fn tokens_size_is_within_limits(policy: &RequestAuthentication, faults: &mut Faults) {
    if policy.rules.len() > MOST_RULES {
        let message = format!("spec.jwtRules has more than {MOST_RULES} items; split the policy");
        too_large(faults, policy.at.at, message);
    }
    let keys = policy.rules.iter().filter_map(|rule| rule.jwks.as_ref());
    if keys.map(|keys| keys.value.len()).sum::<usize>() > LONGEST_KEYS {
        let message =
            format!("the jwks of spec.jwtRules are longer than {LONGEST_KEYS} bytes; split the policy");
        too_large(faults, policy.at.at, message);
    }
    for (path, rule) in rules(policy) {
        let lengths = lists(rule).map(|(_, texts)| texts.len());
        let most = lengths.into_iter().chain([rule.headers.len(), rule.claim_headers.len()]).max();
        if most.is_some_and(|most| most > MOST_ITEMS) {
            let message = format!("{path} has a list of more than {MOST_ITEMS} items; shorten it");
            too_large(faults, rule.at.at, message);
        }
        for text in texts(rule).filter(|text| text.value.len() > LONGEST_TEXT) {
            let message = format!("{path} has a text of more than {LONGEST_TEXT} bytes; shorten it");
            too_large(faults, text.at, message);
        }
    }
}

fn tokens_selector_is_valid(policy: &RequestAuthentication, faults: &mut Faults) {
    if let Some(selector) = &policy.selector {
        names::labels(selector, "spec.selector.matchLabels", faults);
    }
}

fn tokens_workloads_are_selected_in_one_way(policy: &RequestAuthentication, faults: &mut Faults) {
    targets::exclude_a_selector(policy.selector.is_some(), &policy.targets, policy.at.at, faults);
    targets::are_gateways_and_services(&policy.targets, faults);
}

fn tokens_targets_concern_no_sidecar(policy: &RequestAuthentication, faults: &mut Faults) {
    targets::concern_no_sidecar(&policy.targets, faults);
}

fn rules_have_an_issuer_or_keys_to_fetch(policy: &RequestAuthentication, faults: &mut Faults) {
    for (path, rule) in rules(policy).filter(|(_, rule)| rule.issuer.is_none() && rule.jwks_uri.is_none()) {
        let message = format!("{path}.issuer is missing; add it, or add jwksUri for tokens of any issuer");
        faults.refuse(Code::MISSING_FIELD, rule.at.at, message);
    }
}

fn inline_keys_are_read_by_envoy(policy: &RequestAuthentication, faults: &mut Faults) {
    for (path, rule) in rules(policy) {
        let Some(jwks) = &rule.jwks else { continue };
        if let Err(fault) = keys::read(&jwks.value) {
            let message = format!("{path}.jwks is no valid JSON Web Key Set: {fault}");
            faults.refuse(Code::VALUE_INVALID, jwks.at, message);
        }
    }
}

fn addresses_of_keys_are_valid(policy: &RequestAuthentication, faults: &mut Faults) {
    for (path, rule) in rules(policy) {
        let Some(address) = &rule.jwks_uri else { continue };
        if let Err(fix) = uri::read(&address.value) {
            let shown =
                if fix == uri::WITHOUT_USER { String::new() } else { format!(" {:?}", clip(&address.value)) };
            let message = format!("{path}.jwksUri{shown} is not valid; {fix}");
            faults.refuse(Code::VALUE_INVALID, address.at, message);
        }
    }
}

fn names_of_places_are_not_empty(policy: &RequestAuthentication, faults: &mut Faults) {
    for (path, rule) in rules(policy) {
        for (list, texts) in lists(rule) {
            for (i, text) in texts.iter().enumerate().filter(|(_, text)| text.value.is_empty()) {
                let message = format!("{path}.{list}[{i}] is empty; write a text, or remove it");
                faults.refuse(Code::MISSING_FIELD, text.at, message);
            }
        }
        for (i, (_, claim)) in rule.claim_headers.iter().enumerate() {
            if claim.value.is_empty() {
                let message = format!("{path}.outputClaimToHeaders[{i}].claim is missing; add it");
                faults.refuse(Code::MISSING_FIELD, claim.at, message);
            }
        }
    }
}

fn headers_of_tokens_have_names(policy: &RequestAuthentication, faults: &mut Faults) {
    for (path, rule) in rules(policy) {
        let name = |path: String, name: &Text, faults: &mut Faults| {
            if !is_token(&name.value) {
                let message = format!(
                    "{path} {:?} is not the name of a header; use letters, digits and `-`",
                    clip(&name.value)
                );
                faults.refuse(Code::INVALID_NAME, name.at, message);
            }
        };
        for (i, (header, prefix)) in rule.headers.iter().enumerate() {
            name(format!("{path}.fromHeaders[{i}].name"), header, faults);
            if prefix.value.chars().any(char::is_control) {
                let message = format!("{path}.fromHeaders[{i}].prefix has a control character; remove it");
                faults.refuse(Code::VALUE_INVALID, prefix.at, message);
            }
        }
        for (i, (header, _)) in rule.claim_headers.iter().enumerate() {
            name(format!("{path}.outputClaimToHeaders[{i}].header"), header, faults);
        }
        if let Some(header) = &rule.payload_header {
            name(format!("{path}.outputPayloadToHeader"), header, faults);
        }
    }
}

/// Envoy removes the headers of claims from a request before it looks for tokens, so that none would be found, and the request pass.
fn headers_of_claims_have_no_tokens(policy: &RequestAuthentication, faults: &mut Faults) {
    let of_rule = |rule: &TokenRule| {
        let has_places = !(rule.headers.is_empty() && rule.params.is_empty() && rule.cookies.is_empty());
        let usual = (!has_places).then(|| "authorization".to_owned());
        let named = rule.headers.iter().map(|(name, _)| name.value.to_ascii_lowercase());
        named.chain(usual).collect::<Vec<String>>()
    };
    let places: BTreeSet<String> = policy.rules.iter().flat_map(of_rule).collect();
    for (path, rule) in rules(policy) {
        let outputs = rule.claim_headers.iter().map(|(header, _)| header).chain(&rule.payload_header);
        for header in outputs.filter(|header| places.contains(&header.value.to_ascii_lowercase())) {
            let message = format!(
                "{path} writes claims into the header {:?}, from which tokens are read; use another header",
                clip(&header.value)
            );
            faults.refuse(Code::VALUE_INVALID, header.at, message);
        }
    }
}
