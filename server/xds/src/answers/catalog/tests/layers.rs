//! Layered sets equal sets that are folded for each class alone, in any order of changes and requests.

use proptest::prelude::*;
use tributary_model::{CertificateFiles, CertificateSource, Hostname, Locality};

use super::properties::{forwarding, some_services};
use super::scopes::some_sidecar;
use super::*;
use crate::answers::ClientClass;

/// Every value that is mentioned is part of the base, so nothing is layered.
const ALONE: Layering = Layering { most: 0, part: 1 };

/// Puts services into Kubernetes domains, where short names depend on the client's namespace.
fn in_domains(services: Vec<Svc>) -> Vec<Svc> {
    let long = |host: &str| format!("{host}.svc.cluster.local");
    let rename = |svc: Svc| {
        let resolution = match &svc.resolution {
            Resolution::Alias(host) => Resolution::Alias(Hostname::new(long(host.as_str())).unwrap()),
            other => other.clone(),
        };
        let domain = if svc.endpoints.len().is_multiple_of(2) {
            svc.host.replace(".shop", ".web")
        } else {
            svc.host.clone()
        };
        Svc { host: long(&domain), resolution, ..svc }
    };
    let mut out: Vec<Svc> = services.into_iter().map(rename).collect();
    out.sort_by(|a, b| (&a.host, &a.namespace).cmp(&(&b.host, &b.namespace)));
    out.dedup_by(|a, b| (&a.host, &a.namespace) == (&b.host, &b.namespace));
    out
}
fn a_class() -> impl Strategy<Value = ClientClassKey> {
    let kind = prop::sample::select(vec![
        ClientKind::Envoy,
        ClientKind::Sidecar,
        ClientKind::Sidecar,
        ClientKind::Grpc,
        ClientKind::Router,
    ]);
    let namespace = prop::sample::select(vec!["", "shop", "web", "other"]);
    let place = prop::sample::select(vec!["", "eu/1a", "eu/1z", "us/2a", "ap"]);
    let tier = prop::sample::select(vec!["", "a", "b", "z"]);
    let files = CertificateFiles { chain: "/c".into(), key: "/k".into(), authorities: "/r".into() };
    let certificates = prop::sample::select(vec![
        CertificateSource::None,
        CertificateSource::Files,
        CertificateSource::Sds(CertificateSource::AGENT.into()),
    ]);
    (kind, namespace, place, any::<bool>(), some_sidecar(), tier, certificates).prop_map(
        move |(kind, namespace, place, named, sidecar, tier, certificates)| {
            let domain = named.then(|| format!("{namespace}.svc.cluster.local").into());
            let class = mk_class(kind, namespace);
            let sidecar = sidecar.filter(|_| class.namespace.is_some() && kind != ClientKind::Envoy);
            let sidecar = if kind == ClientKind::Router { forwarding(sidecar.as_deref()) } else { sidecar };
            let locality = Locality::parse(place);
            let labels = [("tier", tier)].into_iter().collect();
            let certificate_files =
                (certificates == CertificateSource::Files).then(|| Arc::new(files.clone()));
            ClientClassKey::alone(ClientClass {
                locality,
                domain,
                sidecar,
                labels,
                certificates,
                certificate_files,
                ..(*class).clone()
            })
        },
    )
}
/// Encoded resources by name.
type Bodies = BTreeMap<Arc<str>, Bytes>;

/// Returns the names and bodies of a set.
fn bodies(
    answers: &CatalogAnswers,
    catalog: &Arc<Catalog>,
    class: &ClientClassKey,
    kind: ResourceType,
) -> Bodies {
    let set = answers.folded(catalog, class, kind).set;
    let body = |m: &Arc<EncodedResource>| answers.bytes(catalog, class, kind, m).unwrap();
    let all: BTreeMap<_, _> = set.iter().map(|m| (Arc::clone(&m.name), body(m))).collect();
    assert_eq!(all.len(), set.len(), "the set counts its members wrongly");
    assert!(set.iter().is_sorted_by(|a, b| a.name < b.name), "members are not in order");
    assert_eq!(set.version(), ResourceSet::new(set.iter().cloned().collect()).version());
    all
}
/// Returns the assignments of all names that a client can know.
fn subscribed(
    answers: &CatalogAnswers,
    catalog: &Arc<Catalog>,
    class: &ClientClassKey,
    names: &Arc<Subscription>,
) -> Vec<(Arc<str>, Version)> {
    let set = answers.many(catalog, class, ResourceType::Endpoints, names);
    set.iter().map(|m| (Arc::clone(&m.name), m.version)).collect()
}
fn all_names() -> Arc<Subscription> {
    let hosts = ["a", "b", "c", "d"]
        .iter()
        .flat_map(|h| ["shop", "web"].map(|ns| format!("{h}.{ns}.svc.cluster.local")));
    let names = hosts.flat_map(|host| [80, 81].map(|port| format!("outbound|{port}||{host}")));
    Arc::new(Subscription::new(names.map(Arc::from)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn layered_sets_equal_those_of_each_class_alone(
        worlds in prop::collection::vec(some_services().prop_map(in_domains), 2..6),
        classes in prop::collection::vec(a_class(), 2..5),
        asks in prop::collection::vec(any::<u8>(), 6),
        part in prop::sample::select(vec![1usize, 2, 3]),
    ) {
        let mut world = World::default();
        let generations: Vec<_> = worlds.iter().map(|services| world.next(services)).collect();
        let answers = CatalogAnswers::layered(Budget::DEFAULT, Layering { most: usize::MAX, part });
        let mut held: BTreeMap<(usize, ResourceType), (usize, Bodies)> = BTreeMap::new();
        for (at, catalog) in generations.iter().enumerate() {
            let alone = CatalogAnswers::layered(Budget::DEFAULT, ALONE);
            // a class that does not ask continues later from an older generation
            let asking = classes.iter().enumerate().filter(|(n, _)| asks[at] >> n & 1 == 1);
            for (n, class) in asking {
                for kind in ResourceType::ALL {
                    let now = bodies(&answers, catalog, class, kind);
                    prop_assert_eq!(&now, &bodies(&alone, catalog, class, kind), "{:?} {:?}", kind, class);
                    if let Some((before, mut set)) = held.remove(&(n, kind)) {
                        let changed = answers.changed(&generations[before], catalog, class, kind);
                        for removed in &changed.removed {
                            set.remove(removed);
                        }
                        for upserted in &changed.upserted {
                            set.insert(Arc::clone(&upserted.name), answers.bytes(catalog, class, kind, upserted).unwrap());
                        }
                        set.retain(|name, _| kind != ResourceType::Route || now.contains_key(name));
                        prop_assert_eq!(&set, &now, "difference of {:?} {:?}", kind, class);
                    }
                    held.insert((n, kind), (at, now));
                }
                let names = all_names();
                prop_assert_eq!(subscribed(&answers, catalog, class, &names), subscribed(&alone, catalog, class, &names));
            }
        }
    }
}

pub(super) fn mk_sidecar_in(namespace: &str) -> ClientClassKey {
    let domain = Some(format!("{namespace}.svc.cluster.local").into());
    let class = mk_class(ClientKind::Sidecar, namespace);
    ClientClassKey::alone(ClientClass { domain, ..(*class).clone() })
}
const WILDCARDS: [ResourceType; 3] = [ResourceType::Cluster, ResourceType::Listener, ResourceType::Route];

/// Services of which every tenth is seen by its own namespace alone.
fn mk_namespaces(count: usize) -> Vec<Svc> {
    let service = |n: usize| {
        let svc = mk_svc(&format!("pay.n{n}.svc.cluster.local")).in_namespace(&format!("n{n}"));
        if n.is_multiple_of(10) { svc.seen_by(&[&format!("n{n}")]) } else { svc }
    };
    (0..count).map(service).collect()
}

#[test]
fn two_thousand_classes_fold_one_base_per_type() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let mut services = mk_namespaces(200);
    let classes: Vec<_> = (0..2_000).map(|n| mk_sidecar_in(&format!("n{n}"))).collect();
    let mut last = Vec::new();
    for round in 0..2 {
        services[round].endpoints.push("10.0.0.9".into());
        services[151 + round].ports[0].1 = Protocol::Grpc;
        let catalog = world.next(&services);
        let set = |class: &ClientClassKey, kind| answers.folded(&catalog, class, kind).set;
        last = classes.iter().flat_map(|class| WILDCARDS.map(|kind| set(class, kind))).collect();
        let again = classes.iter().flat_map(|class| WILDCARDS.map(|kind| set(class, kind)));
        assert!(last.iter().zip(again).all(|(a, b): (&Arc<ResourceSet>, _)| Arc::ptr_eq(a, &b)));
    }
    let passes = Cause::ALL.map(|cause| answers.counters().passes(cause));
    assert_eq!(passes, [3, 0, 0], "first answers, new bases, evicted");
    let distinct: std::collections::HashSet<_> = last.iter().map(Arc::as_ptr).collect();
    // 20 namespaces have a cluster of their own, and 200 a virtual host; listeners differ nowhere
    assert_eq!(distinct.len(), 3 + 20 + 200);
}

#[test]
fn change_of_one_namespace_computes_one_overlay() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let mut services = mk_namespaces(200);
    let classes: Vec<_> = (0..200).map(|n| mk_sidecar_in(&format!("n{n}"))).collect();
    let ask = |catalog: &Arc<Catalog>| {
        for class in &classes {
            WILDCARDS.iter().for_each(|&kind| drop(answers.folded(catalog, class, kind)));
        }
        answers.counters().overlays.get()
    };
    let first = ask(&world.next(&services));
    // what 20 namespaces see alone is in three types; each has short names of its own
    assert_eq!(first, 2 * 20 + 200);
    services[7].endpoints.push("10.0.0.9".into());
    let second = ask(&world.next(&services));
    assert!(second <= first + 1, "{} overlays for endpoints of one namespace", second - first);
    services[10].ports[0].1 = Protocol::Tcp;
    let after = ask(&world.next(&services));
    assert!(after <= second + 4, "{} overlays for a service that one namespace sees", after - second);
}
