//! A secret written in the configuration file. Errors about it and its debug form do not show it.
//!
//! Serialization writes the value, because layers of the configuration are merged in serialized form; the document of
//! `/debug/config` replaces the values of fields of this type.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use secrecy::{ExposeSecret, SecretString};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Secret text.
#[derive(Debug, Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Returns the secret.
    #[must_use]
    pub const fn get(&self) -> &SecretString {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(SecretString::from(text))
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl Eq for Secret {}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.0.expose_secret())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(SecretVisitor)
    }
}

/// Accepts text, and names no other value in its errors.
struct SecretVisitor;

impl SecretVisitor {
    fn refuse<E: Error>(self) -> Result<Secret, E> {
        Err(E::invalid_type(Unexpected::Other("a hidden value"), &self))
    }
}

impl Visitor<'_> for SecretVisitor {
    type Value = Secret;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret as text; write it in quotes")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret::from(text))
    }
    fn visit_bool<E: Error>(self, _: bool) -> Result<Secret, E> {
        self.refuse()
    }
    fn visit_i64<E: Error>(self, _: i64) -> Result<Secret, E> {
        self.refuse()
    }
    fn visit_u64<E: Error>(self, _: u64) -> Result<Secret, E> {
        self.refuse()
    }
    fn visit_f64<E: Error>(self, _: f64) -> Result<Secret, E> {
        self.refuse()
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"type": "string", "format": "password", "description": "Secret text; never shown."})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_kept_and_never_shown() {
        let secret: Secret = serde_json::from_str("\"hunter2\"").unwrap();
        assert_eq!(secret.get().expose_secret(), "hunter2");
        assert_eq!(serde_json::to_value(&secret).unwrap(), "hunter2");
        assert!(secret != Secret::from("hunter3") && !format!("{secret:?}").contains("hunter2"));
    }

    #[test]
    fn error_about_a_secret_does_not_repeat_it() {
        for text in ["720720", "-720720", "720720.5", "true"] {
            let error = serde_json::from_str::<Secret>(text).unwrap_err().to_string();
            assert!(!error.contains("720720") && error.contains("write it in quotes"), "{error}");
        }
    }
}
