//! A Kubernetes cluster in a world: its settings, and the documents that are applied to it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// Settings with which the cluster is read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Name of the cluster.
    pub cluster: String,
    /// Namespace of the network label and the mesh configuration.
    pub system_namespace: String,
    /// Revision that is served.
    pub revision: Option<String>,
    /// Namespaces that are read; all where empty.
    pub namespaces: Vec<String>,
    /// `direct` where networks are flat.
    pub cross_network: Option<String>,
    /// Enabled multi-cluster options: `discovery`, `clusterLocal`, `host`.
    pub mcs: BTreeMap<String, bool>,
}

impl Default for ClusterSpec {
    fn default() -> Self {
        Self {
            cluster: "Kubernetes".to_owned(),
            system_namespace: "tributary-system".to_owned(),
            revision: None,
            namespaces: Vec::new(),
            cross_network: None,
            mcs: BTreeMap::new(),
        }
    }
}

/// Name of an object of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// Kind, such as `Service`.
    pub kind: String,
    /// Namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Own name.
    pub name: String,
}

impl ObjectName {
    /// Parses `Kind namespace/name` or `Kind name`.
    pub fn parse(text: &str) -> Result<Self> {
        let (kind, name) = text.split_once(' ').with_context(|| format!("{text:?} is not KIND NAME"))?;
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, name),
        };
        Ok(Self { kind: kind.to_owned(), namespace, name: name.to_owned() })
    }
    /// Returns the name of a document.
    pub fn of(document: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let kind = text(&document["kind"]).with_context(|| format!("no kind in {document}"))?;
        let meta = &document["metadata"];
        let name = text(&meta["name"]).with_context(|| format!("no name in {document}"))?;
        Ok(Self { kind, namespace: text(&meta["namespace"]), name })
    }
    /// Returns the `apiVersion` of the kind.
    #[must_use]
    pub fn api_version(&self) -> &'static str {
        match self.kind.as_str() {
            "EndpointSlice" => "discovery.k8s.io/v1",
            "ServiceEntry" | "WorkloadEntry" | "WorkloadGroup" | "Sidecar" | "DestinationRule" => {
                "networking.istio.io/v1"
            }
            "Gateway" => "gateway.networking.k8s.io/v1",
            "ServiceExport" | "ServiceImport" => "multicluster.x-k8s.io/v1alpha1",
            _ => "v1",
        }
    }
}

/// Returns the documents of a YAML text.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("read documents")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// Namespaces that a cluster has, so a world writes out only the namespaces with labels or annotations of their
/// own.
#[derive(Debug, Default)]
pub struct Namespaces(BTreeSet<String>);

impl Namespaces {
    /// Returns the missing namespaces of these documents, as documents.
    pub fn wanted(&mut self, documents: &[Value]) -> Vec<Value> {
        let own = documents.iter().filter(|document| document["kind"] == "Namespace");
        self.0.extend(own.filter_map(|document| document["metadata"]["name"].as_str().map(str::to_owned)));
        let named = documents.iter().filter_map(|document| document["metadata"]["namespace"].as_str());
        let fresh: Vec<&str> = named.filter(|name| self.0.insert((*name).to_owned())).collect();
        fresh
            .into_iter()
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .collect()
    }
    /// Records that an object was removed.
    pub fn gone(&mut self, object: &ObjectName) {
        if object.kind == "Namespace" {
            self.0.remove(&object.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_namespaces_are_created_once_before_their_objects() {
        let text = "{kind: Pod, metadata: {namespace: a, name: p}}\n---\n{kind: Pod, metadata: {namespace: b, name: p}}\n\
                    ---\n{kind: Namespace, metadata: {name: b, labels: {x: y}}}\n---\n";
        let read = documents(text).unwrap();
        assert_eq!(read.len(), 3, "an empty document is skipped");
        let mut known = Namespaces::default();
        let wanted: Vec<Value> = known.wanted(&read);
        assert_eq!(wanted.len(), 1);
        assert_eq!(wanted[0]["metadata"]["name"], "a");
        assert!(known.wanted(&read).is_empty());
        known.gone(&ObjectName::parse("Namespace a").unwrap());
        assert_eq!(known.wanted(&read).len(), 1);
    }

    #[test]
    fn a_name_is_read_from_text_and_documents() {
        let name = ObjectName::parse("EndpointSlice shop/pay-1").unwrap();
        assert_eq!((name.namespace.as_deref(), name.name.as_str()), (Some("shop"), "pay-1"));
        assert_eq!(name.api_version(), "discovery.k8s.io/v1");
        let document = json!({"kind": "EndpointSlice", "metadata": {"namespace": "shop", "name": "pay-1"}});
        assert_eq!(ObjectName::of(&document).unwrap(), name);
        assert!(ObjectName::parse("Service").is_err());
    }
}
