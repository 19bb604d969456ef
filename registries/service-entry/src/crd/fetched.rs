//! One decoded object of an API server: the projection of all kinds. Called by the watches.

use std::sync::Arc;

use serde_json::value::RawValue;
use tributary_kube_client::{ObjectName, Projection};
use tributary_model::Problem;

use crate::convert::ANNOTATIONS;
use crate::document::{API_VERSIONS, Document};
use crate::read::fault::{self, Faults};
use crate::read::node::Node;
use crate::read::{json, load, stand_in};

/// A decoded object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// The object's name.
    pub(crate) name: ObjectName,
    /// The object's resource version.
    pub(crate) version: Arc<str>,
    /// The API version in which the server wrote it.
    pub(crate) api: &'static str,
    /// The decoded part of the document, valid or not.
    pub(crate) draft: Option<Arc<Document>>,
    /// Whether it may be served.
    pub(crate) good: bool,
    /// What is served in its place while no version of it may be.
    pub(crate) stand_in: Option<Arc<Document>>,
    /// The problem of the object, if any.
    pub(crate) problem: Option<Problem>,
}

impl Projection for Fetched {
    fn decode(raw: &RawValue) -> Result<Self, String> {
        let node = json::parse(raw.get()).map_err(|fault| fault.message)?;
        let metadata = node.get("metadata").ok_or("metadata is missing")?;
        let text = |name: &str| metadata.get(name).and_then(Node::text).unwrap_or_default();
        let name = ObjectName::new(text("namespace"), text("name"));
        let version: Arc<str> = text("resourceVersion").into();
        let api = node.get("apiVersion").and_then(Node::text).unwrap_or_default();
        let known = API_VERSIONS.into_iter().find(|known| api.split('/').nth(1) == Some(known));
        let api = known.unwrap_or_default();
        let examined = load::examine(&node, Faults::lenient());
        let good = examined.is_good();
        let problem = fault::problem(&examined.faults, "", 1);
        let stand_in = if good { None } else { stand_in::of_node(&node, examined.draft.as_ref()) };
        Ok(Self { name, version, api, draft: examined.draft.map(compact), good, stand_in, problem })
    }
}

/// Removes annotations that are not read; an applied object contains a copy of itself in one.
fn compact(mut document: Document) -> Arc<Document> {
    document.meta.annotations.retain(|key, _| ANNOTATIONS.contains(&&**key));
    Arc::new(document)
}

#[cfg(test)]
mod tests {
    use tributary_model::Code;

    use super::*;

    fn fetch(text: &str) -> Result<Fetched, String> {
        Fetched::decode(&RawValue::from_string(text.to_owned()).unwrap())
    }

    fn entry(metadata: &str, spec: &str) -> String {
        format!(
            r#"{{"apiVersion":"networking.istio.io/v1beta1","kind":"WorkloadEntry","metadata":{{"name":"a","namespace":"shop","resourceVersion":"7"{metadata}}},"spec":{spec}}}"#
        )
    }

    #[test]
    fn an_object_is_read_as_the_same_document_of_a_file_is() {
        let meta = r#","uid":"u","generation":1,"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"app":"pay"},"annotations":{"proxy.istio.io/health-checks-enabled":"true"},"managedFields":[{}]"#;
        let fetched = fetch(&entry(meta, r#"{"address":"10.0.0.1","ports":{"web":8080}}"#)).unwrap();
        let yaml = "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata:\n  name: a\n  namespace: shop\n  creationTimestamp: \"2026-01-02T03:04:05Z\"\n  labels: {app: pay}\n  annotations: {proxy.istio.io/health-checks-enabled: \"true\"}\nspec: {address: 10.0.0.1, ports: {web: 8080}}\n";
        let file = load::load_str(yaml, "f.yaml").documents.remove(0);
        assert_eq!(fetched.draft, Some(file.document));
        assert_eq!((&*fetched.version, fetched.good, &fetched.problem), ("7", true, &None));
        assert_eq!(fetched.name, ObjectName::new("shop", "a"));
    }

    #[test]
    fn unused_annotations_are_not_kept() {
        let meta = r#","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"long"}"#;
        let fetched = fetch(&entry(meta, r#"{"address":"10.0.0.1"}"#)).unwrap();
        assert!(fetched.draft.unwrap().meta.annotations.is_empty());
    }

    #[test]
    fn unknown_field_of_an_object_is_only_a_warning() {
        let fetched = fetch(&entry("", r#"{"address":"10.0.0.1","novelty":{}}"#)).unwrap();
        assert!(fetched.good);
        let problem = fetched.problem.unwrap();
        assert_eq!(problem.code, Code::FIELD_UNKNOWN);
        assert!(problem.message.starts_with("spec.novelty is not a known field"), "{}", problem.message);
    }

    #[test]
    fn invalid_object_keeps_its_name_problem_and_draft() {
        let fetched = fetch(&entry("", r#"{"address":"10.0.0.1","weight":"heavy"}"#)).unwrap();
        assert!(!fetched.good && fetched.draft.is_some());
        let problem = fetched.problem.unwrap();
        assert_eq!(problem.code, Code::WRONG_TYPE);
        assert!(problem.message.starts_with("spec.weight is text"), "{}", problem.message);
        assert!(fetch("[]").is_err() && fetch("{}").is_err());
    }
}
