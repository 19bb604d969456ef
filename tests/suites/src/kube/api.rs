//! What tests say to an API server and ask of it: whole objects, applied, read and removed, of any kind that the
//! server knows at that moment.

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
/// How often a write is tried again that lost against another.
const TRIES: usize = 5;

/// What a name is made of: `apiVersion`, kind, namespace if any, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// `v1`, `discovery.k8s.io/v1`.
    pub api_version: String,
    /// `Service`.
    pub kind: String,
    /// The namespace of what has one.
    pub namespace: Option<String>,
    /// The object's own name.
    pub name: String,
}

impl Named {
    /// The name of this object.
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

/// Where the objects of a kind are.
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

    /// For what has no word here.
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// Makes the object, or puts it in place of the one of its name; then its status, where it has one and the
    /// kind keeps it apart. Returns what the server keeps.
    pub async fn apply(&self, object: &Value) -> Result<Value> {
        let named = Named::of(object)?;
        let kept = self.put(&named, object).await.with_context(|| format!("apply {named:?}"))?;
        match object.get("status") {
            Some(status) => self.apply_status(&named, status).await,
            None => Ok(kept),
        }
    }

    /// All of them, in order.
    pub async fn apply_all<'v>(&self, objects: impl IntoIterator<Item = &'v Value>) -> Result<()> {
        for object in objects {
            self.apply(object).await?;
        }
        Ok(())
    }

    /// All documents of a YAML text.
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

    /// Puts this status in place of the object's own.
    pub async fn apply_status(&self, named: &Named, status: &Value) -> Result<Value> {
        let path = self.path(named).await?;
        for _ in 0..TRIES {
            let old = self.get_at(&path).await?.with_context(|| format!("{path} is not there"))?;
            let mut new = old.clone();
            new["status"] = status.clone();
            match self.json(Method::PUT, &format!("{path}/status"), &new).await? {
                (code, kept) if code.is_success() => return Ok(kept),
                // The kind has no status of its own: it was written with the object.
                (StatusCode::NOT_FOUND, _) => return Ok(old),
                (StatusCode::CONFLICT, _) => {}
                (code, why) => bail!("status of {path}: {code}: {why}"),
            }
        }
        bail!("status of {path}: another writer won {TRIES} times")
    }

    /// Merges these fields into an object that is there.
    pub async fn patch(&self, named: &Named, fields: &Value) -> Result<Value> {
        let path = self.path(named).await?;
        let body = ("application/merge-patch+json", fields.to_string().into_bytes());
        match self.rest.send(Method::PATCH, &path, Some(body)).await? {
            (status, kept) if status.is_success() => Ok(kept),
            (status, why) => bail!("patch {path}: {status}: {why}"),
        }
    }

    /// The object, if it is there.
    pub async fn find(&self, named: &Named) -> Result<Option<Value>> {
        self.get_at(&self.path(named).await?).await
    }

    /// All objects of a kind, of every namespace; none where the server does not know the kind.
    pub async fn list(&self, api_version: &str, kind: &str) -> Result<Vec<Value>> {
        let Some(place) = self.place(api_version, kind).await? else { return Ok(Vec::new()) };
        let path = format!("{}/{}", place.group, place.plural);
        let list = self.get_at(&path).await?.with_context(|| format!("{path} is not there"))?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        // Items of a list do not say what they are.
        let named = items.into_iter().map(|mut item| {
            item["apiVersion"] = api_version.into();
            item["kind"] = kind.into();
            item
        });
        Ok(named.collect())
    }

    /// Removes the object at once; nothing where it is not there.
    pub async fn remove(&self, named: &Named) -> Result<()> {
        let path = self.path(named).await?;
        let now = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        match self.json(Method::DELETE, &path, &now).await? {
            (status, _) if status.is_success() || status == StatusCode::NOT_FOUND => {}
            (status, why) => bail!("remove {path}: {status}: {why}"),
        }
        if named.kind == "Namespace" { self.finalize(named).await } else { Ok(()) }
    }

    /// No controller runs that would end a namespace.
    async fn finalize(&self, named: &Named) -> Result<()> {
        let path = self.path(named).await?;
        let Some(mut namespace) = self.get_at(&path).await? else { return Ok(()) };
        namespace["spec"] = json!({"finalizers": []});
        match self.json(Method::PUT, &format!("{path}/finalize"), &namespace).await? {
            (status, _) if status.is_success() || status == StatusCode::NOT_FOUND => Ok(()),
            (status, why) => bail!("finalize {path}: {status}: {why}"),
        }
    }

    /// Makes these all the slices that a Service has, adding before removing, as its controller would.
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

    /// Lets a user do `verbs` to `resources` (`services`, `discovery.k8s.io/endpointslices`) of every namespace, and
    /// nothing else: what it was let do before is forgotten.
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

    /// Removes all that tests make, of every namespace, and the namespaces with it.
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

    /// Defines all custom resources that Tributary reads, and waits until the server knows them.
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
        self.apply_all(&[
            mk_namespace("shop"),
            mk_service("shop", "pay", &[("http", port, port)]),
            mk_slice("shop", "pay", "pay-1", pay, &[("http", port)]),
        ])
        .await?;
        match entry {
            Some(entry) => self.apply_yaml(&entry.yaml()).await,
            None => Ok(()),
        }
    }

    /// Waits until the server knows this kind, as after its definition was applied.
    pub async fn knows(&self, api_version: &str, kind: &str) -> Result<()> {
        eventually(&format!("the API server to know {kind}"), SOON, || async {
            ensure!(self.place(api_version, kind).await?.is_some(), "it does not yet");
            Ok(())
        })
        .await
    }

    /// Forgets where kinds are, as after a definition was removed.
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

    /// Where the kind is; nothing, and not remembered, where the server does not know it.
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

    /// What the server answers once it is ready for that kind: just after a kind was defined it asks for patience.
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

/// The documents of a YAML text.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("read documents")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// What the server makes for itself and makes again when it is gone.
fn is_the_servers_own(named: &Named) -> bool {
    let namespace = named.namespace.as_deref().unwrap_or_default();
    namespace.starts_with("kube-")
        || (named.kind == "Service" && namespace == "default" && named.name == "kubernetes")
}
