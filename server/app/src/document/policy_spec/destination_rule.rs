//! Specs of DestinationRules.

use serde_json::{Map, Value, json};
use tributary_model::{
    ClientTls, ConnectionPool, DestinationRule, ExportTo, Labels, Namespace, OutlierDetection, PoolHttp,
    PortPolicies, SubsetRule, TlsSettings, TrafficPolicy, Visibility,
};

use super::{add, add_map, load_balancer, seconds};

/// Returns the spec of a DestinationRule.
pub(super) fn spec(rule: &DestinationRule) -> Value {
    let mut out = Map::new();
    add(&mut out, "host", Some(json!(rule.host.as_str())));
    if !rule.selector.is_empty() {
        out.insert("workloadSelector".into(), json!({"matchLabels": labels(&rule.selector)}));
    }
    add_map(&mut out, "trafficPolicy", policies(&rule.policies));
    let subsets: Vec<Value> = rule.subsets.iter().map(subset).collect();
    add(&mut out, "subsets", (!subsets.is_empty()).then(|| subsets.into()));
    add(&mut out, "exportTo", export(&rule.export));
    Value::Object(out)
}

fn labels(labels: &Labels) -> Map<String, Value> {
    labels.pairs().map(|(label, value)| (label.to_string(), json!(**value))).collect()
}

/// Returns the namespaces to which a policy is exported.
pub(super) fn export(export: &ExportTo) -> Option<Value> {
    let ExportTo::Set(visibility) = export else { return None };
    Some(match visibility {
        Visibility::Public => json!(["*"]),
        Visibility::Own => json!(["."]),
        Visibility::Hidden => json!(["~"]),
        Visibility::Namespaces(list) => list.iter().map(Namespace::as_str).collect(),
    })
}

fn subset(subset: &SubsetRule) -> Value {
    let mut out = Map::new();
    add(&mut out, "name", Some(json!(subset.name.as_str())));
    add_map(&mut out, "labels", labels(&subset.labels));
    add_map(&mut out, "trafficPolicy", policies(&subset.policies));
    Value::Object(out)
}

fn policies(policies: &PortPolicies) -> Map<String, Value> {
    let mut out = policy(&policies.all);
    let ports = policies.ports.iter().map(|(number, settings)| {
        let mut port = policy(settings);
        port.insert("port".into(), json!({"number": number.get()}));
        Value::Object(port)
    });
    let ports: Vec<Value> = ports.collect();
    add(&mut out, "portLevelSettings", (!ports.is_empty()).then(|| ports.into()));
    out
}

fn policy(policy: &TrafficPolicy) -> Map<String, Value> {
    let mut out = Map::new();
    add(&mut out, "loadBalancer", policy.balancer.as_deref().map(load_balancer::spec));
    add(&mut out, "connectionPool", policy.pool.as_deref().map(pool));
    add(&mut out, "outlierDetection", policy.outliers.as_deref().map(outliers));
    add(&mut out, "tls", policy.tls.as_deref().map(tls));
    out
}

fn pool(pool: &ConnectionPool) -> Value {
    let mut out = Map::new();
    add_map(&mut out, "tcp", tcp(pool));
    add_map(&mut out, "http", http(pool));
    Value::Object(out)
}

fn tcp(pool: &ConnectionPool) -> Map<String, Value> {
    let mut out = Map::new();
    add(&mut out, "maxConnections", pool.max_connections.map(Into::into));
    add(&mut out, "connectTimeout", pool.connect_timeout.map(seconds));
    let keepalive = pool.keepalive.map(|keepalive| {
        let mut out = Map::new();
        add(&mut out, "probes", keepalive.probes.map(Into::into));
        add(&mut out, "time", keepalive.time.map(seconds));
        add(&mut out, "interval", keepalive.interval.map(seconds));
        Value::Object(out)
    });
    add(&mut out, "tcpKeepalive", keepalive);
    add(&mut out, "maxConnectionDuration", pool.max_duration.map(seconds));
    add(&mut out, "idleTimeout", pool.tcp_idle_timeout.map(seconds));
    out
}

fn http(pool: &ConnectionPool) -> Map<String, Value> {
    let mut out = Map::new();
    add(&mut out, "http1MaxPendingRequests", pool.max_pending.map(Into::into));
    add(&mut out, "http2MaxRequests", pool.max_requests.map(Into::into));
    add(&mut out, "maxRequestsPerConnection", pool.max_requests_per_connection.map(Into::into));
    add(&mut out, "maxRetries", pool.max_retries.map(Into::into));
    add(&mut out, "maxConcurrentStreams", pool.max_streams.map(Into::into));
    let own = pool.idle_timeout.filter(|_| pool.idle_timeout != pool.tcp_idle_timeout);
    add(&mut out, "idleTimeout", own.map(seconds));
    match pool.http {
        PoolHttp::OfPort => {}
        PoolHttp::Upgrade => add(&mut out, "h2UpgradePolicy", Some(json!("UPGRADE"))),
        PoolHttp::OfClient => add(&mut out, "useClientProtocol", Some(json!(true))),
    }
    out
}

fn outliers(outliers: &OutlierDetection) -> Value {
    let mut out = Map::new();
    add(&mut out, "consecutive5xxErrors", outliers.server_errors.map(Into::into));
    add(&mut out, "consecutiveGatewayErrors", outliers.gateway_errors.map(Into::into));
    add(&mut out, "splitExternalLocalOriginErrors", outliers.splits_local.then_some(json!(true)));
    add(&mut out, "consecutiveLocalOriginFailures", outliers.local_failures.map(Into::into));
    add(&mut out, "interval", outliers.interval.map(seconds));
    add(&mut out, "baseEjectionTime", outliers.ejection_time.map(seconds));
    add(&mut out, "maxEjectionPercent", outliers.max_ejected.map(Into::into));
    add(&mut out, "minHealthPercent", (outliers.min_healthy > 0).then(|| outliers.min_healthy.into()));
    Value::Object(out)
}

fn tls(tls: &ClientTls) -> Value {
    let mut out = Map::new();
    match tls {
        ClientTls::Disable => add(&mut out, "mode", Some(json!("DISABLE"))),
        ClientTls::Simple(settings) => {
            add(&mut out, "mode", Some(json!("SIMPLE")));
            verification(&mut out, settings);
        }
        ClientTls::IstioMutual(settings) => {
            add(&mut out, "mode", Some(json!("ISTIO_MUTUAL")));
            verification(&mut out, settings);
        }
        ClientTls::Mutual(settings, certificate, key) => {
            add(&mut out, "mode", Some(json!("MUTUAL")));
            add(&mut out, "clientCertificate", Some(json!(**certificate)));
            add(&mut out, "privateKey", Some(json!(**key)));
            verification(&mut out, settings);
        }
    }
    Value::Object(out)
}

fn verification(out: &mut Map<String, Value>, settings: &TlsSettings) {
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(Into::into);
    add(out, "caCertificates", text(&settings.authorities));
    add(out, "caCrl", text(&settings.revoked));
    let names: Vec<&str> = settings.names.iter().map(|name| &**name).collect();
    add(out, "subjectAltNames", (!names.is_empty()).then(|| json!(names)));
    add(out, "sni", text(&settings.sni));
    add(out, "insecureSkipVerify", settings.insecure.then_some(json!(true)));
}
