//! Names the DestinationRules that apply to a client of a port, the subset that is asked for, and the settings that have
//! no effect on gRPC clients.
//!
//! Explain and why-not call it for each port; lists of resources and conditions of policies read [`applied_rules`].

use tributary_model::{
    Algorithm, Catalog, ClientKind, ClusterPolicy, Code, ConnectionPool, DestinationRule, EndpointUse,
    HashKey, Labels, Locality, Namespace, PolicyKey, PolicyView, PortView, Preference, ServiceView, Stage,
    Subset, TraceStep, TrafficPolicy, Verdict,
};

use crate::client::ClientClass;
use crate::steps::service_step;

/// Most subsets in a step.
const MAX_NAMED: usize = 16;

/// DestinationRule of those that apply to clients of a port.
#[derive(Debug, Clone, Copy)]
pub struct AppliedRule<'c> {
    /// Name.
    pub key: &'c PolicyKey,
    /// Its published state.
    pub view: &'c PolicyView,
    rule: &'c DestinationRule,
}

/// Returns the rules that apply to clients of a namespace, the first in precedence first; those that add nothing to it
/// are left out. Of a subset, the rule that declares it; empty if none does.
#[must_use]
pub fn applied_rules<'c>(
    catalog: &'c Catalog,
    port: &'c PortView,
    client: Option<&Namespace>,
    subset: Option<&Subset>,
) -> Vec<AppliedRule<'c>> {
    let policy = port.cluster.inputs.policy_of(client);
    let all = policy.map(|policy| &*policy.from).unwrap_or_default().iter().filter_map(|key| {
        let view = catalog.policies.get(key)?;
        Some(AppliedRule { key, view, rule: view.destination_rule()? })
    });
    match subset {
        None => all.collect(),
        Some(subset) => all.filter(|of| of.labels(subset).is_some()).take(1).collect(),
    }
}

impl<'c> AppliedRule<'c> {
    /// Labels of a subset, if it declares the subset.
    pub(crate) fn labels(&self, subset: &Subset) -> Option<&'c Labels> {
        self.rule.subsets.iter().find(|of| of.name == *subset).map(|of| &of.labels)
    }
    fn step(&self, verdict: Verdict, code: Code, detail: String) -> TraceStep {
        let step = service_step(Stage::Merge, verdict, code, Some(&self.view.shard), detail);
        TraceStep { object: Some(self.view.declared.source.reference()), ..step }
    }
}

/// Returns which rules apply to a client of a port, which of them has the wanted subset, and what they set in vain.
pub(super) fn steps(
    catalog: &Catalog,
    view: &ServiceView,
    port: &PortView,
    class: &ClientClass,
    subset: Option<&Subset>,
) -> Vec<TraceStep> {
    let client = class.namespace.as_ref();
    let rules = applied_rules(catalog, port, client, None);
    let mut out = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let (added, is_first) = (added(&rules[..at], rule, port), at == 0);
        let why = if is_first { reason(rule, view, client) } else { format!("beside {}", rules[0].key) };
        out.push(rule.step(
            Verdict::Pass,
            Code::RULE_APPLIES,
            format!("port {}: it sets {added}, {why}", port.number),
        ));
    }
    let policy = port.cluster.inputs.policy_of(client);
    out.extend(subset.map(|subset| of_subset(&rules, port, policy, subset)));
    let settings = policy.and_then(|policy| policy.of(subset));
    out.extend(of_mesh(port, settings, &class.locality));
    let settings = settings.filter(|_| class.kind == ClientKind::Grpc);
    if let (Some(settings), Some(first)) = (settings, rules.first()) {
        let unread = unread_by_grpc(settings);
        let detail = format!("port {}: gRPC does not use {}", port.number, unread.join(", "));
        out.extend((!unread.is_empty()).then(|| first.step(Verdict::Warn, Code::NOT_FOR_GRPC, detail)));
    }
    out
}

fn reason(rule: &AppliedRule<'_>, view: &ServiceView, client: Option<&Namespace>) -> String {
    let owner = &rule.key.namespace;
    let whose = match () {
        () if client == Some(owner) => "the client's namespace",
        () if view.key.namespace == *owner => "the namespace of the service",
        () => "the root namespace",
    };
    format!("as the rule of {whose} for {}", rule.rule.host)
}

/// Returns the parts that a rule adds to those before it.
fn added(before: &[AppliedRule<'_>], rule: &AppliedRule<'_>, port: &PortView) -> String {
    let is_taken = before.iter().any(|of| !of.rule.policies.is_empty());
    let settings = if is_taken { None } else { Some(rule.rule.policies.of(port.number)) };
    let mut parts: Vec<String> = settings.into_iter().flat_map(blocks).map(str::to_owned).collect();
    let is_new = |subset: &Subset| !before.iter().any(|of| of.labels(subset).is_some());
    let names = rule.rule.subsets.iter().map(|of| &of.name).filter(|name| is_new(name));
    let names: Vec<&str> = names.map(Subset::as_str).collect();
    match names.len() {
        0 => {}
        1 => parts.push(format!("subset {}", names[0])),
        _ => parts.push(format!("subsets {}", listed(&names))),
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn listed(names: &[&str]) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let shown = names.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

fn blocks(policy: &TrafficPolicy) -> impl Iterator<Item = &'static str> + use<> {
    let all = [
        (policy.balancer.is_some(), "loadBalancer"),
        (policy.pool.is_some(), "connectionPool"),
        (policy.outliers.is_some(), "outlierDetection"),
        (policy.tls.is_some(), "tls"),
    ];
    all.into_iter().filter_map(|(is_set, name)| is_set.then_some(name))
}

/// Returns which rule has a subset, or that none has.
fn of_subset(
    rules: &[AppliedRule<'_>],
    port: &PortView,
    policy: Option<&ClusterPolicy>,
    subset: &Subset,
) -> TraceStep {
    let (number, name) = (port.number, subset.as_str());
    let declared = rules.iter().find_map(|of| Some((of, of.labels(subset)?)));
    if let Some((rule, labels)) = declared {
        let detail = format!("port {number}: subset {name} has the endpoints with {}", shown(labels));
        return rule.step(Verdict::Pass, Code::RULE_APPLIES, detail);
    }
    let detail = match (rules.first(), policy) {
        (Some(first), Some(policy)) => {
            let names: Vec<&str> = policy.subsets.iter().map(|(name, _)| name.as_str()).collect();
            let others = if names.is_empty() { "none".to_owned() } else { listed(&names) };
            format!(
                "port {number}: no subset {name}; {}, which applies to the client, has {others}",
                first.key
            )
        }
        _ => format!("port {number}: no subset {name}, because no DestinationRule applies to the client"),
    };
    match rules.first() {
        Some(first) => first.step(Verdict::Drop, Code::NO_SUCH_SUBSET, detail),
        None => service_step(Stage::Merge, Verdict::Drop, Code::NO_SUCH_SUBSET, None, detail),
    }
}

/// Returns that the mesh decides which localities the client uses, if it changes their order.
fn of_mesh(port: &PortView, settings: Option<&TrafficPolicy>, client: &Locality) -> Option<TraceStep> {
    let (order, inputs) = (settings.map(EndpointUse::of), &port.cluster.inputs);
    let of = |mesh| Preference::of(order.as_ref(), inputs.attributes.traffic, mesh);
    let decided = of(inputs.locality.as_deref());
    let how = match decided {
        Preference::Alike => "localities do not count".to_owned(),
        Preference::Distribute(all) => {
            let share = all.iter().find(|share| client.matches(&share.from))?;
            let to: Vec<String> =
                share.to.iter().map(|(place, percent)| format!("{place} {percent} %")).collect();
            let to: Vec<&str> = to.iter().map(String::as_str).collect();
            format!("clients in {} use {}", share.from, listed(&to))
        }
        Preference::Near(_) | Preference::Failover { .. } => "localities replace each other".to_owned(),
    };
    let detail = format!("port {}: {how}, by localityLbSetting of the mesh", port.number);
    (decided != of(None))
        .then(|| service_step(Stage::Merge, Verdict::Pass, Code::MESH_LOCALITY, None, detail))
}

/// Formats the labels of a subset.
pub(crate) fn shown(labels: &Labels) -> String {
    let pairs: Vec<String> = labels.pairs().map(|(key, value)| format!("{key}={value}")).collect();
    if pairs.is_empty() { "any labels".to_owned() } else { pairs.join(", ") }
}

/// Returns the settings that gRPC does not read, by their paths in a `trafficPolicy`.
fn unread_by_grpc(policy: &TrafficPolicy) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(balancer) = &policy.balancer {
        out.extend(unread_algorithm(&balancer.algorithm).map(str::to_owned));
        out.extend(balancer.warmup.map(|_| "loadBalancer.warmup".to_owned()));
    }
    out.extend(
        policy.pool.as_deref().into_iter().flat_map(unread_limits).map(|of| format!("connectionPool.{of}")),
    );
    // gRPC ejects by success rates alone
    out.extend(policy.outliers.as_ref().map(|_| "outlierDetection".to_owned()));
    out
}

const fn unread_algorithm(algorithm: &Algorithm) -> Option<&'static str> {
    match algorithm {
        Algorithm::Usual | Algorithm::RoundRobin | Algorithm::RingHash(HashKey::Header(_), _) => None,
        Algorithm::LeastRequest => Some("loadBalancer.simple LEAST_REQUEST (round robin applies)"),
        Algorithm::Random => Some("loadBalancer.simple RANDOM (round robin applies)"),
        Algorithm::Passthrough => Some("loadBalancer.simple PASSTHROUGH (round robin applies)"),
        Algorithm::Maglev(..) => Some("loadBalancer.consistentHash.maglev (round robin applies)"),
        Algorithm::RingHash(HashKey::Cookie(_), _) => Some("loadBalancer.consistentHash.httpCookie"),
        Algorithm::RingHash(HashKey::SourceIp, _) => Some("loadBalancer.consistentHash.useSourceIp"),
        Algorithm::RingHash(HashKey::Query(_), _) => {
            Some("loadBalancer.consistentHash.httpQueryParameterName")
        }
    }
}

fn unread_limits(pool: &ConnectionPool) -> impl Iterator<Item = &'static str> + use<> {
    let all = [
        (pool.max_connections.is_some(), "tcp.maxConnections"),
        (pool.connect_timeout.is_some(), "tcp.connectTimeout"),
        (pool.keepalive.is_some(), "tcp.tcpKeepalive"),
        (pool.max_duration.is_some(), "tcp.maxConnectionDuration"),
        (pool.idle_timeout.is_some() || pool.tcp_idle_timeout.is_some(), "idleTimeout"),
        (pool.max_pending.is_some(), "http.http1MaxPendingRequests"),
        (pool.max_requests_per_connection.is_some(), "http.maxRequestsPerConnection"),
        (pool.max_retries.is_some(), "http.maxRetries"),
        (pool.max_streams.is_some(), "http.maxConcurrentStreams"),
    ];
    all.into_iter().filter_map(|(is_set, path)| is_set.then_some(path))
}
