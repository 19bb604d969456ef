//! Which object a document is about, found even where the document is broken.
//!
//! A quarantined document keeps the last good version of its object served; for that it must be
//! known which object it is. What parses is asked by its tree, what does not by its lines.

use tributary_model::ObjectId;

use crate::decode::{is_label_name, is_object_name};
use crate::document::known_kind;
use crate::node::Node;

/// What a document is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum About {
    /// This object.
    Object(ObjectId),
    /// An object of a kind that is somebody else's.
    Foreign,
    /// Nobody can tell.
    Unknown,
}

/// Other kinds of the same API group: documents of them are known not to be ours.
const ISTIO: [&str; 7] = [
    "DestinationRule",
    "EnvoyFilter",
    "Gateway",
    "ProxyConfig",
    "Sidecar",
    "TrafficExtension",
    "VirtualService",
];

/// Asks the tree of a document that is YAML.
pub(crate) fn of_node(node: &Node) -> About {
    let text = |node: &Node, name: &str| node.get(name).and_then(Node::text).map(str::to_owned);
    let metadata = node.get("metadata");
    let words = Words {
        kind: text(node, "kind"),
        api: text(node, "apiVersion"),
        name: metadata.and_then(|m| text(m, "name")),
        namespace: metadata.and_then(|m| text(m, "namespace")),
    };
    words.about()
}

/// Asks the lines of a document that is not.
pub(crate) fn of_text(text: &str) -> About {
    let mut words = Words::default();
    let mut inside: Option<usize> = None;
    let mut metadata = false;
    for line in text.split(['\n', '\r']) {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        let Some((key, value)) = body.split_once(':') else { continue };
        if indent == 0 {
            metadata = key == "metadata";
            words.top(key, value);
        } else if metadata && *inside.get_or_insert(indent) == indent {
            words.meta(key, value);
        }
    }
    words.about()
}

#[derive(Default)]
struct Words {
    kind: Option<String>,
    api: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
}

impl Words {
    fn top(&mut self, key: &str, value: &str) {
        match key {
            "kind" => keep(&mut self.kind, value),
            "apiVersion" => keep(&mut self.api, value),
            _ => {}
        }
    }
    fn meta(&mut self, key: &str, value: &str) {
        match key {
            "name" => keep(&mut self.name, value),
            "namespace" => keep(&mut self.namespace, value),
            _ => {}
        }
    }
    fn about(&self) -> About {
        let Some(kind) = self.kind.as_deref().and_then(known_kind) else { return self.stranger() };
        let namespace = self.namespace.as_deref().unwrap_or("default");
        match self.name.as_deref() {
            Some(name) if is_object_name(name) && is_label_name(namespace) => {
                About::Object(ObjectId::new(kind, namespace, name))
            }
            _ => About::Unknown,
        }
    }
    /// A kind that is not read is somebody else's if its API group says so; a misspelt one may well
    /// be an object of ours.
    fn stranger(&self) -> About {
        let (Some(kind), Some(api)) = (&self.kind, &self.api) else { return About::Unknown };
        let ours = api.starts_with("networking.istio.io/");
        if !ours || ISTIO.contains(&&**kind) { About::Foreign } else { About::Unknown }
    }
}

/// The first value of a key; comments and quotes go.
fn keep(slot: &mut Option<String>, value: &str) {
    let value = value.split(" #").next().unwrap_or_default().trim();
    let value = value.trim_matches(['"', '\'']);
    if slot.is_none() && !value.is_empty() && value.len() <= 253 {
        *slot = Some(value.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(namespace: &str, name: &str) -> About {
        About::Object(ObjectId::new("ServiceEntry", namespace, name))
    }

    #[test]
    fn a_broken_document_still_says_what_it_is_about() {
        let text = "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry # note\nmetadata:\n  labels:\n    name: no\n  name: \"pay\"\n  namespace: shop\nspec: [\n";
        assert_eq!(of_text(text), entry("shop", "pay"));
        assert_eq!(of_text("kind: ServiceEntry\r\nmetadata:\r\n  name: pay\r\n x"), entry("default", "pay"));
    }

    #[test]
    fn other_peoples_kinds_are_told_from_misspelt_ones() {
        assert_eq!(of_text("apiVersion: apps/v1\nkind: Deployment\n"), About::Foreign);
        assert_eq!(of_text("apiVersion: networking.istio.io/v1\nkind: Gateway\n"), About::Foreign);
        assert_eq!(of_text("apiVersion: networking.istio.io/v1\nkind: ServiceEntri\n"), About::Unknown);
        assert_eq!(of_text("{]"), About::Unknown);
        assert_eq!(of_text("kind: ServiceEntry\nmetadata:\n  name: Not A Name\n"), About::Unknown);
    }
}
