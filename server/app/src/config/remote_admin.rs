//! Configuration of the remote admin listener, and the rules on its values.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{Config, TlsConfig, TokensConfig};

/// Most names of certificates in a list.
const MAX_NAMES: usize = 1_000;

/// Admin listener for other machines: the console and `/debug` over TLS, for operators that prove themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RemoteAdminConfig {
    /// Address.
    #[schemars(extend("format" = "ip-port"))]
    pub listen: SocketAddr,
    /// Certificates; files are read again when they change. With `clientCaFile`, certificates of clients count, if a name of
    /// one is listed in `viewers` or `operators`.
    pub tls: TlsConfig,
    /// Tokens of the config cluster. If set, a token counts whose user has the right to `get` (read) or `post` (change)
    /// `/debug/*`.
    pub tokens: Option<AdminTokensConfig>,
    /// Names of certificates, as URI or DNS name, whose owners may read.
    pub viewers: Vec<String>,
    /// Names of certificates, as URI or DNS name, whose owners may read and change.
    pub operators: Vec<String>,
}

impl Default for RemoteAdminConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 15017)),
            tls: TlsConfig::default(),
            tokens: None,
            viewers: Vec::new(),
            operators: Vec::new(),
        }
    }
}

/// Tokens of operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AdminTokensConfig {
    /// Audiences of which a token must have one. A token for the xDS listener has another, so one that leaks opens nothing here.
    pub audiences: Vec<String>,
}

impl Default for AdminTokensConfig {
    fn default() -> Self {
        Self { audiences: vec!["tributary-admin".to_owned()] }
    }
}

/// Returns what is wrong with the listener: fields with the reasons.
pub(super) fn faults(config: &Config) -> Vec<(String, String)> {
    let Some(remote) = &config.admin.remote else { return Vec::new() };
    let mut out = Vec::new();
    let mut wrong = |field: &str, why: &str| out.push((format!("admin.remote{field}"), why.to_owned()));
    if let Err(missing) = remote.tls.pair() {
        wrong(&format!(".tls.{missing}"), "is missing; the listener serves nothing without TLS");
    }
    let names = remote.viewers.len() + remote.operators.len();
    match (&remote.tls.client_ca_file, names) {
        (Some(_), 0) => {
            wrong(".tls.clientCaFile", "has no effect without names; list some in viewers or operators")
        }
        (None, 1..) => wrong(
            "",
            "lists names of certificates; set tls.clientCaFile, the authority of these certificates",
        ),
        (None, 0) if remote.tokens.is_none() => {
            wrong("", "admits no operator; set tokens, or tls.clientCaFile with viewers or operators");
        }
        _ => {}
    }
    if names > MAX_NAMES || remote.viewers.iter().chain(&remote.operators).any(|name| !is_name(name)) {
        wrong(".viewers", "and operators list at most 1,000 names of 1 to 2,048 visible characters");
    }
    if let Some(tokens) = &remote.tokens {
        let has_cluster = config.config_cluster().is_some_and(|registry| registry.kubernetes().is_some());
        if !has_cluster {
            wrong(".tokens", "needs a Kubernetes registry of the config cluster, which reviews them");
        }
        let shared = config.xds.tokens.as_ref().is_some_and(|xds: &TokensConfig| {
            xds.audiences.iter().any(|audience| tokens.audiences.contains(audience))
        });
        if shared {
            wrong(
                ".tokens.audiences",
                "has an audience of xds.tokens; tokens of workloads must not open the console",
            );
        }
    }
    out
}

fn is_name(name: &str) -> bool {
    (1..=2_048).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
}
