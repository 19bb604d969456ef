//! Decides a request by filters as Envoy does. A filter of connections that asks for an attribute of requests fails the test.

use std::collections::BTreeMap;
use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::rbac::v3::permission::Rule;
use envoy_types::pb::envoy::config::rbac::v3::principal::Identifier;
use envoy_types::pb::envoy::config::rbac::v3::rbac::Action;
use envoy_types::pb::envoy::config::rbac::v3::{Permission, Principal, Rbac};
use envoy_types::pb::envoy::config::route::v3::HeaderMatcher;
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{
    StringMatcher, ValueMatcher, list_matcher, path_matcher, value_matcher,
};
use ipnet::IpNet;
use regex::Regex;

use super::shown::{claim_path, template};

/// Request on a connection.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// URI of the client's certificate, if it has one.
    pub(super) uri: Option<String>,
    pub(super) direct: IpAddr,
    pub(super) remote: IpAddr,
    pub(super) to: (IpAddr, u16),
    pub(super) server_name: String,
    pub(super) path: String,
    /// Headers, with `:authority` and `:method`.
    pub(super) headers: BTreeMap<String, String>,
    /// Claims by path; one value is a text, more are a list.
    pub(super) claims: BTreeMap<String, Vec<String>>,
}

/// Whether filters accept a request, or its connection.
pub(super) fn accepts<'a>(
    filters: impl IntoIterator<Item = &'a Rbac>,
    request: &Request,
    reads_requests: bool,
) -> bool {
    let of = Reader { request, reads_requests };
    filters.into_iter().all(|rules| {
        let matches = rules.policies.values().any(|policy| {
            policy.permissions.iter().any(|permission| of.permits(permission))
                && policy.principals.iter().any(|principal| of.is(principal))
        });
        match rules.action() {
            Action::Allow => matches,
            Action::Deny => !matches,
            Action::Log => true,
        }
    })
}

struct Reader<'a> {
    request: &'a Request,
    reads_requests: bool,
}

impl<'a> Reader<'a> {
    fn http(&self) -> &'a Request {
        assert!(self.reads_requests, "a filter of connections reads requests");
        self.request
    }
    fn permits(&self, permission: &Permission) -> bool {
        match permission.rule.as_ref().unwrap() {
            Rule::AndRules(set) => !set.rules.is_empty() && set.rules.iter().all(|rule| self.permits(rule)),
            Rule::OrRules(set) => !set.rules.is_empty() && set.rules.iter().any(|rule| self.permits(rule)),
            Rule::NotRule(rule) => !self.permits(rule),
            Rule::Any(any) => *any,
            Rule::Header(header) => self.has_header(header),
            Rule::UrlPath(path) => match path.rule.as_ref().unwrap() {
                path_matcher::Rule::Path(matcher) => is_text(matcher, &self.http().path),
            },
            Rule::UriTemplate(config) => {
                let form = template(config.typed_config.as_ref().unwrap());
                let form = regex::escape(&form).replace(r"\*\*", ".*").replace(r"\*", "[^/]+");
                is_whole(&form, &self.http().path)
            }
            Rule::DestinationIp(range) => contains(range, self.request.to.0),
            Rule::DestinationPort(port) => *port == u32::from(self.request.to.1),
            Rule::RequestedServerName(matcher) => is_text(matcher, &self.request.server_name),
            other => panic!("{other:?}"),
        }
    }
    #[allow(deprecated, reason = "the field is sent")]
    fn is(&self, principal: &Principal) -> bool {
        match principal.identifier.as_ref().unwrap() {
            Identifier::AndIds(set) => !set.ids.is_empty() && set.ids.iter().all(|id| self.is(id)),
            Identifier::OrIds(set) => !set.ids.is_empty() && set.ids.iter().any(|id| self.is(id)),
            Identifier::NotId(id) => !self.is(id),
            Identifier::Any(any) => *any,
            Identifier::Authenticated(own) => {
                let name = own.principal_name.as_ref().unwrap();
                self.request.uri.as_ref().is_some_and(|uri| is_text(name, uri))
            }
            Identifier::DirectRemoteIp(range) => contains(range, self.request.direct),
            Identifier::RemoteIp(range) => contains(range, self.request.remote),
            Identifier::Header(header) => self.has_header(header),
            Identifier::Metadata(matcher) => {
                let path = claim_path(matcher).replacen("payload.", "", 1);
                let claim = self.http().claims.get(&path);
                claim.is_some_and(|claim| is_value(matcher.value.as_ref().unwrap(), claim))
            }
            other => panic!("{other:?}"),
        }
    }
    fn has_header(&self, header: &HeaderMatcher) -> bool {
        let value = self.http().headers.get(&header.name);
        value.is_some_and(|value| match header.header_match_specifier.as_ref().unwrap() {
            HeaderMatchSpecifier::PresentMatch(present) => *present,
            HeaderMatchSpecifier::StringMatch(matcher) => is_text(matcher, value),
            other => panic!("{other:?}"),
        })
    }
}

fn is_text(matcher: &StringMatcher, text: &str) -> bool {
    let fold = |text: &str| if matcher.ignore_case { text.to_lowercase() } else { text.to_owned() };
    let text = fold(text);
    match matcher.match_pattern.as_ref().unwrap() {
        MatchPattern::Exact(exact) => text == fold(exact),
        MatchPattern::Prefix(prefix) => !prefix.is_empty() && text.starts_with(&fold(prefix)),
        MatchPattern::Suffix(suffix) => !suffix.is_empty() && text.ends_with(&fold(suffix)),
        MatchPattern::Contains(part) => !part.is_empty() && text.contains(&fold(part)),
        MatchPattern::SafeRegex(regex) => is_whole(&regex.regex, &text),
        other => panic!("{other:?}"),
    }
}

fn is_whole(regex: &str, text: &str) -> bool {
    Regex::new(&format!("^(?:{regex})$")).unwrap().is_match(text)
}

fn contains(range: &CidrRange, ip: IpAddr) -> bool {
    let range = IpNet::new(range.address_prefix.parse().unwrap(), range.prefix_len.unwrap().value as u8);
    range.unwrap().contains(&ip)
}

fn is_value(matcher: &ValueMatcher, claim: &[String]) -> bool {
    match matcher.match_pattern.as_ref().unwrap() {
        value_matcher::MatchPattern::StringMatch(matcher) => {
            matches!(claim, [text] if is_text(matcher, text))
        }
        value_matcher::MatchPattern::ListMatch(list) => {
            let Some(list_matcher::MatchPattern::OneOf(item)) = &list.match_pattern else {
                panic!("no item")
            };
            claim.len() > 1 && claim.iter().any(|text| is_value(item, std::slice::from_ref(text)))
        }
        value_matcher::MatchPattern::OrMatch(or) => or.value_matchers.iter().any(|own| is_value(own, claim)),
        other => panic!("{other:?}"),
    }
}
