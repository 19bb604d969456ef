//! Requests of tests to an API server: whole objects, applied, read and removed, of any kind that the server
//! knows at that moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{mk_namespace, mk_service, mk_slice};
use crate::{Entry, Rest, eventually};

const SOON: Duration = Duration::from_secs(20);
/// Retries of a write after a conflict.
const TRIES: usize = 5;

/// Parts of a name: `apiVersion`, kind, namespace if any, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// `v1`, `discovery.k8s.io/v1`.
    pub api_version: String,
    /// Kind, such as `Service`.
    pub kind: String,
    /// Namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// The object's own name.
    pub name: String,
}

impl Named {
    /// Returns the name of this object.
    pub fn of(object: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let part = |value: &Value, what| text(value).with_context(|| format!("no {what} in {object}"));
        Ok(Self {
            api_version: part(&object["apiVersion"], "apiVersion")?,
            kind: part(&object["kind"], "kind")?,
            namespace: text(&object["metadata"]["namespace"]),
            name: part(&object["metadata"]["name"], "name")?,
        })
    }
}

/// URL path and scope of a kind.
#[derive(Debug, Clone)]
struct Place {
    group: String,
    plural: String,
    namespaced: bool,
}

/// The API of one server, as one user.
#[derive(Debug, Clone)]
pub struct KubeApi {
    rest: Rest,
    places: Arc<Mutex<HashMap<(String, String), Place>>>,
}

impl KubeApi {
    pub(crate) fn new(rest: Rest) -> Self {
        Self { rest, places: Arc::default() }
    }

    /// Returns the plain client, for requests without a method here.
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// Creates or replaces the object; then its status, if the kind has a status subresource. Returns the
    /// stored object.
    pub async fn apply(&self, object: &Value) -> Result<Value> {
        let named = Named::of(object)?;
        let kept = self.put(&named, object).await.with_context(|| format!("apply {named:?}"))?;
        match object.get("status") {
            Some(status) => self.apply_status(&named, status).await,
            None => Ok(kept),
        }
    }

    /// Applies all objects in order.
    pub async fn apply_all<'v>(&self, objects: impl IntoIterator<Item = &'v Value>) -> Result<()> {
        for object in objects {
            self.apply(object).await?;
        }
        Ok(())
    }

    /// Applies all documents of a YAML text.
    pub async fn apply_yaml(&self, text: &str) -> Result<()> {
        self.apply_all(&documents(text)?).await
    }

    async fn put(&self, named: &Named, object: &Value) -> Result<Value> {
        let folder = self.folder(named).await?;
        for _ in 0..TRIES {
            match self.json(Method::POST, &folder, object).await? {
                (status, kept) if status.is_success() => return Ok(kept),
                (StatusCode::CONFLICT, _) => {}
                (status, why) => bail!("{status}: {why}"),
            }
            let path = format!("{folder}/{}", named.name);
            let Some(old) = self.get_at(&path).await? else { continue };
            let mut new = object.clone();
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            match self.json(Method::PUT, &path, &new).await? {
                (status, kept) if status.is_success() => return Ok(kept),
                (StatusCode::CONFLICT | StatusCode::NOT_FOUND, _) => {}
                (status, why) => bail!("{status}: {why}"),
            }
        }
        bail!("another writer won {TRIES} times")
    }

    /// Replaces the object's status.
    pub async fn apply_status(&self, named: &Named, status: &Value) -> Result<Value> {
        let path = self.path(named).await?;
        for _ in 0..TRIES {
            let old = self.get_at(&path).await?.with_context(|| format!("{path} is not there"))?;
            let mut new = old.clone();
            new["status"] = status.clone();
            match self.json(Method::PUT, &format!("{path}/status"), &new).await? {
                (code, kept) if code.is_success() => return Ok(kept),
                // The kind has no status subresource: the status was written with the object.
                (StatusCode::NOT_FOUND, _) => return Ok(old),
                (StatusCode::CONFLICT, _) => {}
                (code, why) => bail!("status of {path}: {code}: {why}"),
            }
        }
        bail!("status of {path}: another writer won {TRIES} times")
    }

    /// Merges these fields into an existing object.
    pub async fn patch(&self, named: &Named, fields: &Value) -> Result<Value> {
        let path = self.path(named).await?;
        let body = ("application/merge-patch+json", fields.to_string().into_bytes());
        match self.rest.send(Method::PATCH, &path, Some(body)).await? {
            (status, kept) if status.is_success() => Ok(kept),
            (status, why) => bail!("patch {path}: {status}: {why}"),
        }
    }

    /// Returns the object if it exists.
    pub async fn find(&self, named: &Named) -> Result<Option<Value>> {
        self.get_at(&self.path(named).await?).await
    }

    /// Returns all objects of a kind in every namespace; empty if the server does not know the kind.
    pub async fn list(&self, api_version: &str, kind: &str) -> Result<Vec<Value>> {
        let Some(place) = self.place(api_version, kind).await? else { return Ok(Vec::new()) };
        let path = format!("{}/{}", place.group, place.plural);
        let list = self.get_at(&path).await?.with_context(|| format!("{path} is not there"))?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        // Items of a list have no kind of their own.
        let named = items.into_iter().map(|mut item| {
            item["apiVersion"] = api_version.into();
            item["kind"] = kind.into();
            item
        });
        Ok(named.collect())
    }

    /// Removes the object at once; does nothing if it does not exist.
    pub async fn remove(&self, named: &Named) -> Result<()> {
        let path = self.path(named).await?;
        let now = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        match self.json(Method::DELETE, &path, &now).await? {
            (status, _) if status.is_success() || status == StatusCode::NOT_FOUND => {}
            (status, why) => bail!("remove {path}: {status}: {why}"),
        }
        if named.kind == "Namespace" { self.finalize(named).await } else { Ok(()) }
    }

    /// Finalizes a namespace, because no controller runs that would.
    async fn finalize(&self, named: &Named) -> Result<()> {
        let path = self.path(named).await?;
        let Some(mut namespace) = self.get_at(&path).await? else { return Ok(()) };
        namespace["spec"] = json!({"finalizers": []});
        match self.json(Method::PUT, &format!("{path}/finalize"), &namespace).await? {
            (status, _) if status.is_success() || status == StatusCode::NOT_FOUND => Ok(()),
            (status, why) => bail!("finalize {path}: {status}: {why}"),
        }
    }

    /// Makes these the slices of a Service, adding before removing, as its controller would.
    pub async fn set_slices(&self, namespace: &str, service: &str, slices: &[Value]) -> Result<()> {
        self.apply_all(slices).await?;
        let wanted = slices.iter().map(Named::of).collect::<Result<Vec<_>>>()?;
        for slice in self.list("discovery.k8s.io/v1", "EndpointSlice").await? {
            let metadata = &slice["metadata"];
            let own = metadata["namespace"] == namespace
                && metadata["labels"]["kubernetes.io/service-name"] == service;
            let named = Named::of(&slice)?;
            if own && !wanted.contains(&named) {
                self.remove(&named).await?;
            }
        }
        Ok(())
    }

    /// Grants a user exactly `verbs` on `resources` (`services`, `discovery.k8s.io/endpointslices`) in every
    /// namespace, replacing earlier grants.
    pub async fn allow(&self, user: &str, verbs: &[&str], resources: &[&str]) -> Result<()> {
        let rule = |resource: &&str| {
            let (group, plural) = resource.rsplit_once('/').unwrap_or(("", resource));
            json!({"apiGroups": [group], "resources": [plural], "verbs": verbs})
        };
        let rules: Vec<Value> = resources.iter().map(rule).collect();
        let rbac = "rbac.authorization.k8s.io";
        let name = format!("test-{user}");
        self.apply(
            &json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
            "rules": rules}),
        )
        .await?;
        let subject = match user.split_once(':') {
            Some((namespace, name)) => {
                json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
            }
            None => json!({"kind": "User", "apiGroup": rbac, "name": user}),
        };
        let name = name.replace(':', "-");
        self.apply(&json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": format!("test-{user}")}}))
            .await?;
        Ok(())
    }

    /// Removes every object that tests create, in every namespace, and the namespaces.
    pub async fn clear(&self, further: &[(&str, &str)]) -> Result<()> {
        let kinds = [
            ("v1", "Service"),
            ("discovery.k8s.io/v1", "EndpointSlice"),
            ("v1", "Pod"),
            ("v1", "Node"),
            ("v1", "ConfigMap"),
            ("coordination.k8s.io/v1", "Lease"),
        ];
        for (api_version, kind) in further.iter().chain(&kinds) {
            let objects = self.list(api_version, kind).await?;
            let ours = objects.iter().map(Named::of).collect::<Result<Vec<_>>>()?;
            let ours = ours.iter().filter(|named| !is_the_servers_own(named));
            futures::future::try_join_all(ours.map(|named| self.remove(named))).await?;
        }
        let namespaces = self.list("v1", "Namespace").await?;
        let ours = namespaces.iter().map(Named::of).collect::<Result<Vec<_>>>()?;
        let ours = ours.iter().filter(|named| named.name != "default" && !named.name.starts_with("kube-"));
        futures::future::try_join_all(ours.map(|named| self.remove(named))).await?;
        Ok(())
    }

    /// Defines all custom resources that Tributary reads, and waits until the server serves them.
    pub async fn define(&self) -> Result<()> {
        for crd in super::CRDS {
            self.apply_yaml(crd).await?;
        }
        for (version, kind) in super::CUSTOM_KINDS {
            self.knows(version, kind).await?;
        }
        Ok(())
    }

    /// Defines all custom resources, and fills namespace `shop`: service `pay` at these addresses, and an entry.
    pub async fn fill_shop(&self, port: u16, pay: &[&str], entry: Option<Entry>) -> Result<()> {
        self.define().await?;
        self.fill_pay(port, pay).await?;
        match entry {
            Some(entry) => self.apply_yaml(&entry.yaml()).await,
            None => Ok(()),
        }
    }

    /// Fills namespace `shop` with service `pay` at these addresses.
    pub async fn fill_pay(&self, port: u16, pay: &[&str]) -> Result<()> {
        self.apply_all(&[
            mk_namespace("shop"),
            mk_service("shop", "pay", &[("http", port, port)]),
            mk_slice("shop", "pay", "pay-1", pay, &[("http", port)]),
        ])
        .await
    }

    /// Creates a service account, and returns its uid.
    pub async fn create_account(&self, namespace: &str, name: &str) -> Result<String> {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": namespace, "name": name}});
        let created = self.apply(&account).await?;
        Ok(created["metadata"]["uid"].as_str().context("a service account has a uid")?.to_owned())
    }

    /// Requests a token of a service account for these audiences.
    pub async fn token_of(&self, namespace: &str, name: &str, audiences: &[&str]) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": audiences, "expirationSeconds": 3600}});
        let issued = self.rest().post(&path, &request).await?;
        Ok(issued["status"]["token"].as_str().context("a TokenRequest has a token")?.to_owned())
    }

    /// Waits until the server serves this kind, after its definition was applied.
    pub async fn knows(&self, api_version: &str, kind: &str) -> Result<()> {
        eventually(&format!("the API server to know {kind}"), SOON, || async {
            ensure!(self.place(api_version, kind).await?.is_some(), "it does not yet");
            Ok(())
        })
        .await
    }

    /// Forgets the discovered kinds, after a definition was removed.
    pub fn forget_kinds(&self) {
        self.places.lock().clear();
    }

    async fn path(&self, named: &Named) -> Result<String> {
        Ok(format!("{}/{}", self.folder(named).await?, named.name))
    }

    async fn folder(&self, named: &Named) -> Result<String> {
        let place = self.place(&named.api_version, &named.kind).await?;
        let place =
            place.with_context(|| format!("the server knows no {} {}", named.api_version, named.kind))?;
        Ok(match (&named.namespace, place.namespaced) {
            (_, false) => format!("{}/{}", place.group, place.plural),
            (Some(namespace), true) => format!("{}/namespaces/{namespace}/{}", place.group, place.plural),
            (None, true) => bail!("{} {} wants a namespace", named.kind, named.name),
        })
    }

    /// Discovers a kind; `None`, without caching, if the server does not know it.
    async fn place(&self, api_version: &str, kind: &str) -> Result<Option<Place>> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(place) = self.places.lock().get(&key) {
            return Ok(Some(place.clone()));
        }
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        let group = format!("{root}/{api_version}");
        let (status, list) = self.rest.send(Method::GET, &group, None).await?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        ensure!(status.is_success(), "{group} answered {status}: {list}");
        let resources = list["resources"].as_array().into_iter().flatten();
        let is = |one: &&Value| one["kind"] == kind && one["name"].as_str().is_some_and(|n| !n.contains('/'));
        let found = resources.into_iter().find(is);
        let Some(found) = found else { return Ok(None) };
        let plural = found["name"].as_str().unwrap_or_default().to_owned();
        let place = Place { group, plural, namespaced: found["namespaced"] == true };
        self.places.lock().insert(key, place.clone());
        Ok(Some(place))
    }

    async fn get_at(&self, path: &str) -> Result<Option<Value>> {
        match self.send(Method::GET, path, None).await? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, object) if status.is_success() => Ok(Some(object)),
            (status, why) => bail!("{path}: {status}: {why}"),
        }
    }

    async fn json(&self, method: Method, path: &str, body: &Value) -> Result<(StatusCode, Value)> {
        self.send(method, path, Some(("application/json", body.to_string().into_bytes()))).await
    }

    /// Returns the server's response when it is ready for that kind: a newly defined kind answers 429 for a
    /// moment.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<(StatusCode, Value)> {
        eventually("the API server to be ready for a kind", SOON, || async {
            let (status, answer) = self.rest.send(method.clone(), path, body.clone()).await?;
            ensure!(status != StatusCode::TOO_MANY_REQUESTS, "{method} {path}: {answer}");
            Ok((status, answer))
        })
        .await
    }
}

/// Returns the documents of a YAML text.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("read documents")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// Returns true for objects that the server creates and restores on its own.
fn is_the_servers_own(named: &Named) -> bool {
    let namespace = named.namespace.as_deref().unwrap_or_default();
    namespace.starts_with("kube-")
        || (named.kind == "Service" && namespace == "default" && named.name == "kubernetes")
}
