//! Conditions of DestinationRules with settings that the protocol of their ports lacks: a hash of a property of requests where
//! clients only have connections, and a limit of HTTP/2 where it does not reach connections of HTTP/2.

use std::collections::BTreeSet;

use tributary_model::{
    DestinationRule, HashKey, PolicyKey, PoolHttp, PortNumber, PortPolicies, RouteDestination, TrafficPolicy,
};

use super::{Code, Found, RuleConditions, Use, named};

impl<'c> RuleConditions<'c> {
    /// Returns the condition of a rule whose hash no request reaches: no service of its host has a port for requests, and
    /// no HTTP route leads to one.
    pub(super) fn unhashed(
        &self,
        key: &PolicyKey,
        used: &Use<'c>,
        rule: &DestinationRule,
    ) -> Option<Found<'c>> {
        let fields = fields(rule);
        if used.has_requests || fields.is_empty() || self.is_routed(key, rule) {
            return None;
        }
        let message = format!(
            "no service of the host has a port for HTTP, so these fields of consistentHash have no effect: {}",
            named(fields.into_iter())
        );
        Some(Found(Code::HASH_WITHOUT_REQUESTS, Vec::new(), message))
    }
    /// Whether an HTTP route of a VirtualService leads to the host of a rule.
    fn is_routed(&self, key: &PolicyKey, rule: &DestinationRule) -> bool {
        let domain = self.catalog.settings.domain();
        let host = rule.host.completed(key.namespace.as_str(), domain);
        let leads = |of: &PolicyKey, to: &RouteDestination| {
            host.matches(&to.host.completed(of.namespace.as_str(), domain))
        };
        self.catalog.policies.iter().any(|(of, view)| {
            let routes = view.virtual_service().into_iter().flat_map(|own| own.http.iter());
            routes.flat_map(|route| route.destinations()).any(|to| leads(of, to))
        })
    }
}

/// Returns the condition of limits of the streams of connections that are for no port of HTTP/2.
pub(super) fn without_http2<'c>(used: &Use<'c>, rule: &DestinationRule) -> Option<Found<'c>> {
    let subsets = rule.subsets.iter().map(|of| (format!("subset {}", of.name.as_str()), &of.policies));
    let all = std::iter::once(("trafficPolicy".to_owned(), &rule.policies)).chain(subsets);
    let parts: Vec<String> = all.flat_map(|(place, policies)| lost_limits(used, &place, policies)).collect();
    let message = || {
        let parts = named(parts.iter().map(String::as_str));
        format!("connectionPool.http.maxConcurrentStreams has no effect: {parts}")
    };
    (!parts.is_empty()).then(|| Found(Code::STREAMS_WITHOUT_HTTP2, Vec::new(), message()))
}

/// Returns the limits of streams without effect in the settings of all ports and in those of single ones. A limit for several
/// ports has an effect if it has one on any of them.
fn lost_limits(used: &Use<'_>, place: &str, policies: &PortPolicies) -> Vec<String> {
    let rest = used.ports.iter().filter(|port| !policies.ports.contains_key(port)).copied().collect();
    let of_ports = policies.ports.iter().filter(|(port, _)| used.ports.contains(port));
    let single = of_ports.filter_map(|(port, policy)| {
        let why = unlimited(used, policy, &[*port].into())?;
        Some(format!("{place} for port {port} ({why})"))
    });
    let shared = unlimited(used, &policies.all, &rest).map(|why| format!("{place} ({why})"));
    shared.into_iter().chain(single).collect()
}

/// Returns why the limit of streams of some ports has no effect; `None` if it has one, or if no limit is set.
fn unlimited(used: &Use<'_>, policy: &TrafficPolicy, ports: &BTreeSet<PortNumber>) -> Option<String> {
    let pool = policy.pool.as_ref().filter(|pool| pool.max_streams.is_some() && !ports.is_empty())?;
    match pool.http {
        PoolHttp::Upgrade => None,
        // clients are sent the limit only where HTTP/2 is the only version
        PoolHttp::OfClient => Some("useClientProtocol is set".to_owned()),
        PoolHttp::OfPort if !ports.is_disjoint(&used.http2) => None,
        PoolHttp::OfPort => {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            let ports = named(ports.iter().map(String::as_str));
            Some(format!("no service of the host has HTTP/2 on {ports}, and h2UpgradePolicy is not UPGRADE"))
        }
    }
}

/// Iterates over the policies of all ports and subsets.
fn policies(rule: &DestinationRule) -> impl Iterator<Item = &TrafficPolicy> {
    let subsets = rule.subsets.iter().map(|subset| &subset.policies);
    let all = subsets.chain([&rule.policies]);
    all.flat_map(|policies| policies.ports.values().chain([&policies.all]))
}

/// Returns the fields of `consistentHash` that read requests.
fn fields(rule: &DestinationRule) -> BTreeSet<&'static str> {
    let field = |key: &HashKey| match key {
        HashKey::Header(_) => Some("httpHeaderName"),
        HashKey::Cookie(_) => Some("httpCookie"),
        HashKey::Query(_) => Some("httpQueryParameterName"),
        HashKey::SourceIp => None,
    };
    policies(rule).filter_map(|policy| policy.hash()).filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{
        Algorithm, Catalog, ConnectionPool, HostPattern, LoadBalancer, Policy, PolicyKind, PortView,
        Protocol, ServiceView,
    };

    use super::*;
    use crate::fixtures::*;
    use crate::policy_conditions::{Beside, policy_conditions};

    /// Returns the conditions of a rule with this hash beside a port of a protocol.
    fn hashed(hash: HashKey, protocol: Protocol) -> Vec<String> {
        let algorithm = Algorithm::RingHash(hash, None);
        let balancer = LoadBalancer { algorithm, ..LoadBalancer::default() };
        let all = TrafficPolicy { balancer: Some(Arc::new(balancer)), ..TrafficPolicy::default() };
        shown(all, protocol)
    }
    /// Returns the conditions of a rule with this policy beside a port of a protocol.
    fn shown(all: TrafficPolicy, protocol: Protocol) -> Vec<String> {
        shown_of(PortPolicies { all, ..PortPolicies::default() }, &[(80, protocol)])
    }
    /// Returns the conditions of a rule with these policies beside ports.
    fn shown_of(policies: PortPolicies, ports: &[(u32, Protocol)]) -> Vec<String> {
        let rule = DestinationRule {
            host: HostPattern::new("pay.shop.svc").unwrap(),
            policies,
            ..mk_rule("pay.shop.svc", &[])
        };
        let key = PolicyKey { kind: PolicyKind::DestinationRule, namespace: mk_ns("shop"), name: "a".into() };
        let view = mk_ruled_view("pay.shop.svc", key, Protocol::Http);
        let on = |(number, protocol): &(u32, Protocol)| PortView {
            number: mk_port(*number),
            protocol: *protocol,
            ..view.ports[0].clone()
        };
        let ports = ports.iter().map(on).collect();
        let view = Arc::new(ServiceView { ports, ..ServiceView::clone(&view) });
        let policies = [mk_policy("shop", "a", Policy::DestinationRule(rule))].into_iter().collect();
        let catalog = Catalog { complete: true, policies, ..mk_catalog(vec![view]) };
        let all = policy_conditions(&catalog, Beside::default(), &|_| true);
        all.values().flatten().map(|one| format!("{} {}", one.code, one.message)).collect()
    }

    #[test]
    fn hash_of_requests_on_ports_without_requests_is_named() {
        let header = || HashKey::Header("x-user".into());
        let lost = "TRB0466 no service of the host has a port for HTTP, so these fields of consistentHash have no effect: \
                    httpHeaderName";
        assert_eq!(hashed(header(), Protocol::Tcp), [lost]);
        assert_eq!(hashed(header(), Protocol::Http), [""; 0]);
        assert_eq!(hashed(header(), Protocol::Unspecified), [""; 0], "sidecars recognize requests");
        assert_eq!(hashed(HashKey::SourceIp, Protocol::Tcp), [""; 0]);
    }

    fn limited(http: PoolHttp) -> TrafficPolicy {
        let pool = ConnectionPool { max_streams: Some(5), http, ..ConnectionPool::default() };
        TrafficPolicy { pool: Some(Arc::new(pool)), ..TrafficPolicy::default() }
    }

    const LOST: &str = "TRB0471 connectionPool.http.maxConcurrentStreams has no effect:";
    const NO_HTTP2: &str = "no service of the host has HTTP/2 on";

    #[test]
    fn limit_of_streams_without_http2_is_named() {
        let on = |http, protocol| shown(limited(http), protocol);
        let lost = format!("{LOST} trafficPolicy ({NO_HTTP2} 80, and h2UpgradePolicy is not UPGRADE)");
        assert_eq!(on(PoolHttp::OfPort, Protocol::Http), [lost]);
        assert_eq!(on(PoolHttp::OfPort, Protocol::Grpc), [""; 0]);
        assert_eq!(on(PoolHttp::Upgrade, Protocol::Http), [""; 0]);
        for protocol in [Protocol::Http, Protocol::Grpc] {
            let lost = format!("{LOST} trafficPolicy (useClientProtocol is set)");
            assert_eq!(on(PoolHttp::OfClient, protocol), [lost]);
        }
    }

    #[test]
    fn limit_of_streams_is_that_of_its_ports() {
        let ports = [(80, Protocol::Http), (81, Protocol::Grpc)];
        let shown = |all: TrafficPolicy, single: &[(u32, TrafficPolicy)]| {
            let single = single.iter().map(|(port, policy)| (mk_port(*port), policy.clone())).collect();
            shown_of(PortPolicies::new(all, single), &ports)
        };
        let (none, limit) = (TrafficPolicy::default, || limited(PoolHttp::OfPort));
        let lost = |what: &str| format!("{LOST} {what} ({NO_HTTP2} 80, and h2UpgradePolicy is not UPGRADE)");
        assert_eq!(shown(limit(), &[]), [""; 0], "it has an effect on port 81");
        assert_eq!(shown(none(), &[(80, limit())]), [lost("trafficPolicy for port 80")]);
        assert_eq!(shown(none(), &[(81, limit())]), [""; 0]);
        assert_eq!(
            shown(limit(), &[(81, none())]),
            [lost("trafficPolicy")],
            "port 81 has settings of its own"
        );
        assert_eq!(shown(limit(), &[(80, none())]), [""; 0]);
        assert_eq!(shown(limit(), &[(80, limited(PoolHttp::Upgrade)), (81, limit())]), [""; 0]);
    }
}
