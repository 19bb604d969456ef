//! Kinds of registry that this version supports.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_consul::config::ConsulFields;
use tributary_kubernetes::KubernetesFields;
use tributary_model::Code;
use tributary_service_entry::FileFields;

use super::field_names::field_names;
use crate::exit::{CommandError, Exit};

/// Fields of a registry of any kind.
pub const COMMON_FIELDS: &[&str] = &["kind", "name", "clusterId", "staleness"];

/// Kind of registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegistryKind {
    /// Directory of ServiceEntry, WorkloadEntry and WorkloadGroup documents.
    #[default]
    File,
    /// Kubernetes cluster: its Services with their endpoints, and its ServiceEntries, WorkloadEntries and
    /// WorkloadGroups if these kinds are installed.
    Kubernetes,
    /// Consul: the services of its catalog with their instances.
    Consul,
}

impl RegistryKind {
    /// Every kind that this version supports.
    pub const ALL: &'static [Self] = &[Self::File, Self::Kubernetes, Self::Consul];

    /// Name in flags and files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Kubernetes => "kubernetes",
            Self::Consul => "consul",
        }
    }
    /// Whether registries of this kind have a field of this name, beside the fields of every kind.
    #[must_use]
    pub fn has(self, field: &str) -> bool {
        self.fields().contains(&field)
    }
    /// Returns the first kind that has a field of this name.
    #[must_use]
    pub fn with_field(field: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.has(field))
    }
    /// Returns every field of a registry of this kind.
    #[must_use]
    pub fn known_fields(self) -> &'static [&'static str] {
        static KNOWN: LazyLock<BTreeMap<RegistryKind, Vec<&'static str>>> = LazyLock::new(|| {
            let all = |kind: &RegistryKind| [COMMON_FIELDS, kind.fields()].concat();
            RegistryKind::ALL.iter().map(|kind| (*kind, all(kind))).collect()
        });
        KNOWN.get(&self).map_or(COMMON_FIELDS, Vec::as_slice)
    }
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::File => field_names::<FileFields>(),
            Self::Kubernetes => field_names::<KubernetesFields>(),
            Self::Consul => field_names::<ConsulFields>(),
        }
    }
}

fn built_in() -> String {
    let names: Vec<&str> = RegistryKind::ALL.iter().map(|kind| kind.as_str()).collect();
    names.join(", ")
}

impl FromStr for RegistryKind {
    type Err = CommandError;
    fn from_str(text: &str) -> Result<Self, CommandError> {
        if let Some(kind) = Self::ALL.iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text)) {
            return Ok(*kind);
        }
        let shown: String = text.chars().take(40).collect();
        let message = format!("unknown registry kind `{shown}`; use one of {}", built_in());
        Err(CommandError::new(Exit::Usage, Code::UNKNOWN_REGISTRY_KIND, message))
    }
}

impl<'de> Deserialize<'de> for RegistryKind {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        // The text carries the code because serde errors hold text only.
        text.parse().map_err(|failure: CommandError| {
            let code = failure.code.map(|code| code.to_string()).unwrap_or_default();
            serde::de::Error::custom(format!("{code} {}", failure.message))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_kind_names_the_valid_kinds() {
        let wrong = "files".parse::<RegistryKind>().unwrap_err();
        assert_eq!(wrong.code, Some(Code::UNKNOWN_REGISTRY_KIND));
        assert_eq!(wrong.message, "unknown registry kind `files`; use one of file, kubernetes, consul");
        assert_eq!("file".parse::<RegistryKind>(), Ok(RegistryKind::File));
        assert_eq!("Kubernetes".parse::<RegistryKind>(), Ok(RegistryKind::Kubernetes), "as Istio writes it");
    }
}
