//! What is remembered of what was served, as people read it, and what ending a part of it would take away.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tributary_model::{CollectionKind, RegistryName, Scope};

use super::API_VERSION;

/// The memory of a server, or of a directory that no server holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateDocument {
    /// Always `tributary.dev/v1`.
    pub api_version: String,
    /// Always `State`.
    pub kind: String,
    /// The directory; empty where none is wanted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// Why nothing is remembered although it is wanted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fault: String,
    /// The journal, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalItem>,
    /// The registries, by name.
    pub registries: Vec<StateItem>,
    /// Files of journals that could not be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<String>,
}

/// The journal itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalItem {
    /// Whether a server writes it.
    pub open: bool,
    /// Length of the file.
    pub bytes: u64,
    /// Bytes of what is in it.
    pub live_bytes: u64,
    /// How often this server has written it.
    #[serde(default)]
    pub commits: u64,
    /// Changes that are not written yet.
    #[serde(default)]
    pub pending_keys: u64,
    /// How long ago it was written, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_commit_millis_ago: Option<u64>,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_error: String,
}

/// What is kept of one registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateItem {
    /// Its name.
    pub name: String,
    /// Whether a restart now would find all of it.
    pub whole: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The identity of its source, where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// What keeps its next run from replacing what is served.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    /// Its facts, by scope and kind.
    pub lists: Vec<StateListItem>,
    /// Scopes that have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
}

/// The facts of one kind in one scope.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateListItem {
    /// The scope.
    pub scope: String,
    /// The kind.
    pub kind: String,
    /// How many facts there are.
    pub facts: u64,
    /// `LiveBackend`, `Stale: why`, `Syncing` or `Unknown`; empty in a directory that no server holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub freshness: String,
    /// How long ago its source last confirmed it, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_millis_ago: Option<u64>,
}

/// Facts that ending a part takes away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndItem {
    /// The registry.
    pub registry: String,
    /// The scope.
    pub scope: String,
    /// The kind.
    pub kind: String,
    /// How many facts go.
    pub facts: u64,
    /// Whether the source confirms them now: then they only come back with its next list.
    pub live: bool,
}

impl StateDocument {
    /// Of a directory, without registries.
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

/// A registry, one of its scopes, or one kind of facts in a scope: `REGISTRY[/SCOPE[/KIND]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The registry.
    pub registry: RegistryName,
    /// The scope; all scopes without one.
    pub scope: Option<Scope>,
    /// The kind; all kinds without one.
    pub kind: Option<CollectionKind>,
}

impl FromStr for Part {
    type Err = String;
    /// Scopes may hold slashes: the kind is the last part alone, and only where it names one.
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

/// The name of a kind.
#[must_use]
pub fn kind_name(kind: CollectionKind) -> String {
    format!("{kind:?}")
}

/// The kind of a name, in any case.
fn kind(name: &str) -> Option<CollectionKind> {
    CollectionKind::ALL.into_iter().find(|kind| kind_name(*kind).eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_is_read_down_to_a_kind_and_scopes_keep_their_slashes() {
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
