//! Clusters as documents: state, credential, and every declaration with its result; and the sources of declarations.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tributary_remote::OptIn;
use tributary_remote::roster::Fault;

use super::filter::Filter;
use super::registries::PartItem;

/// One cluster. No field holds a part of a credential.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterItem {
    /// Cluster ID.
    pub name: String,
    /// `Live`, `Stale`, `Syncing`, `Unreachable`, `AuthFailed`, `Refused`, `Conflict`, `Paused` or `Removing`.
    pub state: String,
    /// Code of the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Reason of a state other than live, or a remark on a live one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Time in this state, in milliseconds; of a stale one, time since its last confirmation. Absent if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_millis_ago: Option<u64>,
    /// Time since all that is required was confirmed, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_millis_ago: Option<u64>,
    /// Time until the next try, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_millis: Option<u64>,
    /// What declares it: `configuration`, or the Secret or file that is used.
    pub source: String,
    /// Its registries.
    pub registries: Vec<ClusterRegistryItem>,
    /// Number of services.
    pub services: u64,
    /// Number of endpoints.
    pub endpoints: u64,
    /// Number of workloads.
    #[serde(default)]
    pub workloads: u64,
    /// Number of addresses of gateways.
    #[serde(default)]
    pub gateways: u64,
    /// Time at which the credential in use expires, as it states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_expires: Option<Timestamp>,
    /// Time at which its token is renewed next, if the server renews it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal: Option<Timestamp>,
    /// Number of credentials that were declared after the first, in use or not, since the server started.
    #[serde(default)]
    pub rotations: u64,
    /// Identity of the cluster, if known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Whether it was read, and its identity cannot be: another cluster in its place would not be noticed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// Identity of the cluster that answers in its place and is not accepted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub found_identity: String,
    /// Staleness policy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub staleness: String,
    /// What an operator should know beside the state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ClusterConditionItem>,
    /// Declarations, the used one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimItem>,
}

/// Registry of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRegistryItem {
    /// Name.
    pub name: String,
    /// Generation that is served.
    pub generation: u64,
    /// Generation of the run that may replace it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_generation: Option<u64>,
    /// Its watched kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartItem>,
}

/// Condition of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterConditionItem {
    /// `Refused`, `Duplicate`, `NotUsed`, `NotDeclared`, `NotChanged`, `NewCredential`, `UidNotAccepted`, `SameCluster`,
    /// `KindNotRead`, `CredentialExpires` or `CredentialExpired`.
    pub kind: String,
    /// Code from the table of codes; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Description.
    pub message: String,
}

/// Declaration of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimItem {
    /// Object with the declaration: `Secret NAMESPACE/NAME` or `file PATH`.
    pub object: String,
    /// `Used`; `Duplicate` if another one precedes it; `NotUsed` if the configuration has the cluster; `Refused`.
    pub outcome: String,
    /// Why it is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultItem>,
}

/// Fault of a declaration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultItem {
    /// Code from the table of codes; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Path of the field; empty for another fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What is wrong, and the next step.
    pub message: String,
    /// Setting of the server that would allow the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub opt_in: String,
}

/// Source of declarations: the watch of Secrets with one label, or the directory of kubeconfigs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSourceItem {
    /// `Secrets LABEL` or `directory PATH`.
    pub name: String,
    /// `Synced`, `Syncing`, `Forbidden` or `Failed`.
    pub state: String,
    /// Code of a state other than synced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// What that means, for a state other than synced, with the error of the last read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Number of objects.
    pub objects: u64,
    /// Number of objects beyond the bound, which are not read.
    #[serde(default)]
    pub beyond: u64,
    /// Faults of objects that concern none of their clusters, such as keys that are no cluster ID.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<ObjectFaultItem>,
}

/// Fault of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectFaultItem {
    /// `Secret NAMESPACE/NAME` or `file PATH`.
    pub object: String,
    /// Code from the table of codes; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// What is wrong, and the next step.
    pub message: String,
}

impl From<&Fault> for FaultItem {
    fn from(fault: &Fault) -> Self {
        Self {
            code: fault.code.map(|code| code.to_string()).unwrap_or_default(),
            field: fault.field.clone(),
            message: text(fault),
            opt_in: fault.opt_in.map(setting).unwrap_or_default(),
        }
    }
}

/// Returns the text of a fault, with the setting of the server in place of the flag of `cluster check`.
#[must_use]
pub fn text(fault: &Fault) -> String {
    match fault.opt_in {
        Some(opt_in) => fault.text.replace(&opt_in.to_string(), &setting(opt_in)),
        None => fault.text.clone(),
    }
}

/// Returns the setting of a server that allows what a flag of `cluster check` allows.
fn setting(opt_in: OptIn) -> String {
    match opt_in {
        OptIn::Feature(feature) => format!("remotes.allowKubeconfig: [{feature}]"),
        OptIn::ServerCidr(range) => format!("remotes.allowServerCidrs: [{range}]"),
    }
}

/// Returns the clusters that match the filter, in their order.
#[must_use]
pub fn list(mut clusters: Vec<ClusterItem>, filter: &Filter) -> Vec<ClusterItem> {
    let is_of = |item: &ClusterItem| item.registries.iter().any(|one| filter.takes_registry(&one.name));
    clusters.retain(|item| filter.takes_name(&item.name) && (filter.registry.is_none() || is_of(item)));
    clusters
}
