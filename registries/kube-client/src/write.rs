//! Guarded writes of objects, and access reviews.
//!
//! No write overwrites a concurrent change: a patch tests its assumptions, a replacement carries the version that it
//! is based on. A concurrent change results in [`ApiFailure::Conflict`].

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderValue};
use kube::client::Body;
use serde::Serialize;
use serde_json::{Value, json};

use crate::resource::{ObjectName, Resource};
use crate::watch::{ApiFailure, send};

/// Time limit of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// One operation of a JSON patch (RFC 6902).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOperation {
    /// Fails the patch unless the value matches.
    Test {
        /// JSON pointer.
        path: String,
        /// Expected value.
        value: Value,
    },
    /// Sets a value, whether or not one exists.
    Add {
        /// JSON pointer.
        path: String,
        /// New value.
        value: Value,
    },
    /// Replaces an existing value.
    Replace {
        /// JSON pointer.
        path: String,
        /// New value.
        value: Value,
    },
    /// Removes a value.
    Remove {
        /// JSON pointer.
        path: String,
    },
}

/// Access right: a verb on a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Right {
    /// Verb, such as `list`, `watch` or `patch`.
    pub verb: String,
    /// API group.
    pub group: String,
    /// Resource or subresource, such as `pods` or `serviceentries/status`.
    pub resource: String,
    /// Namespace; `None` means all namespaces.
    pub namespace: Option<String>,
    /// Object name; `None` means all objects.
    pub name: Option<String>,
}

/// Reads and writes objects of one version of one kind.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
}

impl Writer {
    /// Creates a writer over this client.
    #[must_use]
    pub const fn new(client: kube::Client) -> Self {
        Self { client }
    }
    /// Reads an object.
    pub async fn get(&self, kind: &Resource, version: &str, name: &ObjectName) -> Result<Value, ApiFailure> {
        self.request(send::get(&path(kind, version, name, ""), "application/json")).await
    }
    /// Reads the text of an object that holds secrets: the caller's parser repeats none in its errors.
    pub async fn read(&self, kind: &Resource, version: &str, name: &ObjectName) -> Result<Bytes, ApiFailure> {
        self.fetch(send::get(&path(kind, version, name, ""), "application/json")).await
    }
    /// Reads the text of a list: the objects of a namespace that have a label with this value.
    pub async fn read_labelled(
        &self,
        kind: &Resource,
        version: &str,
        namespace: &str,
        label: (&str, &str),
    ) -> Result<Bytes, ApiFailure> {
        let path = kind.path(version, Some(namespace));
        let target = send::with_pair(path, "labelSelector", &format!("{}={}", label.0, label.1));
        self.fetch(send::get(&target, "application/json")).await
    }
    /// Returns the number of objects of a kind in all namespaces, or `None` if the kind is not installed. Only the first is read.
    pub async fn count(&self, kind: &Resource, version: &str) -> Result<Option<u64>, ApiFailure> {
        let target = send::with_pair(kind.path(version, None), "limit", "1");
        let list: Value = match self.request(send::get(&target, "application/json")).await {
            Err(ApiFailure::NotFound(_)) => return Ok(None),
            answer => answer?,
        };
        let first = list["items"].as_array().map_or(0, Vec::len) as u64;
        Ok(Some(first + list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default()))
    }
    /// Creates an object; fails with a conflict if the name is in use.
    pub async fn create(
        &self,
        kind: &Resource,
        version: &str,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<Value, ApiFailure> {
        self.write(Method::POST, &kind.path(version, namespace), object, "application/json").await
    }
    /// Replaces an object; `object` carries the version that it is based on.
    pub async fn replace(
        &self,
        kind: &Resource,
        version: &str,
        name: &ObjectName,
        object: &Value,
    ) -> Result<Value, ApiFailure> {
        self.write(Method::PUT, &path(kind, version, name, ""), object, "application/json").await
    }
    /// Patches an object or a subresource. The first operation must be a test; otherwise the patch is rejected unsent.
    pub async fn patch(
        &self,
        kind: &Resource,
        version: &str,
        name: &ObjectName,
        subresource: Option<&str>,
        steps: &[PatchOperation],
    ) -> Result<Value, ApiFailure> {
        if !matches!(steps.first(), Some(PatchOperation::Test { .. })) {
            return Err(ApiFailure::Invalid(400, "a patch that tests nothing is not sent".to_owned()));
        }
        let below = subresource.map(|name| format!("/{name}")).unwrap_or_default();
        let media = "application/json-patch+json";
        let answer =
            self.write(Method::PATCH, &path(kind, version, name, &below), &json!(steps), media).await;
        match answer {
            // a failed test operation
            Err(ApiFailure::Invalid(422, why)) => Err(ApiFailure::Conflict(why)),
            other => other,
        }
    }
    /// Deletes an object if it still has this version.
    pub async fn delete(
        &self,
        kind: &Resource,
        version: &str,
        name: &ObjectName,
        resource_version: &str,
    ) -> Result<(), ApiFailure> {
        let options = json!({"preconditions": {"resourceVersion": resource_version}});
        let path = path(kind, version, name, "");
        self.write(Method::DELETE, &path, &options, "application/json").await.map(drop)
    }
    /// Requests from the server whether this credential has a right.
    pub async fn review(&self, right: &Right) -> Result<bool, ApiFailure> {
        let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
        let attributes = json!({
            "verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource,
            "namespace": right.namespace.as_deref().unwrap_or_default(),
            "name": right.name.as_deref().unwrap_or_default(),
        });
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = self.write(Method::POST, path, &review, "application/json").await?;
        let allowed = answer.pointer("/status/allowed").and_then(Value::as_bool);
        allowed.ok_or_else(|| ApiFailure::Garbled("a review without status.allowed".to_owned()))
    }

    /// Posts to a subresource and returns the text of the answer.
    pub(crate) async fn post(
        &self,
        kind: &Resource,
        version: &str,
        (name, subresource): (&ObjectName, &str),
        body: &Value,
    ) -> Result<Bytes, ApiFailure> {
        self.submit(&path(kind, version, name, &format!("/{subresource}")), body).await
    }
    /// Posts to a path and returns the text of the answer.
    pub(crate) async fn submit(&self, path: &str, body: &Value) -> Result<Bytes, ApiFailure> {
        self.fetch(with_body(Method::POST, path, body, "application/json")).await
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        media: &'static str,
    ) -> Result<Value, ApiFailure> {
        self.request(with_body(method, path, body, media)).await
    }
    async fn request(&self, request: Result<http::Request<Body>, ApiFailure>) -> Result<Value, ApiFailure> {
        let body = self.fetch(request).await?;
        serde_json::from_slice(&body).map_err(|error| ApiFailure::Garbled(error.to_string()))
    }
    async fn fetch(&self, request: Result<http::Request<Body>, ApiFailure>) -> Result<Bytes, ApiFailure> {
        let fetched = tokio::time::timeout(PATIENCE, send::fetch(self.client.clone(), request)).await;
        let late = |_| ApiFailure::Unreachable(format!("nothing came for {} s", PATIENCE.as_secs()));
        fetched.map_err(late)?
    }
}

fn with_body(
    method: Method,
    path: &str,
    body: &Value,
    media: &'static str,
) -> Result<http::Request<Body>, ApiFailure> {
    let request = send::with_body(method, path, Body::from(body.to_string().into_bytes()));
    request.map(|mut request| {
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
        request
    })
}

fn path(kind: &Resource, version: &str, name: &ObjectName, below: &str) -> String {
    format!("{}/{}{below}", kind.path(version, name.namespace.as_deref()), name.name)
}
