//! Trust domains of a mesh: an identity that a policy names in one of them is the same in all.
//!
//! `principal` calls it.

use std::sync::Arc;

use tributary_model::ValueMatch;

use super::matchers::text;

/// Name of the trust domain of whatever mesh a policy is in.
const OWN: &str = "cluster.local";

/// Returns the values that a principal of a policy stands for: one for each trust domain if it names a trust domain of the mesh
/// and the whole form of an identity, else itself. A star at the start of its trust domain is kept where it includes the domain.
pub(super) fn names(principal: &ValueMatch, domains: &[Arc<str>]) -> Vec<ValueMatch> {
    let text = text(principal).unwrap_or_default();
    let Some((domain, rest)) = text.split_once('/').filter(|_| text.matches('/').count() == 4) else {
        return vec![principal.clone()];
    };
    let is_of_mesh = domain == OWN || domains.iter().any(|own| are_alike(own, domain));
    if domain == "*" || !is_of_mesh || domains.is_empty() {
        return vec![principal.clone()];
    }
    let mut names: Vec<ValueMatch> = Vec::new();
    for own in domains {
        let is_kept = domain.strip_prefix('*').is_some_and(|suffix| own.ends_with(suffix));
        let name = if is_kept { principal.clone() } else { ValueMatch::of_text(&format!("{own}/{rest}")) };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Whether a trust domain has the form of the other one, of which either may have a star at an end.
fn are_alike(one: &str, other: &str) -> bool {
    has_form(one, other) || has_form(other, one)
}

fn has_form(text: &str, form: &str) -> bool {
    match ValueMatch::of_text(form) {
        ValueMatch::Exact(form) => *text == *form,
        ValueMatch::Prefix(start) => text.starts_with(&*start),
        ValueMatch::Suffix(end) => text.ends_with(&*end),
        ValueMatch::Present => true,
        ValueMatch::Template(_) | ValueMatch::Range(_) | ValueMatch::Port(_) => false,
    }
}
