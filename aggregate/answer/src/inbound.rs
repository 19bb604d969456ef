//! Finds a client's own workload, and the ports on which it receives: those of its services, those of the
//! Sidecar that applies to it ([`ingress`]), or those on which a gRPC server listens ([`server`]).

mod ingress;
mod server;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    Catalog, CertificateSource, ClientKind, CollectionKind, EndpointInputs, Labels, MtlsMode, PeerModes,
    PortNumber, Protocol, UnreadCollection, WorkloadAddress, WorkloadKey, WorkloadView, labels::TLS_MODE,
};

use crate::authorization::AuthorizationChain;
use crate::client::{Client, ClientClass};
use crate::selected::SelectedPolicies;
use crate::tokens::TokenChecks;
use crate::vip::ListenAddress;
pub use ingress::{InboundPath, InboundTarget};
pub use server::{GrpcServer, grpc_server, listens_at};

/// What makes the inbound side of a client its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnSide<'a> {
    /// Workloads that it runs.
    pub workloads: &'a [WorkloadKey],
    /// Its addresses, as its node lists them.
    pub ips: &'a [IpAddr],
}

/// Port on which services reach a client's own workload. It has only what resources are encoded from: workloads
/// with equal ports share their resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InboundPort {
    /// Port on which the workload listens.
    pub target: PortNumber,
    /// Port of the first service, by which virtual hosts are named.
    pub service: PortNumber,
    /// Protocol, from that service.
    pub protocol: Protocol,
    /// Whether it takes mesh TLS and plain text.
    pub mode: MtlsMode,
}

/// How a sidecar secures the connections that it receives.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InboundSecurity {
    /// Modes of its ports, of which some may have no service.
    pub modes: Arc<PeerModes>,
    /// How it ends mesh TLS; `None` if it cannot.
    pub tls: Option<InboundTls>,
    /// Which requests and connections it accepts; `None` for all.
    pub authorization: Option<InboundAuthorization>,
    /// How it checks tokens of requests.
    pub tokens: Option<Arc<TokenChecks>>,
}

/// Which requests and connections a workload accepts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InboundAuthorization {
    /// Policies of its workload.
    pub policies: Arc<AuthorizationChain>,
    /// Trust domains of its clients: that of the mesh, then its aliases.
    pub domains: Arc<[Arc<str>]>,
}

/// How a sidecar ends mesh TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InboundTls {
    /// Where it has its certificates.
    pub certificates: CertificateSource,
    /// Trust domains of its clients: that of the mesh, then its aliases.
    pub domains: Arc<[Arc<str>]>,
}

/// Returns how a sidecar secures the connections that it receives.
#[must_use]
pub fn inbound_security(catalog: &Catalog, class: &ClientClass) -> InboundSecurity {
    let certificates =
        Some(&class.certificates).filter(|source| class.inbound.is_some() && source.is_known());
    let tls = certificates
        .map(|source| InboundTls { certificates: source.clone(), domains: catalog.settings.trust_domains() });
    let authorization = class.authorization.as_ref().map(|policies| InboundAuthorization {
        policies: Arc::clone(policies),
        domains: catalog.settings.trust_domains(),
    });
    let modes =
        class.inbound.clone().unwrap_or_else(|| Arc::new(PeerModes::default().settled(MtlsMode::Disable)));
    InboundSecurity { modes, tls, authorization, tokens: class.tokens.clone() }
}

/// Returns which connections the ports of a workload with these labels accept: as the policies that select it set it, else mesh
/// TLS and plain text where automatic mesh TLS is on. `None` for plain text alone: a sidecar without certificates accepts it
/// where it need not refuse it.
#[must_use]
pub fn inbound_modes(
    catalog: &Catalog,
    class: &ClientClass,
    labels: &Labels,
    selected: &SelectedPolicies,
) -> Option<Arc<PeerModes>> {
    match class.kind {
        ClientKind::Sidecar => sidecar_modes(catalog, class, selected),
        ClientKind::Grpc => server_modes(catalog, labels, selected),
        ClientKind::Envoy | ClientKind::Router => None,
    }
}

/// A gRPC server cannot see in the first bytes of a connection what it is. Where it may take both, it takes what its workload is
/// declared to: mesh TLS if other workloads send it.
fn server_modes(catalog: &Catalog, labels: &Labels, selected: &SelectedPolicies) -> Option<Arc<PeerModes>> {
    let is_meshed = labels.get(TLS_MODE) == Some("istio");
    let permissive = if is_meshed { MtlsMode::Strict } else { MtlsMode::Disable };
    let applies = selected.has_peers || catalog.settings.auto_mtls();
    let modes = applies.then(|| selected.modes.settled(permissive))?;
    modes.refuses_plain().then(|| Arc::new(modes))
}

fn sidecar_modes(
    catalog: &Catalog,
    class: &ClientClass,
    selected: &SelectedPolicies,
) -> Option<Arc<PeerModes>> {
    let has_certificates = class.certificates.is_known();
    let applies = if selected.has_peers {
        has_certificates || selected.modes.refuses_plain()
    } else {
        has_certificates && catalog.settings.auto_mtls()
    };
    applies.then(|| Arc::clone(&selected.modes))
}

/// Whether inbound listeners must wait: the policies of a registry were never read, and may refuse what they would accept.
#[must_use]
pub fn withholds_inbound(catalog: &Catalog, class: &ClientClass) -> bool {
    class.kind.receives() && unread_policies(catalog).next().is_some()
}

/// Returns the policies that were never read.
pub fn unread_policies(catalog: &Catalog) -> impl Iterator<Item = UnreadCollection<'_>> {
    catalog.unread().filter(|unread| unread.collection.kind == CollectionKind::Policies)
}

/// Mode of a port of the workload.
fn mode(class: &ClientClass, port: PortNumber) -> MtlsMode {
    class.inbound.as_ref().map_or(MtlsMode::Disable, |modes| modes.of(port))
}

/// Returns the client's own workload, by its addresses. Of several workloads it prefers the one with the client's
/// name, then one of its namespace and cluster, then the first (`docs/explanation/model.md`).
#[must_use]
pub fn own_workload<'c>(catalog: &'c Catalog, client: &Client) -> Option<&'c WorkloadKey> {
    let name = client.id.split('~').nth(2).unwrap_or_default();
    let keys = client.ips.iter().filter_map(|ip| catalog.workload_ips.get(ip)).flat_map(|keys| keys.iter());
    keys.filter(|key| may_be(key, client)).min_by_key(|key| {
        let named = name.strip_prefix(&*key.name).and_then(|rest| rest.strip_prefix('.'));
        let other_name = named != Some(key.namespace.as_str());
        let other_namespace = Some(&key.namespace) != client.class.namespace.as_ref();
        let other_cluster = Some(&key.cluster) != client.class.cluster.as_ref();
        (other_name, other_namespace, other_cluster, *key)
    })
}

/// Whether the workload may be the client. A workload of a different namespace only shares the address.
fn may_be(key: &WorkloadKey, client: &Client) -> bool {
    client.class.namespace.as_ref().is_none_or(|ns| *ns == key.namespace)
}

/// Returns the ports on which a sidecar receives, sorted by number: the ingress listeners of its Sidecar alone if it
/// has any, else the ports on which services reach its workloads. The latter are only captured: a client whose
/// listeners bind would take the ports of its own application.
#[must_use]
pub fn received(catalog: &Catalog, class: &ClientClass, own: OwnSide<'_>) -> Vec<InboundPath> {
    match &class.sidecar {
        Some(sidecar) if !sidecar.ingress.is_empty() => {
            let mut paths = ingress::paths(&sidecar.ingress, class, own.ips);
            paths.retain(|path| is_open(path, class));
            paths
        }
        _ if class.binds => Vec::new(),
        _ => {
            let ports = inbound(catalog, class, own.workloads).into_iter();
            ports.map(InboundPath::captured).collect()
        }
    }
}

/// Whether the client can listen where a path needs a socket.
fn is_open(path: &InboundPath, class: &ClientClass) -> bool {
    let closed = |at: ListenAddress| class.closed.reason(at.ip, path.port.target.get(), true).is_some();
    !path.bind.is_some_and(closed)
}

/// Returns the ports on which services reach these workloads, sorted by number.
#[must_use]
fn inbound(catalog: &Catalog, class: &ClientClass, own: &[WorkloadKey]) -> Vec<InboundPort> {
    let mut out: BTreeMap<PortNumber, InboundPort> = BTreeMap::new();
    for workload in own.iter().filter_map(|key| catalog.workloads.get(key)) {
        let ips = ips(workload);
        for service in workload.services.iter() {
            for port in catalog.service(service).iter().flat_map(|view| view.ports.iter()) {
                if port.protocol == Protocol::Udp {
                    continue;
                }
                for target in targets(&port.endpoints.inputs, &ips) {
                    out.entry(target).or_insert_with(|| InboundPort {
                        target,
                        service: port.number,
                        protocol: port.protocol,
                        mode: mode(class, target),
                    });
                }
            }
        }
    }
    out.into_values().collect()
}

fn ips(workload: &WorkloadView) -> Vec<IpAddr> {
    let ip = |address: &WorkloadAddress| match address {
        WorkloadAddress::Ip(ip) => Some(*ip),
        WorkloadAddress::Name(_) | WorkloadAddress::Unix(_) => None,
    };
    workload.workload.addresses.iter().filter_map(ip).collect()
}

/// Returns the ports that addresses of the workload have for a service port.
fn targets(facts: &EndpointInputs, ips: &[IpAddr]) -> Vec<PortNumber> {
    let mut out = Vec::new();
    for source in facts.sources.iter() {
        for address in source.group.addresses.iter() {
            if !address.ip().is_some_and(|ip| ips.contains(&ip)) {
                continue;
            }
            let index = source.ports.get(usize::from(address.port_set)).copied().flatten();
            let port = index.and_then(|i| source.group.ports(address).get(usize::from(i)));
            out.extend(port.and_then(|p| p.number));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::*;

    use super::*;
    use crate::fixtures::*;

    fn mk_workload(name: &str, namespace: &str, cluster: &str) -> WorkloadKey {
        WorkloadKey::from(tributary_model::WorkloadName {
            namespace: mk_ns(namespace),
            kind: WorkloadKind::Entry,
            name: name.into(),
            cluster: ClusterId::new(cluster).unwrap(),
        })
    }
    fn mk_catalog_at(ip: &str, keys: &[WorkloadKey]) -> Catalog {
        let mut catalog = Catalog::default();
        catalog.workload_ips.insert(ip.parse().unwrap(), Shared::new(keys.into()));
        catalog
    }
    fn mk_sidecar(id: &str, namespace: Option<&str>) -> Client {
        let mut client = Client::new(id, ClientKind::Sidecar);
        client.ips = ["10.0.0.1".parse().unwrap()].into();
        client.class.namespace = namespace.map(mk_ns);
        client
    }

    #[test]
    fn client_matches_workload_by_name_then_by_namespace() {
        let keys =
            [mk_workload("a", "cart", "c1"), mk_workload("b", "shop", "c1"), mk_workload("c", "shop", "c1")];
        let catalog = mk_catalog_at("10.0.0.1", &keys);
        let own =
            |id, namespace| own_workload(&catalog, &mk_sidecar(id, namespace)).map(|k| k.name.to_string());
        assert_eq!(own("sidecar~10.0.0.1~c.shop~x", Some("shop")).as_deref(), Some("c"));
        assert_eq!(own("sidecar~10.0.0.1~z.shop~x", Some("shop")).as_deref(), Some("b"));
        assert_eq!(own("sidecar~10.0.0.1~z.web~x", Some("web")), None, "another workload with its address");
        assert_eq!(own("plain", None).as_deref(), Some("a"));
        let elsewhere = mk_catalog_at("10.0.0.2", &keys);
        assert_eq!(own_workload(&elsewhere, &mk_sidecar("x", None)), None);
    }

    #[test]
    fn inbound_ports_are_the_ports_of_the_workload() {
        let key = mk_workload("b", "shop", "c1");
        let mut catalog = mk_catalog_at("10.0.0.1", std::slice::from_ref(&key));
        let facts = mk_one(vec![mk_address("10.0.0.1"), mk_address("10.0.0.2")]);
        let view = mk_view("pay.shop", "shop", &[Visibility::Public]);
        let view = ServiceView { ports: [mk_port_view(facts)].into(), ..Arc::into_inner(view).unwrap() };
        let services = Arc::from([view.key.clone()]);
        catalog.hosts.insert(
            view.key.host.clone(),
            Shared::new(HostEntry {
                claimants: [Arc::new(view)].into(),
                led_by: Arc::default(),
                routes: None,
            }),
        );
        let workload = Workload {
            addresses: [WorkloadAddress::Ip("10.0.0.1".parse().unwrap())].into(),
            name: "b".into(),
            ..Workload::new(Source::new(ObjectId::new("WorkloadEntry", "shop", "b")))
        };
        let workload = WorkloadView { shard: mk_shard("east"), workload: workload.into(), services };
        catalog.workloads.insert(key.clone(), Shared::new(workload));
        let (protocol, mode) = (Protocol::Http, MtlsMode::Permissive);
        let wanted = InboundPort { target: mk_port(8080), service: mk_port(80), protocol, mode };
        let inbound = Some(Arc::new(PeerModes::default()));
        let class = ClientClass { inbound, ..ClientClass::new(ClientKind::Sidecar) };
        assert_eq!(super::inbound(&catalog, &class, &[key]), [wanted]);
    }

    /// Returns the usual mode of a sidecar of `shop` with or without certificates, with or without a policy of this mode.
    fn usual(certificates: bool, auto: bool, policy: Option<MtlsMode>) -> Option<MtlsMode> {
        let settings = Settings { auto_mtls: Some(auto), ..Settings::default() };
        let mut catalog = Catalog { settings: Shared::new(settings), ..Catalog::default() };
        if let Some(mode) = policy {
            let policy = PeerAuthentication { mode: Some(mode), ..PeerAuthentication::default() };
            let (key, view) = mk_policy("shop", "p", Policy::PeerAuthentication(policy));
            catalog.policies.insert(key, view);
        }
        let certificates = if certificates { CertificateSource::Files } else { CertificateSource::None };
        let namespace = Some(mk_ns("shop"));
        let class = ClientClass { certificates, namespace, ..ClientClass::new(ClientKind::Sidecar) };
        accepted(&catalog, &class).map(|modes| modes.usual())
    }
    /// Returns which connections a client without labels accepts.
    fn accepted(catalog: &Catalog, class: &ClientClass) -> Option<Arc<PeerModes>> {
        let namespace = class.namespace.as_ref();
        let labels = Labels::default();
        let selected = SelectedPolicies::after(None, catalog, class.kind, namespace, &labels);
        inbound_modes(catalog, class, &labels, &selected)
    }

    #[test]
    fn policies_certificates_and_settings_decide_what_is_accepted() {
        use MtlsMode::{Disable, Permissive, Strict};
        let cases = [
            ((true, true, None), Some(Permissive)),
            ((true, false, None), None),
            ((false, true, None), None),
            ((true, false, Some(Permissive)), Some(Permissive)),
            ((true, false, Some(Strict)), Some(Strict)),
            ((true, true, Some(Disable)), Some(Disable)),
            ((false, true, Some(Permissive)), None),
            ((false, true, Some(Strict)), Some(Strict)),
        ];
        for ((certificates, auto, policy), want) in cases {
            assert_eq!(usual(certificates, auto, policy), want, "{certificates} {auto} {policy:?}");
        }
        let envoy =
            ClientClass { certificates: CertificateSource::Files, ..ClientClass::new(ClientKind::Envoy) };
        assert_eq!(accepted(&Catalog::default(), &envoy), None, "it receives nothing");
    }

    #[test]
    fn inbound_listeners_wait_for_policies_alone() {
        let class = |kind| ClientClass::new(kind);
        for (kind, waits) in [(CollectionKind::Policies, true), (CollectionKind::Groups, false)] {
            let mut catalog = Catalog::default();
            add_unread(&mut catalog, kind);
            assert_eq!(withholds_inbound(&catalog, &class(ClientKind::Sidecar)), waits, "{kind:?}");
            assert!(!withholds_inbound(&catalog, &class(ClientKind::Envoy)));
        }
    }
}
