//! Services with the same name in a cluster and in Consul as documents: merged, possible, or separate with
//! the reason.

use serde::{Deserialize, Serialize};
use tributary_model::{Catalog, NameOutcome, NamedService, SameName};

use super::Page;
use super::filter::Filter;

/// Services of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MergeItem {
    /// Name.
    pub name: String,
    /// `merged`, `possible` or `separate`.
    pub state: String,
    /// Host that serves them, or would serve them, as one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Services, the cluster's first.
    pub services: Vec<NamedItem>,
    /// Kind of the reason against a merge: `ambiguous`, `ports`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Description of the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// One of the services.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedItem {
    /// Host.
    pub host: String,
    /// Namespace.
    pub namespace: String,
    /// Registries that declare it.
    pub registries: Vec<String>,
    /// Ports, as `80/HTTP`.
    pub ports: Vec<String>,
}

/// Returns the names that match the filter, in order.
#[must_use]
pub fn list(catalog: &Catalog, filter: &Filter) -> Page<MergeItem> {
    let takes = |item: &MergeItem| {
        let any = |takes: &dyn Fn(&NamedItem) -> bool| item.services.iter().any(takes);
        filter.takes_name(&item.name)
            && any(&|service| filter.takes_host(&service.host))
            && any(&|service| filter.takes_namespace(&service.namespace))
            && any(&|service| service.registries.iter().any(|name| filter.takes_registry(name)))
    };
    Page::of(catalog.same_names.values().map(|same| item(same)).filter(takes), filter, |item| item)
}

fn item(same: &SameName) -> MergeItem {
    let (state, reason, message) = match &same.outcome {
        NameOutcome::Merged => ("merged", "", ""),
        NameOutcome::Possible => ("possible", "", ""),
        NameOutcome::Separate { why, message } => ("separate", why.as_str(), &**message),
    };
    let host = same.services.first().filter(|_| state != "separate");
    MergeItem {
        name: same.name.to_string(),
        state: state.to_owned(),
        host: host.map(|service| service.key.host.to_string()).unwrap_or_default(),
        services: same.services.iter().map(service).collect(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

fn service(service: &NamedService) -> NamedItem {
    let port = |(number, protocol): &(tributary_model::PortNumber, tributary_model::Protocol)| {
        format!("{number}/{}", protocol.as_str())
    };
    NamedItem {
        host: service.key.host.to_string(),
        namespace: service.key.namespace.to_string(),
        registries: service.registries.iter().map(ToString::to_string).collect(),
        ports: service.ports.iter().map(port).collect(),
    }
}
