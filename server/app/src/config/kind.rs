//! The kinds of registry that this version is built with.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_model::Code;

use crate::exit::{CommandError, Exit};

/// A kind of registry that this version is built with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegistryKind {
    /// A directory of ServiceEntry, WorkloadEntry and WorkloadGroup documents.
    #[default]
    File,
    /// A Kubernetes cluster: its Services and what they lead to, and its ServiceEntries,
    /// WorkloadEntries and WorkloadGroups where it has these kinds.
    Kubernetes,
    /// A Consul: the services of its catalog and their instances.
    Consul,
}

impl RegistryKind {
    /// All that this version is built with.
    pub const ALL: &'static [Self] = &[Self::File, Self::Kubernetes, Self::Consul];

    /// Its name in flags and files.
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
        let message = format!("there is no registry kind `{shown}`; this version has: {}", built_in());
        Err(CommandError::new(Exit::Usage, Code::UNKNOWN_REGISTRY_KIND, message))
    }
}

impl<'de> Deserialize<'de> for RegistryKind {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        // The code travels in the text, since serde's errors carry nothing else.
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
    fn a_kind_is_told_from_a_typing_error() {
        let wrong = "files".parse::<RegistryKind>().unwrap_err();
        assert_eq!(wrong.code, Some(Code::UNKNOWN_REGISTRY_KIND));
        assert_eq!(
            wrong.message,
            "there is no registry kind `files`; this version has: file, kubernetes, consul"
        );
        assert_eq!("file".parse::<RegistryKind>(), Ok(RegistryKind::File));
        assert_eq!("Kubernetes".parse::<RegistryKind>(), Ok(RegistryKind::Kubernetes), "as Istio writes it");
    }
}
