//! The budget of a large mesh, as counts: ten thousand services and clients in a thousand namespaces, of which two hundred
//! have a Sidecar with fifty services.

use std::collections::BTreeSet;

use tributary_answer::ClientSidecar;
use tributary_fixtures::{mk_egress, mk_sidecar};
use tributary_model::Sidecar;

use super::layers::mk_sidecar_in;
use super::*;
use crate::answers::{ClientClass, TypeMap};

const NAMESPACES: usize = 1_000;
const OF_NAMESPACE: usize = 10;
const SCOPES: usize = 200;
const OPEN: usize = 800;
const IMPORTS: usize = 50;
const KINDS: [ResourceType; 3] = [ResourceType::Cluster, ResourceType::Listener, ResourceType::Route];

fn host(n: usize) -> String {
    let (namespace, service) = (n / OF_NAMESPACE, n % OF_NAMESPACE);
    format!("s{service}.n{namespace:03}.svc.cluster.local")
}
fn mk_services() -> Vec<Svc> {
    let service = |n: usize| mk_svc(&host(n)).in_namespace(&format!("n{:03}", n / OF_NAMESPACE));
    (0..NAMESPACES * OF_NAMESPACE).map(service).collect()
}
/// Returns the class of a namespace; the first ones have a Sidecar that imports fifty services of as many namespaces.
fn mk_scoped_class(n: usize) -> ClientClassKey {
    let class = mk_sidecar_in(&format!("n{n:03}"));
    if n >= SCOPES {
        return class;
    }
    let imports: Vec<String> =
        (0..IMPORTS).map(|at| format!("*/{}", host((n * OF_NAMESPACE + at * 13) % 10_000))).collect();
    let imports: Vec<&str> = imports.iter().map(String::as_str).collect();
    let sidecar = Sidecar { egress: mk_egress(&[(None, &imports)]), ..Sidecar::default() };
    let sidecar =
        ClientSidecar::new(&mk_sidecar(&format!("n{n:03}"), "default", sidecar.clone()).0, &sidecar);
    ClientClassKey::alone(ClientClass { sidecar: Some(Arc::new(sidecar)), ..(*class).clone() })
}

/// What all classes hold of a generation.
struct Held {
    sets: TypeMap<BTreeSet<usize>>,
    /// Chunks of the route tables.
    tables: Vec<BodyChunks>,
}

fn held(answers: &CatalogAnswers, catalog: &Arc<Catalog>, classes: &[ClientClassKey]) -> Held {
    let mut out = Held { sets: TypeMap::default(), tables: Vec::new() };
    for class in classes {
        for kind in KINDS {
            let set = answers.folded(catalog, class, kind).set;
            out.sets[kind].insert(Arc::as_ptr(&set) as usize);
        }
        let table = answers.one(catalog, class, ResourceType::Route, "80").unwrap();
        out.tables.push(answers.body(catalog, class, ResourceType::Route, &table).unwrap());
    }
    out
}

/// Returns the number of bytes in memory of all chunks.
fn bytes<'t>(tables: impl IntoIterator<Item = &'t BodyChunks>) -> usize {
    let chunks = tables.into_iter().flatten().map(|chunk| (chunk.as_ptr(), chunk.len()));
    chunks.collect::<BTreeMap<_, _>>().into_values().sum()
}

#[test]
fn namespaces_and_scopes_cost_what_they_differ() {
    let (mut world, answers, mut services) = (World::default(), CatalogAnswers::default(), mk_services());
    let classes: Vec<ClientClassKey> = (0..SCOPES + OPEN).map(mk_scoped_class).collect();
    let first = held(&answers, &world.next(&services), &classes);
    let (counters, all) = (answers.counters(), NAMESPACES * OF_NAMESPACE);
    let counts = || (counters.encodes(ResourceType::Cluster), counters.encodes(ResourceType::Route));
    let passes = || Cause::ALL.map(|cause| counters.passes(cause));
    // one base for all, and the small sets of each Sidecar
    let folds = u64::try_from(KINDS.len() * (1 + SCOPES)).unwrap();
    assert_eq!(passes(), [folds, 0, 0]);
    assert_eq!(KINDS.map(|kind| first.sets[kind].len()), [1 + SCOPES, 1 + SCOPES, OPEN + SCOPES]);
    // virtual hosts for other namespaces, for an open namespace itself, and for the one service of it that a Sidecar imports
    let parts = all + OPEN * OF_NAMESPACE + SCOPES;
    assert_eq!(counts(), (u64::try_from(all).unwrap(), u64::try_from(parts).unwrap()));
    let (one, open, every) =
        (bytes(&first.tables[SCOPES..=SCOPES]), bytes(&first.tables[SCOPES..]), bytes(&first.tables));
    assert!(one > 3_500_000, "a table has {one} bytes");
    assert!(open < one + OPEN * (48 << 10), "{open} bytes for tables of {one}");
    assert!(every < open + SCOPES * (32 << 10), "{} bytes for tables of {IMPORTS} services", every - open);

    services[0].endpoints.push("10.0.0.9".into());
    services[all - 1].ports[0].1 = Protocol::Tcp;
    let second = held(&answers, &world.next(&services), &classes);
    assert_eq!(passes(), [folds, 0, 0], "a change of two services folded again");
    assert_eq!(counts(), (u64::try_from(all + 1).unwrap(), u64::try_from(parts).unwrap()));
    let more = bytes(first.tables.iter().chain(&second.tables)) - every;
    assert!(more < 5 * (24 << 10) + classes.len() * 256, "{more} bytes for a change of one service");
}

/// A change of identities encodes the xDS clusters of the services concerned, and changes no assignment.
#[test]
fn changed_identities_change_the_xds_clusters_of_their_service_alone() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let of = |n: usize, account: &str| Svc {
        account: Some(account.into()),
        mtls: true,
        ..mk_svc(&format!("s{n}.shop")).on(&[(80, Protocol::Http), (90, Protocol::Grpc)])
    };
    let mut services: Vec<Svc> = (0..50).map(|n| of(n, "web")).collect();
    let plain = mk_class(ClientKind::Sidecar, "shop");
    let certificates = tributary_model::CertificateSource::Sds("sds-grpc".into());
    let class = ClientClassKey::alone(ClientClass { certificates, ..(*plain).clone() });
    let first = world.next(&services);
    let fill = |catalog: &Arc<Catalog>| {
        for kind in [ResourceType::Cluster, ResourceType::Endpoints] {
            answers.folded(catalog, &class, kind);
        }
        let counters = answers.counters();
        (counters.encodes(ResourceType::Cluster), counters.encodes(ResourceType::Endpoints))
    };
    let before = fill(&first);
    services[7] = of(7, "other");
    let second = world.next(&services);
    let after = fill(&second);
    assert_eq!((after.0 - before.0, before.0), (2, 100), "xDS clusters of two ports");
    let changed = |kind| {
        let changed = answers.changed(&first, &second, &class, kind);
        changed.upserted.iter().map(|resource| resource.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(changed(ResourceType::Cluster), ["outbound|80||s7.shop", "outbound|90||s7.shop"]);
    assert!(changed(ResourceType::Endpoints).is_empty());
}
