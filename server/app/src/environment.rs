//! Environment of the program as a value: the variables of its process, read once at start, and the kinds of
//! registry that its binary adds. Tests pass maps.

use std::collections::BTreeMap;

use crate::extensions::Extensions;

/// Variables of the process. Names or values that are not UTF-8 are skipped: the server reads no such
/// variable.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    extensions: Extensions,
}

impl Environment {
    /// Reads the environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let text = |pair: (std::ffi::OsString, std::ffi::OsString)| {
            Some((pair.0.into_string().ok()?, pair.1.into_string().ok()?))
        };
        Self::of(std::env::vars_os().filter_map(text))
    }
    fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { variables: variables.into_iter().collect(), extensions: Extensions::default() }
    }
    /// Adds kinds of registry.
    #[must_use]
    pub fn with(self, extensions: Extensions) -> Self {
        Self { extensions, ..self }
    }
    /// Kinds of registry that the binary adds.
    #[must_use]
    pub const fn extensions(&self) -> &Extensions {
        &self.extensions
    }
    /// Returns a variable's value; an empty value counts as unset.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
    /// Returns the `CONSUL_*` variables, which every tool of Consul reads.
    #[must_use]
    pub fn consul(&self) -> BTreeMap<String, String> {
        self.with_prefix("CONSUL_")
            .map(|(rest, value)| (format!("CONSUL_{rest}"), value.to_owned()))
            .collect()
    }
    /// Returns the variables whose names start with `prefix`, ordered by name, without the prefix.
    pub fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.variables
            .iter()
            .filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self::of(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }
}
