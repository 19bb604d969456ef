//! Inbound resources: workloads of one shape share them.

use envoy_types::pb::envoy::config::listener::v3::Listener;
use tributary_answer::ClientSidecar;
use tributary_model::{
    CaptureMode, IngressEndpoint, IngressListener, ListenerPort, Namespace, PolicyKey, PolicyKind, PortName,
    PortNumber, Settings, Shared, Sidecar, WorkloadKey,
};

use super::*;
use crate::answers::ClientClass;
use crate::answers::private::Inbound;

const PODS: usize = 1000;
const KINDS: [ResourceType; 2] = [ResourceType::Cluster, ResourceType::Listener];

fn mk_sidecar() -> ClientClassKey {
    ClientClassKey::alone(ClientClass::new(ClientKind::Sidecar))
}
/// Returns a Deployment behind a service with two ports.
fn mk_deployment(pods: usize) -> (Arc<Catalog>, Vec<WorkloadKey>) {
    let ips: Vec<String> = (0..pods).map(|n| format!("10.0.{}.{}", n / 250, n % 250 + 1)).collect();
    let all: Vec<&str> = ips.iter().map(String::as_str).collect();
    let service = mk_svc("pay.shop").on(&[(80, Protocol::Http), (81, Protocol::Tcp)]).at(&all);
    let mut catalog = World::default().next(&[service]);
    let mut keys = Vec::new();
    for ip in all {
        let (with, key) = mk_with_workload(&catalog, ip, &["pay.shop"]);
        catalog = with;
        keys.push(key);
    }
    (catalog, keys)
}
fn resources(
    answers: &CatalogAnswers,
    catalog: &Arc<Catalog>,
    class: &ClientClassKey,
    own: &WorkloadKey,
) -> Vec<Arc<EncodedResource>> {
    let own = OwnSide { workloads: std::slice::from_ref(own), ips: &[] };
    KINDS.iter().flat_map(|kind| answers.private(catalog, class, *kind, own)).collect()
}

#[test]
fn pods_of_one_deployment_share_their_inbound_resources() {
    let (answers, class) = (CatalogAnswers::default(), mk_sidecar());
    let (catalog, pods) = mk_deployment(PODS);
    let all: Vec<_> = pods.iter().map(|pod| resources(&answers, &catalog, &class, pod)).collect();
    let [clusters, listeners] = KINDS.map(|kind| answers.counters().encodes(kind));
    let ports = all[0].iter().filter(|resource| resource.name.starts_with("inbound|")).count() as u64;
    assert!(ports > 0);
    assert_eq!((clusters, listeners), (ports, 1), "one encoding per port, and one of the listener");
    for own in &all {
        assert!(own.iter().zip(&all[0]).all(|(a, b)| Arc::ptr_eq(a, b)), "a pod has its own bytes");
    }
}

#[test]
fn inbound_resources_differ_with_what_they_are_encoded_from() {
    let answers = CatalogAnswers::default();
    let (catalog, pods) = mk_deployment(1);
    let six = ClientClass { families: (false, true), ..ClientClass::new(ClientKind::Sidecar) };
    let four = resources(&answers, &catalog, &mk_sidecar(), &pods[0]);
    let six = resources(&answers, &catalog, &ClientClassKey::alone(six), &pods[0]);
    assert_eq!(four.len(), six.len());
    assert!(four.iter().zip(&six).all(|(a, b)| a.name == b.name && a.version != b.version));
}

#[test]
fn inbound_listeners_are_withheld_and_clusters_are_not() {
    let answers = CatalogAnswers::default();
    let (catalog, pods) = mk_deployment(1);
    let class = ClientClass { withholds_inbound: true, ..ClientClass::new(ClientKind::Sidecar) };
    let names = |class: &ClientClassKey| -> Vec<String> {
        let own = resources(&answers, &catalog, class, &pods[0]);
        own.iter().map(|resource| resource.name.to_string()).collect()
    };
    let all = names(&mk_sidecar());
    let (last, clusters) = all.split_last().unwrap();
    assert_eq!((last.as_str(), names(&ClientClassKey::alone(class))), ("virtualInbound", clusters.to_vec()));
}

#[test]
fn inbound_resources_that_no_session_holds_are_gone() {
    let (inbound, counters, class) = (Inbound::default(), Counters::default(), mk_sidecar());
    let (catalog, pods) = mk_deployment(1);
    for number in 1..10_000 {
        let mut catalog = (*catalog).clone();
        let connect_timeout = Some(std::time::Duration::from_millis(number));
        catalog.settings = Shared::new(Settings { connect_timeout, ..Settings::default() });
        let own = OwnSide { workloads: &pods, ips: &[] };
        inbound.resources(&counters, &catalog, &class, ResourceType::Cluster, own);
    }
    assert!(inbound.len() <= 2 * Inbound::FIRST_CLEANUP, "{} entries", inbound.len());
}

fn mk_ingress(number: u32, capture: CaptureMode, endpoint: Option<IngressEndpoint>) -> IngressListener {
    let number = PortNumber::new(number).unwrap();
    let port = ListenerPort { number, protocol: Protocol::Http, name: PortName::new("http").unwrap() };
    IngressListener { port, bind: None, capture, endpoint }
}
fn mk_class_with(binds: bool, ingress: &[IngressListener]) -> ClientClassKey {
    let namespace = Namespace::new("shop").unwrap();
    let key = PolicyKey { kind: PolicyKind::Sidecar, namespace, name: "default".into() };
    let sidecar = Sidecar { ingress: ingress.into(), ..Sidecar::default() };
    let sidecar = Some(Arc::new(ClientSidecar::new(&key, &sidecar)));
    ClientClassKey::alone(ClientClass { binds, sidecar, ..ClientClass::new(ClientKind::Sidecar) })
}
/// Returns the inbound clusters and listeners of a client at 10.0.0.1.
fn shown(answers: &CatalogAnswers, class: &ClientClassKey) -> [Vec<Arc<EncodedResource>>; 2] {
    let (catalog, pods) = mk_deployment(1);
    let ips = ["10.0.0.1".parse().unwrap()];
    let own = OwnSide { workloads: &pods, ips: &ips };
    KINDS.map(|kind| answers.private(&catalog, class, kind, own))
}
fn names_in(all: &[Arc<EncodedResource>]) -> Vec<&str> {
    all.iter().map(|resource| &*resource.name).collect()
}

#[test]
fn ingress_listeners_replace_the_ports_of_services() {
    let own = IngressEndpoint::Address("0.0.0.0".parse().ok(), PortNumber::new(9091).unwrap());
    let ingress = [
        mk_ingress(9080, CaptureMode::Default, Some(own)),
        mk_ingress(9081, CaptureMode::None, Some(IngressEndpoint::Unix("/run/app".into()))),
    ];
    let [clusters, listeners] = shown(&CatalogAnswers::default(), &mk_class_with(false, &ingress));
    assert_eq!(names_in(&clusters), ["inbound|9080||", "inbound|9081||"]);
    assert_eq!(names_in(&listeners), ["10.0.0.1_9081", "virtualInbound"]);
    let endpoints = |at: usize| {
        let body = Cluster::decode(clusters[at].body().unwrap()).unwrap();
        assert_eq!(body.upstream_bind_config.is_some(), at == 0, "a Unix socket has no source");
        format!("{:?}", body.load_assignment.unwrap().endpoints)
    };
    assert!(endpoints(0).contains("\"10.0.0.1\"") && endpoints(0).contains("9091"), "{}", endpoints(0));
    assert!(endpoints(1).contains("/run/app"), "{}", endpoints(1));
    let captured = Listener::decode(listeners[1].body().unwrap()).unwrap();
    let ports = captured.filter_chains.iter().filter_map(|chain| chain.filter_chain_match.as_ref());
    let ports: Vec<u32> = ports.filter_map(|found| Some(found.destination_port?.value)).collect();
    assert_eq!(ports, [15_006, 9080], "neither the ports of services nor those with a socket");
}

#[test]
fn binding_client_receives_only_by_ingress_listeners() {
    let answers = CatalogAnswers::default();
    let [clusters, listeners] = shown(&answers, &mk_class_with(true, &[]));
    assert!(clusters.is_empty() && listeners.is_empty(), "they would take the ports of the application");
    let ingress =
        [mk_ingress(9080, CaptureMode::Default, None), mk_ingress(9081, CaptureMode::Iptables, None)];
    let [clusters, listeners] = shown(&answers, &mk_class_with(true, &ingress));
    assert_eq!(names_in(&clusters), ["inbound|9080||", "inbound|9081||"]);
    assert_eq!(names_in(&listeners), ["10.0.0.1_9080"], "nothing captures");
    let body = Listener::decode(listeners[0].body().unwrap()).unwrap();
    assert!(body.bind_to_port.is_none() && body.filter_chains.len() == 1);
}

#[test]
fn workloads_share_ingress_resources_that_name_no_address() {
    let answers = CatalogAnswers::default();
    let local = IngressEndpoint::Address("127.0.0.1".parse().ok(), PortNumber::new(9090).unwrap());
    let class = mk_class_with(false, &[mk_ingress(9080, CaptureMode::Default, Some(local))]);
    let (catalog, _) = mk_deployment(1);
    let of = |ip: &str| {
        let ips = [ip.parse().unwrap()];
        KINDS.map(|kind| answers.private(&catalog, &class, kind, OwnSide { workloads: &[], ips: &ips }))
    };
    let (a, b) = (of("10.0.0.1"), of("10.0.0.2"));
    assert!(a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| Arc::ptr_eq(a, b)));
    assert_eq!(KINDS.map(|kind| answers.counters().encodes(kind)), [1, 1]);
}
