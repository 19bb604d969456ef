//! The mesh configuration: which fields Tributary reads is decided by its own reader, [`Mesh::read`]; the table gives the reasons for the others.

use serde_json::Value;
use tributary_kubernetes::mesh::{Fault, Mesh};

use super::{Item, Outcome, Row, rows};

/// Texts of the mesh configuration, as in the ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MeshTexts {
    /// Key `mesh`.
    pub mesh: Option<String>,
    /// Key `meshNetworks`.
    pub networks: Option<String>,
}

/// Key of the networks in the ConfigMap.
const NETWORKS: &str = "meshNetworks";

rows! {
    /// Fields that are not read, by their beginning; the longest beginning of a name counts.
    TABLE:
    "extensionProviders" Refused [] "extensions are not served: what a policy with CUSTOM matches is refused, and telemetry is not sent to providers";
    "defaultProviders" Refused [] "extensions are not served: see the task `telemetry`";
    "outboundTrafficPolicy.mode" Refused [] "ALLOW_ANY_DYNAMIC_DNS is served as ALLOW_ANY: connections to unknown hosts go to the address that the client names";
    "defaultVirtualServiceExportTo" Refused [] "without `exportTo` a VirtualService is visible everywhere";
    "defaultDestinationRuleExportTo" Refused [] "without `exportTo` a DestinationRule is visible everywhere";
    "ingressService" NoEffectNeeded [] "Ingresses are not served; see the task `gateways`";
    "ingressSelector" NoEffectNeeded [] "Ingresses are not served; see the task `gateways`";
    "ingressClass" NoEffectNeeded [] "Ingresses are not served; see the task `gateways`";
    "ingressControllerMode" NoEffectNeeded [] "Ingresses are not served; see the task `gateways`";
    "ca" NoEffectNeeded [] "no certificates are signed; see the task `ca`";
    "caCertificates" NoEffectNeeded [] "no certificates are signed; see the task `ca`";
    "certificates" NoEffectNeeded [] "no certificates are signed; see the task `ca`";
    "configSources" Refused [] "`registries` lists the sources: clusters, files and Consul";
    "dnsRefreshRate" Refused [] "Envoy's own default; an EnvoyFilter can set it";
    "enableEnvoyAccessLogService" Refused [] "the access log goes to a file alone";
    "disableEnvoyListenerLog" Refused [] "connections without a listener are logged as all others are";
    "enablePrometheusMerge" NoEffectNeeded [] "read by the injector and the agent";
    "h2UpgradePolicy" Refused [] "`h2UpgradePolicy` of a DestinationRule is read";
    "inboundClusterStatName" Refused [] "statistics have the names of xDS clusters";
    "outboundClusterStatName" Refused [] "statistics have the names of xDS clusters";
    "inboundTrafficPolicy" Refused [] "connections to ports that are not declared are passed on";
    "meshMTLS" Refused [] "TLS between sidecars has Istio's defaults";
    "tlsDefaults" Refused [] "TLS to other hosts has Envoy's defaults, and what a DestinationRule sets";
    "protocolDetectionTimeout" Refused [] "protocols are detected without a limit of time";
    "proxyHttpPort" Refused [] "no HTTP proxy is served";
    "proxyListenPort" Refused [] "the ports are those of Istio's defaults";
    "proxyInboundListenPort" Refused [] "the ports are those of Istio's defaults";
    "tcpKeepalive" Refused [] "`tcpKeepalive` of a DestinationRule is read";
    "verifyCertificateAtClient" Refused [] "`caCertificates` of a DestinationRule is read";
    "thriftConfig" NoEffectNeeded [] "removed from Istio";
    "defaultHttpRetryPolicy" Refused [] "the field has no effect";
    "localityLbSetting" Refused [] "the field has no effect";
    "serviceEntryVisibility" Refused [] "it binds Envoy and gRPC with `applyToSidecars` only";
    "defaultConfig" NoEffectNeeded [] "read by the injector and the agent, for the bootstrap of a proxy";
    "defaultConfig.tracing" Refused [] "see `settings.tracing` for the fields that are read";
    "defaultConfig.proxyMetadata" NoEffectNeeded [] "read by the agent; see the task `dns` for `ISTIO_META_DNS_CAPTURE`";
    "defaultConfig.gatewayTopology" Refused [] "numbers of trusted proxies are not set; an EnvoyFilter can set them";
    "defaultConfig.proxyHeaders" Refused [] "headers of Envoy are those of its defaults; an EnvoyFilter can set them";
    "defaultConfig.privateKeyProvider" Refused [] "keys come from the agent";
}

/// Returns a line for each field that is set.
#[must_use]
pub fn check(texts: &MeshTexts) -> Vec<Item> {
    let read = Mesh::read(texts.mesh.as_deref(), texts.networks.as_deref());
    let broken = parse(texts.mesh.as_deref()).is_err();
    let mut out: Vec<Item> = read.faults.iter().map(|fault| not_valid(fault, broken)).collect();
    let bad = |name: &str| read.faults.iter().any(|fault| fault.field.as_str() == name);
    let tree = tree(texts.mesh.as_deref());
    for (name, value) in tree.as_object().into_iter().flatten() {
        let is_whole = |ignored: &str| ignored == name;
        if !bad(name) && !read.ignored.iter().any(|ignored| is_whole(ignored)) {
            out.push(item(name, short(value), Outcome::Honoured, "the same field is read".to_owned()));
        }
    }
    if texts.networks.as_deref().is_some_and(|text| !text.trim().is_empty()) && !bad(NETWORKS) {
        out.push(item(NETWORKS, String::new(), Outcome::Honoured, "the same key is read".to_owned()));
    }
    out.extend(read.ignored.iter().map(|name| not_read(name, &tree)));
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out.dedup();
    out
}

/// A text that cannot be read is one fault, which the reader has for each field.
fn not_valid(fault: &Fault, broken: bool) -> Item {
    let name = if broken && fault.field.as_str() != NETWORKS { "mesh" } else { fault.field.as_str() };
    item(name, String::new(), Outcome::Refused, format!("it is not valid: {}", fault.why))
}

fn not_read(ignored: &str, tree: &Value) -> Item {
    let name = ignored.split(' ').next().unwrap_or(ignored);
    let value = name.split('.').try_fold(tree, |at, part| at.get(part)).map(short).unwrap_or_default();
    let Some(row) = find(name) else {
        return item(name, value, Outcome::Unknown, "the field has no effect".to_owned());
    };
    let outcome = row.judge(Some(&value));
    item(name, value, outcome, row.here.to_owned())
}

fn item(name: &str, value: String, outcome: Outcome, here: String) -> Item {
    Item::new("mesh", name, value, outcome, here)
}

/// Returns the row with the longest beginning of a field's path.
#[must_use]
pub fn find(name: &str) -> Option<&'static Row> {
    let begins =
        |row: &&Row| name.strip_prefix(row.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    TABLE.iter().filter(begins).max_by_key(|row| row.name.len())
}

/// Returns the document, or nothing if it cannot be read: its fault is an item already.
pub(super) fn tree(text: Option<&str>) -> Value {
    parse(text).unwrap_or_default()
}

fn parse(text: Option<&str>) -> Result<Value, serde_saphyr::Error> {
    // As the reader does: `OFF` is a text.
    let options = serde_saphyr::options! { strict_booleans: true };
    text.map_or(Ok(Value::Null), |text| serde_saphyr::from_str_with_options(text, options))
}

/// Returns a value for people: long ones are not repeated.
fn short(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() <= 40 => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => format!("{} items", items.len()),
        Value::Object(fields) => format!("{} fields", fields.len()),
        _ => "set".to_owned(),
    }
}
