//! Tests of [`CatalogAnswers`] over small catalogs.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tributary_model::{ClientKind, Protocol, Resolution, Version};

use super::*;
use crate::fixtures::*;

mod aliases;
mod composites;
mod counts;
mod defaults;
mod goldens;
mod inbound;
mod keys;
mod layers;
mod properties;
mod routed_hosts;
mod rules;
mod runs;
mod scopes;
mod served;

use envoy_types::pb::envoy::config::cluster::v3::{Cluster, cluster};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;

impl CatalogAnswers {
    /// Returns the body of a resource as one buffer.
    pub(crate) fn bytes(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        resource: &Arc<EncodedResource>,
    ) -> Option<Bytes> {
        self.body(catalog, class, kind, resource).map(|chunks| chunks.concat().into())
    }
}

fn mk_many(names: &[&str]) -> Arc<Subscription> {
    Arc::new(Subscription::new(names.iter().map(|&n| Arc::from(n))))
}
fn names_of(set: &ResourceSet) -> Vec<&str> {
    set.members().iter().map(|m| &*m.name).collect()
}
fn versions(set: &ResourceSet) -> BTreeMap<Arc<str>, Version> {
    set.members().iter().map(|m| (m.name.clone(), m.version)).collect()
}
fn mk_decoded(answers: &CatalogAnswers, catalog: &Arc<Catalog>, name: &str) -> ClusterLoadAssignment {
    let found = answers.one(catalog, &mk_envoy(), ResourceType::Endpoints, name).unwrap();
    ClusterLoadAssignment::decode(found.body().unwrap()).unwrap()
}

#[test]
fn clients_with_equal_projections_get_the_same_allocation() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let catalog = world.next(&[mk_svc("pay.shop"), mk_svc("cart.shop")]);
    let (a, b) = (mk_class(ClientKind::Envoy, "web"), mk_class(ClientKind::Envoy, "blog"));
    let name = "outbound|80||pay.shop";
    for kind in [ResourceType::Cluster, ResourceType::Endpoints] {
        let one = |class| answers.one(&catalog, class, kind, name).unwrap();
        assert!(Arc::ptr_eq(&one(&a), &one(&b)), "{kind:?} was built twice");
    }
    let all = |class| answers.all(&catalog, class, ResourceType::Cluster);
    assert!(Arc::ptr_eq(&all(&a), &all(&b)), "the set was built twice");
    let rope = |class| answers.rope(&catalog, class, ResourceType::Cluster, &all(class), Variant::Sotw);
    assert!(std::ptr::eq(rope(&a).chunks(), rope(&b).chunks()), "the rope was built twice");
    assert_eq!(answers.counters().ropes.get(), 1);
    assert_eq!(names_of(&all(&a)), ["outbound|80||cart.shop", name]);
}

#[test]
fn one_endpoint_change_is_one_encoding_per_class() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let (pay, cart) = (mk_svc("pay.shop"), mk_svc("cart.shop"));
    let first = world.next(&[pay.clone(), cart.clone()]);
    let classes = [mk_envoy(), mk_class(ClientKind::Grpc, "")];
    let names = mk_many(&["outbound|80||cart.shop", "outbound|80||pay.shop"]);
    for class in &classes {
        answers.all(&first, class, ResourceType::Cluster);
        answers.many(&first, class, ResourceType::Endpoints, &names);
    }
    let encodes = |kind| answers.counters().encodes(kind);
    let before = (encodes(ResourceType::Cluster), encodes(ResourceType::Endpoints));
    assert_eq!(before, (4, 4), "two services, two kinds of client");
    let second = world.next(&[pay.at(&["10.0.0.1", "10.0.0.2"]), cart]);
    for class in classes.iter().chain(&[mk_envoy(), mk_envoy()]) {
        let changed = answers.changed(&first, &second, class, ResourceType::Endpoints);
        let upserted: Vec<&str> = changed.upserted.iter().map(|e| &*e.name).collect();
        assert_eq!((upserted, changed.removed.len()), (vec!["outbound|80||pay.shop"], 0));
        assert!(answers.changed(&first, &second, class, ResourceType::Cluster).is_empty());
    }
    let after = (encodes(ResourceType::Cluster), encodes(ResourceType::Endpoints));
    assert_eq!(after, (before.0, before.1 + 2));
}

#[test]
fn an_unchanged_generation_encodes_nothing() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let services = [mk_svc("pay.shop"), mk_svc("cart.shop")];
    let first = world.next(&services);
    let names = mk_many(&["outbound|80||pay.shop"]);
    answers.all(&first, &mk_envoy(), ResourceType::Cluster);
    answers.many(&first, &mk_envoy(), ResourceType::Endpoints, &names);
    let encodes = ResourceType::ALL.map(|kind| answers.counters().encodes(kind));
    let passes = Cause::ALL.map(|cause| answers.counters().passes(cause));
    let second = world.next(&services);
    for kind in ResourceType::ALL {
        assert!(answers.changed(&first, &second, &mk_envoy(), kind).is_empty());
    }
    let (old, new) = (
        answers.all(&first, &mk_envoy(), ResourceType::Cluster),
        answers.all(&second, &mk_envoy(), ResourceType::Cluster),
    );
    assert_eq!(versions(&old), versions(&new));
    answers.many(&second, &mk_envoy(), ResourceType::Endpoints, &names);
    assert_eq!(ResourceType::ALL.map(|kind| answers.counters().encodes(kind)), encodes);
    assert_eq!(Cause::ALL.map(|cause| answers.counters().passes(cause)), passes, "a full pass was repeated");
}

#[test]
fn concurrent_clients_encode_once() {
    let services: Vec<Svc> = (0..200).map(|n| mk_svc(&format!("s{n:03}.shop"))).collect();
    let (catalog, answers) = (World::default().next(&services), CatalogAnswers::default());
    let read = || {
        let set = answers.all(&catalog, &mk_envoy(), ResourceType::Cluster);
        answers.rope(&catalog, &mk_envoy(), ResourceType::Cluster, &set, Variant::Sotw)
    };
    let ropes: Vec<Body> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
        readers.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ropes.iter().all(|rope| std::ptr::eq(rope.chunks(), ropes[0].chunks())));
    assert_eq!(answers.counters().encodes(ResourceType::Cluster), 200);
    assert_eq!(answers.counters().rope_bytes.get(), ropes[0].len() as u64);
}

#[test]
fn rarely_used_class_continues_from_its_own_last_set() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let services = |n: u8| [mk_svc("pay.shop").at(&[&format!("10.0.0.{n}")]), mk_svc(&format!("s{n}.shop"))];
    let (seldom, often) = (mk_class(ClientKind::Sidecar, "shop"), mk_envoy());
    answers.all(&world.next(&services(1)), &seldom, ResourceType::Cluster);
    for n in 2..40 {
        answers.all(&world.next(&services(n)), &often, ResourceType::Cluster);
    }
    let passes = |answers: &CatalogAnswers| Cause::ALL.map(|cause| answers.counters().passes(cause));
    let before = passes(&answers);
    let catalog = world.next(&services(40));
    let set = answers.all(&catalog, &seldom, ResourceType::Cluster);
    assert_eq!(
        versions(&set),
        versions(&CatalogAnswers::default().all(&catalog, &seldom, ResourceType::Cluster))
    );
    assert_eq!(passes(&answers), before, "a few changes caused a full pass");
    assert_eq!(before.iter().sum::<u64>(), 2);
}

#[test]
fn a_subscription_gets_an_assignment_for_every_name() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let catalog = world.next(&[mk_svc("pay.shop")]);
    let names = mk_many(&[
        "outbound|80||pay.shop",
        "outbound|81||pay.shop",
        "outbound|80|v1|pay.shop",
        "outbound|080||pay.shop",
    ]);
    let set = answers.many(&catalog, &mk_envoy(), ResourceType::Endpoints, &names);
    assert_eq!(names_of(&set).len(), 4);
    for member in set.members() {
        let body = ClusterLoadAssignment::decode(member.body().unwrap()).unwrap();
        assert_eq!(body.cluster_name, &*member.name);
        assert_eq!(body.endpoints.is_empty(), &*member.name != "outbound|80||pay.shop", "{}", member.name);
    }
    let again = answers.many(&catalog, &mk_envoy(), ResourceType::Endpoints, &names);
    assert!(Arc::ptr_eq(&set, &again));
    let clusters = answers.many(&catalog, &mk_envoy(), ResourceType::Cluster, &names);
    assert_eq!(names_of(&clusters), ["outbound|80||pay.shop"]);
}

#[test]
fn a_namespace_sees_its_own_services_and_shares_the_rest() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let hidden = mk_svc("secret.shop").seen_by(&["shop"]);
    let catalog = world.next(&[mk_svc("pay.shop"), hidden, mk_svc("blog.web").in_namespace("web")]);
    let all =
        |namespace| answers.all(&catalog, &mk_class(ClientKind::Envoy, namespace), ResourceType::Cluster);
    assert_eq!(
        names_of(&all("shop")),
        ["outbound|80||blog.web", "outbound|80||pay.shop", "outbound|80||secret.shop"]
    );
    assert_eq!(names_of(&all("")).len(), 2);
    assert!(Arc::ptr_eq(&all(""), &all("web")), "an equal scoped set was not shared");
    let one = |namespace| {
        answers.one(
            &catalog,
            &mk_class(ClientKind::Envoy, namespace),
            ResourceType::Cluster,
            "outbound|80||secret.shop",
        )
    };
    assert!(one("shop").is_some() && one("web").is_none());
}

#[test]
fn a_namespace_prefers_its_own_claimant_of_a_host() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let first = Svc { created: Some(1), ..mk_svc("db.example").at(&["10.0.0.1"]) };
    let own = Svc { created: Some(2), ..mk_svc("db.example").at(&["10.0.0.2"]).in_namespace("web") };
    let catalog = world.next(&[first, own]);
    let address = |namespace| {
        let class = mk_class(ClientKind::Envoy, namespace);
        let found =
            answers.one(&catalog, &class, ResourceType::Endpoints, "outbound|80||db.example").unwrap();
        let text = found.body().unwrap();
        String::from_utf8_lossy(&text).contains("10.0.0.2")
    };
    assert!(!address("") && !address("shop") && address("web"));
}

#[test]
fn eviction_keeps_versions_and_the_same_bytes_come_back() {
    let mut world = World::default();
    let services: Vec<Svc> = (0..50).map(|n| mk_svc(&format!("s{n:02}.shop"))).collect();
    let catalog = world.next(&services);
    let wide = CatalogAnswers::default();
    let expected = wide.all(&catalog, &mk_envoy(), ResourceType::Cluster);
    let bodies: Vec<Bytes> = expected.members().iter().map(|m| m.body().unwrap()).collect();
    let mut world = World::default();
    let catalog = world.next(&services);
    let narrow = CatalogAnswers::new(2_000);
    let set = narrow.all(&catalog, &mk_envoy(), ResourceType::Cluster);
    assert!(narrow.held_bytes() <= 2_000 && narrow.counters().evictions.get() > 30);
    assert_eq!(versions(&set), versions(&expected));
    for (member, expected) in set.members().iter().zip(&bodies) {
        let body = narrow.bytes(&catalog, &mk_envoy(), ResourceType::Cluster, member).unwrap();
        assert_eq!(&body, expected);
    }
    assert!(narrow.counters().refills.get() > 30);
    let rope = narrow.rope(&catalog, &mk_envoy(), ResourceType::Cluster, &set, Variant::Delta);
    assert_eq!(
        rope.len(),
        wide.rope(&catalog, &mk_envoy(), ResourceType::Cluster, &expected, Variant::Delta).len()
    );
    assert_eq!(narrow.counters().encodes(ResourceType::Cluster), 50, "an encoding was counted twice");
}

#[test]
fn sidecar_has_clusters_for_unmatched_traffic() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let catalog = world.next(&[mk_svc("pay.shop")]);
    let sidecar = mk_class(ClientKind::Sidecar, "shop");
    let set = answers.all(&catalog, &sidecar, ResourceType::Cluster);
    let fixed = ["BlackHoleCluster", "InboundPassthroughCluster", "PassthroughCluster"];
    assert_eq!(names_of(&set), [&fixed[..], &["outbound|80||pay.shop"]].concat());
    for name in fixed {
        let one = answers.one(&catalog, &sidecar, ResourceType::Cluster, name).unwrap();
        let body =
            Cluster::decode(answers.bytes(&catalog, &sidecar, ResourceType::Cluster, &one).unwrap()).unwrap();
        assert_eq!((body.name.as_str(), one.version), (name, set.get(name).unwrap().version));
        assert!(answers.one(&catalog, &mk_envoy(), ResourceType::Cluster, name).is_none());
    }
}

#[test]
fn removed_service_is_listed_by_its_cluster_names() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let (pay, cart) =
        (mk_svc("pay.shop").on(&[(80, Protocol::Http), (81, Protocol::Tcp)]), mk_svc("cart.shop"));
    let first = world.next(&[pay.clone(), cart]);
    let second = world.next(&[pay.on(&[(80, Protocol::Http)])]);
    for kind in [ResourceType::Cluster, ResourceType::Endpoints] {
        let changed = answers.changed(&first, &second, &mk_envoy(), kind);
        let removed: Vec<&str> = changed.removed.iter().map(|n| &**n).collect();
        assert_eq!(removed, ["outbound|80||cart.shop", "outbound|81||pay.shop"], "{kind:?}");
    }
}

#[test]
fn a_service_by_dns_carries_its_endpoints_in_its_cluster() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let svc = Svc { names: vec!["db.example.com".into()], ..mk_svc("db.shop").at(&[]) };
    let catalog = world.next(&[svc.resolved(Resolution::DnsStrict)]);
    let name = "outbound|80||db.shop";
    let cluster = answers.one(&catalog, &mk_envoy(), ResourceType::Cluster, name).unwrap();
    let body = Cluster::decode(cluster.body().unwrap()).unwrap();
    let inside = body.load_assignment.unwrap();
    assert_eq!((inside.cluster_name.as_str(), inside.endpoints.len()), (name, 1));
    assert!(mk_decoded(&answers, &catalog, name).endpoints.is_empty());
}

#[test]
fn host_is_derived_from_the_resource_name() {
    let answers = CatalogAnswers::default();
    let host = |kind, name| answers.host_of(&mk_envoy(), kind, name).map(|h| h.to_string());
    assert_eq!(host(ResourceType::Endpoints, "outbound|80||pay.shop").as_deref(), Some("pay.shop"));
    assert_eq!(host(ResourceType::Cluster, "outbound|80||not.there").as_deref(), Some("not.there"));
    assert_eq!(host(ResourceType::Endpoints, "outbound|80|v1|pay.shop").as_deref(), Some("pay.shop"));
    assert_eq!(host(ResourceType::Cluster, "BlackHoleCluster"), None);
}

#[test]
fn target_port_replaces_that_of_the_destination() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let none = |target| Svc { target, ..mk_svc("out.example").at(&[]).resolved(Resolution::Passthrough) };
    for (target, wanted) in [(None, None), (Some(8443), Some(8443))] {
        let catalog = world.next(&[none(target)]);
        let found =
            answers.one(&catalog, &mk_envoy(), ResourceType::Cluster, "outbound|80||out.example").unwrap();
        let body = Cluster::decode(found.body().unwrap()).unwrap();
        let port = body.lb_config.map(|config| match config {
            cluster::LbConfig::OriginalDstLbConfig(config) => config.upstream_port_override.unwrap().value,
            other => panic!("{other:?}"),
        });
        assert_eq!(port, wanted);
    }
}
