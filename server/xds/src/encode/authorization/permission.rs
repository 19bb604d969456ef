//! Conditions on the operation: where a connection goes, and what a request asks for.

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::config::rbac::v3::Permission;
use envoy_types::pb::envoy::config::rbac::v3::permission::{Rule, Set};
use envoy_types::pb::envoy::extensions::path::r#match::uri_template::v3::UriTemplateMatchConfig;
use envoy_types::pb::envoy::r#type::matcher::v3::{PathMatcher, path_matcher};
use tributary_model::{Attribute, ValueMatch};

use super::super::any;
use super::matchers::{header, range, string};
use super::rule::{Context, Term};

impl Term for Permission {
    fn any() -> Self {
        of(Rule::Any(true))
    }
    fn and(rules: Vec<Self>) -> Self {
        of(Rule::AndRules(Set { rules }))
    }
    fn not(self) -> Self {
        of(Rule::NotRule(Box::new(self)))
    }
    fn of(attribute: &Attribute, values: &[ValueMatch], _: &Context<'_>) -> Option<Self> {
        let rules = values.iter().map(|value| Some(of(rule(attribute, value)?)));
        Some(of(Rule::OrRules(Set { rules: rules.collect::<Option<_>>()? })))
    }
}

const fn of(rule: Rule) -> Permission {
    Permission { rule: Some(rule) }
}

/// Whether conditions on an attribute are permissions.
pub(super) const fn has(attribute: &Attribute) -> bool {
    match attribute {
        Attribute::DestinationIp
        | Attribute::DestinationPort
        | Attribute::ServerName
        | Attribute::Host
        | Attribute::Method
        | Attribute::Path => true,
        Attribute::Principal
        | Attribute::Namespace
        | Attribute::ServiceAccount
        | Attribute::SourceIp
        | Attribute::RemoteIp
        | Attribute::Header(_)
        | Attribute::RequestPrincipal
        | Attribute::RequestAudience
        | Attribute::RequestPresenter
        | Attribute::RequestClaim(_) => false,
    }
}

fn rule(attribute: &Attribute, value: &ValueMatch) -> Option<Rule> {
    match attribute {
        Attribute::DestinationIp => range(value).map(Rule::DestinationIp),
        Attribute::DestinationPort => port(value).map(Rule::DestinationPort),
        Attribute::ServerName => string(value, "").map(Rule::RequestedServerName),
        Attribute::Host => header(":authority", value, true).map(Rule::Header),
        Attribute::Method => header(":method", value, false).map(Rule::Header),
        Attribute::Path => path(value),
        Attribute::Principal
        | Attribute::Namespace
        | Attribute::ServiceAccount
        | Attribute::SourceIp
        | Attribute::RemoteIp
        | Attribute::Header(_)
        | Attribute::RequestPrincipal
        | Attribute::RequestAudience
        | Attribute::RequestPresenter
        | Attribute::RequestClaim(_) => None,
    }
}

fn port(value: &ValueMatch) -> Option<u32> {
    if let ValueMatch::Port(port) = value { Some(port.get().into()) } else { None }
}

fn path(value: &ValueMatch) -> Option<Rule> {
    let ValueMatch::Template(template) = value else {
        let path = path_matcher::Rule::Path(string(value, "")?);
        return Some(Rule::UrlPath(PathMatcher { rule: Some(path) }));
    };
    let path_template = template.replace("{**}", "**").replace("{*}", "*");
    let config = any(&UriTemplateMatchConfig { path_template });
    Some(Rule::UriTemplate(TypedExtensionConfig { name: "uri-template".into(), typed_config: Some(config) }))
}
