//! Changes to objects, each guarded, and the question whether a right is there.
//!
//! Nobody is overwritten: a patch tests what it believes to be so, a replacement carries the version it was
//! made from. What somebody else did first is a [`ApiFailure::Conflict`].

use std::time::Duration;

use http::Method;
use http::header::{CONTENT_TYPE, HeaderValue};
use kube::client::Body;
use serde::Serialize;
use serde_json::{Value, json};

use crate::resource::{ObjectName, Resource};
use crate::watch::{ApiFailure, send};

/// A write that is not answered within this has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// One step of a JSON patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOperation {
    /// Nothing is changed unless this is so.
    Test {
        /// Where.
        path: String,
        /// What is believed to be there.
        value: Value,
    },
    /// Now so, whatever was there.
    Add {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Now so, in place of something.
    Replace {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// No more.
    Remove {
        /// Where.
        path: String,
    },
}

/// A right: a verb on a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Right {
    /// `list`, `watch`, `patch`, …
    pub verb: String,
    /// The API group.
    pub group: String,
    /// `pods`, or `serviceentries/status`.
    pub resource: String,
    /// In one namespace; in all of them where it is none.
    pub namespace: Option<String>,
    /// On the object of this name alone; on all of them where it is none.
    pub name: Option<String>,
}

/// Writes objects of one version of one kind.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
}

impl Writer {
    /// Writes through this client.
    #[must_use]
    pub const fn new(client: kube::Client) -> Self {
        Self { client }
    }
    /// Reads an object.
    pub async fn get(&self, kind: &Resource, version: &str, name: &ObjectName) -> Result<Value, ApiFailure> {
        self.ask(send::get(&path(kind, version, name, ""), "application/json")).await
    }
    /// Creates an object; a conflict says that there is one of its name.
    pub async fn create(
        &self,
        kind: &Resource,
        version: &str,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<Value, ApiFailure> {
        self.write(Method::POST, &kind.path(version, namespace), object, "application/json").await
    }
    /// Replaces an object by one that carries the version it was made from.
    pub async fn replace(
        &self,
        kind: &Resource,
        version: &str,
        name: &ObjectName,
        object: &Value,
    ) -> Result<Value, ApiFailure> {
        self.write(Method::PUT, &path(kind, version, name, ""), object, "application/json").await
    }
    /// Changes an object, or its status. The first step must test something: an unguarded patch is refused here.
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
            // a test that does not hold
            Err(ApiFailure::Invalid(422, why)) => Err(ApiFailure::Conflict(why)),
            other => other,
        }
    }
    /// Deletes an object of this version only.
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
    /// Whether this credential has a right, by the server's own word.
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

    async fn write(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        media: &'static str,
    ) -> Result<Value, ApiFailure> {
        let request = send::with_body(method, path, Body::from(body.to_string().into_bytes()));
        self.ask(request.map(|mut request| {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
            request
        }))
        .await
    }
    async fn ask(&self, request: Result<http::Request<Body>, ApiFailure>) -> Result<Value, ApiFailure> {
        let fetched = tokio::time::timeout(PATIENCE, send::fetch(self.client.clone(), request)).await;
        let late = |_| ApiFailure::Unreachable(format!("nothing came for {} s", PATIENCE.as_secs()));
        let body = fetched.map_err(late)??;
        serde_json::from_slice(&body).map_err(|error| ApiFailure::Garbled(error.to_string()))
    }
}

fn path(kind: &Resource, version: &str, name: &ObjectName, below: &str) -> String {
    format!("{}/{}{below}", kind.path(version, name.namespace.as_deref()), name.name)
}
