//! Conditions of DestinationRules with settings that the protocol of their ports lacks: a hash of a property of requests where
//! clients only have connections, and a limit of HTTP/2 where clients use HTTP/1.1.

use std::collections::BTreeSet;

use tributary_model::{DestinationRule, HashKey, PolicyKey, PoolHttp, RouteDestination, TrafficPolicy};

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

/// Returns the condition of a rule that limits the streams of connections and reaches no port of HTTP/2.
pub(super) fn without_http2<'c>(used: &Use<'c>, rule: &DestinationRule) -> Option<Found<'c>> {
    let pools = policies(rule).filter_map(|policy| policy.pool.as_ref());
    let mut limits = pools.filter(|pool| pool.max_streams.is_some()).peekable();
    let has_limit = limits.peek().is_some();
    let is_upgraded = limits.any(|pool| pool.http == PoolHttp::Upgrade);
    let message = "clients use HTTP/1.1, so connectionPool.http.maxConcurrentStreams has no effect: no service of the host has a \
                   port for HTTP/2, and h2UpgradePolicy beside the limit is not UPGRADE";
    let lost = has_limit && !is_upgraded && !used.has_http2;
    lost.then(|| Found(Code::STREAMS_WITHOUT_HTTP2, Vec::new(), message.to_owned()))
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
        Algorithm, Catalog, ConnectionPool, HostPattern, LoadBalancer, Policy, PolicyKind, PortPolicies,
        Protocol,
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
        let policies = PortPolicies { all, ..PortPolicies::default() };
        let rule = DestinationRule {
            host: HostPattern::new("pay.shop.svc").unwrap(),
            policies,
            ..mk_rule("pay.shop.svc", &[])
        };
        let key = PolicyKey { kind: PolicyKind::DestinationRule, namespace: mk_ns("shop"), name: "a".into() };
        let view = mk_ruled_view("pay.shop.svc", key, protocol);
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

    #[test]
    fn limit_of_streams_on_ports_without_http2_is_named() {
        let limited = |http, protocol| {
            let pool = ConnectionPool { max_streams: Some(5), http, ..ConnectionPool::default() };
            shown(TrafficPolicy { pool: Some(Arc::new(pool)), ..TrafficPolicy::default() }, protocol)
        };
        let lost = "TRB0471 clients use HTTP/1.1, so connectionPool.http.maxConcurrentStreams has no effect: no service of the host \
                    has a port for HTTP/2, and h2UpgradePolicy beside the limit is not UPGRADE";
        assert_eq!(limited(PoolHttp::OfPort, Protocol::Http), [lost]);
        assert_eq!(limited(PoolHttp::OfClient, Protocol::Http), [lost]);
        assert_eq!(limited(PoolHttp::OfPort, Protocol::Grpc), [""; 0]);
        assert_eq!(limited(PoolHttp::Upgrade, Protocol::Http), [""; 0]);
    }
}
