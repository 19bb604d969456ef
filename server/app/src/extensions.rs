//! Kinds of registry that a binary adds to those of Tributary.
//!
//! `run` puts them into the [`Environment`](crate::environment::Environment). `check` builds each registry of
//! such a kind once, so that a mistake in its fields ends the start or the reload; the factories build it again
//! to run it.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tributary_model::{ClusterId, RegistryName};
use tributary_registry_api::{InvalidField, RegistryFactory};

use crate::config::RegistryKind;
use crate::config::errors::plain;
use crate::exit::CommandError;

/// Kinds of registry that a binary adds, each with the function that builds its factory.
#[derive(Clone, Default)]
pub struct Extensions(Vec<(&'static str, Arc<Build>)>);

type Build = dyn Fn(RegistryName, ClusterId, &Map<String, Value>) -> Result<Arc<dyn RegistryFactory>, InvalidField>
    + Send
    + Sync;

impl Extensions {
    /// Adds a kind. `build` receives the name and the cluster of a registry, and its own fields: those beside
    /// `kind`, `name`, `clusterId` and `staleness`. It opens no connection.
    #[must_use]
    pub fn registry<T, F>(
        mut self,
        kind: &'static str,
        build: impl Fn(RegistryName, ClusterId, T) -> Result<F, InvalidField> + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned,
        F: RegistryFactory + 'static,
    {
        let build = move |name, cluster, fields: &Map<String, Value>| {
            let factory: Arc<dyn RegistryFactory> = Arc::new(build(name, cluster, read(fields)?)?);
            Ok(factory)
        };
        self.0.push((kind, Arc::new(build)));
        self
    }
    /// Names of the kinds, in the order of their registration.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(kind, _)| *kind)
    }
    /// Checks that every kind has a name of its own.
    pub fn check(&self) -> Result<(), CommandError> {
        for (i, kind) in self.kinds().enumerate() {
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let why = if kind.is_empty() || !kind.chars().all(is_name) {
                "is not made of lowercase letters, digits and `-`"
            } else if RegistryKind::ALL.iter().any(|own| own.as_str() == kind) {
                "is a kind of Tributary's own"
            } else if self.kinds().take(i).any(|other| other == kind) {
                "is registered twice"
            } else {
                continue;
            };
            return Err(CommandError::plain(format!("registry kind `{kind}` {why}; choose another name")));
        }
        Ok(())
    }
    /// Builds the factory of a registry; `None` if its kind is not registered.
    pub(crate) fn build(
        &self,
        kind: &str,
        (name, cluster): (RegistryName, ClusterId),
        fields: &Map<String, Value>,
    ) -> Option<Result<Arc<dyn RegistryFactory>, InvalidField>> {
        let (_, build) = self.0.iter().find(|(known, _)| *known == kind)?;
        Some(build(name.clone(), cluster, fields).and_then(|factory| {
            let built = factory.spec().id.name.clone();
            let why = || InvalidField::new("name", format!("the kind's factory is named `{built}`"));
            if built == name { Ok(factory) } else { Err(why()) }
        }))
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kinds()).finish()
    }
}

/// Reads the fields of a registry; an error names the field.
fn read<T: DeserializeOwned>(fields: &Map<String, Value>) -> Result<T, InvalidField> {
    serde_path_to_error::deserialize(Value::Object(fields.clone())).map_err(|error| {
        let field = error.path().to_string();
        InvalidField::new(if field == "." { "" } else { &field }, plain(&error.inner().to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_registry_api::{Registry, RegistryError, RegistrySpec};

    struct NoFactory;

    impl RegistryFactory for NoFactory {
        fn spec(&self) -> RegistrySpec {
            unreachable!("never built")
        }
        fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
            unreachable!("never built")
        }
    }

    fn mk(kinds: &[&'static str]) -> Extensions {
        let add = |all: Extensions, kind: &&'static str| {
            all.registry(kind, |_, _, _: Value| -> Result<NoFactory, _> { Err(InvalidField::new("", "")) })
        };
        kinds.iter().fold(Extensions::default(), add)
    }

    #[test]
    fn kind_needs_a_name_of_its_own() {
        assert!(mk(&["listing", "nacos-2"]).check().is_ok());
        for (kinds, why) in [
            (&["consul"][..], "is a kind of Tributary's own"),
            (&["listing", "listing"], "is registered twice"),
            (&["List"], "is not made of lowercase letters"),
            (&[""], "is not made of lowercase letters"),
        ] {
            let error = mk(kinds).check().unwrap_err().message;
            assert!(error.contains(why), "{error}");
        }
    }
}
