//! The clusters that a file declares: one kubeconfig, or Secrets as manifests with a kubeconfig for each key.
//!
//! [`read_file`] serves checks before a Secret is applied; it reads what `istioctl create-remote-secret` and `kubectl get -o yaml`
//! print. Every cluster is vetted by itself, in the order of the file.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tributary_model::{ClusterId, Code};
use zeroize::Zeroizing;

use crate::allowed::Allowed;
use crate::kubeconfig::VettedKubeconfig;
use crate::refusal::{Refusal, Refused, unreadable};
use crate::yaml::{self, Node, Value, line};

/// Size limit of a file: a Secret of the largest size, in base64, several times.
pub const MAX_FILE_BYTES: usize = 4 << 20;
/// Labels that make a Secret declare clusters; the value is `true`.
pub const LABELS: [&str; 2] = ["istio/multiCluster", "tributary.dev/cluster"];
/// Largest number of documents of a file.
const MOST: usize = 1_000;

/// Cluster that a file declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Cluster ID: the key of the Secret. For a kubeconfig file, the name that the caller gave.
    pub cluster: String,
    /// Secret as `NAMESPACE/NAME`; empty for a kubeconfig file.
    pub secret: String,
    /// Kubeconfig, or why it is refused.
    pub verdict: Result<VettedKubeconfig, Refused>,
}

/// Reads a file; `name` stands for a cluster that the file does not name.
#[must_use]
pub fn read_file(bytes: &[u8], name: &str, allowed: &Allowed) -> Vec<Declared> {
    let alone = |verdict| Declared { cluster: name.to_owned(), secret: String::new(), verdict };
    if bytes.len() > MAX_FILE_BYTES {
        return vec![alone(Err(unreadable("is larger than 4 MiB").into()))];
    }
    let documents = match yaml::all(bytes, MOST) {
        Ok(documents) => documents,
        Err(fault) => return vec![alone(Err(fault.into()))],
    };
    if !documents.iter().any(|one| is_kind(one, "Secret") || is_list(one)) {
        return vec![alone(VettedKubeconfig::parse(bytes, allowed))];
    }
    documents.iter().flat_map(objects).flat_map(|object| secret(object, name, allowed)).collect()
}

fn is_kind(node: &Node, kind: &str) -> bool {
    node.value.get("kind").and_then(|node| node.value.text()) == Some(kind)
}

fn is_list(node: &Node) -> bool {
    is_kind(node, "List") || is_kind(node, "SecretList")
}

/// Returns the objects of a document: its own, or those of a list.
fn objects(document: &Node) -> &[Node] {
    if !is_list(document) {
        return std::slice::from_ref(document);
    }
    document.value.get("items").and_then(|node| node.value.items()).unwrap_or_default()
}

fn secret(object: &Node, name: &str, allowed: &Allowed) -> Vec<Declared> {
    let secret = identity(object);
    let refuse = |why: &'static str, field: &str| {
        let fault = refused(field, why, Code::SECRET_REFUSED.info().next).at(line(object));
        let cluster = if secret.is_empty() { name } else { &secret };
        vec![Declared { cluster: cluster.to_owned(), secret: secret.clone(), verdict: Err(fault.into()) }]
    };
    // items of a SecretList have no kind of their own
    if !is_kind(object, "Secret") && object.value.get("kind").is_some() {
        return refuse("is not that of a Secret", "kind");
    }
    if !is_labelled(object) {
        return refuse("do not declare clusters, so that the Secret is not read", "metadata.labels");
    }
    let keys = keys(object);
    if keys.is_empty() {
        return refuse("has no key, so that the Secret declares no cluster", "data");
    }
    keys.into_iter().map(|key| declared(key, &secret, allowed)).collect()
}

/// Returns `NAMESPACE/NAME`, or an empty text where the name is missing or cannot be shown.
fn identity(object: &Node) -> String {
    let metadata = object.value.get("metadata");
    let text = |field| metadata.and_then(|node| node.value.get(field)).and_then(|node| node.value.text());
    match (text("namespace"), text("name")) {
        (_, None) => String::new(),
        (None | Some(""), Some(name)) => shown_id(name).to_owned(),
        (Some(namespace), Some(name)) => format!("{}/{}", shown_id(namespace), shown_id(name)),
    }
}

/// Returns a name that is valid for an object or a cluster, or a text in its place.
pub(crate) fn shown_id(name: &str) -> &str {
    if ClusterId::new(name).is_ok() { name } else { "(name not valid)" }
}

fn is_labelled(object: &Node) -> bool {
    let labels = object.value.get("metadata").and_then(|node| node.value.get("labels"));
    let value = |label| labels.and_then(|node| node.value.get(label)).and_then(|node| node.value.text());
    LABELS.into_iter().any(|label| value(label) == Some("true"))
}

/// One key of a Secret.
struct Key<'n> {
    name: &'n str,
    node: &'n Node,
    field: &'static str,
}

/// Returns the keys of a Secret; of two with one name, that of `stringData`, as the API server does.
fn keys(object: &Node) -> Vec<Key<'_>> {
    let of = |field: &'static str| {
        let entries = object.value.get(field).and_then(|node| node.value.entries()).unwrap_or_default();
        entries.iter().map(move |(key, node)| Key { name: &key.value, node, field })
    };
    let mut names = BTreeSet::new();
    of("stringData").chain(of("data")).filter(|key| names.insert(key.name)).collect()
}

fn declared(key: Key<'_>, secret: &str, allowed: &Allowed) -> Declared {
    let verdict = match ClusterId::new(key.name) {
        Err(_) => Err(fault(&key, "is not a cluster ID", "use letters, digits, `-` and `.`").into()),
        Ok(_) => kubeconfig(&key).and_then(|bytes| VettedKubeconfig::parse(&bytes, allowed)),
    };
    Declared { cluster: shown_id(key.name).to_owned(), secret: secret.to_owned(), verdict }
}

/// Returns the bytes of a key.
fn kubeconfig(key: &Key<'_>) -> Result<Zeroizing<Vec<u8>>, Refused> {
    let Value::Text(text) = &key.node.value else {
        return Err(fault(key, "is not text", "write the kubeconfig as its value").into());
    };
    if key.field == "stringData" {
        return Ok(Zeroizing::new(text.as_bytes().to_vec()));
    }
    let decoded = STANDARD.decode(text.trim_ascii()).map(Zeroizing::new);
    decoded.map_err(|_| fault(key, "is not base64", "encode the kubeconfig, or use stringData").into())
}

fn fault(key: &Key<'_>, why: &'static str, next: &'static str) -> Refusal {
    refused(&format!("{}.{}", key.field, shown_id(key.name)), why, next).at(line(key.node))
}

fn refused(field: &str, why: &'static str, next: &'static str) -> Refusal {
    Refusal::new(Code::SECRET_REFUSED, field, why, next)
}
