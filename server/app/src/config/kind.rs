//! The kinds of registry: those that this version is built with, and those that it only knows of.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_model::Code;

use crate::exit::{Exit, Failure};

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
}

impl RegistryKind {
    /// All that this version is built with.
    pub const ALL: &'static [Self] = &[Self::File, Self::Kubernetes];
    /// Kinds that have a name and no code yet: asking for one is not a typing error.
    pub const LATER: &'static [&'static str] = &["consul"];

    /// Its name in flags and files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Kubernetes => "kubernetes",
        }
    }
}

fn built_in() -> String {
    let names: Vec<&str> = RegistryKind::ALL.iter().map(|kind| kind.as_str()).collect();
    names.join(", ")
}

impl FromStr for RegistryKind {
    type Err = Failure;
    fn from_str(text: &str) -> Result<Self, Failure> {
        if let Some(kind) = Self::ALL.iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text)) {
            return Ok(*kind);
        }
        let shown: String = text.chars().take(40).collect();
        let message = if Self::LATER.iter().any(|later| later.eq_ignore_ascii_case(text)) {
            format!("registry kind `{shown}` is not built into this version, which has: {}", built_in())
        } else {
            format!("there is no registry kind `{shown}`; this version has: {}", built_in())
        };
        Err(Failure::new(Exit::Usage, Code::UNKNOWN_REGISTRY_KIND, message))
    }
}

impl<'de> Deserialize<'de> for RegistryKind {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        // The code travels in the text, since serde's errors carry nothing else.
        text.parse().map_err(|failure: Failure| {
            let code = failure.code.map(|code| code.to_string()).unwrap_or_default();
            serde::de::Error::custom(format!("{code} {}", failure.message))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_comes_later_is_told_from_a_typing_error() {
        let later = "consul".parse::<RegistryKind>().unwrap_err();
        assert_eq!(later.code, Some(Code::UNKNOWN_REGISTRY_KIND));
        assert_eq!(
            later.message,
            "registry kind `consul` is not built into this version, which has: file, kubernetes"
        );
        let wrong = "files".parse::<RegistryKind>().unwrap_err();
        assert_eq!(wrong.message, "there is no registry kind `files`; this version has: file, kubernetes");
        assert_eq!("file".parse::<RegistryKind>(), Ok(RegistryKind::File));
        assert_eq!("Kubernetes".parse::<RegistryKind>(), Ok(RegistryKind::Kubernetes), "as Istio writes it");
    }
}
