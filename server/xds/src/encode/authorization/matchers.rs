//! Values of attributes as matchers of Envoy, which refuses an empty prefix or suffix.
//!
//! `attributes`, `permission` and `principal` call it. A matcher is absent for a value that the attribute cannot have.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::route::v3::HeaderMatcher;
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::r#type::matcher::v3::{
    ListMatcher, MetadataMatcher, OrMatcher, RegexMatcher, StringMatcher, ValueMatcher, list_matcher,
    metadata_matcher::{PathSegment, path_segment::Segment},
    string_matcher::MatchPattern,
    value_matcher,
};
use envoy_types::pb::google::protobuf::UInt32Value;
use tributary_model::ValueMatch;

use crate::encode::header_changes::is_name;
use crate::encode::tokens;

/// Returns a text as the policy has it, with its star.
pub(super) fn text(value: &ValueMatch) -> Option<String> {
    match value {
        ValueMatch::Exact(text) => Some(text.to_string()),
        ValueMatch::Prefix(text) => Some(format!("{text}*")),
        ValueMatch::Suffix(text) => Some(format!("*{text}")),
        ValueMatch::Present => Some("*".to_owned()),
        ValueMatch::Template(_) | ValueMatch::Range(_) | ValueMatch::Port(_) => None,
    }
}

/// Returns the matcher of a text. `*` alone is any text but the empty one.
pub(super) fn string(value: &ValueMatch) -> Option<StringMatcher> {
    match value {
        ValueMatch::Exact(text) => Some(exact(text)),
        ValueMatch::Prefix(text) => Some(prefix(text)),
        ValueMatch::Suffix(text) => Some(suffix(text)),
        ValueMatch::Present => Some(regex(".+".into())),
        ValueMatch::Template(_) | ValueMatch::Range(_) | ValueMatch::Port(_) => None,
    }
}

pub(super) fn exact(text: &str) -> StringMatcher {
    of(MatchPattern::Exact(text.into()))
}

pub(super) fn prefix(text: &str) -> StringMatcher {
    of(MatchPattern::Prefix(text.into()))
}

pub(super) fn suffix(text: &str) -> StringMatcher {
    of(MatchPattern::Suffix(text.into()))
}

pub(super) fn containing(text: &str) -> StringMatcher {
    of(MatchPattern::Contains(text.into()))
}

/// Returns the matcher of a regular expression, which the whole text must match. Envoy refuses a listener with one whose program
/// of RE2 has more than 100 instructions, unless its bootstrap allows more: no other matcher than this one has such a bound.
pub(super) fn regex(regex: String) -> StringMatcher {
    of(MatchPattern::SafeRegex(RegexMatcher { regex, ..RegexMatcher::default() }))
}

const fn of(pattern: MatchPattern) -> StringMatcher {
    StringMatcher { ignore_case: false, match_pattern: Some(pattern) }
}

/// Returns a regular expression that this text alone matches.
pub(super) fn quoted(text: &str) -> String {
    let quote = |c: char| r"\.+*?()|[]{}^$".contains(c).then_some('\\').into_iter().chain([c]);
    text.chars().flat_map(quote).collect()
}

/// Returns the matcher of a header. `*` is any value, even the empty one.
pub(super) fn header(name: &str, value: &ValueMatch, ignore_case: bool) -> Option<HeaderMatcher> {
    let specifier = if *value == ValueMatch::Present {
        HeaderMatchSpecifier::PresentMatch(true)
    } else {
        HeaderMatchSpecifier::StringMatch(StringMatcher { ignore_case, ..string(value)? })
    };
    is_name(name).then(|| HeaderMatcher {
        name: name.into(),
        header_match_specifier: Some(specifier),
        ..HeaderMatcher::default()
    })
}

pub(super) fn range(value: &ValueMatch) -> Option<CidrRange> {
    let ValueMatch::Range(range) = value else { return None };
    let prefix_len = Some(UInt32Value { value: range.prefix_len().into() });
    Some(CidrRange { address_prefix: range.addr().to_string(), prefix_len })
}

/// Returns the matcher of a claim that is a text.
pub(super) fn claim_text(name: &str, text: StringMatcher) -> MetadataMatcher {
    at(&[name.into()], value_of(value_matcher::MatchPattern::StringMatch(text)))
}

/// Returns the matcher of a claim that is, or contains, one of these values.
pub(super) fn claim(path: &[Arc<str>], values: &[ValueMatch]) -> Option<MetadataMatcher> {
    let text = |value| Some(value_of(value_matcher::MatchPattern::StringMatch(string(value)?)));
    let value = or(values.iter().map(text).collect::<Option<_>>()?);
    let item = list_matcher::MatchPattern::OneOf(Box::new(value.clone()));
    let list = value_matcher::MatchPattern::ListMatch(Box::new(ListMatcher { match_pattern: Some(item) }));
    let is_path = !path.is_empty() && path.iter().all(|key| !key.is_empty());
    is_path.then(|| at(path, or(vec![value_of(list), value])))
}

fn at(path: &[Arc<str>], value: ValueMatcher) -> MetadataMatcher {
    let keys = std::iter::once(tokens::PAYLOAD).chain(path.iter().map(|key| &**key));
    let segment = |key: &str| PathSegment { segment: Some(Segment::Key(key.into())) };
    MetadataMatcher {
        filter: tokens::FILTER.into(),
        path: keys.map(segment).collect(),
        value: Some(value),
        invert: false,
    }
}

fn or(mut value_matchers: Vec<ValueMatcher>) -> ValueMatcher {
    if value_matchers.len() == 1
        && let Some(only) = value_matchers.pop()
    {
        return only;
    }
    value_of(value_matcher::MatchPattern::OrMatch(OrMatcher { value_matchers }))
}

const fn value_of(pattern: value_matcher::MatchPattern) -> ValueMatcher {
    ValueMatcher { match_pattern: Some(pattern) }
}
