//! Condition of a DestinationRule whose `distribute` gives clients shares of places without endpoints, of a service or of one
//! of its subsets.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{
    Code, DestinationRule, Distribution, EndpointPolicy, EndpointUse, Labels, LocalityBalancing, PolicyKey,
    PortView, Resolution, ServiceView, Subset,
};

use super::{Found, RuleConditions, lost, named};
use crate::shares::{Places, places};

/// Place of clients, and the subset whose endpoints they have a share of.
type From<'c> = (&'c str, Option<&'c Subset>);

/// Shares that a rule gives to clients.
#[derive(Default)]
pub(super) struct Shares<'c> {
    /// Ports of services without an endpoint in a place of the share.
    missed: BTreeMap<From<'c>, BTreeSet<String>>,
    /// Those with an endpoint in some place of it: clients may get different services of one host.
    reached: BTreeMap<From<'c>, BTreeSet<String>>,
    /// Places of the share without an endpoint, where others have some, with the ports of services.
    partly: BTreeMap<(From<'c>, &'c str), BTreeSet<String>>,
    /// Places of the share with an endpoint in some service, with the ports of services.
    used: BTreeMap<(From<'c>, &'c str), BTreeSet<String>>,
}

/// Endpoints of a port, or those of a subset, with the rule that orders them.
struct Part<'c> {
    rule: &'c PolicyKey,
    subset: Option<(&'c Subset, &'c Labels)>,
    order: &'c EndpointUse,
}

impl<'c> Shares<'c> {
    fn record(
        &mut self,
        (from, share): (From<'c>, &'c Distribution),
        (view, port): (&ServiceView, &PortView),
        found: Places<'c>,
    ) {
        let port = || format!("{}:{}", view.key.host, port.number);
        let missed = match found {
            Places::WithoutEndpoints => return,
            Places::Missed => {
                self.missed.entry(from).or_default().insert(port());
                return;
            }
            Places::Partly(missed) => missed,
            Places::Reached => Vec::new(),
        };
        self.reached.entry(from).or_default().insert(port());
        for to in share.to.iter().map(|(to, _)| &**to).filter(|to| !missed.contains(to)) {
            self.used.entry((from, to)).or_default().insert(port());
        }
        for to in missed {
            self.partly.entry((from, to)).or_default().insert(port());
        }
    }
    /// Returns the condition of a rule whose shares lead clients to no endpoint; of a wildcard, in no service.
    pub(super) fn unmatched(&self, rule: &DestinationRule) -> Option<Found<'c>> {
        let is_wild = rule.host.suffix().is_some();
        let part = |(share @ (from, subset), ports): (&From<'c>, &BTreeSet<String>)| {
            let subset = subset.map(|subset| format!(" (subset {})", subset.as_str())).unwrap_or_default();
            Some(format!("in {from} to {}{subset}", lost(ports, self.reached.get(share), is_wild)?))
        };
        let parts: Vec<String> = self.missed.iter().filter_map(part).collect();
        let message = || {
            let parts = named(parts.iter().map(String::as_str));
            format!(
                "no endpoint is in the localities to which the rule distributes the requests of clients {parts}"
            )
        };
        (!parts.is_empty()).then(|| Found(Code::SHARES_UNMATCHED, Vec::new(), message()))
    }
    /// Returns the condition of a rule with shares of places without endpoints, which the other places receive; of a wildcard,
    /// in no service.
    pub(super) fn partly_unmatched(&self, rule: &DestinationRule) -> Option<Found<'c>> {
        let is_wild = rule.host.suffix().is_some();
        let part = |(share @ ((from, subset), to), ports): (&(From<'c>, &'c str), &BTreeSet<String>)| {
            let subset = subset.map(|subset| format!(" (subset {})", subset.as_str())).unwrap_or_default();
            Some(format!("in {from} for {to} of {}{subset}", lost(ports, self.used.get(share), is_wild)?))
        };
        let parts: Vec<String> = self.partly.iter().filter_map(part).collect();
        let message = || {
            let parts = named(parts.iter().map(String::as_str));
            format!(
                "the other localities receive these shares of clients, because no endpoint is there: {parts}"
            )
        };
        (!parts.is_empty()).then(|| Found(Code::SHARES_PARTLY_UNMATCHED, Vec::new(), message()))
    }
}

impl<'c> RuleConditions<'c> {
    /// Records for which clients the shares of a port lead to endpoints. A subset without endpoints has a condition of its
    /// own, and so does a share that misses all endpoints. The only endpoint of an xDS cluster needs no share.
    pub(super) fn count_shares(
        &mut self,
        at: (&'c ServiceView, &'c PortView),
        from: &'c [PolicyKey],
        policy: &'c EndpointPolicy,
        wanted: &dyn Fn(&PolicyKey) -> bool,
    ) {
        let inputs = &at.1.endpoints.inputs;
        if inputs.resolution == Resolution::DnsLogical {
            return;
        }
        let mut missing_all: Vec<&Distribution> = Vec::new();
        for Part { rule, subset, order } in self.parts(from, policy) {
            let Some(LocalityBalancing::Distribute(shares)) = &order.locality else { continue };
            for share in shares.iter().filter(|_| wanted(rule)) {
                let found = places(inputs, subset.map(|(_, labels)| labels), share, &mut self.looks);
                if missing_all.contains(&share) {
                    continue;
                }
                if subset.is_none() && found == Places::Missed {
                    missing_all.push(share);
                }
                let from: From<'c> = (&share.from, subset.map(|(name, _)| name));
                self.used.entry(rule).or_default().shares.record((from, share), at, found);
            }
        }
    }
    /// Returns what the rules of a port order, all endpoints first.
    fn parts(&self, from: &'c [PolicyKey], policy: &'c EndpointPolicy) -> Vec<Part<'c>> {
        let sets = |key: &&PolicyKey| self.rule(key).is_some_and(|of| !of.policies.is_empty());
        let whole = from.iter().find(sets).map(|rule| Part { rule, subset: None, order: &policy.whole });
        let subsets = policy.subsets.iter().filter_map(|(name, labels, order)| {
            Some(Part { rule: self.declaring(from, name)?, subset: Some((name, labels)), order })
        });
        whole.into_iter().chain(subsets).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{
        Address, ByNamespace, Catalog, ClientDimensions, ClusterInputs, ClusterPolicy, EndpointInputs,
        HostPattern, LoadBalancer, Locality, Policy, PolicyKind, PortPolicies, ResourceInputs, Shared,
        SubsetRule, Topology, TrafficPolicy, Visibility,
    };

    use super::*;
    use crate::fixtures::*;
    use crate::policy_conditions::{Beside, policy_conditions};

    /// Returns shares of clients, equal ones for places that a `+` separates.
    fn mk_shares(shares: &[(&str, &str)]) -> LocalityBalancing {
        let share = |(from, to): &(&str, &str)| Distribution {
            from: (*from).into(),
            to: to.split('+').map(|to| (to.into(), 50)).collect(),
        };
        LocalityBalancing::Distribute(shares.iter().map(share).collect())
    }

    /// Returns an endpoint in a region, of a version.
    fn mk_in(ip: &str, region: &str, version: &str) -> Address {
        let topology = Topology { locality: Locality::new(region, "a", ""), ..Topology::default() };
        Address {
            topology: Arc::new(topology),
            labels: [("version", version)].into_iter().collect(),
            ..mk_address(ip)
        }
    }

    /// Returns a port with subsets by version, ordered by a rule for all of its endpoints.
    fn mk_shared(shares: &[(&str, &str)], subsets: &[&str], key: &PolicyKey) -> PortView {
        let order =
            EndpointUse { locality: Some(mk_shares(shares)), ejects: false, mesh_tls: None, passes: false };
        let subset = |name: &&str| {
            (Subset::new(name).unwrap(), [("version", *name)].into_iter().collect(), order.clone())
        };
        let policy = EndpointPolicy { whole: order.clone(), subsets: subsets.iter().map(subset).collect() };
        let policy = Some(Arc::new(ByNamespace::new(Some(Arc::new(policy)), [])));
        let inputs = EndpointInputs {
            policy,
            ..mk_one(vec![mk_in("10.0.0.1", "eu", "v1"), mk_in("10.0.0.2", "us", "v2")])
        };
        let port = mk_port_view(inputs);
        let policy = ClusterPolicy { from: [key.clone()].into(), ..ClusterPolicy::default() };
        let policy = Some(Arc::new(ByNamespace::new(Some(Arc::new(policy)), [])));
        let cluster = ClusterInputs { policy, ..port.cluster.inputs.clone() };
        PortView { cluster: Shared::new(ResourceInputs::new(cluster, ClientDimensions::NONE)), ..port }
    }

    /// Returns the conditions of a rule with shares and subsets beside an endpoint v1 in eu and v2 in us.
    fn shown(shares: &[(&str, &str)], subsets: &[&str]) -> Vec<String> {
        let balancer = LoadBalancer { locality: Some(mk_shares(shares)), ..LoadBalancer::default() };
        let all = TrafficPolicy { balancer: Some(Arc::new(balancer)), ..TrafficPolicy::default() };
        let subset = |name: &&str| SubsetRule {
            name: Subset::new(name).unwrap(),
            labels: [("version", *name)].into_iter().collect(),
            policies: PortPolicies::default(),
        };
        let rule = DestinationRule {
            host: HostPattern::new("pay.shop.svc").unwrap(),
            policies: PortPolicies { all, ..PortPolicies::default() },
            subsets: subsets.iter().map(subset).collect(),
            ..mk_rule("pay.shop.svc", &[])
        };
        let key = PolicyKey { kind: PolicyKind::DestinationRule, namespace: mk_ns("shop"), name: "a".into() };
        let view = ServiceView::clone(&mk_view("pay.shop.svc", "shop", &[Visibility::Public]));
        let view = Arc::new(ServiceView { ports: [mk_shared(shares, subsets, &key)].into(), ..view });
        let policies = [mk_policy("shop", "a", Policy::DestinationRule(rule))].into_iter().collect();
        let catalog = Catalog { complete: true, policies, ..mk_catalog(vec![view]) };
        let all = policy_conditions(&catalog, Beside::default(), &|_| true);
        all.values().flatten().map(|one| format!("{} {}", one.code, one.message)).collect()
    }

    #[test]
    fn share_of_a_subset_without_endpoints_there_is_named() {
        let lost = |parts: &str| {
            format!(
                "TRB0458 no endpoint is in the localities to which the rule distributes the requests of clients {parts}"
            )
        };
        let v1 = lost("in eu/* to pay.shop.svc:80 (subset v1)");
        assert_eq!(shown(&[("eu/*", "us/*")], &["v1", "v2"]), [v1]);
        assert_eq!(shown(&[("eu/*", "us/*")], &[]), [""; 0]);
        let all = lost("in eu/* to pay.shop.svc:80");
        assert_eq!(shown(&[("eu/*", "uk/*")], &["v1", "v2"]), [all], "once for all endpoints");
        let without = shown(&[("eu/*", "us/*")], &["v3"]);
        assert!(without.len() == 1 && !without[0].starts_with("TRB0458"), "{without:?}");
    }

    #[test]
    fn part_of_a_share_without_endpoints_is_named() {
        let lost = |parts: &str| {
            format!(
                "TRB0470 the other localities receive these shares of clients, because no endpoint is there: {parts}"
            )
        };
        assert_eq!(shown(&[("eu/*", "us/*+eu/*")], &[]), [""; 0]);
        let uk = lost("in eu/* for uk/* of pay.shop.svc:80");
        assert_eq!(shown(&[("eu/*", "us/*+uk/*")], &[]), [uk]);
        let v1 = lost("in eu/* for us/* of pay.shop.svc:80 (subset v1)");
        assert_eq!(shown(&[("eu/*", "us/*+eu/*")], &["v1"]), [v1]);
    }
}
