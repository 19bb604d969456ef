//! How a kubeconfig authenticates: token, client certificate, password, impersonation, and when the first of them expires.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::Value as Json;
use tributary_registry_api::Credential;
use zeroize::Zeroizing;

use super::fields::{Fields, USER};
use super::select::Part;
use super::{Validity, pem};
use crate::allowed::Allowed;
use crate::refusal::Faults;
use crate::yaml::Node;

/// Certificate of a client with its key, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Certificate, then those of its issuers.
    pub chain: Credential,
    /// Private key.
    pub key: Credential,
}

/// User and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Password {
    /// Name of the user.
    pub user: Credential,
    /// Password.
    pub password: Credential,
}

/// User as whom requests act.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Impersonation {
    /// Name of the user.
    pub user: Option<String>,
    /// UID of the user.
    pub uid: Option<String>,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// Further attributes of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl std::fmt::Debug for Impersonation {
    /// Shows no name: each is a value of the kubeconfig.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Impersonation(not shown)")
    }
}

/// Credentials of one user; at least one of the first three is set.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) token: Option<Credential>,
    pub(super) certificate: Option<ClientCertificate>,
    pub(super) password: Option<Password>,
    pub(super) acts_as: Option<Impersonation>,
    /// Of the credential that expires first.
    pub(super) validity: Option<Validity>,
}

/// Fields that authenticate, or would if they were not refused.
const CREDENTIALS: [&str; 10] = [
    "token",
    "client-certificate-data",
    "client-key-data",
    "username",
    "password",
    "tokenFile",
    "client-certificate",
    "client-key",
    "exec",
    "auth-provider",
];

/// Reads the user.
pub(super) fn read(part: &Part<'_>, allowed: &Allowed, faults: &mut Faults) -> Option<Login> {
    let fields = Fields::read(&part.path, part.node, USER, allowed, faults);
    let token = token(&fields, faults);
    let certificate = certificate(&fields, faults);
    let password = password(&fields, faults);
    if !fields.has_any(&CREDENTIALS) {
        faults.add(fields.invalid("token", "is missing, and so is a client certificate", "add one of them"));
    }
    let ends = [token.as_ref().and_then(|(_, ends)| *ends), certificate.as_ref().and_then(|(_, ends)| *ends)];
    Some(Login {
        token: token.map(|(token, _)| token),
        certificate: certificate.map(|(certificate, _)| certificate),
        password,
        acts_as: acts_as(&fields, faults),
        validity: ends.into_iter().flatten().min_by_key(|validity| validity.until),
    })
}

fn token(fields: &Fields<'_>, faults: &mut Faults) -> Option<(Credential, Option<Validity>)> {
    let token = fields.text("token", faults)?;
    if !token.bytes().all(|b| b.is_ascii_graphic()) {
        faults.add(fields.invalid(
            "token",
            "has characters that no token has",
            "write the token alone, on one line",
        ));
        return None;
    }
    Some((credential(token), validity(token)))
}

fn credential(text: &str) -> Credential {
    Credential::new(text.as_bytes().to_vec())
}

/// Returns the validity of a JWT; `None` for any other token, and for one that does not expire. The claims are not verified.
fn validity(token: &str) -> Option<Validity> {
    let claims = claims(token)?;
    Some(Validity {
        from: time(&claims, "iat").or_else(|| time(&claims, "nbf")),
        until: time(&claims, "exp")?,
    })
}

/// Returns the validity of a token and of a certificate in PEM, whichever ends first.
pub(super) fn earliest(token: Option<&Credential>, certificate: Option<&Credential>) -> Option<Validity> {
    let token = token.and_then(|token| validity(std::str::from_utf8(token.expose()).ok()?));
    let certificate = certificate.and_then(|certificate| pem::validity(certificate.expose()));
    [token, certificate].into_iter().flatten().min_by_key(|validity| validity.until)
}

/// Returns namespace and name of the service account of a JWT. The claims are not verified.
pub(super) fn account(token: &Credential) -> Option<(String, String)> {
    let claims = claims(std::str::from_utf8(token.expose()).ok()?)?;
    let subject = claims.get("sub")?.as_str()?.strip_prefix("system:serviceaccount:")?;
    let (namespace, name) = subject.split_once(':')?;
    Some((namespace.to_owned(), name.to_owned()))
}

/// Returns the claims of a JWT.
fn claims(token: &str) -> Option<Json> {
    let mut parts = token.split('.');
    let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    let claims = Zeroizing::new(URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?);
    serde_json::from_slice(&claims).ok()
}

/// Returns a claim that is a time.
fn time(claims: &Json, name: &str) -> Option<Timestamp> {
    let seconds = claims.get(name)?;
    // a numeric date may have a fraction, which `as` cuts off; times out of range saturate and are not valid
    #[allow(clippy::cast_possible_truncation, reason = "saturates")]
    let seconds = seconds.as_i64().or_else(|| seconds.as_f64().map(|seconds| seconds as i64))?;
    Timestamp::from_second(seconds).ok()
}

fn certificate(fields: &Fields<'_>, faults: &mut Faults) -> Option<(ClientCertificate, Option<Validity>)> {
    const CHAIN: &str = "client-certificate-data";
    const KEY: &str = "client-key-data";
    let (chain, key) = (fields.text(CHAIN, faults), fields.text(KEY, faults));
    for (own, path, other) in [(CHAIN, "client-certificate", KEY), (KEY, "client-key", CHAIN)] {
        if !fields.has_any(&[own, path]) && fields.get(other).is_some() {
            faults.add(fields.invalid(own, "is missing", "add it: a client certificate needs its key"));
        }
    }
    let base64 = "write the base64 of a PEM file";
    let chain = chain
        .map(pem::certificates)
        .transpose()
        .map_err(|why| faults.add(fields.invalid(CHAIN, why, base64)));
    let key = key.map(pem::key).transpose().map_err(|why| faults.add(fields.invalid(KEY, why, base64)));
    let (chain, key) = (chain.ok().flatten()?, key.ok().flatten()?);
    Some((ClientCertificate { chain: chain.pem, key }, chain.validity))
}

fn password(fields: &Fields<'_>, faults: &mut Faults) -> Option<Password> {
    let (user, password) = (fields.text("username", faults), fields.text("password", faults));
    for (own, other) in [("username", "password"), ("password", "username")] {
        if fields.get(own).is_none() && fields.get(other).is_some() {
            faults.add(fields.invalid(own, "is missing", "add it: a user needs a password"));
        }
    }
    Some(Password { user: credential(user?), password: credential(password?) })
}

fn acts_as(fields: &Fields<'_>, faults: &mut Faults) -> Option<Impersonation> {
    let user = fields.text("as", faults).map(str::to_owned);
    let uid = fields.text("as-uid", faults).map(str::to_owned);
    let groups = fields.get("as-groups").map(|node| texts(node).ok_or("as-groups"));
    let extra = fields.get("as-user-extra").map(|node| extra(node).ok_or("as-user-extra"));
    let mut report =
        |name| faults.add(fields.invalid(name, "has another form", "write texts, as kubectl does"));
    let groups = groups.transpose().map_err(&mut report).ok()?;
    let extra = extra.transpose().map_err(&mut report).ok()?;
    let found =
        Impersonation { user, uid, groups: groups.unwrap_or_default(), extra: extra.unwrap_or_default() };
    if found == Impersonation::default() {
        return None;
    }
    if found.user.is_none() {
        faults.add(fields.invalid("as", "is missing", "name the user beside its groups, UID and attributes"));
    }
    Some(found)
}

fn texts(node: &Node) -> Option<Vec<String>> {
    node.value.items()?.iter().map(|item| item.value.text().map(str::to_owned)).collect()
}

fn extra(node: &Node) -> Option<BTreeMap<String, Vec<String>>> {
    node.value.entries()?.iter().map(|(key, values)| Some((key.value.clone(), texts(values)?))).collect()
}
