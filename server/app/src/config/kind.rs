//! Kinds of registry that this version supports.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_model::Code;

use crate::exit::{CommandError, Exit};

/// Kind of registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
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
