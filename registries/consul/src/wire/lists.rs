//! The smaller answers: what doorbells, peers and tokens say.

use std::borrow::Cow;

use secrecy::SecretString;
use serde::Deserialize;

use super::{WireError, at_most, or_default, read};

/// The most checks of one datacenter that are taken.
pub const MAX_CHECKS: usize = 2_000_000;

/// A check as `/v1/health/state/any` lists it, without its output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct StateCheck<'a> {
    /// Its node.
    #[serde(borrow)]
    pub node: Cow<'a, str>,
    /// Its id.
    #[serde(rename = "CheckID", borrow)]
    pub check_id: Cow<'a, str>,
    /// Its outcome.
    #[serde(borrow)]
    pub status: Cow<'a, str>,
    /// The service that it checks; empty for the node.
    #[serde(borrow, default)]
    pub service_name: Cow<'a, str>,
    /// When it was registered.
    #[serde(default)]
    pub create_index: u64,
}

/// The answer of `/v1/health/state/any`.
pub fn checks<'a>(content_type: Option<&str>, body: &'a [u8]) -> Result<Vec<StateCheck<'a>>, WireError> {
    let checks: Vec<StateCheck<'a>> = read(content_type, body)?;
    at_most("checks", checks.len(), MAX_CHECKS)?;
    Ok(checks)
}

/// The answer of `/v1/catalog/datacenters`: the agent's own comes first.
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

/// The names of `/v1/partitions`, `/v1/namespaces` and `/v1/peerings`.
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

/// The names that a peer exports to us, from the answer of `/v1/peering/NAME`.
pub fn imported(content_type: Option<&str>, body: &[u8]) -> Result<Vec<String>, WireError> {
    let peering: Peering = read(content_type, body)?;
    at_most("services", peering.stream_status.imported_services.len(), super::MAX_ITEMS)?;
    Ok(peering.stream_status.imported_services)
}

/// Who a token is and what it may, from the answer of `/v1/acl/token/self`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TokenSelf {
    /// Who it is, without the secret.
    #[serde(rename = "AccessorID")]
    pub accessor: String,
    /// Its policies.
    #[serde(default, deserialize_with = "or_default")]
    pub policies: Vec<Link>,
    /// Its roles.
    #[serde(default, deserialize_with = "or_default")]
    pub roles: Vec<Link>,
}

/// A policy or role by its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Link {
    /// Its id.
    #[serde(rename = "ID", default, deserialize_with = "or_default")]
    pub id: String,
}

/// The answer of `/v1/acl/token/self`.
pub fn token_self(content_type: Option<&str>, body: &[u8]) -> Result<TokenSelf, WireError> {
    let mut token: TokenSelf = read(content_type, body)?;
    token.policies.sort();
    token.roles.sort();
    Ok(token)
}

/// What `/v1/acl/login` gives.
#[derive(Debug)]
pub struct Login {
    /// The token.
    pub secret: SecretString,
    /// When it expires, where it does.
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

/// The answer of `/v1/acl/login`.
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
    fn a_token_is_the_same_whatever_the_order_of_its_policies() {
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
    fn peers_and_logins_are_read() {
        let body = br#"{"Name":"east","StreamStatus":{"ImportedServices":["a","b"]}}"#;
        assert_eq!(imported(JSON, body).unwrap(), ["a", "b"]);
        assert!(imported(JSON, br#"{"StreamStatus":null}"#).unwrap().is_empty());
        let body = br#"{"SecretID":"hunter2","ExpirationTime":"2026-01-01T00:00:00Z"}"#;
        let login = login(JSON, body).unwrap();
        assert!(login.expires.is_some() && !format!("{login:?}").contains("hunter2"));
        assert_eq!(datacenters(JSON, br#"["dc1","dc2"]"#).unwrap(), ["dc1", "dc2"]);
    }
}
