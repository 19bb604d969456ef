//! Inbound resources: workloads of one shape share them.

use tributary_model::{Settings, Shared, WorkloadKey};

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
    let own = std::slice::from_ref(own);
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
fn inbound_resources_that_no_session_holds_are_gone() {
    let (inbound, counters, class) = (Inbound::default(), Counters::default(), mk_sidecar());
    let (catalog, pods) = mk_deployment(1);
    for number in 1..10_000 {
        let mut catalog = (*catalog).clone();
        let connect_timeout = Some(std::time::Duration::from_millis(number));
        catalog.settings = Shared::new(Settings { connect_timeout, ..Settings::default() });
        inbound.resources(&counters, &catalog, &class, ResourceType::Cluster, &pods);
    }
    assert!(inbound.len() <= 2 * Inbound::FIRST_CLEANUP, "{} entries", inbound.len());
}
