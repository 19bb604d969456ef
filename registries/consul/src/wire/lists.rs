//! The smaller answers: lists of checks, datacenters, scopes and peers, and tokens.

use std::borrow::Cow;

use secrecy::SecretString;
use serde::Deserialize;

use super::{WireError, at_most, or_default, read};

/// Maximum checks of one datacenter.
pub const MAX_CHECKS: usize = 2_000_000;

/// Check as `/v1/health/state/any` lists it, without its output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct StateCheck<'a> {
    /// Node.
    #[serde(borrow)]
    pub node: Cow<'a, str>,
    /// Id.
    #[serde(rename = "CheckID", borrow)]
    pub check_id: Cow<'a, str>,
    /// Status.
    #[serde(borrow)]
    pub status: Cow<'a, str>,
    /// Service of the check; empty for a node check.
    #[serde(borrow, default)]
    pub service_name: Cow<'a, str>,
    /// Index of its registration.
    #[serde(default)]
    pub create_index: u64,
    /// Index of its last change.
    #[serde(default)]
    pub modify_index: u64,
}

/// Parses the answer of `/v1/health/state/any`.
pub fn checks<'a>(content_type: Option<&str>, body: &'a [u8]) -> Result<Vec<StateCheck<'a>>, WireError> {
    let checks: Vec<StateCheck<'a>> = read(content_type, body)?;
    at_most("checks", checks.len(), MAX_CHECKS)?;
    Ok(checks)
}

/// Parses the answer of `/v1/catalog/datacenters`; the agent's own comes first.
pub fn datacenters(content_type: Option<&str>, body: &[u8]) -> Result<Vec<String>, WireError> {
    let names: Vec<String> = read(content_type, body)?;
    at_most("datacenters", names.len(), 1_024)?;
    Ok(names)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Named {
    name: String,
}

/// Parses the names in an answer of `/v1/partitions`, `/v1/namespaces` or `/v1/peerings`.
pub fn named(content_type: Option<&str>, body: &[u8]) -> Result<Vec<String>, WireError> {
    let named: Vec<Named> = read(content_type, body)?;
    at_most("names", named.len(), 10_000)?;
    Ok(named.into_iter().map(|named| named.name).collect())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Peering {
    #[serde(default, deserialize_with = "or_default")]
    stream_status: Stream,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Stream {
    #[serde(default, deserialize_with = "or_default")]
    imported_services: Vec<String>,
}

/// Parses the names of the services that a peer exports to this Consul, from the answer of `/v1/peering/NAME`.
pub fn imported(content_type: Option<&str>, body: &[u8]) -> Result<Vec<String>, WireError> {
    let peering: Peering = read(content_type, body)?;
    at_most("services", peering.stream_status.imported_services.len(), super::MAX_ITEMS)?;
    Ok(peering.stream_status.imported_services)
}

/// Accessor id of the token that anonymous requests have.
pub const ANONYMOUS: &str = "00000000-0000-0000-0000-000000000002";

/// Identity and policies of a token, from the answer of `/v1/acl/token/self`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TokenSelf {
    /// Accessor id, which is not the secret.
    #[serde(rename = "AccessorID")]
    pub accessor: String,
    /// Policies.
    #[serde(default, deserialize_with = "or_default")]
    pub policies: Vec<Link>,
    /// Roles.
    #[serde(default, deserialize_with = "or_default")]
    pub roles: Vec<Link>,
    /// Time at which it expires, if it does.
    #[serde(default, rename = "ExpirationTime")]
    pub expires: Option<jiff::Timestamp>,
}

/// Policy or role by its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Link {
    /// Id.
    #[serde(rename = "ID", default, deserialize_with = "or_default")]
    pub id: String,
}

/// Parses the answer of `/v1/acl/token/self`.
pub fn token_self(content_type: Option<&str>, body: &[u8]) -> Result<TokenSelf, WireError> {
    let mut token: TokenSelf = read(content_type, body)?;
    token.policies.sort();
    token.roles.sort();
    Ok(token)
}

/// Result of `/v1/acl/login`.
#[derive(Debug)]
pub struct Login {
    /// Token.
    pub secret: SecretString,
    /// Expiry; `None` if it does not expire.
    pub expires: Option<jiff::Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LoginBody {
    #[serde(rename = "SecretID")]
    secret: Box<str>,
    #[serde(default)]
    expiration_time: Option<jiff::Timestamp>,
}

/// Parses the answer of `/v1/acl/login`.
pub fn login(content_type: Option<&str>, body: &[u8]) -> Result<Login, WireError> {
    let LoginBody { secret, expiration_time } = read(content_type, body)?;
    Ok(Login { secret: secret.into(), expires: expiration_time })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Option<&str> = Some("application/json");

    #[test]
    fn checks_are_read_without_their_output() {
        let body = br#"[{"Node":"n\u00e9","CheckID":"c","Status":"passing","Output":"x","ServiceName":"web","CreateIndex":7},
            {"Node":"n","CheckID":"serfHealth","Status":"critical","ServiceName":""}]"#;
        let checks = checks(JSON, body).unwrap();
        assert_eq!(
            (&*checks[0].node, &*checks[0].service_name, checks[0].create_index),
            ("n\u{e9}", "web", 7)
        );
        assert_eq!((&*checks[1].status, &*checks[1].service_name), ("critical", ""));
        assert!(super::checks(JSON, b"{}").is_err() && super::checks(Some("text/html"), b"[]").is_err());
    }

    #[test]
    fn token_hash_ignores_policy_order() {
        let token = |policies: &str| {
            token_self(
                JSON,
                format!(r#"{{"AccessorID":"a","SecretID":"hunter2","Policies":{policies}}}"#).as_bytes(),
            )
            .unwrap()
        };
        let (one, two) = (token(r#"[{"ID":"p"},{"ID":"q"}]"#), token(r#"[{"ID":"q"},{"ID":"p"}]"#));
        assert_eq!(one, two);
        assert_ne!(one, token("null"));
        assert!(!format!("{one:?}").contains("hunter2"));
    }

    #[test]
    fn peers_and_logins_are_parsed() {
        let body = br#"{"Name":"east","StreamStatus":{"ImportedServices":["a","b"]}}"#;
        assert_eq!(imported(JSON, body).unwrap(), ["a", "b"]);
        assert!(imported(JSON, br#"{"StreamStatus":null}"#).unwrap().is_empty());
        let body = br#"{"SecretID":"hunter2","ExpirationTime":"2026-01-01T00:00:00Z"}"#;
        let login = login(JSON, body).unwrap();
        assert!(login.expires.is_some() && !format!("{login:?}").contains("hunter2"));
        assert_eq!(datacenters(JSON, br#"["dc1","dc2"]"#).unwrap(), ["dc1", "dc2"]);
    }
}
