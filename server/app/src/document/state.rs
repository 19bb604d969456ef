//! Kept state as documents, and the facts that ending a part would remove.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tributary_model::{CollectionKind, RegistryName, Scope};

use super::API_VERSION;

/// Kept state of a server, or of a directory that no server holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateDocument {
    /// Always `tributary.dev/v1`.
    pub api_version: String,
    /// Always `State`.
    pub kind: String,
    /// State directory; empty if none is configured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// Why state is not kept although a directory is configured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fault: String,
    /// Journal, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalItem>,
    /// Registries, ordered by name.
    pub registries: Vec<StateItem>,
    /// Files of unusable journals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<String>,
}

/// Journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalItem {
    /// Whether a server writes it.
    pub open: bool,
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Bytes of live records in it.
    pub live_bytes: u64,
    /// Number of commits by this server.
    #[serde(default)]
    pub commits: u64,
    /// Changes that are not written yet.
    #[serde(default)]
    pub pending_keys: u64,
    /// Time since the last commit, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_commit_millis_ago: Option<u64>,
    /// Last error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
}

/// Kept state of one registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateItem {
    /// Name.
    pub name: String,
    /// Whether a restart now would restore all of it.
    pub whole: bool,
    /// Why a restart would not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Identity of its source, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Why its next run does not replace the served one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    /// Facts, by scope and kind.
    pub lists: Vec<StateListItem>,
    /// Ended scopes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
}

/// Collection: the facts of one kind in one scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateListItem {
    /// Scope.
    pub scope: String,
    /// Kind.
    pub kind: String,
    /// Number of facts.
    pub facts: u64,
    /// `Live`, `Stale: why`, `Syncing` or `Unknown`; empty for a directory that no server holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub freshness: String,
    /// Whether no run has read it: it is unknown, not empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_read: bool,
    /// Time since its source last confirmed it, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_millis_ago: Option<u64>,
}

/// Facts that ending a part removes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndItem {
    /// Registry.
    pub registry: String,
    /// Scope.
    pub scope: String,
    /// Kind.
    pub kind: String,
    /// Number of facts.
    pub facts: u64,
    /// Whether the source confirms them now: they then return with its next list.
    pub live: bool,
}

impl StateDocument {
    /// Returns the state of a directory without registries.
    #[must_use]
    pub fn of(directory: Option<&std::path::Path>) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "State".to_owned(),
            directory: directory.map(|path| path.display().to_string()).unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// Registry, one of its scopes, or one kind of facts in a scope: `REGISTRY[/SCOPE[/KIND]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Registry.
    pub registry: RegistryName,
    /// Scope; all scopes if absent.
    pub scope: Option<Scope>,
    /// Kind; all kinds if absent.
    pub kind: Option<CollectionKind>,
}

impl FromStr for Part {
    type Err = String;
    /// Parses `REGISTRY[/SCOPE[/KIND]]`. A scope may contain slashes: the last segment is a kind only if it
    /// names one.
    fn from_str(text: &str) -> Result<Self, String> {
        let (registry, rest) = text.split_once('/').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let registry = RegistryName::new(registry).map_err(|error| error.to_string())?;
        let Some(rest) = rest else { return Ok(Self { registry, scope: None, kind: None }) };
        let split = rest.rsplit_once('/').and_then(|(scope, last)| Some((scope, kind(last)?)));
        let (scope, kind) = split.map_or((rest, None), |(scope, kind)| (scope, Some(kind)));
        let scope = Scope::new(scope).map_err(|error| error.to_string())?;
        Ok(Self { registry, scope: Some(scope), kind })
    }
}

/// Name of a kind.
#[must_use]
pub fn kind_name(kind: CollectionKind) -> String {
    format!("{kind:?}")
}

/// Parses the name of a kind, in any case.
fn kind(name: &str) -> Option<CollectionKind> {
    CollectionKind::ALL.into_iter().find(|kind| kind_name(*kind).eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_parses_a_kind_and_keeps_slashes_in_scopes() {
        let read = |text: &str| {
            let Part { registry, scope, kind } = text.parse().unwrap();
            (registry.to_string(), scope.map(|scope| scope.to_string()), kind)
        };
        let scope = |text: &str| Some(text.to_owned());
        assert_eq!(read("east"), ("east".to_owned(), None, None));
        assert_eq!(read("east/dc2"), ("east".to_owned(), scope("dc2"), None));
        assert_eq!(read("east/dc2/web"), ("east".to_owned(), scope("dc2/web"), None));
        assert_eq!(read("east/dc2/groups"), ("east".to_owned(), scope("dc2"), Some(CollectionKind::Groups)));
        assert_eq!(
            read("files//etc/a/Services"),
            ("files".to_owned(), scope("/etc/a"), Some(CollectionKind::Services))
        );
        assert!("/x".parse::<Part>().is_err() && "east/".parse::<Part>().is_err());
    }
}
