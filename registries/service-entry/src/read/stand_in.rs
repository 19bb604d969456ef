//! Documents that stand in for AuthorizationPolicies and RequestAuthentications that are not valid.
//!
//! The sources of files and clusters serve one while no version of its object is valid: it refuses every request of the
//! workloads that the object selects, as far as its selector can be read. An absent policy would open them. A policy that
//! refuses nothing, such as one for audit, has no such document.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::kubernetes_names::{is_label_key, is_label_value};
use tributary_model::{Labels, Namespace, ObjectId};

use crate::convert::is_dry_run;
use crate::document::{
    AUTHORIZATION_POLICY, AuthorizationPolicy, Body, Document, Located, Meta, REQUEST_AUTHENTICATION,
    RequestAuthentication,
};
use crate::read::fault::Pos;
use crate::read::identity::{self, ObjectIdentity};
use crate::read::node::{Node, Value};

/// Returns the document that stands in for a tree that is not valid; `draft` is what was decoded of it.
pub(crate) fn of_node(node: &Node, draft: Option<&Document>) -> Option<Arc<Document>> {
    let id = policy(identity::of_node(node), node.get("apiVersion").and_then(Node::text))?;
    let meta = draft.map_or_else(|| meta(&id), |draft| Some(draft.meta.clone()))?;
    let spec = node.get("spec");
    let is_audit = |spec: &Node| spec.get("action").and_then(Node::text) == Some("AUDIT");
    let only_reports = id.kind == AUTHORIZATION_POLICY && (is_dry_run(&meta) || spec.is_some_and(is_audit));
    let refuses = !only_reports && !spec.is_some_and(concerns_no_sidecar);
    refuses.then(|| document(id.kind, meta, spec.map(selector).unwrap_or_default()))
}

/// Returns the document that stands in for a text that cannot be read as a tree.
pub(crate) fn of_text(text: &str) -> Option<Arc<Document>> {
    let api = text.lines().find_map(|line| line.strip_prefix("apiVersion:"));
    let id = policy(identity::of_text(text), api.map(|api| api.trim().trim_matches(['"', '\''])))?;
    of_object(&id)
}

/// Returns the document that stands in for an object of which nothing but its identity can be read.
pub(crate) fn of_object(id: &ObjectId) -> Option<Arc<Document>> {
    let meta = meta(id)?;
    stands_in(id.kind).then(|| document(id.kind, meta, Labels::default()))
}

/// Returns the policy that a document of this API version is. Other programs have a kind of the same name; a version that Istio
/// does not have is a mistake in an object of Istio.
fn policy(identity: ObjectIdentity, api: Option<&str>) -> Option<ObjectId> {
    let ObjectIdentity::Object(id) = identity else { return None };
    let is_of_istio =
        api.is_none_or(|api| api.split('/').next().is_some_and(|group| group.ends_with("istio.io")));
    (stands_in(id.kind) && is_of_istio).then_some(id)
}

/// Whether objects of a kind have such documents.
fn stands_in(kind: &str) -> bool {
    [AUTHORIZATION_POLICY, REQUEST_AUTHENTICATION].contains(&kind)
}

fn document(kind: &str, meta: Meta, selector: Labels) -> Arc<Document> {
    let selector = (!selector.is_empty()).then(|| Located::new(Pos::default(), selector));
    let is_stand_in = true;
    let body = if kind == REQUEST_AUTHENTICATION {
        let policy = RequestAuthentication { selector, is_stand_in, ..RequestAuthentication::default() };
        Body::RequestAuthentication(Box::new(policy))
    } else {
        let policy = AuthorizationPolicy { selector, is_stand_in, ..AuthorizationPolicy::default() };
        Body::AuthorizationPolicy(Box::new(policy))
    };
    Arc::new(Document { at: Located::default(), meta, body })
}

fn meta(id: &ObjectId) -> Option<Meta> {
    Some(Meta {
        namespace: Namespace::new(&*id.namespace).ok()?,
        name: Arc::clone(&id.name),
        labels: Located::default(),
        annotations: BTreeMap::new(),
        created: None,
    })
}

/// Whether it names targets and no workloads.
fn concerns_no_sidecar(spec: &Node) -> bool {
    let is_set = |name: &str| {
        let value = spec.get(name).map(|node| &node.value);
        value.is_some_and(|value| *value != Value::Null && *value != Value::List(Vec::new()))
    };
    !is_set("selector") && (is_set("targetRef") || is_set("targetRefs"))
}

/// The labels that can be read. Without one of them more workloads are selected.
fn selector(spec: &Node) -> Labels {
    let labels = spec.get("selector").and_then(|selector| selector.get("matchLabels"));
    let Some(Value::Map(pairs)) = labels.map(|labels| &labels.value) else { return Labels::default() };
    let known = pairs.iter().filter_map(|(key, value)| Some((key.name.as_str(), value.text()?)));
    known.filter(|(key, value)| is_label_key(key) && is_label_value(value)).take(Labels::MAX).collect()
}
