//! `RouteMatch`: conditions of a route on a request (docs/reference/xds.md#routes).
//!
//! `http_route` calls it. An empty pattern or prefix, which clients refuse, becomes the condition that means the same.

use tributary_model::{HttpMatch, TextMatch};
use tributary_proto::wire::Writer;

use super::header_changes::is_name;
use super::http_route::Dialect;

const PREFIX: u32 = 1;
const PATH: u32 = 2;
const CASE_SENSITIVE: u32 = 4;
const HEADERS: u32 = 6;
const QUERY_PARAMETERS: u32 = 7;
const SAFE_REGEX: u32 = 10;

/// Fields of a condition on a header or on a parameter of the query.
const NAME: u32 = 1;
const HEADER_PRESENT: u32 = 7;
const INVERT: u32 = 8;
const HEADER_STRING: u32 = 13;
const MISSING_IS_EMPTY: u32 = 14;
const QUERY_STRING: u32 = 5;
const QUERY_PRESENT: u32 = 6;

/// Writes the conditions of a match on requests.
pub(super) fn write(wire: &mut Writer, found: &HttpMatch, dialect: Dialect) {
    match &found.uri {
        None | Some(TextMatch::Present) => wire.present(PREFIX, dialect.any_path()),
        Some(TextMatch::Prefix(prefix)) => wire.present(PREFIX, &**prefix),
        Some(TextMatch::Exact(path)) => wire.present(PATH, &**path),
        Some(TextMatch::Regex(pattern)) if pattern.is_empty() => wire.present(PATH, ""),
        Some(TextMatch::Regex(_)) => {}
    }
    if found.ignores_uri_case {
        wire.message(CASE_SENSITIVE, |_| ());
    }
    for (name, text, inverts) in headers(found) {
        wire.message(HEADERS, |w| header(w, name, text, inverts, dialect));
    }
    for (name, text) in found.query.iter().filter(|(name, _)| is_name(name)) {
        wire.message(QUERY_PARAMETERS, |w| parameter(w, name, text));
    }
    if let Some(TextMatch::Regex(pattern)) = &found.uri
        && !pattern.is_empty()
    {
        wire.message(SAFE_REGEX, |w| regex(w, pattern));
    }
}

/// Returns the conditions on headers by name, then those on pseudo-headers, each with whether it is inverted.
fn headers(found: &HttpMatch) -> Vec<(&str, &TextMatch, bool)> {
    let with = found.headers.iter().map(|(name, text)| (&**name, text, false));
    let without = found.without_headers.iter().map(|(name, text)| (&**name, text, true));
    let mut all: Vec<_> = with.chain(without).filter(|(name, ..)| is_name(name)).collect();
    all.sort_by_key(|(name, ..)| *name);
    let pseudo = [(":method", &found.method), (":authority", &found.authority), (":scheme", &found.scheme)];
    all.extend(pseudo.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?, false))));
    all
}

/// Writes the condition on a header. An inverted one takes a missing header for an empty one, unless it asks for its
/// presence.
fn header(wire: &mut Writer, name: &str, text: &TextMatch, inverts: bool, dialect: Dialect) {
    wire.string(NAME, name);
    let Some(text) = Text::of(text) else {
        wire.varint(HEADER_PRESENT, 1);
        wire.number(INVERT, inverts.into());
        return;
    };
    if dialect == Dialect::Grpc {
        text.write_flat(wire);
    }
    wire.number(INVERT, inverts.into());
    if dialect == Dialect::Envoy {
        wire.message(HEADER_STRING, |w| text.write(w));
    }
    wire.number(MISSING_IS_EMPTY, inverts.into());
}

fn parameter(wire: &mut Writer, name: &str, text: &TextMatch) {
    wire.string(NAME, name);
    match Text::of(text) {
        Some(text) => wire.message(QUERY_STRING, |w| text.write(w)),
        None => wire.varint(QUERY_PRESENT, 1),
    }
}

/// Condition on a text, with neither an empty prefix nor an empty pattern.
#[derive(Debug, Clone, Copy)]
enum Text<'a> {
    Exact(&'a str),
    Prefix(&'a str),
    Regex(&'a str),
}

impl<'a> Text<'a> {
    /// Returns the condition; `None` if any text fulfils it.
    fn of(text: &'a TextMatch) -> Option<Self> {
        match text {
            TextMatch::Present => None,
            TextMatch::Exact(text) => Some(Self::Exact(text)),
            TextMatch::Prefix(prefix) => (!prefix.is_empty()).then_some(Self::Prefix(prefix)),
            TextMatch::Regex(pattern) if pattern.is_empty() => Some(Self::Exact("")),
            TextMatch::Regex(pattern) => Some(Self::Regex(pattern)),
        }
    }
    /// Writes the fields of a `StringMatcher`.
    fn write(self, wire: &mut Writer) {
        match self {
            Self::Exact(text) => wire.present(1, text),
            Self::Prefix(prefix) => wire.string(2, prefix),
            Self::Regex(pattern) => wire.message(5, |w| regex(w, pattern)),
        }
    }
    /// Writes the older fields of a `HeaderMatcher`, which all versions of gRPC read.
    fn write_flat(self, wire: &mut Writer) {
        match self {
            Self::Exact(text) => wire.present(4, text),
            // numbers 9 and 11 are behind that of the inversion, which readers accept in any order
            Self::Prefix(prefix) => wire.string(9, prefix),
            Self::Regex(pattern) => wire.message(11, |w| regex(w, pattern)),
        }
    }
}

/// Writes a `StringMatcher`; one for any text if it asks for presence only.
pub(super) fn string_matcher(wire: &mut Writer, text: &TextMatch) {
    Text::of(text).unwrap_or(Text::Regex(".*")).write(wire);
}

/// Writes the fields of a `RegexMatcher`.
pub(super) fn regex(wire: &mut Writer, pattern: &str) {
    wire.string(2, pattern);
}
