//! Condition of a DestinationRule that hashes a property of requests where clients only have connections.

use std::collections::BTreeSet;

use tributary_model::{DestinationRule, HashKey, PolicyKey, RouteDestination};

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

/// Returns the fields of `consistentHash` that read requests.
fn fields(rule: &DestinationRule) -> BTreeSet<&'static str> {
    let subsets = rule.subsets.iter().map(|subset| &subset.policies);
    let policies = subsets.chain([&rule.policies]);
    let all = policies.flat_map(|policies| policies.ports.values().chain([&policies.all]));
    let field = |key: &HashKey| match key {
        HashKey::Header(_) => Some("httpHeaderName"),
        HashKey::Cookie(_) => Some("httpCookie"),
        HashKey::Query(_) => Some("httpQueryParameterName"),
        HashKey::SourceIp => None,
    };
    all.filter_map(|policy| policy.hash()).filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{
        Algorithm, ByNamespace, Catalog, ClientDimensions, ClusterInputs, ClusterPolicy, HostPattern,
        LoadBalancer, Policy, PolicyKind, PortPolicies, PortView, Protocol, ResourceInputs, ServiceView,
        Shared, TrafficPolicy, Visibility,
    };

    use super::*;
    use crate::fixtures::*;
    use crate::policy_conditions::{Beside, policy_conditions};

    /// Returns the conditions of a rule with this hash beside a port of a protocol.
    fn shown(hash: HashKey, protocol: Protocol) -> Vec<String> {
        let algorithm = Algorithm::RingHash(hash, None);
        let balancer = LoadBalancer { algorithm, ..LoadBalancer::default() };
        let all = TrafficPolicy { balancer: Some(Arc::new(balancer)), ..TrafficPolicy::default() };
        let policies = PortPolicies { all, ..PortPolicies::default() };
        let rule = DestinationRule {
            host: HostPattern::new("pay.shop.svc").unwrap(),
            policies,
            ..mk_rule("pay.shop.svc", &[])
        };
        let key = PolicyKey { kind: PolicyKind::DestinationRule, namespace: mk_ns("shop"), name: "a".into() };
        let policy = ClusterPolicy { from: [key].into(), ..ClusterPolicy::default() };
        let port = mk_port_view(mk_one(vec![mk_address("10.0.0.1")]));
        let cluster = ClusterInputs {
            policy: Some(Arc::new(ByNamespace::new(Some(Arc::new(policy)), []))),
            ..port.cluster.inputs.clone()
        };
        let cluster = Shared::new(ResourceInputs::new(cluster, ClientDimensions::NONE));
        let port = PortView { protocol, cluster, ..port };
        let view = ServiceView::clone(&mk_view("pay.shop.svc", "shop", &[Visibility::Public]));
        let view = Arc::new(ServiceView { ports: [port].into(), ..view });
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
        assert_eq!(shown(header(), Protocol::Tcp), [lost]);
        assert_eq!(shown(header(), Protocol::Http), [""; 0]);
        assert_eq!(shown(header(), Protocol::Unspecified), [""; 0], "sidecars recognize requests");
        assert_eq!(shown(HashKey::SourceIp, Protocol::Tcp), [""; 0]);
    }
}
