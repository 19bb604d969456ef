//! Texts of the conditions of a route.

use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier as Header;
use envoy_types::pb::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier as Query;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier as Path;
use envoy_types::pb::envoy::config::route::v3::{HeaderMatcher, QueryParameterMatcher, RouteMatch};
use envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

/// Returns the conditions of a route, path first; a path that every request has is left out.
pub(super) fn read(found: &RouteMatch) -> Vec<String> {
    let path = found.path_specifier.as_ref().and_then(path);
    let any_case = found.case_sensitive.as_ref().is_some_and(|is| !is.value);
    let path = path.map(|text| if any_case { format!("{text} in any case") } else { text });
    let rest = [
        (found.runtime_fraction.is_some(), "a share of the requests"),
        (found.grpc.is_some(), "a request of gRPC"),
        (found.tls_context.is_some() || !found.dynamic_metadata.is_empty(), "conditions that are not shown"),
    ];
    let rest = rest.into_iter().filter(|(is_set, _)| *is_set).map(|(_, text)| text.to_owned());
    let headers = found.headers.iter().map(header);
    path.into_iter().chain(headers).chain(found.query_parameters.iter().map(query)).chain(rest).collect()
}

fn path(path: &Path) -> Option<String> {
    Some(match path {
        Path::Prefix(prefix) if matches!(prefix.as_str(), "" | "/") => return None,
        Path::Prefix(prefix) => format!("path {prefix}*"),
        Path::PathSeparatedPrefix(prefix) => format!("path {prefix} or {prefix}/*"),
        Path::Path(path) => format!("path {path}"),
        Path::SafeRegex(pattern) if pattern.regex == ".*" => return None,
        Path::SafeRegex(pattern) => format!("path ~ {}", pattern.regex),
        Path::ConnectMatcher(_) => "method CONNECT".to_owned(),
        Path::PathMatchPolicy(_) => "a path that is not shown".to_owned(),
    })
}

#[expect(deprecated, reason = "gRPC clients are sent the older fields, which all their versions read")]
fn header(found: &HeaderMatcher) -> String {
    let name = match found.name.as_str() {
        ":method" => "method".to_owned(),
        ":authority" => "host".to_owned(),
        ":scheme" => "scheme".to_owned(),
        name => format!("header {name}"),
    };
    if found.name == ":authority"
        && let Some(text) = any_port(found)
    {
        return text;
    }
    let is_not = found.invert_match;
    let not = if is_not { "not " } else { "" };
    let (equals, like) = operators(is_not);
    let text = match &found.header_match_specifier {
        None => existence(!is_not),
        Some(Header::PresentMatch(is)) => existence(*is != is_not),
        Some(Header::ExactMatch(text)) => format!("{equals} {text}"),
        Some(Header::PrefixMatch(text)) => format!("{equals} {text}*"),
        Some(Header::SuffixMatch(text)) => format!("{equals} *{text}"),
        Some(Header::ContainsMatch(text)) => format!("{equals} *{text}*"),
        Some(Header::SafeRegexMatch(pattern)) => format!("{like} {}", pattern.regex),
        Some(Header::RangeMatch(range)) => format!("{not}from {} to {}", range.start, range.end),
        Some(Header::StringMatch(text)) => string(text, is_not),
    };
    format!("{name} {text}")
}

/// Returns the signs of a text and of a pattern, negated or not: each condition of a list shows for itself whether it is.
const fn operators(is_not: bool) -> (&'static str, &'static str) {
    if is_not { ("!=", "!~") } else { ("=", "~") }
}

fn existence(is: bool) -> String {
    (if is { "exists" } else { "does not exist" }).to_owned()
}

/// Returns the text of a host whose port does not matter: a prefix that ends where the port begins.
#[expect(deprecated, reason = "gRPC clients are sent the older fields, which all their versions read")]
fn any_port(found: &HeaderMatcher) -> Option<String> {
    let (prefix, any_case) = match found.header_match_specifier.as_ref()? {
        Header::PrefixMatch(prefix) => (prefix, false),
        Header::StringMatch(of) => match of.match_pattern.as_ref()? {
            MatchPattern::Prefix(prefix) => (prefix, of.ignore_case),
            _ => return None,
        },
        _ => return None,
    };
    let host = prefix.strip_suffix(':').filter(|host| !host.is_empty())?;
    let (not, case) =
        (if found.invert_match { "!= " } else { "" }, if any_case { " in any case" } else { "" });
    Some(format!("host {not}{host} with any port{case}"))
}

fn query(found: &QueryParameterMatcher) -> String {
    let text = match &found.query_parameter_match_specifier {
        None => existence(true),
        Some(Query::PresentMatch(is)) => existence(*is),
        Some(Query::StringMatch(text)) => string(text, false),
    };
    format!("query {} {text}", found.name)
}

fn string(found: &StringMatcher, is_not: bool) -> String {
    let (equals, like) = operators(is_not);
    let text = match &found.match_pattern {
        Some(MatchPattern::Exact(text)) => format!("{equals} {text}"),
        Some(MatchPattern::Prefix(text)) => format!("{equals} {text}*"),
        Some(MatchPattern::Suffix(text)) => format!("{equals} *{text}"),
        Some(MatchPattern::Contains(text)) => format!("{equals} *{text}*"),
        Some(MatchPattern::SafeRegex(pattern)) => format!("{like} {}", pattern.regex),
        Some(MatchPattern::Custom(_)) | None => format!("{equals} a value that is not shown"),
    };
    if found.ignore_case { format!("{text} in any case") } else { text }
}
