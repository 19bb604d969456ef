//! The fields of a traffic policy. Fields that are not served and decide what a client reaches or how it identifies
//! itself are refused; other fields that are not served are kept by path and shown.

use tributary_model::{Keepalive, OutlierDetection, TlsSettings};

use super::fields::Fields;
use super::load_balancer;
use crate::document::traffic_policy::{
    ClientTls, ConnectionPool, HttpPool, Outliers, PortPolicy, TcpPool, TlsMode, TrafficPolicy,
};
use crate::document::{Located, Text};
use crate::read::fault::Faults;
use crate::read::node::Node;

/// Whether a policy turns HTTP/1.1 into HTTP/2. The mesh's default never does.
const UPGRADE: [(&str, bool); 3] = [("DEFAULT", false), ("DO_NOT_UPGRADE", false), ("UPGRADE", true)];
const TLS: [(&str, TlsMode); 4] = [
    ("DISABLE", TlsMode::Disable),
    ("SIMPLE", TlsMode::Simple),
    ("MUTUAL", TlsMode::Mutual),
    ("ISTIO_MUTUAL", TlsMode::IstioMutual),
];
/// Fields of TLS without an effect in plain text, and without a client certificate.
const WITHOUT_TLS: [&str; 7] = [
    "clientCertificate",
    "privateKey",
    "caCertificates",
    "caCrl",
    "subjectAltNames",
    "sni",
    "insecureSkipVerify",
];

/// Fields of `tls` that have no effect where the mesh has the certificates.
const OF_FILES: [&str; 5] =
    ["clientCertificate", "privateKey", "caCertificates", "caCrl", "insecureSkipVerify"];

/// Decodes `trafficPolicy`.
pub(super) fn decode(
    fields: &mut Fields<'_>,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) -> Option<TrafficPolicy> {
    let (path, node) = fields.get("trafficPolicy")?;
    let mut inner = Fields::open(node, path, faults)?;
    let before = ignored.len();
    ["tunnel", "proxyProtocol", "retryBudget"].into_iter().for_each(|name| inner.ignored(name, ignored));
    let has_ignored = ignored.len() > before;
    let mut policy = parts(&mut inner, ignored, faults);
    policy.has_ignored = has_ignored;
    let ports = inner.list("portLevelSettings", faults).into_iter();
    policy.ports = ports.map(|(path, node)| port(node, path, ignored, faults)).collect();
    later_ports(&policy.ports, &inner.path("portLevelSettings"), ignored);
    inner.finish(faults);
    Some(policy)
}

/// Of several settings of one port the first count, as in Istio.
fn later_ports(ports: &[PortPolicy], path: &str, ignored: &mut Vec<Text>) {
    let mut seen = std::collections::BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        if port.number.is_some_and(|number| !seen.insert(number.value)) {
            ignored.push(Located::new(port.policy.at.at, format!("{path}[{i}]").as_str().into()));
        }
    }
}

fn port(node: &Node, path: String, ignored: &mut Vec<Text>, faults: &mut Faults) -> PortPolicy {
    let Some(mut fields) = Fields::open(node, path, faults) else {
        let at = Located::new(node.at, ());
        return PortPolicy { number: None, policy: TrafficPolicy { at, ..TrafficPolicy::default() } };
    };
    let number = fields.get("port").and_then(|(path, node)| {
        let mut port = Fields::open(node, path, faults)?;
        let number = port.int("number", faults);
        port.finish(faults);
        number
    });
    let policy = parts(&mut fields, ignored, faults);
    fields.finish(faults);
    PortPolicy { number, policy }
}

/// Decodes what a policy and the settings of a port have in common.
fn parts(fields: &mut Fields<'_>, ignored: &mut Vec<Text>, faults: &mut Faults) -> TrafficPolicy {
    TrafficPolicy {
        at: Located::new(fields.at(), ()),
        balancer: load_balancer::decode(fields, ignored, faults),
        pool: pool(fields, ignored, faults),
        outliers: outliers(fields, ignored, faults),
        tls: tls(fields, ignored, faults),
        ..TrafficPolicy::default()
    }
}

fn pool(fields: &mut Fields<'_>, ignored: &mut Vec<Text>, faults: &mut Faults) -> Option<ConnectionPool> {
    let (path, node) = fields.get("connectionPool")?;
    let mut inner = Fields::open(node, path, faults)?;
    let tcp = inner.get("tcp").and_then(|(path, node)| tcp(node, path, faults));
    let http = inner.get("http").and_then(|(path, node)| http(node, path, ignored, faults));
    inner.finish(faults);
    Some(ConnectionPool { at: Located::new(node.at, ()), tcp, http })
}

fn tcp(node: &Node, path: String, faults: &mut Faults) -> Option<TcpPool> {
    let mut fields = Fields::open(node, path, faults)?;
    let pool = TcpPool {
        max_connections: fields.count("maxConnections", faults).map(|number| number.value),
        connect_timeout: fields.duration("connectTimeout", faults).map(|duration| duration.value),
        keepalive: fields.get("tcpKeepalive").and_then(|(path, node)| keepalive(node, path, faults)),
        max_duration: fields.duration("maxConnectionDuration", faults).map(|duration| duration.value),
        idle_timeout: fields.duration_or_zero("idleTimeout", faults),
    };
    fields.finish(faults);
    Some(pool)
}

/// A number of probes of 0 is unset.
fn keepalive(node: &Node, path: String, faults: &mut Faults) -> Option<Keepalive> {
    let mut fields = Fields::open(node, path, faults)?;
    let probes = fields.u32_in("probes", 0..=u32::MAX.into(), faults);
    let keepalive = Keepalive {
        probes: probes.map(|number| number.value).filter(|probes| *probes > 0),
        time: fields.duration("time", faults).map(|duration| duration.value),
        interval: fields.duration("interval", faults).map(|duration| duration.value),
    };
    fields.finish(faults);
    Some(keepalive)
}

fn http(node: &Node, path: String, ignored: &mut Vec<Text>, faults: &mut Faults) -> Option<HttpPool> {
    let mut fields = Fields::open(node, path, faults)?;
    let mut count = |name| fields.count(name, faults).map(|number| number.value);
    let pool = HttpPool {
        max_pending: count("http1MaxPendingRequests"),
        max_requests: count("http2MaxRequests"),
        max_requests_per_connection: count("maxRequestsPerConnection"),
        max_retries: count("maxRetries"),
        max_streams: count("maxConcurrentStreams"),
        idle_timeout: fields.duration("idleTimeout", faults).map(|duration| duration.value),
        upgrades: fields.choice("h2UpgradePolicy", &UPGRADE, faults).is_some_and(|choice| choice.value),
        keeps_version: fields.flag("useClientProtocol", faults),
    };
    fields.ignored("http2KeepAlive", ignored);
    fields.finish(faults);
    Some(pool)
}

/// Istio no longer serves `consecutiveErrors`.
fn outliers(fields: &mut Fields<'_>, ignored: &mut Vec<Text>, faults: &mut Faults) -> Option<Outliers> {
    let (path, node) = fields.get("outlierDetection")?;
    let mut inner = Fields::open(node, path, faults)?;
    inner.ignored("consecutiveErrors", ignored);
    inner.ignored("outlierDetectionHttpErrorCodes", ignored);
    let mut errors = |name| inner.u32_in(name, 0..=u32::MAX.into(), faults);
    let server_errors = errors("consecutive5xxErrors").map(|number| number.value);
    let gateway_errors = errors("consecutiveGatewayErrors").map(|number| number.value);
    let local_failures = errors("consecutiveLocalOriginFailures");
    let max_ejected = inner.u32_in("maxEjectionPercent", 0..=100, faults).map(|number| number.value);
    let min_healthy = inner.u32_in("minHealthPercent", 0..=100, faults).map(|number| number.value);
    let settings = OutlierDetection {
        server_errors,
        gateway_errors,
        local_failures: None,
        splits_local: inner.flag("splitExternalLocalOriginErrors", faults).is_some_and(|flag| flag.value),
        interval: inner.duration("interval", faults).map(|duration| duration.value),
        ejection_time: inner.duration("baseEjectionTime", faults).map(|duration| duration.value),
        max_ejected: max_ejected.filter(|percent| *percent > 0),
        min_healthy: min_healthy.unwrap_or_default(),
    };
    inner.finish(faults);
    Some(Outliers { settings, local_failures })
}

fn tls(fields: &mut Fields<'_>, ignored: &mut Vec<Text>, faults: &mut Faults) -> Option<ClientTls> {
    let (path, node) = fields.get("tls")?;
    let mut inner = Fields::open(node, path, faults)?;
    let mode = inner.choice("mode", &TLS, faults);
    let fix = "name files of the client with clientCertificate, privateKey and caCertificates";
    inner.not_served("credentialName", fix, faults);
    let text = |inner: &mut Fields<'_>, name, faults: &mut Faults| {
        inner.text(name, faults).filter(|text| !text.value.is_empty())
    };
    let insecure = inner.flag("insecureSkipVerify", faults);
    let names = inner.texts("subjectAltNames", faults);
    let tls = ClientTls {
        at: Located::new(node.at, ()),
        mode: mode.map(|mode| mode.value).unwrap_or_default(),
        certificate: text(&mut inner, "clientCertificate", faults),
        key: text(&mut inner, "privateKey", faults),
        settings: TlsSettings {
            authorities: text(&mut inner, "caCertificates", faults).map(|text| text.value),
            revoked: text(&mut inner, "caCrl", faults).map(|text| text.value),
            names: names.into_iter().map(|name| name.value).collect(),
            sni: text(&mut inner, "sni", faults).map(|text| text.value),
            insecure: insecure.is_some_and(|flag| flag.value),
        },
        insecure_at: Located::new(insecure.map_or(node.at, |flag| flag.at), ()),
    };
    let without_effect = match tls.mode {
        TlsMode::Disable => &WITHOUT_TLS[..],
        TlsMode::Simple => &WITHOUT_TLS[..2],
        TlsMode::Mutual => &[],
        TlsMode::IstioMutual => &OF_FILES[..],
    };
    without_effect.iter().for_each(|name| inner.ignored(name, ignored));
    inner.finish(faults);
    Some(tls)
}
