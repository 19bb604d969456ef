//! Bytes of route tables: namespaces share all runs but those of their own services.

use std::collections::BTreeMap;

use super::layers::mk_sidecar_in;
use super::*;
use crate::answers::Built;

const NAMESPACES: usize = 50;

fn mk_services() -> Vec<Svc> {
    let service = |n: usize| {
        let namespace = format!("n{:02}", n % NAMESPACES);
        mk_svc(&format!("s{n:04}.{namespace}.svc.cluster.local")).in_namespace(&namespace)
    };
    (0..NAMESPACES * 20).map(service).collect()
}
fn mk_classes() -> Vec<ClientClassKey> {
    (0..NAMESPACES).map(|n| mk_sidecar_in(&format!("n{n:02}"))).collect()
}

/// Returns the chunks of the table of port 80, by class.
fn tables(answers: &CatalogAnswers, catalog: &Arc<Catalog>, classes: &[ClientClassKey]) -> Vec<BodyChunks> {
    let table = |class: &ClientClassKey| {
        let found = answers.one(catalog, class, ResourceType::Route, "80").unwrap();
        answers.body(catalog, class, ResourceType::Route, &found).unwrap()
    };
    classes.iter().map(table).collect()
}

/// Returns the number of bytes in memory of all chunks.
fn held(tables: &[BodyChunks]) -> usize {
    let chunks = tables.iter().flatten().map(|chunk| (chunk.as_ptr(), chunk.len()));
    chunks.collect::<BTreeMap<_, _>>().into_values().sum()
}

#[test]
fn a_namespace_costs_two_runs_of_a_route_table() {
    let (answers, catalog) = (CatalogAnswers::default(), World::default().next(&mk_services()));
    let tables = tables(&answers, &catalog, &mk_classes());
    let one = held(&tables[..1]);
    assert!(one > 400_000, "a table has {one} bytes");
    let all = held(&tables);
    assert!(all < one + NAMESPACES * (48 << 10), "{all} bytes for {NAMESPACES} tables of {one}");
}

#[test]
fn change_of_one_service_writes_the_runs_around_it() {
    let (mut world, answers, classes) = (World::default(), CatalogAnswers::default(), mk_classes());
    let mut services = mk_services();
    let before = tables(&answers, &world.next(&services), &classes);
    services[17].ports[0].1 = Protocol::Tcp;
    let mut both = before.clone();
    both.extend(tables(&answers, &world.next(&services), &classes));
    let more = held(&both) - held(&before);
    // the namespaces with services in that run have one of their own; each table has its own head and tail
    assert!(more < 5 * (24 << 10) + NAMESPACES * 256, "{more} bytes for a change of one service");
}

#[test]
fn written_tables_need_no_work() {
    let (answers, catalog) = (CatalogAnswers::default(), World::default().next(&mk_services()));
    let class = &mk_classes()[7];
    assert!(!answers.has_one(&catalog, class, ResourceType::Route, "80"));
    tables(&answers, &catalog, std::slice::from_ref(class));
    assert!(answers.has_one(&catalog, class, ResourceType::Route, "80"));
}
