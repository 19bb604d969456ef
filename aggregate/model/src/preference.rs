//! How clients order the endpoints of a port: what a rule sets, else the traffic distribution of the service, else the
//! setting of the mesh.
//!
//! The core declares client dimensions by it, answer orders endpoints by it, and the plan of an xDS cluster decides by it
//! whether clients weigh localities.

use std::sync::Arc;

use crate::declaration::TrafficDistribution;
use crate::destination_rule::EndpointUse;
use crate::traffic_policy::{ClientTls, Distribution, FailoverLabel, LocalityBalancing, TrafficPolicy};
use crate::view::EndpointInputs;

/// How a client orders the endpoints of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference<'a> {
    /// All alike.
    Alike,
    /// By the traffic distribution of the service, never [`TrafficDistribution::Any`].
    Near(TrafficDistribution),
    /// The nearest first.
    Failover {
        /// Region that replaces another one.
        regions: &'a [(Arc<str>, Arc<str>)],
        /// Labels that decide before localities; without any, localities decide alone.
        labels: &'a Arc<[FailoverLabel]>,
    },
    /// By shares of localities.
    Distribute(&'a [Distribution]),
}

impl<'a> Preference<'a> {
    /// Returns the preference under what a rule sets, if one applies, and under the setting of the mesh. Failover needs
    /// ejection: without it, clients never leave the first endpoints.
    #[must_use]
    pub fn of(
        order: Option<&'a EndpointUse>,
        traffic: TrafficDistribution,
        mesh: Option<&'a LocalityBalancing>,
    ) -> Self {
        let is_near = traffic != TrafficDistribution::Any;
        let ejects = order.is_some_and(|order| order.ejects);
        let ruled = order.and_then(|order| order.locality.as_ref());
        let set = ruled.or(if is_near { None } else { mesh });
        match set {
            Some(LocalityBalancing::Distribute(shares)) => Self::Distribute(shares),
            Some(LocalityBalancing::Failover { regions, labels }) if ejects => {
                Self::Failover { regions, labels }
            }
            Some(LocalityBalancing::Off | LocalityBalancing::Failover { .. }) => Self::Alike,
            None if is_near => Self::Near(traffic),
            None if ejects => Self::Failover { regions: &[], labels: no_labels() },
            None => Self::Alike,
        }
    }
    /// Whether failover compares localities.
    #[must_use]
    pub fn compares_localities(&self) -> bool {
        matches!(self, Self::Failover { regions, labels } if labels.is_empty() || !regions.is_empty())
    }
    /// Whether clients choose among the localities of a priority by their weights, as in Istio.
    #[must_use]
    pub fn weighs_localities(&self) -> bool {
        match self {
            Self::Alike => false,
            Self::Near(_) | Self::Distribute(_) => true,
            Self::Failover { regions, labels } => !regions.is_empty() || !labels.is_empty(),
        }
    }
}

fn no_labels() -> &'static Arc<[FailoverLabel]> {
    static NONE: std::sync::LazyLock<Arc<[FailoverLabel]>> = std::sync::LazyLock::new(Arc::default);
    &NONE
}

impl EndpointUse {
    /// Returns the order that the settings of an xDS cluster set.
    #[must_use]
    pub fn of(policy: &TrafficPolicy) -> Self {
        let locality = policy.balancer.as_ref().and_then(|balancer| balancer.locality.clone());
        Self { locality, ejects: policy.outliers.is_some(), ..Self::default() }
    }
    /// Adds what decides whether gateways stand in for endpoints in other networks.
    #[must_use]
    pub fn with_tls(self, policy: &TrafficPolicy) -> Self {
        let is_mesh = |tls: &Arc<ClientTls>| matches!(**tls, ClientTls::IstioMutual(_));
        Self { mesh_tls: policy.tls.as_ref().map(is_mesh), passes: policy.passes(), ..self }
    }
}

impl EndpointInputs {
    /// Returns the preferences of any client for all endpoints and for those of subsets.
    pub fn preferences(&self) -> impl Iterator<Item = Preference<'_>> {
        let usual = self.policy.is_none().then(|| self.preference(None));
        let policies = self.policy.iter().flat_map(|policy| policy.values());
        usual.into_iter().chain(policies.flat_map(|policy| {
            let subsets = policy.iter().flat_map(|policy| policy.subsets.iter());
            let whole = self.preference(policy.as_ref().map(|policy| &policy.whole));
            subsets.map(|(_, _, order)| self.preference(Some(order))).chain([whole])
        }))
    }
    /// Returns the preference under what a rule sets, if one applies.
    #[must_use]
    pub fn preference<'a>(&'a self, order: Option<&'a EndpointUse>) -> Preference<'a> {
        Preference::of(order, self.traffic, self.locality.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_order(locality: Option<LocalityBalancing>, ejects: bool) -> EndpointUse {
        EndpointUse { locality, ejects, mesh_tls: None, passes: false }
    }
    fn shown(preference: Preference<'_>) -> (&'static str, bool) {
        let text = match preference {
            Preference::Alike => "alike",
            Preference::Near(_) => "near",
            Preference::Failover { .. } => "failover",
            Preference::Distribute(_) => "distribute",
        };
        (text, preference.weighs_localities())
    }

    #[test]
    fn rule_precedes_traffic_distribution_and_failover_needs_ejection() {
        use TrafficDistribution::{Any, SameZone};
        let failover = |regions: &[(&str, &str)], labels: &[&str]| {
            let label = |key: &&str| FailoverLabel { key: (*key).into(), value: None };
            let regions = regions.iter().map(|(from, to)| ((*from).into(), (*to).into())).collect();
            Some(LocalityBalancing::Failover { regions, labels: labels.iter().map(label).collect() })
        };
        let shares = Some(LocalityBalancing::Distribute(Arc::default()));
        // setting, ejection, traffic distribution, preference, whether localities are weighed
        let cases = [
            (None, false, Any, "alike", false),
            (None, true, Any, "failover", false),
            (None, false, SameZone, "near", true),
            (None, true, SameZone, "near", true),
            (Some(LocalityBalancing::Off), true, Any, "alike", false),
            (Some(LocalityBalancing::Off), true, SameZone, "alike", false),
            (failover(&[], &[]), false, SameZone, "alike", false),
            (failover(&[], &[]), true, SameZone, "failover", false),
            (failover(&[("a", "b")], &[]), true, Any, "failover", true),
            (failover(&[("a", "b")], &[]), false, Any, "alike", false),
            (failover(&[], &["tier"]), true, Any, "failover", true),
            (failover(&[], &["tier"]), false, SameZone, "alike", false),
            (shares.clone(), false, SameZone, "distribute", true),
            (shares, true, Any, "distribute", true),
        ];
        for (locality, ejects, traffic, text, weighs) in cases {
            let order = mk_order(locality, ejects);
            assert_eq!(
                shown(Preference::of(Some(&order), traffic, None)),
                (text, weighs),
                "{order:?} {traffic:?}"
            );
        }
        assert_eq!(shown(Preference::of(None, SameZone, None)), ("near", true));
        assert_eq!(shown(Preference::of(None, Any, None)), ("alike", false));
    }

    #[test]
    fn mesh_decides_where_neither_rule_nor_traffic_distribution_does() {
        use TrafficDistribution::{Any, SameZone};
        let shares = || LocalityBalancing::Distribute(Arc::default());
        let regions = [("a".into(), "b".into())];
        let failover =
            || LocalityBalancing::Failover { regions: regions.clone().into(), labels: Arc::default() };
        // setting of a rule, ejection, traffic distribution, setting of the mesh, preference
        let cases = [
            (None, false, Any, shares(), "distribute"),
            (None, true, Any, shares(), "distribute"),
            (None, true, SameZone, shares(), "near"),
            (Some(LocalityBalancing::Off), true, Any, shares(), "alike"),
            (Some(failover()), true, Any, shares(), "failover"),
            (Some(shares()), true, Any, LocalityBalancing::Off, "distribute"),
            (None, false, Any, failover(), "alike"),
            (None, true, Any, failover(), "failover"),
            (None, true, Any, LocalityBalancing::Off, "alike"),
        ];
        for (locality, ejects, traffic, mesh, text) in cases {
            let order = mk_order(locality, ejects);
            let of = |order| shown(Preference::of(order, traffic, Some(&mesh))).0;
            assert_eq!(of(Some(&order)), text, "{order:?} {traffic:?} {mesh:?}");
        }
        assert_eq!(shown(Preference::of(None, Any, Some(&shares()))), ("distribute", true));
        assert_eq!(shown(Preference::of(None, Any, Some(&failover()))), ("alike", false));
    }
}
