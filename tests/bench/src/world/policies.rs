//! Traffic policy of a bench: a DestinationRule for each service, with settings and a subset.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use tributary_model::{
    Basis, ConnectionPool, DeclaredPolicy, DestinationRule, ExportTo, Fact, HostPattern, ObjectId,
    OutlierDetection, Policy, PolicyKey, PolicyKind, PortPolicies, RegistryUpdate, Source, Subset,
    SubsetRule, TrafficPolicy,
};

use super::World;

impl World {
    /// Returns the DestinationRule of a service, which allows so many connections.
    pub(crate) fn rule(&self, service: usize, connections: u32) -> Result<RegistryUpdate> {
        let v1 = [("service.istio.io/canonical-revision", "v1")];
        let subset = SubsetRule {
            name: Subset::new("v1").context("name of a subset")?,
            labels: v1.into_iter().collect(),
            policies: PortPolicies::default(),
        };
        let rule = DestinationRule {
            host: HostPattern::new(self.host(service))?,
            export: ExportTo::default(),
            selector: Default::default(),
            policies: PortPolicies { all: settings(connections), ..PortPolicies::default() },
            subsets: [subset].into(),
            ignored: Arc::default(),
        };
        let (kind, name) = (PolicyKind::DestinationRule, format!("service-{service}"));
        self.policy(service, kind, &name, Policy::DestinationRule(rule))
    }

    /// Returns a policy in the namespace of a service.
    fn policy(&self, service: usize, kind: PolicyKind, name: &str, policy: Policy) -> Result<RegistryUpdate> {
        let namespace = self.namespace(service).clone();
        let source = Source::new(ObjectId::new(kind.as_str(), namespace.as_str(), name));
        let key = PolicyKey { kind, namespace, name: name.into() };
        let fact = Fact::Policy(key, Arc::new(DeclaredPolicy { source, created: None, policy }));
        Ok(RegistryUpdate::Put(self.scope.clone(), fact, Basis::Authoritative))
    }
}

fn settings(connections: u32) -> TrafficPolicy {
    let pool = ConnectionPool { max_connections: Some(connections), ..ConnectionPool::default() };
    let outliers = OutlierDetection { server_errors: Some(5), ..OutlierDetection::default() };
    TrafficPolicy {
        pool: Some(Arc::new(pool)),
        outliers: Some(Arc::new(outliers)),
        ..TrafficPolicy::default()
    }
}
