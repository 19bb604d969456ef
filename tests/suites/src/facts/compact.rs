//! A message as one line of text: its fields that are set, by name, without wrappers. For the parts of resources for
//! which the facts have no description of their own. Made from the debug text, so it shows every field of every message.

use std::fmt::Debug;

use envoy_types::pb::envoy::extensions::filters::http::cors::v3::CorsPolicy;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::HttpFault;
use envoy_types::pb::envoy::extensions::transport_sockets::proxy_protocol::v3::ProxyProtocolUpstreamTransport;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::UpstreamTlsContext;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

/// Fields that are not part of the policy: where secrets come from, and texts of tracing.
const LEFT_OUT: [&str; 3] = ["sds_config", "runtime_key", "engine_type"];

/// Values that a field has if it is not set; of enumerations those that change nothing.
const DEFAULTS: [&str; 14] = [
    "None",
    "false",
    "0",
    "0.0",
    "Default",
    "Unspecified",
    "",
    "UseConfiguredProtocol",
    "Allow",
    "VerifyTrustChain",
    "AddIfAbsent",
    "Immediate",
    "ServiceUnavailable",
    "PassThroughInternalRedirect",
];

/// A parsed debug text.
#[derive(Debug, Clone, PartialEq)]
enum Tree {
    Plain(String),
    Text(String),
    Struct(String, Vec<(String, Tree)>),
    Tuple(String, Vec<Tree>),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// Returns the set fields of a message, each as text.
pub(super) fn fields(message: &impl Debug) -> Vec<(String, String)> {
    match parse(&format!("{message:?}")) {
        Tree::Struct(_, fields) => fields
            .iter()
            .filter(|(_, value)| !is_absent(value))
            .map(|(name, value)| named(name, value))
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns a message as text; empty if nothing is set.
pub(super) fn text(message: &impl Debug) -> String {
    let parts = fields(message).into_iter().map(|(name, value)| format!("{name}: {value}"));
    parts.collect::<Vec<_>>().join(", ")
}

fn is_absent(tree: &Tree) -> bool {
    match tree {
        Tree::Plain(plain) => DEFAULTS.contains(&plain.as_str()),
        Tree::Text(text) => text.is_empty(),
        Tree::List(items) => items.is_empty(),
        Tree::Map(items) => items.is_empty(),
        Tree::Struct(..) | Tree::Tuple(..) => false,
    }
}

/// Returns the name and the text of a field; a variant's name replaces that of its field.
fn named(name: &str, value: &Tree) -> (String, String) {
    let inner = unwrapped(value);
    match inner {
        Tree::Tuple(variant, items) if items.len() == 1 => (snake(variant), render(&items[0])),
        _ => (name.to_owned(), render(inner)),
    }
}

fn unwrapped(tree: &Tree) -> &Tree {
    match tree {
        Tree::Tuple(name, items) if name == "Some" && items.len() == 1 => unwrapped(&items[0]),
        other => other,
    }
}

fn render(tree: &Tree) -> String {
    match unwrapped(tree) {
        Tree::Plain(plain) => plain.clone(),
        Tree::Text(text) => quoted(text),
        Tree::List(items) => {
            format!("[{}]", items.iter().map(render).collect::<Vec<_>>().join(", "))
        }
        Tree::Map(items) => {
            let mut texts: Vec<String> =
                items.iter().map(|(key, value)| format!("{key}: {}", render(value))).collect();
            texts.sort();
            format!("{{{}}}", texts.join(", "))
        }
        Tree::Tuple(variant, items) => {
            format!("{{{}: {}}}", snake(variant), items.iter().map(render).collect::<Vec<_>>().join(", "))
        }
        Tree::Struct(name, fields) => structure(name, fields),
    }
}

fn structure(name: &str, fields: &[(String, Tree)]) -> String {
    let get = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let number = |wanted: &str| match get(wanted) {
        Some(Tree::Plain(plain)) => plain.parse::<f64>().unwrap_or_default(),
        _ => 0.0,
    };
    match name {
        "Duration" => return format!("{}s", number("seconds") + number("nanos") / 1e9),
        "FractionalPercent" => {
            let parts = match get("denominator") {
                Some(Tree::Plain(plain)) if plain == "TenThousand" => 10_000.0,
                Some(Tree::Plain(plain)) if plain == "Million" => 1_000_000.0,
                _ => 100.0,
            };
            return format!("{}%", number("numerator") * 100.0 / parts);
        }
        "RuntimeFractionalPercent" | "RuntimeDouble" | "RuntimeUInt32" => {
            return get("default_value").map(render).unwrap_or_default();
        }
        "Any" => return any(get("type_url"), get("value")),
        "Value" | "ListValue" | "Struct" => {}
        name if fields.len() == 1 && (name.ends_with("Value") || name == "Percent") => {
            return render(&fields[0].1);
        }
        _ => {}
    }
    let set = fields.iter().filter(|(name, value)| !is_absent(value) && !LEFT_OUT.contains(&name.as_str()));
    let texts = set.map(|(name, value)| {
        let (name, text) = named(name, value);
        format!("{name}: {text}")
    });
    format!("{{{}}}", texts.collect::<Vec<_>>().join(", "))
}

/// Returns a packed message as text, without braces.
pub(super) fn any_text(any: &Any) -> String {
    unpacked(&any.type_url, &any.value)
}

fn any(url: Option<&Tree>, value: Option<&Tree>) -> String {
    let (Some(Tree::Text(url)), Some(value)) = (url, value) else { return String::new() };
    format!("{{{}}}", unpacked(url, &bytes(value)))
}

/// Returns a packed message as text; of unknown types only the type.
fn unpacked(url: &str, bytes: &[u8]) -> String {
    let body = match super::short(url) {
        "UpstreamTlsContext" => UpstreamTlsContext::decode(bytes).map(|body| text(&body)),
        "HttpProtocolOptions" => HttpProtocolOptions::decode(bytes).map(|body| text(&body)),
        "HTTPFault" => HttpFault::decode(bytes).map(|body| text(&body)),
        "CorsPolicy" => CorsPolicy::decode(bytes).map(|body| text(&body)),
        "ProxyProtocolUpstreamTransport" => {
            ProxyProtocolUpstreamTransport::decode(bytes).map(|body| text(&body))
        }
        other => Ok(format!("{other} of {} bytes", bytes.len())),
    };
    body.unwrap_or_else(|error| error.to_string())
}

fn bytes(tree: &Tree) -> Vec<u8> {
    match tree {
        Tree::List(items) => {
            let byte = |item: &Tree| match item {
                Tree::Plain(plain) => plain.parse().ok(),
                _ => None,
            };
            items.iter().filter_map(byte).collect()
        }
        _ => Vec::new(),
    }
}

fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "./|:*-~_^$\\@=+%;&?<>!()#'".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("{text:?}") }
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for (at, c) in name.chars().enumerate() {
        if c.is_uppercase() && at > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

fn parse(text: &str) -> Tree {
    let chars: Vec<char> = text.chars().collect();
    Parser { chars: &chars, at: 0 }.tree()
}

struct Parser<'a> {
    chars: &'a [char],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> char {
        self.chars.get(self.at).copied().unwrap_or('\0')
    }

    fn space(&mut self) {
        while self.peek() == ' ' || self.peek() == ',' {
            self.at += 1;
        }
    }

    fn tree(&mut self) -> Tree {
        self.space();
        match self.peek() {
            '"' => Tree::Text(self.string()),
            '[' => Tree::List(self.until(']', Self::tree)),
            '{' => Tree::Map(self.until('}', Self::entry)),
            _ => self.plain(),
        }
    }

    fn until<T>(&mut self, end: char, one: fn(&mut Self) -> T) -> Vec<T> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            self.space();
            if self.peek() == end || self.peek() == '\0' {
                self.at += 1;
                return out;
            }
            out.push(one(self));
        }
    }

    fn entry(&mut self) -> (String, Tree) {
        self.space();
        let key = if self.peek() == '"' { self.string() } else { self.name() };
        self.space();
        self.at += 1;
        (key, self.tree())
    }

    fn name(&mut self) -> String {
        let from = self.at;
        while !" ,(){}[]:\0".contains(self.peek()) {
            self.at += 1;
        }
        self.chars.get(from..self.at).unwrap_or_default().iter().collect()
    }

    fn plain(&mut self) -> Tree {
        let name = self.name();
        if self.peek() == '(' {
            return Tree::Tuple(name, self.until(')', Self::tree));
        }
        if self.peek() == ' ' && self.chars.get(self.at + 1) == Some(&'{') {
            self.at += 1;
            return Tree::Struct(name, self.until('}', Self::entry));
        }
        if name.is_empty() {
            self.at += 1;
        }
        Tree::Plain(name)
    }

    fn string(&mut self) -> String {
        self.at += 1;
        let mut out = String::new();
        loop {
            match self.peek() {
                '"' | '\0' => {
                    self.at += 1;
                    return out;
                }
                '\\' => {
                    self.at += 1;
                    out.push(match self.peek() {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        other => other,
                    });
                }
                other => out.push(other),
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::cluster::v3::OutlierDetection;
    use envoy_types::pb::envoy::config::route::v3::{RouteMatch, route_match::PathSpecifier};
    use envoy_types::pb::google::protobuf::{BoolValue, Duration, UInt32Value};

    use super::*;

    #[test]
    fn set_fields_are_shown_without_wrappers() {
        let message = OutlierDetection {
            consecutive_5xx: Some(UInt32Value { value: 0 }),
            interval: Some(Duration { seconds: 1, nanos: 500_000_000 }),
            ..OutlierDetection::default()
        };
        assert_eq!(text(&message), "consecutive_5xx: 0, interval: 1.5s");
    }

    #[test]
    fn variant_replaces_the_name_of_its_field() {
        let message = RouteMatch {
            path_specifier: Some(PathSpecifier::Path("/a b\"c".to_owned())),
            case_sensitive: Some(BoolValue { value: false }),
            ..RouteMatch::default()
        };
        assert_eq!(text(&message), "case_sensitive: false, path: \"/a b\\\"c\"");
    }
}
