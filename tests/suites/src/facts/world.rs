//! A world of facts: the objects, and the sidecars that ask.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::core::v3::{Locality, Node};
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use serde::Deserialize;

use crate::ads::node;

/// Objects, and the clients that ask for their resources.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// Clients by name.
    pub clients: BTreeMap<String, WorldClient>,
    /// Istio's objects, as in a file.
    pub objects: Vec<serde_json::Value>,
    /// Objects of Kubernetes, which only an API server can serve.
    #[serde(default)]
    pub kubernetes: Vec<serde_json::Value>,
    /// Values of Istio's mesh configuration, beside `rootNamespace: istio-system`.
    #[serde(default)]
    pub mesh: serde_json::Map<String, serde_json::Value>,
    /// The same values as `settings` of Tributary's configuration.
    #[serde(default)]
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// A sidecar that asks.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorldClient {
    /// Namespace.
    pub namespace: String,
    /// Labels of its workload.
    pub labels: BTreeMap<String, String>,
    /// Addresses; `192.0.2.1` if there are none.
    pub addresses: Vec<String>,
    /// Where it runs, as `region/zone/subzone`.
    pub locality: String,
    /// How its traffic is captured.
    pub mode: Mode,
}

/// Interception mode of a client.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Mode {
    /// By iptables.
    #[default]
    #[serde(rename = "REDIRECT")]
    Redirect,
    /// Not at all: listeners bind.
    #[serde(rename = "NONE")]
    None,
}

impl World {
    /// Reads a world.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))
    }

    /// Writes its objects as one file of documents.
    pub fn write(&self, path: &Path) -> Result<()> {
        let texts = self.objects.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        std::fs::write(path, texts.join("\n---\n")).with_context(|| format!("write {}", path.display()))
    }

    /// Writes its settings as a configuration file.
    pub fn write_settings(&self, path: &Path) -> Result<()> {
        let mut config = serde_json::json!({
            "apiVersion": "tributary.dev/v1alpha1", "kind": "Config", "settings": self.settings,
        });
        // as in Istio
        config["settings"]["autoMtls"] = serde_json::json!(true);
        std::fs::write(path, config.to_string()).with_context(|| format!("write {}", path.display()))
    }
}

impl WorldClient {
    /// Returns the node that it sends.
    pub fn node(&self, name: &str) -> Node {
        let none = ["192.0.2.1".to_owned()];
        let addresses = if self.addresses.is_empty() { &none[..] } else { &self.addresses };
        let namespace = &self.namespace;
        let labels = self.labels.iter().map(|(key, value)| (key.clone(), text(value)));
        let mut fields = BTreeMap::from([
            ("NAMESPACE", text(namespace)),
            ("CLUSTER_ID", text("Kubernetes")),
            ("ISTIO_VERSION", text("1.30.3")),
            ("INSTANCE_IPS", text(&addresses.join(","))),
            ("LABELS", of(Kind::StructValue(Struct { fields: labels.collect() }))),
        ]);
        if self.mode == Mode::None {
            fields.insert("INTERCEPTION_MODE", text("NONE"));
        }
        let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let id = format!("sidecar~{}~{name}.{namespace}~{namespace}.svc.cluster.local", addresses[0]);
        Node { metadata: Some(Struct { fields }), locality: self.place(), ..node(&id) }
    }

    fn place(&self) -> Option<Locality> {
        let mut parts = self.locality.split('/').map(str::to_owned);
        let region = parts.next().filter(|region| !region.is_empty())?;
        let [zone, sub_zone] = [parts.next(), parts.next()].map(Option::unwrap_or_default);
        Some(Locality { region, zone, sub_zone })
    }
}

fn text(text: &str) -> Value {
    of(Kind::StringValue(text.to_owned()))
}

fn of(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}
