//! Conditions on the operation: where a connection goes, and what a request asks for.
//!
//! `rule` combines them, and `attributes` has those of each attribute.

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::config::rbac::v3::Permission;
use envoy_types::pb::envoy::config::rbac::v3::permission::{Rule, Set};
use envoy_types::pb::envoy::extensions::path::r#match::uri_template::v3::UriTemplateMatchConfig;
use envoy_types::pb::envoy::r#type::matcher::v3::{PathMatcher, path_matcher};
use tributary_model::ValueMatch;

use super::super::any;
use super::attributes::Condition;
use super::matchers::string;
use super::rule::Term;

impl Term for Permission {
    fn any() -> Self {
        of(Rule::Any(true))
    }
    fn and(rules: Vec<Self>) -> Self {
        of(Rule::AndRules(Set { rules }))
    }
    fn or(rules: Vec<Self>) -> Self {
        of(Rule::OrRules(Set { rules }))
    }
    fn not(self) -> Self {
        of(Rule::NotRule(Box::new(self)))
    }
    fn of(condition: Condition) -> Option<Self> {
        if let Condition::Operation(permission) = condition { Some(permission) } else { None }
    }
}

pub(super) const fn of(rule: Rule) -> Permission {
    Permission { rule: Some(rule) }
}

pub(super) fn port(value: &ValueMatch) -> Option<Rule> {
    if let ValueMatch::Port(port) = value { Some(Rule::DestinationPort(port.get().into())) } else { None }
}

pub(super) fn path(value: &ValueMatch) -> Option<Rule> {
    let ValueMatch::Template(template) = value else {
        let path = path_matcher::Rule::Path(string(value)?);
        return Some(Rule::UrlPath(PathMatcher { rule: Some(path) }));
    };
    let path_template = template.replace("{**}", "**").replace("{*}", "*");
    let config = any(&UriTemplateMatchConfig { path_template });
    Some(Rule::UriTemplate(TypedExtensionConfig { name: "uri-template".into(), typed_config: Some(config) }))
}
