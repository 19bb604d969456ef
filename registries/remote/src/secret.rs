//! Secrets of the system namespace as a watch delivers them, and the clusters that they declare.
//!
//! [`super::SecretFollower`] calls it. Errors and faults name fields and never repeat a value. Policies that the server does not carry
//! out yet are reported as faults and have no effect.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use tributary_kube_client::{Projection, Resource};
use tributary_model::{ClusterId, Code, Timestamp};
use tributary_registry_api::Credential;
use zeroize::Zeroizing;

use crate::allowed::Allowed;
use crate::checksum::{checksum, is_checksum};
use crate::kubeconfig::VettedKubeconfig;
use crate::manifest::shown_id;
use crate::refusal::{Refusal, Refused};
use crate::roster::{
    ACCEPT_RIGHTS, Access, ClaimObject, DigestKey, FOUND_UID, Fault, PREFIX, Policy, Verdict,
};

/// Kind of object that declares remote clusters.
pub const SECRETS: Resource = Resource {
    group: Cow::Borrowed(""),
    versions: &["v1"],
    plural: "secrets",
    kind: "Secret",
    namespaced: true,
    optional: false,
};

/// Secret with the used fields. Its `Debug` shows no value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// `NAMESPACE/NAME`.
    pub name: String,
    created: Option<Timestamp>,
    annotations: BTreeMap<String, String>,
    /// Values in base64.
    data: BTreeMap<String, Credential>,
}

/// What a Secret declares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeclaredClusters {
    /// Claims for the roster.
    pub object: ClaimObject,
    /// Kubeconfigs of the vetted claims.
    pub kubeconfigs: BTreeMap<ClusterId, VettedKubeconfig>,
}

impl DeclaredClusters {
    /// Returns the kubeconfigs of the object with its name.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (&str, &ClusterId, &VettedKubeconfig)> {
        self.kubeconfigs.iter().map(|(cluster, one)| (self.object.name.as_str(), cluster, one))
    }
    /// Returns the kubeconfig of a claim, if it is still the one that an order rests on.
    pub(crate) fn kubeconfig(&self, access: &Access, cluster: &ClusterId) -> Option<&VettedKubeconfig> {
        let is_same = self.object.claims.get(cluster) == Some(&Verdict::Vetted(access.digest));
        self.kubeconfigs.get(cluster).filter(|_| is_same)
    }
}

/// Fields of a Secret that are read, also for edits of one.
#[derive(Deserialize)]
pub(crate) struct Raw {
    pub(crate) metadata: RawMetadata,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

/// Metadata of a [`Raw`] Secret.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawMetadata {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) resource_version: String,
    #[serde(default)]
    creation_timestamp: Option<String>,
    #[serde(default)]
    pub(crate) labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(crate) annotations: Option<BTreeMap<String, String>>,
}

impl Raw {
    /// Takes the values, in base64, out of the form that can be printed.
    pub(crate) fn take_data(&mut self) -> BTreeMap<String, Credential> {
        let data = self.data.take().unwrap_or_default().into_iter();
        data.map(|(key, value)| (key, Credential::new(value.into_bytes()))).collect()
    }
}

impl Projection for Secret {
    /// Reads an object. The error is a constant: one of the parser can contain a value.
    fn decode(raw: &RawValue) -> Result<Self, String> {
        let wrong = "metadata or data has another form than that of a Secret; apply it again";
        let mut raw: Raw = serde_json::from_str(raw.get()).map_err(|_| wrong.to_owned())?;
        let (data, metadata) = (raw.take_data(), raw.metadata);
        Ok(Self {
            name: format!("{}/{}", metadata.namespace, metadata.name),
            created: metadata.creation_timestamp.and_then(|text| text.parse().ok()),
            annotations: metadata.annotations.unwrap_or_default(),
            data,
        })
    }
}

impl Secret {
    /// Returns the declared clusters: every key is a cluster ID, every value a kubeconfig.
    #[must_use]
    pub fn declare(&self, allowed: &Allowed, key: &DigestKey) -> DeclaredClusters {
        let annotations =
            self.annotations.iter().map(|(name, value)| (name.as_str(), self.effective_value(name, value)));
        let (policy, mut faults) = Policy::read(annotations);
        let (mut claims, mut kubeconfigs) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in &self.data {
            let Ok(cluster) = ClusterId::new(name) else {
                faults.push(not_an_id(name));
                continue;
            };
            let vetted = kubeconfig(name, value).and_then(|bytes| VettedKubeconfig::parse(&bytes, allowed));
            claims.insert(cluster.clone(), Verdict::of(&vetted, key));
            kubeconfigs.extend(vetted.ok().map(|vetted| (cluster, vetted)));
        }
        let policy = effective(policy, claims.len(), &mut faults);
        let object = ClaimObject { name: self.name.clone(), created: self.created, policy, claims, faults };
        DeclaredClusters { object, kubeconfigs }
    }
    /// Returns the value of an annotation. A checksum of a credential counts as `true` while the Secret has that credential.
    fn effective_value<'a>(&self, name: &str, value: &'a str) -> &'a str {
        if name.strip_prefix(PREFIX) != Some(ACCEPT_RIGHTS) || !is_checksum(value) {
            return value;
        }
        let is_held = self.data.values().any(|stored| checksum(stored).as_deref() == Some(value));
        if is_held { "true" } else { "false" }
    }
}

fn kubeconfig(name: &str, value: &Credential) -> Result<Zeroizing<Vec<u8>>, Refused> {
    let fault = || {
        let field = format!("data.{}", shown_id(name));
        Refusal::new(Code::SECRET_REFUSED, field, "is not base64", "write the kubeconfig under stringData")
    };
    STANDARD.decode(value.expose()).map(Zeroizing::new).map_err(|_| fault().into())
}

fn not_an_id(name: &str) -> Fault {
    let text =
        format!("data.{} is not a cluster ID; use letters, digits, `-` and `.` as the key", shown_id(name));
    Fault::coded(Code::SECRET_REFUSED, text)
}

/// Returns the parts of a policy that the server carries out; reports the others.
fn effective(policy: Policy, claims: usize, faults: &mut Vec<Fault>) -> Policy {
    let mut idle = |name: &str, why: &str| {
        faults.push(Fault::coded(Code::ANNOTATION_REFUSED, format!("annotation {PREFIX}{name} {why}")));
    };
    let is_shared = claims > 1 && policy.found_uid.is_some();
    if is_shared {
        idle(FOUND_UID, "has no effect in a Secret of several clusters; remove it, or split the Secret");
    }
    let found_uid = policy.found_uid.clone().filter(|_| !is_shared);
    Policy { found_uid, ..policy }
}
