//! Traffic policy of a bench: for each service a DestinationRule with settings and a subset, and a VirtualService with
//! weights between the service and its subset.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use tributary_model::{
    Attribute, AttributeMatch, AuthorizationAction, AuthorizationPolicy, AuthorizationRule, Basis,
    ConnectionPool, DeclaredPolicy, DestinationRule, ExportTo, Fact, HostPattern, Hostname, HttpAction,
    HttpRoute, MtlsMode, ObjectId, OutlierDetection, PeerAuthentication, Policy, PolicyKey, PolicyKind,
    PortPolicies, RegistryUpdate, RouteDestination, RoutePosition, RouteSettings, Source, Subset, SubsetRule,
    TrafficPolicy, ValueMatch, VirtualService, WeightedDestination,
};

use super::World;

/// Policies that each service has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Policies {
    /// A DestinationRule.
    pub(crate) rules: bool,
    /// A VirtualService.
    pub(crate) routes: bool,
    /// Mesh TLS with an identity of its own, and a DestinationRule without a subset. The namespace has a PeerAuthentication
    /// and an AuthorizationPolicy.
    pub(crate) mesh: bool,
}

impl World {
    /// Returns the DestinationRule of a service, which allows so many connections.
    pub(crate) fn rule(&self, service: usize, connections: u32) -> Result<RegistryUpdate> {
        let v1 = [("service.istio.io/canonical-revision", "v1")];
        let subset = SubsetRule {
            name: Subset::new("v1").context("name of a subset")?,
            labels: v1.into_iter().collect(),
            policies: PortPolicies::default(),
        };
        let subsets = if self.policies.mesh { Arc::default() } else { [subset].into() };
        let rule = DestinationRule {
            host: HostPattern::new(self.host(service))?,
            export: ExportTo::default(),
            selector: Default::default(),
            policies: PortPolicies::new(settings(connections), Default::default()),
            subsets,
            ignored: Arc::default(),
        };
        let (kind, name) = (PolicyKind::DestinationRule, format!("service-{service}"));
        self.policy(service, kind, &name, Policy::DestinationRule(rule))
    }

    /// Returns the VirtualService of a service, with this weight of 100 for the service and the rest for its subset.
    pub(crate) fn route(&self, service: usize, weight: u32) -> Result<RegistryUpdate> {
        let host = Hostname::new(self.host(service))?;
        let to = |subset: Option<Subset>, weight| {
            let destination = RouteDestination { host: host.clone(), subset, port: None };
            WeightedDestination { destination, weight, headers: None }
        };
        let destinations = [to(None, weight), to(Subset::new("v1"), 100 - weight)];
        let http = HttpRoute {
            name: "".into(),
            matches: Arc::default(),
            action: HttpAction::Route(destinations.into()),
            settings: RouteSettings::default(),
            delegate: None,
            position: RoutePosition::default(),
        };
        let routes = VirtualService {
            hosts: [host.into()].into(),
            export: ExportTo::default(),
            mesh: true,
            http: [http].into(),
            tls: Arc::default(),
            tcp: Arc::default(),
            ignored: Arc::default(),
        };
        let (kind, name) = (PolicyKind::VirtualService, format!("service-{service}"));
        self.policy(service, kind, &name, Policy::VirtualService(routes))
    }

    /// Returns the policies of inbound connections of the first namespace: mesh TLS alone, from ten accounts.
    pub(crate) fn inbound(&self) -> Result<[RegistryUpdate; 2]> {
        let peers = PeerAuthentication { mode: Some(MtlsMode::Strict), ..PeerAuthentication::default() };
        let account = |n| ValueMatch::Exact(self.identity(n).trim_start_matches("spiffe://").into());
        let values = (0..10).map(account).collect();
        let from = AttributeMatch { of: Attribute::Principal, values, not: Arc::default() };
        let rule = AuthorizationRule { from: [[from].into()].into(), ..AuthorizationRule::default() };
        let authorization = AuthorizationPolicy {
            selector: Default::default(),
            action: AuthorizationAction::Allow,
            is_dry_run: false,
            rules: [rule].into(),
            ignored: Arc::default(),
        };
        Ok([
            self.policy(0, PolicyKind::PeerAuthentication, "all", Policy::PeerAuthentication(peers))?,
            self.policy(
                0,
                PolicyKind::AuthorizationPolicy,
                "all",
                Policy::AuthorizationPolicy(authorization),
            )?,
        ])
    }

    /// Returns the identity of a service's endpoints.
    pub(crate) fn identity(&self, service: usize) -> String {
        format!("spiffe://cluster.local/ns/{}/sa/service-{service}", self.namespace(service))
    }

    /// Returns a policy in the namespace of a service.
    fn policy(&self, service: usize, kind: PolicyKind, name: &str, policy: Policy) -> Result<RegistryUpdate> {
        let namespace = self.namespace(service).clone();
        let name: Arc<str> = name.into();
        let object =
            ObjectId { kind: kind.as_str(), namespace: namespace.to_shared(), name: Arc::clone(&name) };
        let source = Source::new(object);
        let key = PolicyKey { kind, namespace, name };
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
