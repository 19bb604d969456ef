//! `metadata`: names, labels and annotations.

use std::sync::Arc;

use tributary_model::kubernetes_names::{is_label_name, is_object_name};
use tributary_model::{Code, Namespace, Timestamp};

use super::fields::Fields;
use crate::document::{Meta, Text};
use crate::read::fault::{Faults, clip};
use crate::read::node::Node;

/// Fields that an API server adds; exported objects contain them.
const SERVERS: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "managedFields",
    "finalizers",
    "ownerReferences",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

pub(super) fn decode(node: &Node, path: String, faults: &mut Faults) -> Option<Meta> {
    let mut fields = Fields::open(node, path, faults)?;
    let name = fields.required_text("name", faults).and_then(|name| name_of(name, faults));
    let namespace = match fields.text("namespace", faults).filter(|ns| !ns.value.is_empty()) {
        Some(text) => namespace_of(&text, faults),
        None => Namespace::new("default").ok(),
    };
    let labels = fields.labels("labels", faults).unwrap_or_default();
    let annotations = fields.text_map("annotations", faults);
    // A creation time only orders precedence: if it cannot be parsed, the object has none.
    let created =
        fields.get("creationTimestamp").and_then(|(_, node)| node.text()?.parse::<Timestamp>().ok());
    fields.ignore(&SERVERS);
    fields.finish(faults);
    Some(Meta { namespace: namespace?, name: name?, labels, annotations, created })
}

fn name_of(name: Text, faults: &mut Faults) -> Option<Arc<str>> {
    if is_object_name(&name.value) {
        return Some(name.value);
    }
    let message = format!(
        "metadata.name {:?} is not a name; use up to 253 lower-case letters, digits, `-` and `.`",
        clip(&name.value)
    );
    faults.refuse(Code::INVALID_NAME, name.at, message);
    None
}

fn namespace_of(text: &Text, faults: &mut Faults) -> Option<Namespace> {
    let namespace = if is_label_name(&text.value) { Namespace::new(&text.value).ok() } else { None };
    if namespace.is_none() {
        let message = format!(
            "metadata.namespace {:?} is not a name; use up to 63 lower-case letters, digits and `-`",
            clip(&text.value)
        );
        faults.refuse(Code::INVALID_NAME, text.at, message);
    }
    namespace
}
