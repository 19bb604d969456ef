//! Converts a DestinationRule to a policy. Limits of 0 are absent, as in Istio.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    ClientTls, ConnectionPool, DeclaredPolicy, DestinationRule, ExportTo, Fact, HostPattern,
    OutlierDetection, Policy, PolicyKey, PolicyKind, PoolHttp, PortPolicies, Subset, SubsetRule, TlsSettings,
    TrafficPolicy, Visibility,
};

use super::{endpoints, load_balancer};
use crate::document::destination_rule;
use crate::document::traffic_policy::{self, HttpPool, Outliers, TlsMode};
use crate::document::{Meta, Object};

/// The policy of a document.
pub(super) fn fact(
    object: &Object,
    meta: &Meta,
    document: &destination_rule::DestinationRule,
) -> Option<Fact> {
    let key = PolicyKey {
        kind: PolicyKind::DestinationRule,
        namespace: meta.namespace.clone(),
        name: Arc::clone(&meta.name),
    };
    let mut ignored: Vec<Arc<str>> = document.ignored.iter().map(|path| Arc::clone(&path.value)).collect();
    ignored.extend(without_ejection(document));
    ignored.sort();
    let policy = Policy::DestinationRule(DestinationRule {
        host: HostPattern::new(&document.host.as_ref()?.value).ok()?,
        export: export(meta, document),
        selector: document.selector.as_ref().map(|labels| labels.value.clone()).unwrap_or_default(),
        policies: policies(document.policy.as_ref()),
        subsets: document.subsets.iter().filter_map(subset).collect(),
        ignored: ignored.into(),
    });
    Some(Fact::Policy(
        key,
        Arc::new(DeclaredPolicy { source: object.source(), created: meta.created, policy }),
    ))
}

/// Returns the paths of failover between localities that no ejection of endpoints ever begins. A subset without a load
/// balancer has that of the rule, and one without ejection has the rule's.
fn without_ejection(document: &destination_rule::DestinationRule) -> Vec<Arc<str>> {
    let ejects = |policy: &traffic_policy::TrafficPolicy| policy.outliers.is_some();
    let rule = document.policy.as_ref();
    let rule_ejects = rule.is_some_and(|of| ejects(of) || of.ports.iter().any(|port| ejects(&port.policy)));
    let subsets = document.subsets.iter().filter_map(|subset| subset.policy.as_ref());
    let some_subset_ejects = subsets.clone().any(|of| of.balancer.is_none() && ejects(of));
    let of_rule = rule.into_iter().flat_map(|of| parts("spec.trafficPolicy".to_owned(), of));
    let of_rule = of_rule.filter(|(_, _, part)| !ejects(part) && !some_subset_ejects);
    let of_subsets = document.subsets.iter().enumerate().filter_map(|(i, subset)| {
        Some(parts(format!("spec.subsets[{i}].trafficPolicy"), subset.policy.as_ref()?))
    });
    let of_subsets =
        of_subsets.flatten().filter(|(_, is_port, part)| !ejects(part) && (*is_port || !rule_ejects));
    let lost = of_rule.chain(of_subsets).flat_map(|(path, _, part)| failovers(&path, part));
    lost.map(Arc::from).collect()
}

/// Settings with their path, and whether they are those of a port.
type Part<'d> = (String, bool, &'d traffic_policy::TrafficPolicy);

fn parts(path: String, policy: &traffic_policy::TrafficPolicy) -> Vec<Part<'_>> {
    let ports = policy.ports.iter().enumerate();
    let ports: Vec<_> =
        ports.map(|(i, port)| (format!("{path}.portLevelSettings[{i}]"), true, &port.policy)).collect();
    std::iter::once((path, false, policy)).chain(ports).collect()
}

/// Returns the paths of the failover that settings declare.
fn failovers(path: &str, policy: &traffic_policy::TrafficPolicy) -> Vec<String> {
    let Some(locality) = policy.balancer.as_ref().and_then(|balancer| balancer.locality.as_ref()) else {
        return Vec::new();
    };
    // fields that are off or stand beside `distribute` are among the ignored ones already
    let counts = locality.enabled != Some(false) && locality.distribute.is_empty();
    let fields = [
        (counts && !locality.failover.is_empty(), "failover"),
        (counts && !locality.labels.is_empty(), "failoverPriority"),
    ];
    let declared = fields.into_iter().filter_map(|(is_declared, name)| is_declared.then_some(name));
    declared.map(|name| format!("{path}.loadBalancer.localityLbSetting.{name}")).collect()
}

/// A rule with a selector concerns clients of its namespace only.
fn export(meta: &Meta, document: &destination_rule::DestinationRule) -> ExportTo {
    match document.selector {
        Some(_) => ExportTo::Set(Visibility::Namespaces([meta.namespace.clone()].into())),
        None => ExportTo::parse(document.export_to.iter().map(|item| &*item.value), &meta.namespace),
    }
}

fn subset(document: &destination_rule::SubsetRule) -> Option<SubsetRule> {
    Some(SubsetRule {
        name: Subset::new(&document.name.as_ref()?.value)?,
        labels: document.labels.value.clone(),
        policies: policies(document.policy.as_ref()),
    })
}

/// Of several settings of one port the first count.
fn policies(document: Option<&traffic_policy::TrafficPolicy>) -> PortPolicies {
    let Some(document) = document else { return PortPolicies::default() };
    let mut ports = BTreeMap::new();
    for port in &document.ports {
        if let Some(number) = port.number.and_then(|number| endpoints::number_of(number.value)) {
            ports.entry(number).or_insert_with(|| policy(&port.policy));
        }
    }
    PortPolicies::new(policy(document), ports)
}

fn policy(document: &traffic_policy::TrafficPolicy) -> TrafficPolicy {
    TrafficPolicy {
        balancer: document.balancer.as_ref().map(|balancer| Arc::new(load_balancer::balancer(balancer))),
        pool: document.pool.as_ref().map(|limits| Arc::new(pool(limits))),
        outliers: document.outliers.as_ref().map(|ejection| Arc::new(outliers(ejection))),
        tls: document.tls.as_ref().and_then(tls).map(Arc::new),
    }
}

/// An HTTP pool without an idle timeout has that of TCP.
fn pool(document: &traffic_policy::ConnectionPool) -> ConnectionPool {
    let tcp = document.tcp.clone().unwrap_or_default();
    let http = document.http.clone().unwrap_or_default();
    let set = |limit: Option<u32>| limit.filter(|limit| *limit > 0);
    ConnectionPool {
        max_connections: set(tcp.max_connections),
        connect_timeout: tcp.connect_timeout,
        keepalive: tcp.keepalive,
        max_duration: tcp.max_duration,
        idle_timeout: http.idle_timeout.or(tcp.idle_timeout),
        tcp_idle_timeout: tcp.idle_timeout,
        max_pending: set(http.max_pending),
        max_requests: set(http.max_requests),
        max_requests_per_connection: set(http.max_requests_per_connection),
        max_retries: set(http.max_retries),
        max_streams: set(http.max_streams),
        http: version(&http),
    }
}

fn version(http: &HttpPool) -> PoolHttp {
    match (http.keeps_version.is_some_and(|keeps| keeps.value), http.upgrades) {
        (true, _) => PoolHttp::OfClient,
        (false, true) => PoolHttp::Upgrade,
        (false, false) => PoolHttp::OfPort,
    }
}

fn outliers(document: &Outliers) -> OutlierDetection {
    let failures = document.local_failures.map(|failures| failures.value);
    OutlierDetection { local_failures: failures.filter(|count| *count > 0), ..document.settings.clone() }
}

/// Of mesh TLS only names and SNI count: its certificates and authorities are those of the mesh.
fn tls(document: &traffic_policy::ClientTls) -> Option<ClientTls> {
    let settings = document.settings.clone();
    Some(match document.mode {
        TlsMode::Disable => ClientTls::Disable,
        TlsMode::Simple => ClientTls::Simple(settings),
        TlsMode::Mutual => {
            let (certificate, key) = (document.certificate.as_ref()?, document.key.as_ref()?);
            ClientTls::Mutual(settings, Arc::clone(&certificate.value), Arc::clone(&key.value))
        }
        TlsMode::IstioMutual => {
            ClientTls::IstioMutual(TlsSettings { names: settings.names, sni: settings.sni, ..<_>::default() })
        }
    })
}
