//! Process environment as a value: read once at start; tests pass maps.

use std::collections::BTreeMap;

/// Variables of the process. Names or values that are not UTF-8 are skipped: the server reads no such
/// variable.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Reads the environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let text = |pair: (std::ffi::OsString, std::ffi::OsString)| {
            Some((pair.0.into_string().ok()?, pair.1.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }
    /// Returns a variable's value; an empty value counts as unset.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
    /// Returns the variables whose names start with `prefix`, ordered by name, without the prefix.
    pub fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}
