//! Specs of AuthorizationPolicies.

use serde_json::{Map, Value, json};
use tributary_model::{
    Attribute, AttributeMatch, AuthorizationAction, AuthorizationPolicy, AuthorizationRule, ValueMatch,
};

use super::add;

/// Returns the spec of an AuthorizationPolicy.
pub(super) fn spec(policy: &AuthorizationPolicy) -> Value {
    let mut out = Map::new();
    if !policy.selector.is_empty() {
        let pairs = policy.selector.pairs().map(|(label, value)| (label.to_string(), json!(**value)));
        out.insert("selector".into(), json!({"matchLabels": pairs.collect::<Map<_, _>>()}));
    }
    out.insert("action".into(), policy.action.as_str().into());
    if let AuthorizationAction::Custom(provider) = &policy.action {
        out.insert("provider".into(), json!({"name": **provider}));
    }
    let rules: Vec<Value> = policy.rules.iter().map(rule).collect();
    add(&mut out, "rules", (!rules.is_empty()).then(|| rules.into()));
    Value::Object(out)
}

fn rule(rule: &AuthorizationRule) -> Value {
    let mut out = Map::new();
    for (list, item, clauses) in [("from", "source", &rule.from), ("to", "operation", &rule.to)] {
        let items: Vec<Value> = clauses.iter().map(|all| json!({item: clause(all)})).collect();
        add(&mut out, list, (!items.is_empty()).then(|| items.into()));
    }
    let when: Vec<Value> = rule.when.iter().map(condition).collect();
    add(&mut out, "when", (!when.is_empty()).then(|| when.into()));
    Value::Object(out)
}

fn clause(all: &[AttributeMatch]) -> Value {
    let mut out = Map::new();
    for one in all {
        let (values, not) = fields(&one.of);
        add(&mut out, values, texts(&one.values));
        add(&mut out, not, texts(&one.not));
    }
    Value::Object(out)
}

fn condition(one: &AttributeMatch) -> Value {
    let mut out = Map::new();
    out.insert("key".into(), key(&one.of).into());
    add(&mut out, "values", texts(&one.values));
    add(&mut out, "notValues", texts(&one.not));
    Value::Object(out)
}

/// Returns the names of the fields of a source or operation for an attribute; that of `when` for those that neither has.
const fn fields(of: &Attribute) -> (&'static str, &'static str) {
    match of {
        Attribute::Principal => ("principals", "notPrincipals"),
        Attribute::RequestPrincipal => ("requestPrincipals", "notRequestPrincipals"),
        Attribute::Namespace => ("namespaces", "notNamespaces"),
        Attribute::ServiceAccount => ("serviceAccounts", "notServiceAccounts"),
        Attribute::SourceIp => ("ipBlocks", "notIpBlocks"),
        Attribute::RemoteIp => ("remoteIpBlocks", "notRemoteIpBlocks"),
        Attribute::Host => ("hosts", "notHosts"),
        Attribute::DestinationPort => ("ports", "notPorts"),
        Attribute::Method => ("methods", "notMethods"),
        Attribute::Path => ("paths", "notPaths"),
        Attribute::DestinationIp
        | Attribute::ServerName
        | Attribute::Header(_)
        | Attribute::RequestAudience
        | Attribute::RequestPresenter
        | Attribute::RequestClaim(_) => ("values", "notValues"),
    }
}

/// Returns the key of `when` for an attribute; `when` has none for host, method and path of a request.
fn key(of: &Attribute) -> String {
    let plain = match of {
        Attribute::Principal => "source.principal",
        Attribute::Namespace => "source.namespace",
        Attribute::ServiceAccount => "source.serviceAccount",
        Attribute::SourceIp => "source.ip",
        Attribute::RemoteIp => "remote.ip",
        Attribute::DestinationIp => "destination.ip",
        Attribute::DestinationPort => "destination.port",
        Attribute::ServerName => "connection.sni",
        Attribute::Host => "request.headers[:authority]",
        Attribute::Method => "request.headers[:method]",
        Attribute::Path => "request.headers[:path]",
        Attribute::RequestPrincipal => "request.auth.principal",
        Attribute::RequestAudience => "request.auth.audiences",
        Attribute::RequestPresenter => "request.auth.presenter",
        Attribute::Header(name) => return format!("request.headers[{name}]"),
        Attribute::RequestClaim(path) => {
            let names: String = path.iter().map(|name| format!("[{name}]")).collect();
            return format!("request.auth.claims{names}");
        }
    };
    plain.to_owned()
}

fn texts(values: &[ValueMatch]) -> Option<Value> {
    (!values.is_empty()).then(|| values.iter().map(text).collect())
}

fn text(value: &ValueMatch) -> String {
    match value {
        ValueMatch::Exact(text) | ValueMatch::Template(text) => text.to_string(),
        ValueMatch::Prefix(text) => format!("{text}*"),
        ValueMatch::Suffix(text) => format!("*{text}"),
        ValueMatch::Present => "*".to_owned(),
        ValueMatch::Range(range) if range.prefix_len() == range.max_prefix_len() => range.addr().to_string(),
        ValueMatch::Range(range) => range.to_string(),
        ValueMatch::Port(port) => port.to_string(),
    }
}
