//! Fields of a registry of kind `file` in the configuration file.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_registry_api::InvalidField;

/// Fields of a registry of files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FileFields {
    /// Directory of YAML documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

impl FileFields {
    /// Checks that a directory is named; it need not exist. Returns every error.
    #[must_use]
    pub fn check(&self) -> Vec<InvalidField> {
        let why = match &self.path {
            None => "a file registry needs a directory; set `path`",
            Some(path) if path.as_os_str().is_empty() => "is empty; name a directory",
            Some(_) => return Vec::new(),
        };
        vec![InvalidField::new("path", why)]
    }
}
