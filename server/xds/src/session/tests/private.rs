//! Resources that only one client receives, and a class that changes during a stream.

use super::*;
use crate::fake::INBOUND;
use tributary_model::{
    ClusterId, Locality, Namespace, ObjectId, ProviderId, RegistryId, RegistryName, Scope, ShardRef, Shared,
    Source, Topology, Workload, WorkloadAddress, WorkloadKey, WorkloadKind, WorkloadName, WorkloadView,
};

const WORLD: &[(ResourceType, &str, &str)] =
    &[(C, "a", "1"), (C, INBOUND, "1"), (L, "l", "1"), (L, "inbound", "shared"), (L, INBOUND, "mine")];

fn mk_key() -> WorkloadKey {
    WorkloadKey::from(WorkloadName {
        namespace: Namespace::new("shop").unwrap(),
        kind: WorkloadKind::Pod,
        name: "pay-1".into(),
        cluster: ClusterId::new("east").unwrap(),
    })
}

fn mk_workload(zone: &str) -> Shared<WorkloadView> {
    let id = RegistryId {
        name: RegistryName::new("east").unwrap(),
        provider: ProviderId::KUBERNETES,
        cluster: ClusterId::new("east").unwrap(),
    };
    let place = Topology { locality: Locality::parse(zone), ..Topology::default() };
    Shared::new(WorkloadView {
        shard: Arc::new(ShardRef { registry: Arc::new(id), scope: Scope::new("all").unwrap() }),
        workload: Arc::new(Workload {
            addresses: [WorkloadAddress::Ip([10, 0, 0, 1].into())].into(),
            topology: Arc::new(place),
            name: "pay".into(),
            ..Workload::new(Source::new(ObjectId::new("Pod", "shop", "pay-1")))
        }),
        services: [].into(),
    })
}

struct Sidecar(TestStream);

impl Sidecar {
    fn new() -> Self {
        let mut stream = TestStream::delta(WORLD);
        let node =
            Node { id: "sidecar~10.0.0.1~pay-1.shop~shop.svc.cluster.local".into(), ..Node::default() };
        let client = ClientNode::parse(Some(&node)).unwrap();
        stream.session = Session::new(Arc::clone(&stream.env), Variant::Delta, client, Mono(0));
        Self(stream)
    }
    /// Publishes the resources, with the client's own workload.
    fn publish(&mut self, own: Option<Shared<WorkloadView>>) {
        let stream = &mut self.0;
        let mut catalog =
            Catalog { generation: stream.catalog.generation + 1, complete: true, ..Catalog::default() };
        if let Some(view) = own {
            catalog.workload_ips.insert([10, 0, 0, 1].into(), Shared::new(Box::from([mk_key()])));
            catalog.workloads.insert(mk_key(), view);
        }
        stream.catalog = stream.fake.publish_with(&stream.world, catalog);
        stream.session.on_generation(ChangedHosts::Everything);
    }
}

#[test]
fn private_resources_replace_shared_ones() {
    let mut sidecar = Sidecar::new();
    sidecar.publish(Some(mk_workload("eu/1")));
    sidecar.0.sub(C, &[], &[], "");
    sidecar.0.sub(L, &[], &[], "");
    assert_eq!(sidecar.0.responses(), ["cds a=1 inbound=1", "lds inbound=mine l=1"]);
}

#[test]
fn private_resources_follow_the_clients_workload() {
    let mut sidecar = Sidecar::new();
    sidecar.publish(None);
    sidecar.0.sub(C, &[], &[], "");
    sidecar.0.sub(L, &[], &[], "");
    assert_eq!(sidecar.0.responses(), ["cds a=1", "lds inbound=shared l=1"]);
    sidecar.publish(Some(mk_workload("eu/1")));
    assert_eq!(sidecar.0.responses(), ["cds inbound=1", "lds inbound=mine"]);
    sidecar.0.world.insert((C, INBOUND.into()), "2".into());
    sidecar.publish(Some(mk_workload("eu/1")));
    assert_eq!(sidecar.0.responses(), ["cds inbound=2"]);
    sidecar.publish(None);
    assert_eq!(sidecar.0.responses(), ["lds inbound=shared", "cds -inbound"]);
}

#[test]
fn private_resources_are_reused_while_inputs_are_unchanged() {
    let mut sidecar = Sidecar::new();
    let own = mk_workload("eu/1");
    sidecar.publish(Some(own.clone()));
    sidecar.0.sub(C, &[], &[], "");
    sidecar.0.responses();
    let made = sidecar.0.fake.private_builds();
    for n in 0..10 {
        sidecar.0.world.insert((C, "a".into()), n.to_string());
        sidecar.publish(Some(own.clone()));
        assert_eq!(sidecar.0.responses().len(), 1);
    }
    assert_eq!(sidecar.0.fake.private_builds(), made);
    sidecar.publish(Some(mk_workload("eu/1")));
    sidecar.0.responses();
    assert!(sidecar.0.fake.private_builds() > made);
}

#[test]
fn a_changed_class_compares_and_sends_only_what_differs() {
    let mut sidecar = Sidecar::new();
    sidecar.publish(Some(mk_workload("eu/1")));
    sidecar.0.sub(C, &[], &[], "");
    sidecar.0.responses();
    let before = sidecar.0.count("full_comparisons");
    sidecar.0.world.insert((C, "b".into()), "1".into());
    sidecar.publish(Some(mk_workload("eu/2")));
    assert_eq!(sidecar.0.responses(), ["cds b=1"]);
    assert_eq!(sidecar.0.count("full_comparisons"), before + 1);
    assert_eq!(sidecar.0.session.status().base_generation(), Some(3));
}
