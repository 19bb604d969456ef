//! Permissions and principals as short texts: `=` an exact text, `~` a regular expression, `[ ]` an item of a list.

use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::rbac::v3::permission::Rule;
use envoy_types::pb::envoy::config::rbac::v3::principal::Identifier;
use envoy_types::pb::envoy::config::rbac::v3::{Permission, Principal};
use envoy_types::pb::envoy::config::route::v3::HeaderMatcher;
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::extensions::path::r#match::uri_template::v3::UriTemplateMatchConfig;
use envoy_types::pb::envoy::r#type::matcher::v3::metadata_matcher::path_segment::Segment;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{
    MetadataMatcher, StringMatcher, ValueMatcher, list_matcher, path_matcher, value_matcher,
};
use prost::{Message, Name};

fn joined<T>(all: &[T], shown: impl Fn(&T) -> String) -> String {
    all.iter().map(shown).collect::<Vec<_>>().join(", ")
}

fn text(matcher: &StringMatcher) -> String {
    let text = match matcher.match_pattern.as_ref().unwrap() {
        MatchPattern::Exact(text) => format!("={text}"),
        MatchPattern::Prefix(text) => format!("={text}*"),
        MatchPattern::Suffix(text) => format!("=*{text}"),
        MatchPattern::Contains(text) => format!("=*{text}*"),
        MatchPattern::SafeRegex(regex) => format!("~{}", regex.regex),
        other => panic!("{other:?}"),
    };
    if matcher.ignore_case { format!("{text}(i)") } else { text }
}

fn range(range: &CidrRange) -> String {
    format!("{}/{}", range.address_prefix, range.prefix_len.unwrap().value)
}

fn header(header: &HeaderMatcher) -> String {
    match header.header_match_specifier.as_ref().unwrap() {
        HeaderMatchSpecifier::PresentMatch(true) => format!("{} present", header.name),
        HeaderMatchSpecifier::StringMatch(matcher) => format!("{}{}", header.name, text(matcher)),
        other => panic!("{other:?}"),
    }
}

fn value(matcher: &ValueMatcher) -> String {
    match matcher.match_pattern.as_ref().unwrap() {
        value_matcher::MatchPattern::StringMatch(matcher) => text(matcher),
        value_matcher::MatchPattern::ListMatch(list) => {
            let Some(list_matcher::MatchPattern::OneOf(item)) = &list.match_pattern else {
                panic!("no item")
            };
            format!("[{}]", value(item))
        }
        value_matcher::MatchPattern::OrMatch(or) => {
            let all: Vec<_> = or.value_matchers.iter().map(value).collect();
            format!("({})", all.join(" | "))
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the keys of a claim after the filter that stores it.
pub(super) fn claim_path(matcher: &MetadataMatcher) -> String {
    assert_eq!(matcher.filter, "envoy.filters.http.jwt_authn");
    let keys = matcher.path.iter().map(|segment| match segment.segment.as_ref().unwrap() {
        Segment::Key(key) => key.as_str(),
    });
    keys.collect::<Vec<_>>().join(".")
}

/// Returns the template of a path.
pub(super) fn template(config: &envoy_types::pb::google::protobuf::Any) -> String {
    assert_eq!(config.type_url, UriTemplateMatchConfig::type_url());
    UriTemplateMatchConfig::decode(&config.value[..]).unwrap().path_template
}

pub(super) fn shown_permission(permission: &Permission) -> String {
    match permission.rule.as_ref().unwrap() {
        Rule::AndRules(set) => format!("all({})", joined(&set.rules, shown_permission)),
        Rule::OrRules(set) => format!("one({})", joined(&set.rules, shown_permission)),
        Rule::NotRule(rule) => format!("not({})", shown_permission(rule)),
        Rule::Any(true) => "any".to_owned(),
        Rule::Header(matcher) => header(matcher),
        Rule::UrlPath(path) => match path.rule.as_ref().unwrap() {
            path_matcher::Rule::Path(matcher) => format!("path{}", text(matcher)),
        },
        Rule::UriTemplate(config) => {
            assert_eq!(config.name, "uri-template");
            format!("template {}", template(config.typed_config.as_ref().unwrap()))
        }
        Rule::DestinationIp(ip) => format!("to {}", range(ip)),
        Rule::DestinationPort(port) => format!("port {port}"),
        Rule::RequestedServerName(matcher) => format!("sni{}", text(matcher)),
        other => panic!("{other:?}"),
    }
}

#[allow(deprecated, reason = "the field is sent")]
pub(super) fn shown_principal(principal: &Principal) -> String {
    match principal.identifier.as_ref().unwrap() {
        Identifier::AndIds(set) => format!("all({})", joined(&set.ids, shown_principal)),
        Identifier::OrIds(set) => format!("one({})", joined(&set.ids, shown_principal)),
        Identifier::NotId(id) => format!("not({})", shown_principal(id)),
        Identifier::Any(true) => "any".to_owned(),
        Identifier::Authenticated(own) => format!("uri{}", text(own.principal_name.as_ref().unwrap())),
        Identifier::DirectRemoteIp(ip) => format!("direct {}", range(ip)),
        Identifier::RemoteIp(ip) => format!("remote {}", range(ip)),
        Identifier::Header(matcher) => header(matcher),
        Identifier::Metadata(matcher) => {
            format!("{}{}", claim_path(matcher), value(matcher.value.as_ref().unwrap()))
        }
        other => panic!("{other:?}"),
    }
}
