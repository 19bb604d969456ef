//! Content of every bench: services with ports and addresses, as an adapter would report them.

mod policies;

pub(crate) use policies::Policies;

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;

use anyhow::Result;
use tributary_model::declaration::{DeclKey, Declaration, ServiceAddress, ServiceKey};
use tributary_model::{
    Address, AddressRef, Basis, CaptureMode, ClusterId, Collection, CollectionKind, Completeness,
    DeclaredPolicy, EgressListener, EndpointGroup, EndpointGroupKey, Fact, Gateway, GatewayAddress,
    GatewayKey, GroupPort, Health, HostImport, HostPattern, Hostname, Identity, ImportNamespace, Labels,
    Locality, Namespace, NetworkId, ObjectId, Origin, Policy, PolicyKey, PolicyKind, PortName, PortNumber,
    PortSet, Protocol, RegistryUpdate, Scope, ServicePort, Sidecar, Source, Target, Topology, Workload,
    WorkloadAddress, WorkloadKind, WorkloadName,
};

/// Size of the content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) services: usize,
    pub(crate) ports: u16,
    pub(crate) addresses: usize,
    /// Whether each address names the pod behind it, as in a cluster.
    pub(crate) pods: bool,
}

/// Builds facts; repeated values are shared, as adapters share them.
pub(crate) struct World {
    size: Size,
    scope: Scope,
    /// Services take turns in them.
    namespaces: Vec<Namespace>,
    /// The first namespaces with a Sidecar each.
    sidecars: usize,
    /// What each service has.
    policies: Policies,
    /// Whether all endpoints are in a network with a gateway.
    is_gated: bool,
    pods_namespace: Arc<str>,
    places: Vec<Arc<Topology>>,
    labels: Labels,
    ports: Arc<[ServicePort]>,
    port_sets: Vec<PortSet>,
    named: Arc<[(PortName, PortNumber)]>,
    none: Arc<[ServiceKey]>,
}

impl World {
    /// Returns a world of this size.
    pub(crate) fn new(size: Size) -> Result<Self> {
        let mut places = Vec::new();
        for zone in ["a", "b", "c"] {
            let locality = Locality::new("eu", zone, "");
            places.push(Arc::new(Topology {
                cluster: Some(ClusterId::new("bench")?),
                locality,
                ..Topology::default()
            }));
        }
        let mut ports = Vec::new();
        let mut set = Vec::new();
        for n in 0..size.ports {
            let name = PortName::new(format!("http-{n}"))?;
            let number = PortNumber::new(80 + u32::from(n))?;
            let target = Target::Number(PortNumber::new(8080 + u32::from(n))?);
            ports.push(ServicePort { number, name: name.clone(), protocol: Protocol::Http, target });
            set.push(GroupPort { name, number: Some(PortNumber::new(8080 + u32::from(n))?) });
        }
        Ok(Self {
            size,
            scope: Scope::new("bench")?,
            namespaces: vec![Namespace::new("default")?],
            sidecars: 0,
            policies: Policies::default(),
            is_gated: false,
            pods_namespace: "default".into(),
            places,
            labels: [
                ("app", "bench"),
                ("service.istio.io/canonical-name", "bench"),
                ("service.istio.io/canonical-revision", "v1"),
            ]
            .into_iter()
            .collect(),
            ports: ports.into(),
            port_sets: vec![set.into()],
            named: [(PortName::new("http-0")?, PortNumber::new(8080)?)].into(),
            none: Arc::default(),
        })
    }

    /// Returns a world whose services take turns in `namespaces` namespaces. Each of the first `sidecars` has a
    /// Sidecar that imports the namespace and as many others as there are for it, which no other imports.
    pub(crate) fn with_sidecars(size: Size, namespaces: usize, sidecars: usize) -> Result<Self> {
        let namespaces = (0..namespaces).map(|n| Namespace::new(format!("ns-{n}")));
        Ok(Self { namespaces: namespaces.collect::<Result<_, _>>()?, sidecars, ..Self::new(size)? })
    }

    /// Returns a world in one namespace, in which each service has policies of its own.
    pub(crate) fn with_policies(size: Size, policies: Policies) -> Result<Self> {
        Ok(Self { policies, ..Self::with_sidecars(size, 1, 0)? })
    }

    /// Returns a world whose endpoints are in the network `far`, which two gateways lead into.
    pub(crate) fn behind_gateways(size: Size) -> Result<Self> {
        let mut world = Self::new(size)?;
        let network = Some(NetworkId::new("far")?);
        for place in &mut world.places {
            *place = Arc::new(Topology { network: network.clone(), ..Topology::clone(place) });
        }
        Ok(Self { is_gated: true, ..world })
    }

    /// Returns gateway `n` into the network of a world behind gateways.
    fn gateway(&self, n: u16) -> Result<RegistryUpdate> {
        let object = ObjectId::new("Service", "default", format!("gateway-{n}"));
        let address = IpAddr::V4(Ipv4Addr::from(0xcb_00_71_01 + u32::from(n)));
        let gateway = Gateway {
            source: Source::new(object.clone()),
            address: Some(GatewayAddress::Ip(address)),
            mtls_port: Some(PortNumber::new(15_443)?),
            hbone_port: None,
        };
        let (network, cluster) = (NetworkId::new("far")?, ClusterId::new("bench")?);
        let key = GatewayKey { network, cluster, object, index: 0 };
        let fact = Fact::Gateway(key, Arc::new(gateway));
        Ok(RegistryUpdate::Put(self.scope.clone(), fact, Basis::Authoritative))
    }

    /// Returns the collections that a run requires.
    pub(crate) fn collections(&self) -> Vec<Collection> {
        let policies =
            (self.sidecars > 0 || self.policies != Policies::default()).then_some(CollectionKind::Policies);
        let gateways = self.is_gated.then_some(CollectionKind::Gateways);
        let kinds =
            [CollectionKind::Services, CollectionKind::Groups].into_iter().chain(policies).chain(gateways);
        kinds.map(|kind| Collection { scope: self.scope.clone(), kind }).collect()
    }

    /// Returns the updates of a whole run: everything, listed completely.
    pub(crate) fn listing(&self) -> Result<Vec<RegistryUpdate>> {
        self.list(0..self.size.services, 0)
    }

    /// Returns a complete list of some services, each with its first `moved` addresses replaced by new ones.
    pub(crate) fn list(&self, services: Range<usize>, moved: usize) -> Result<Vec<RegistryUpdate>> {
        let collections = self.collections();
        let mut all = vec![RegistryUpdate::Follows { required: collections.clone(), optional: Vec::new() }];
        all.extend(collections.iter().cloned().map(RegistryUpdate::ListStarted));
        for sidecar in 0..self.sidecars {
            all.push(self.sidecar(sidecar)?);
        }
        if self.policies.mesh {
            all.extend(self.inbound()?);
        }
        if self.is_gated {
            all.extend([self.gateway(0)?, self.gateway(1)?]);
        }
        for service in services {
            all.push(self.declare(service)?);
            all.push(self.group(service, moved)?);
            if self.policies.rules || self.policies.mesh {
                all.push(self.rule(service, 1_000)?);
            }
            if self.policies.routes {
                all.push(self.route(service, 90)?);
            }
        }
        all.extend(collections.into_iter().map(|c| RegistryUpdate::ListEnded(c, Completeness::Complete)));
        Ok(all)
    }

    /// Returns a list of `count` workloads that no service selects, such as a cluster's pods that share labels,
    /// account and locality.
    pub(crate) fn workloads(&self, count: usize) -> Result<Vec<RegistryUpdate>> {
        let of = Collection { scope: self.scope.clone(), kind: CollectionKind::Workloads };
        let mut all = vec![
            RegistryUpdate::Follows { required: vec![of.clone()], optional: Vec::new() },
            RegistryUpdate::ListStarted(of.clone()),
        ];
        for n in 0..count {
            all.push(self.workload(n)?);
        }
        all.push(RegistryUpdate::ListEnded(of, Completeness::Complete));
        Ok(all)
    }

    /// Returns the number of services.
    pub(crate) fn services(&self) -> usize {
        self.size.services
    }

    /// Returns the host of service `n`.
    pub(crate) fn host(&self, service: usize) -> String {
        format!("service-{service}.{}.svc.cluster.local", self.namespace(service))
    }

    fn namespace(&self, service: usize) -> &Namespace {
        &self.namespaces[service % self.namespaces.len()]
    }

    /// Returns the Sidecar of namespace `n`.
    fn sidecar(&self, n: usize) -> Result<RegistryUpdate> {
        let others = self.namespaces.len() / self.sidecars - 1;
        let first = self.sidecars + n * others;
        let imported = self.namespaces[first..first + others].iter().chain([&self.namespaces[n]]);
        let import = |namespace: &Namespace| {
            Ok(HostImport {
                namespace: ImportNamespace::Named(namespace.clone()),
                host: HostPattern::new("*")?,
            })
        };
        let hosts = imported.map(import).collect::<Result<_>>()?;
        let listener = EgressListener { port: None, bind: None, capture: CaptureMode::Default, hosts };
        let namespace = self.namespaces[n].clone();
        let declared = DeclaredPolicy {
            source: Source::new(ObjectId::new("Sidecar", namespace.as_str(), "default")),
            created: None,
            policy: Policy::Sidecar(Sidecar { egress: [listener].into(), ..Sidecar::default() }),
        };
        let key = PolicyKey { kind: PolicyKind::Sidecar, namespace, name: "default".into() };
        let fact = Fact::Policy(key, Arc::new(declared));
        Ok(RegistryUpdate::Put(self.scope.clone(), fact, Basis::Authoritative))
    }

    /// Returns the key of service `n`.
    pub(crate) fn key(&self, service: usize) -> Result<ServiceKey> {
        Ok(ServiceKey {
            host: Hostname::new(self.host(service))?,
            namespace: self.namespace(service).clone(),
        })
    }

    fn object(&self, service: usize) -> ObjectId {
        ObjectId::new("Service", self.namespace(service).as_str(), format!("service-{service}"))
    }

    fn declare(&self, service: usize) -> Result<RegistryUpdate> {
        let object = self.object(service);
        let ip = IpAddr::V4(Ipv4Addr::from(0xf0_f0_00_00 + u32::try_from(service)?));
        let declaration = Declaration {
            ports: self.ports.clone(),
            addresses: [ServiceAddress { cluster: None, ip, prefix: 32, allocated: false }].into(),
            ..Declaration::new(Source::new(object.clone()))
        };
        let key = DeclKey { service: self.key(service)?, object };
        Ok(RegistryUpdate::Put(
            self.scope.clone(),
            Fact::Service(key, Arc::new(declaration)),
            Basis::Authoritative,
        ))
    }

    /// Returns the endpoints of a service after its first `moved` addresses were replaced by new ones.
    pub(crate) fn group(&self, service: usize, moved: usize) -> Result<RegistryUpdate> {
        let workload: Arc<str> = format!("service-{service}").into();
        let addresses =
            (0..self.size.addresses).map(|n| self.address(service, n, n < moved, &workload)).collect();
        let object =
            ObjectId::new("EndpointSlice", self.namespace(service).as_str(), format!("service-{service}-x"));
        let group =
            EndpointGroup::new(Source::new(object.clone()), self.port_sets.clone(), vec![], addresses);
        let key = EndpointGroupKey {
            service: self.key(service)?,
            declaration: self.object(service),
            object,
            bucket: 0,
        };
        Ok(RegistryUpdate::Put(self.scope.clone(), Fact::Group(key, Arc::new(group)), Basis::Authoritative))
    }

    /// Returns a pod beside an address of the same number.
    fn workload(&self, n: usize) -> Result<RegistryUpdate> {
        let name: Arc<str> = format!("service-{}-6d4cf56db6-{:05}", n / 100, n % 100).into();
        let object =
            ObjectId { kind: "Pod", namespace: Arc::clone(&self.pods_namespace), name: Arc::clone(&name) };
        let place = Arc::clone(&self.places[n % self.places.len()]);
        let key = WorkloadName {
            namespace: self.namespace(n).clone(),
            kind: WorkloadKind::Pod,
            name,
            cluster: ClusterId::new("bench")?,
        };
        let workload = Workload {
            source: Source::new(object),
            addresses: [WorkloadAddress::Ip(self.ip(0, n, false))].into(),
            ports: Arc::clone(&self.named),
            labels: self.labels.clone(),
            augmented: self.labels.clone(),
            topology: place,
            identity: None,
            account: Arc::clone(&self.pods_namespace),
            health: Health::Healthy,
            mtls: true,
            weight: 1,
            name: Arc::clone(&self.pods_namespace),
            listed: Arc::clone(&self.none),
        };
        let fact = Fact::Workload(key.into(), Arc::new(workload));
        Ok(RegistryUpdate::Put(self.scope.clone(), fact, Basis::Authoritative))
    }

    /// Returns address `n` of a service; localities alternate.
    pub(crate) fn ip(&self, service: usize, n: usize, moved: bool) -> IpAddr {
        let index = service * self.size.addresses + n;
        let base: u32 = if moved { 0x0b_00_00_00 } else { 0x0a_00_00_00 };
        IpAddr::V4(Ipv4Addr::from(base + u32::try_from(index).unwrap_or(u32::MAX - base)))
    }

    fn address(&self, service: usize, n: usize, moved: bool, workload: &Arc<str>) -> Address {
        let place = Arc::clone(&self.places[n % self.places.len()]);
        let labels = self.labels.clone();
        let pod = || Origin {
            object: ObjectId {
                kind: "Pod",
                namespace: Arc::clone(&self.pods_namespace),
                name: format!("service-{service}-6d4cf56db6-{n:05}").into(),
            },
            workload: Arc::clone(workload),
        };
        let origin = self.size.pods.then(|| Arc::new(pod()));
        let at = AddressRef::Ip(self.ip(service, n, moved));
        let identity = self.policies.mesh.then(|| Identity::new(self.identity(service)).ok()).flatten();
        Address { labels, mtls: true, origin, identity, ..Address::new(at, place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_contains_every_fact_once() {
        let world = World::new(Size { services: 3, ports: 2, addresses: 4, pods: true }).unwrap();
        let deltas = world.listing().unwrap();
        let puts = deltas.iter().filter(|d| matches!(d, RegistryUpdate::Put(..))).count();
        assert_eq!(puts, 6);
        assert_ne!(world.ip(0, 0, false), world.ip(0, 0, true));
    }
}
