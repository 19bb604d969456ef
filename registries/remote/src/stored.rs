//! A Secret as it is stored, and the edits that commands of an operator make of it.
//!
//! The commands pause, resume, accept, remove and rotate call it and send the result with the operator's rights. Every edit tests the
//! version of the Secret that it is based on, so that it is refused if another writer was first. An annotation speaks for every
//! cluster of its Secret: one for a single cluster of several is refused. Errors name keys that are cluster IDs, and no value.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tributary_kube_client::{ObjectName, PatchOperation};
use tributary_model::ClusterId;
use tributary_registry_api::Credential;

use crate::allowed::{Allowed, Feature};
use crate::checksum::checksum;
use crate::compose::RemoteServer;
use crate::kubeconfig::VettedKubeconfig;
use crate::manifest::LABELS;
use crate::refusal::{Refused, unreadable};
use crate::roster::PREFIX;
use crate::secret::Raw;

/// Secret with the used fields. Its `Debug` shows no value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSecret {
    /// Namespace and name.
    pub name: ObjectName,
    /// UID: an object of the same name that is created later has another one.
    pub uid: String,
    /// Version that edits are based on.
    pub version: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    /// Values in base64.
    data: BTreeMap<String, Credential>,
}

/// Why an edit is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditRefused {
    /// The Secret has no such key.
    #[error("Secret {0} has no key {1}")]
    Missing(ObjectName, String),
    /// The Secret declares other clusters too.
    #[error("Secret {secret} declares {} too, and an annotation speaks for all of them", .others.join(", "))]
    Shared {
        /// Secret.
        secret: ObjectName,
        /// The other clusters.
        others: Vec<String>,
    },
}

/// Service account of a remote cluster whose token is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedAccount {
    /// Namespace and name.
    pub account: ObjectName,
    /// API server.
    pub server: RemoteServer,
    /// Time at which the token expires, as it states it.
    pub expires: Option<Timestamp>,
}

/// How a cluster is taken out of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// The Secret has no other key and is deleted.
    Secret,
    /// Its key is removed; the others stay.
    Key(Vec<PatchOperation>),
}

#[derive(Deserialize)]
struct RawList {
    items: Vec<Raw>,
}

/// Text of every error of the parser, whose own can repeat a value.
const UNREADABLE: &str = "metadata or data has another form than that of a Secret";

impl From<Raw> for StoredSecret {
    fn from(mut raw: Raw) -> Self {
        let (data, metadata) = (raw.take_data(), raw.metadata);
        Self {
            name: ObjectName::new(&metadata.namespace, &metadata.name),
            uid: metadata.uid,
            version: metadata.resource_version,
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            data,
        }
    }
}

impl StoredSecret {
    /// Reads the answer of an API server.
    pub fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        serde_json::from_slice::<Raw>(bytes).map(Self::from).map_err(|_| UNREADABLE)
    }
    /// Reads a list of an API server.
    pub fn read_list(bytes: &[u8]) -> Result<Vec<Self>, &'static str> {
        let list = serde_json::from_slice::<RawList>(bytes).map_err(|_| UNREADABLE)?;
        Ok(list.items.into_iter().map(Self::from).collect())
    }
    /// Returns true if a server reads it.
    #[must_use]
    pub fn is_read(&self) -> bool {
        LABELS.iter().any(|label| self.labels.get(*label).map(String::as_str) == Some("true"))
    }
    /// Returns true if it declares the cluster.
    #[must_use]
    pub fn declares(&self, cluster: &str) -> bool {
        self.data.contains_key(cluster)
    }
    /// Returns the clusters that it declares. Keys that are no cluster ID declare none.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        self.data.keys().map(String::as_str).filter(|key| ClusterId::new(key).is_ok())
    }
    /// Returns the value of an annotation `tributary.dev/NAME`.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(&format!("{PREFIX}{name}")).map(String::as_str)
    }
    /// Returns the checksum of the kubeconfig of a cluster, by which an annotation names this credential alone; `None` if it is not
    /// base64.
    #[must_use]
    pub fn checksum(&self, cluster: &str) -> Option<String> {
        checksum(self.data.get(cluster)?)
    }
    /// Returns the kubeconfig of a cluster.
    pub fn kubeconfig(&self, cluster: &str, allowed: &Allowed) -> Result<VettedKubeconfig, Refused> {
        let value = self.data.get(cluster).ok_or_else(|| unreadable("is missing"))?;
        let bytes = STANDARD.decode(value.expose()).map(Credential::new);
        let bytes = bytes.map_err(|_| unreadable("is not base64"))?;
        VettedKubeconfig::parse(bytes.expose(), allowed)
    }

    /// Returns the service account whose token the kubeconfig of a cluster has. Nothing is connected to, so that what a server would
    /// refuse, such as the address, does not matter.
    #[must_use]
    pub fn account(&self, cluster: &str) -> Option<UsedAccount> {
        let servers = vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
        let everything = Allowed { features: Feature::ALL.into(), servers };
        let kubeconfig = self.kubeconfig(cluster, &everything).ok()?;
        let (namespace, name) = kubeconfig.account()?;
        let server = RemoteServer::of(&kubeconfig)?;
        Some(UsedAccount {
            account: ObjectName::new(&namespace, &name),
            server,
            expires: kubeconfig.expires(),
        })
    }

    /// Returns the patch that sets annotations `tributary.dev/NAME`, or removes those without a value; it is empty if nothing is to be
    /// changed.
    pub fn annotate(
        &self,
        cluster: &str,
        changes: &[(&str, Option<&str>)],
    ) -> Result<Vec<PatchOperation>, EditRefused> {
        self.alone(cluster)?;
        let is_new = |(name, value): &&(&str, Option<&str>)| self.annotation(name) != *value;
        let changes: Vec<_> = changes.iter().filter(is_new).collect();
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let mut steps = vec![self.unchanged()];
        if self.annotations.is_empty() {
            // a patch adds no value below a map that is not there
            let path = "/metadata/annotations".to_owned();
            steps.push(PatchOperation::Add { path, value: json!({}) });
        }
        steps.extend(changes.into_iter().map(|(name, value)| {
            let path = format!("/metadata/annotations/{}", escaped(&format!("{PREFIX}{name}")));
            match value {
                None => PatchOperation::Remove { path },
                Some(value) => PatchOperation::Add { path, value: json!(value) },
            }
        }));
        Ok(steps)
    }
    /// Returns the patch that replaces the kubeconfig of a cluster. It holds the credential.
    pub fn replace(
        &self,
        cluster: &str,
        kubeconfig: &Credential,
    ) -> Result<Vec<PatchOperation>, EditRefused> {
        self.has(cluster)?;
        let path = format!("/data/{}", escaped(cluster));
        let value = Value::String(STANDARD.encode(kubeconfig.expose()));
        Ok(vec![self.unchanged(), PatchOperation::Replace { path, value }])
    }
    /// Returns how the cluster is taken out.
    pub fn removal(&self, cluster: &str) -> Result<Removal, EditRefused> {
        self.has(cluster)?;
        if self.data.len() == 1 {
            return Ok(Removal::Secret);
        }
        let path = format!("/data/{}", escaped(cluster));
        Ok(Removal::Key(vec![self.unchanged(), PatchOperation::Remove { path }]))
    }

    fn has(&self, cluster: &str) -> Result<(), EditRefused> {
        let missing = || EditRefused::Missing(self.name.clone(), cluster.to_owned());
        self.declares(cluster).then_some(()).ok_or_else(missing)
    }
    /// Refuses a Secret that declares other clusters. Keys that are no cluster ID declare none.
    fn alone(&self, cluster: &str) -> Result<(), EditRefused> {
        self.has(cluster)?;
        let others: Vec<String> = self.clusters().filter(|key| *key != cluster).map(str::to_owned).collect();
        if others.is_empty() {
            Ok(())
        } else {
            Err(EditRefused::Shared { secret: self.name.clone(), others })
        }
    }
    fn unchanged(&self) -> PatchOperation {
        PatchOperation::Test { path: "/metadata/resourceVersion".to_owned(), value: json!(self.version) }
    }
}

/// Returns a key as a part of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(annotations: &Value, keys: &[&str]) -> StoredSecret {
        let data: BTreeMap<&str, String> =
            keys.iter().map(|key| (*key, STANDARD.encode("hunter2"))).collect();
        let secret = json!({
            "metadata": {
                "namespace": "system", "name": "remote", "uid": "u-1", "resourceVersion": "7",
                "labels": {"tributary.dev/cluster": "true"}, "annotations": annotations,
            },
            "data": data,
        });
        StoredSecret::read(secret.to_string().as_bytes()).unwrap()
    }

    fn shown(steps: &[PatchOperation]) -> Value {
        json!(steps)
    }

    #[test]
    fn annotations_are_set_and_removed_at_one_version() {
        let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"});
        let path = "/metadata/annotations/tributary.dev~1paused";
        let paused = json!({"tributary.dev/paused": "true"});
        let cases = [
            (
                json!(null),
                Some("true"),
                json!([
                    test, {"op": "add", "path": "/metadata/annotations", "value": {}},
                    {"op": "add", "path": path, "value": "true"},
                ]),
            ),
            (json!({"a": "b"}), Some("true"), json!([test, {"op": "add", "path": path, "value": "true"}])),
            (paused.clone(), Some("true"), json!([])),
            (paused, None, json!([test, {"op": "remove", "path": path}])),
            (json!(null), None, json!([])),
        ];
        for (before, value, expected) in cases {
            let steps = mk(&before, &["east"]).annotate("east", &[("paused", value)]).unwrap();
            assert_eq!(shown(&steps), expected, "{before} {value:?}");
        }
    }

    #[test]
    fn several_annotations_change_in_one_patch() {
        let before = json!({"tributary.dev/drain": "10s", "tributary.dev/paused": "true"});
        let changes = [("drain", Some("10s")), ("paused", None), ("remove", Some("true"))];
        let steps = mk(&before, &["east"]).annotate("east", &changes).unwrap();
        let expected = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "remove", "path": "/metadata/annotations/tributary.dev~1paused"},
            {"op": "add", "path": "/metadata/annotations/tributary.dev~1remove", "value": "true"},
        ]);
        assert_eq!(shown(&steps), expected, "an equal one is not written");
    }

    #[test]
    fn one_of_several_clusters_is_not_annotated() {
        let both = mk(&json!(null), &["east", "west"]);
        let refused = both.annotate("east", &[("paused", Some("true"))]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Secret system/remote declares west too, and an annotation speaks for all of them"
        );
        let other = mk(&json!(null), &["east", "not an id"]);
        assert!(
            other.annotate("east", &[("paused", Some("true"))]).is_ok(),
            "the other key declares no cluster"
        );
        let missing = both.annotate("north", &[("paused", Some("true"))]).unwrap_err();
        assert_eq!(missing.to_string(), "Secret system/remote has no key north");
    }

    #[test]
    fn last_key_is_removed_with_its_secret() {
        assert_eq!(mk(&json!(null), &["east"]).removal("east"), Ok(Removal::Secret));
        let Ok(Removal::Key(steps)) = mk(&json!(null), &["east", "west"]).removal("east") else {
            panic!("the Secret stays")
        };
        assert_eq!(shown(&steps)[1], json!({"op": "remove", "path": "/data/east"}));
        assert!(mk(&json!(null), &["west"]).removal("east").is_err());
    }

    #[test]
    fn kubeconfig_of_one_cluster_is_replaced_beside_others() {
        let secret = mk(&json!(null), &["east", "west"]);
        let steps = secret.replace("east", &Credential::new(b"new".to_vec())).unwrap();
        assert_eq!(shown(&steps)[1], json!({"op": "replace", "path": "/data/east", "value": "bmV3"}));
    }

    #[test]
    fn account_is_that_of_the_token_wherever_its_server_is() {
        // {"sub":"system:serviceaccount:system:reader"}
        let token = "e30.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6c3lzdGVtOnJlYWRlciJ9.c2ln";
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let server = RemoteServer::new("https://127.0.0.1:6443", made.cert.pem().as_bytes(), None);
        let loopback = Allowed { servers: vec!["127.0.0.0/8".parse().unwrap()], ..Allowed::default() };
        let token = Credential::new(token.as_bytes().to_vec());
        let (kubeconfig, _) = server.kubeconfig("east", &token, &loopback).unwrap();
        let text = json!({"metadata": {"name": "a"}, "data": {"east": STANDARD.encode(kubeconfig.expose())}});
        let used = StoredSecret::read(text.to_string().as_bytes()).unwrap().account("east").unwrap();
        assert_eq!((used.account, used.server), (ObjectName::new("system", "reader"), server));
        assert_eq!(mk(&json!(null), &["east"]).account("east"), None);
    }

    #[test]
    fn nothing_shows_a_value() {
        let secret = mk(&json!(null), &["east"]);
        assert!(secret.is_read() && secret.declares("east"));
        assert!(!format!("{secret:?}").contains("aHVudGVyMg"));
        let refused = secret.kubeconfig("east", &Allowed::default()).unwrap_err();
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
        let wrong = StoredSecret::read(br#"{"metadata": {"name": "a"}, "data": "hunter2"}"#);
        assert_eq!(wrong, Err(UNREADABLE));
        let list = StoredSecret::read_list(br#"{"items": [{"metadata": {"name": "a"}}]}"#).unwrap();
        assert!(list.len() == 1 && !list[0].is_read());
    }
}
