//! Identifies the object of a document, even if the document is invalid.
//!
//! A quarantined document keeps the last good version of its object served, which requires the
//! object's identity. It is taken from the tree if the document parses, else from its lines.

use tributary_model::ObjectId;

use crate::document::unserved::UnservedKind;
use crate::document::{API_GROUP, GATEWAY_API, SECURITY_GROUP, known_kind};
use crate::read::node::Node;
use tributary_model::kubernetes_names::{is_label_name, is_object_name};

/// The object that a document describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ObjectIdentity {
    /// This object.
    Object(ObjectId),
    /// An object of a kind that belongs to a different program, or that is not served; named in the second case.
    Foreign(Option<ObjectId>),
    /// Not known.
    Unknown,
}

/// Identifies a document that parses.
pub(crate) fn of_node(node: &Node) -> ObjectIdentity {
    let text = |node: &Node, name: &str| node.get(name).and_then(Node::text).map(str::to_owned);
    let metadata = node.get("metadata");
    let fields = IdentityFields {
        kind: text(node, "kind"),
        api: text(node, "apiVersion"),
        name: metadata.and_then(|m| text(m, "name")),
        namespace: metadata.and_then(|m| text(m, "namespace")),
    };
    fields.identity()
}

/// Identifies a document that does not parse.
pub(crate) fn of_text(text: &str) -> ObjectIdentity {
    let mut fields = IdentityFields::default();
    let mut inside: Option<usize> = None;
    let mut metadata = false;
    for line in text.split(['\n', '\r']) {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        let Some((key, value)) = body.split_once(':') else { continue };
        if indent == 0 {
            metadata = key == "metadata";
            fields.top(key, value);
        } else if metadata && *inside.get_or_insert(indent) == indent {
            fields.meta(key, value);
        }
    }
    fields.identity()
}

#[derive(Default)]
struct IdentityFields {
    kind: Option<String>,
    api: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
}

impl IdentityFields {
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
    fn identity(&self) -> ObjectIdentity {
        if self.group() == Some(GATEWAY_API) {
            return ObjectIdentity::Foreign(None);
        }
        let Some(kind) = self.kind.as_deref().and_then(known_kind) else { return self.unsupported_kind() };
        self.object(kind).map_or(ObjectIdentity::Unknown, ObjectIdentity::Object)
    }
    fn object(&self, kind: &'static str) -> Option<ObjectId> {
        let namespace = self.namespace.as_deref().unwrap_or("default");
        let name = self.name.as_deref()?;
        let is_valid = is_object_name(name) && is_label_name(namespace);
        is_valid.then(|| ObjectId::new(kind, namespace, name))
    }
    fn group(&self) -> Option<&str> {
        self.api.as_deref()?.split('/').next()
    }
    /// An unsupported kind belongs to a different program if its API group is different; a misspelt kind may
    /// be an object of this registry.
    fn unsupported_kind(&self) -> ObjectIdentity {
        let (Some(kind), Some(api)) = (&self.kind, &self.api) else { return ObjectIdentity::Unknown };
        if let Some(known) = UnservedKind::find(kind, api) {
            return ObjectIdentity::Foreign(self.object(known.resource.kind));
        }
        if [API_GROUP, SECURITY_GROUP].map(Some).contains(&self.group()) {
            ObjectIdentity::Unknown
        } else {
            ObjectIdentity::Foreign(None)
        }
    }
}

/// Stores the first value of a key, without comments and quotes.
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

    fn entry(namespace: &str, name: &str) -> ObjectIdentity {
        ObjectIdentity::Object(ObjectId::new("ServiceEntry", namespace, name))
    }

    #[test]
    fn invalid_document_still_names_its_object() {
        let text = "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry # note\nmetadata:\n  labels:\n    name: no\n  name: \"pay\"\n  namespace: shop\nspec: [\n";
        assert_eq!(of_text(text), entry("shop", "pay"));
        assert_eq!(of_text("kind: ServiceEntry\r\nmetadata:\r\n  name: pay\r\n x"), entry("default", "pay"));
    }

    #[test]
    fn foreign_kinds_differ_from_misspelt_ones() {
        assert_eq!(of_text("apiVersion: apps/v1\nkind: Deployment\n"), ObjectIdentity::Foreign(None));
        let proxy = "apiVersion: networking.istio.io/v1beta1\nkind: ProxyConfig\n";
        let meta = "metadata:\n  name: in\n  namespace: web\n";
        assert_eq!(of_text(proxy), ObjectIdentity::Foreign(None));
        let named = of_text(&format!("{proxy}{meta}"));
        assert_eq!(named, ObjectIdentity::Foreign(Some(ObjectId::new("ProxyConfig", "web", "in"))));
        let gateway = |api: &str| of_text(&format!("apiVersion: {api}\nkind: Gateway\n{meta}"));
        let own = ObjectId::new("Gateway", "web", "in");
        assert_eq!(gateway("networking.istio.io/v1"), ObjectIdentity::Object(own));
        assert_eq!(gateway("gateway.networking.k8s.io/v1"), ObjectIdentity::Foreign(None));
        assert_eq!(
            of_text("apiVersion: networking.istio.io/v1\nkind: ServiceEntri\n"),
            ObjectIdentity::Unknown
        );
        assert_eq!(of_text("apiVersion: security.istio.io/v1\nkind: PeerAuth\n"), ObjectIdentity::Unknown);
        assert_eq!(of_text("{]"), ObjectIdentity::Unknown);
        assert_eq!(of_text("kind: ServiceEntry\nmetadata:\n  name: Not A Name\n"), ObjectIdentity::Unknown);
    }
}
