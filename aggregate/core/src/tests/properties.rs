//! Whatever the way, the end is a fresh build: permutation, duplication, conflation, split into
//! turns and relists of the same facts lead to the same catalog, which is also the naive one.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use tributary_model::{
    Catalog, Completeness, Condition, Declaration, ExportTo, Fact, FederatedMember, Health, Labels, PortName,
    Provider, RegistrySpec, RegistryUpdate, Resolution, Selector, ServiceKey, Settings, Timestamp,
    Visibility, Workload,
};

use super::fixtures::*;
use super::joins::mk_alias;
use super::naive::{Facts, answer, read};

const HOSTS: [&str; 3] = ["pay.shop", "cart.shop", "go.shop"];
pub(super) const REGISTRIES: [&str; 3] = ["east", "file", "west"];

pub(super) fn mk_specs() -> Vec<RegistrySpec> {
    vec![
        mk_spec("east", Provider::Kubernetes),
        mk_spec("file", Provider::ServiceEntry),
        RegistrySpec { rank: 0, ..mk_spec("west", Provider::ServiceEntry) },
    ]
}

fn any_service() -> impl Strategy<Value = String> {
    (select(&["shop", "web"][..]), select(&HOSTS[..])).prop_map(|(ns, host)| format!("{ns}/{host}"))
}
fn any_visibility() -> impl Strategy<Value = Visibility> {
    prop_oneof![
        Just(Visibility::Public),
        Just(Visibility::Hidden),
        Just(Visibility::Namespaces([mk_ns("web")].into())),
        Just(Visibility::Namespaces([mk_ns("ops"), mk_ns("shop")].into())),
    ]
}
fn any_export() -> impl Strategy<Value = ExportTo> {
    prop_oneof![2 => Just(ExportTo::Default), 1 => any_visibility().prop_map(ExportTo::Set)]
}
fn any_labels() -> impl Strategy<Value = Labels> {
    proptest::collection::btree_map("[ab]", "[12]", 0..3)
        .prop_map(|map| map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect())
}
fn any_resolution() -> impl Strategy<Value = Resolution> {
    prop_oneof![
        4 => Just(Resolution::ClientSide),
        1 => Just(Resolution::DnsStrict),
        1 => select(&HOSTS[..]).prop_map(|host| Resolution::Alias(mk_host(host))),
    ]
}
fn any_ports() -> impl Strategy<Value = &'static str> {
    select(
        &[
            "80 http",
            "80 web",
            "80 http tcp",
            "80 http, 81 admin",
            "81 admin > web",
            "80 http > 8080, 82 web",
            "",
        ][..],
    )
}

fn any_declaration() -> impl Strategy<Value = Fact> {
    let selector =
        proptest::option::of(any_labels().prop_map(|labels| Selector { labels, ..mk_selector("") }));
    let created = proptest::option::of(0..3_i64);
    let object = select(&["x", "y"][..]);
    (any_service(), object, any_ports(), any_resolution(), selector, any_export(), created).prop_map(
        |(service, object, ports, resolution, selector, export, created)| {
            let created = created.and_then(|s| Timestamp::from_second(s).ok());
            let declaration = Declaration { resolution, selector, export, created, ..mk_decl(object, ports) };
            mk_service(&service, declaration)
        },
    )
}

fn any_group() -> impl Strategy<Value = Fact> {
    let ports = select(&["http=80", "web=8080", "http=80+admin=81", "admin=90"][..]);
    let endpoint = (1..5_u8, ports, any::<bool>())
        .prop_map(|(i, ports, sick)| format!("10.0.0.{i}:{ports}{}", if sick { "!" } else { "" }));
    let endpoints = proptest::collection::vec(endpoint, 0..4);
    (any_service(), select(&["x", "y"][..]), select(&["g", "h"][..]), endpoints)
        .prop_map(|(service, declaration, object, e)| mk_group(&service, declaration, object, &e.join(" ")))
}

fn any_workload() -> impl Strategy<Value = Fact> {
    let at = select(&["10.1.0.1", "10.1.0.2", "name.example"][..]);
    (0..3_usize, at, any_labels(), any::<bool>(), any::<bool>()).prop_map(|(i, at, labels, sick, web)| {
        let name = format!("w{i}");
        let ports: Arc<[_]> =
            if web { [(PortName::new("web").unwrap(), mk_port_number(99))].into() } else { Arc::from([]) };
        let health = if sick { Health::Unhealthy } else { Health::Healthy };
        let value =
            Workload { augmented: labels.clone(), labels, health, ports, ..mk_workload_value(&name, at, "") };
        Fact::Workload(mk_workload_key(&name), Arc::new(value))
    })
}

fn any_settings() -> impl Strategy<Value = Fact> {
    proptest::option::of(prop_oneof![any_visibility(), Just(Visibility::Own)]).prop_map(|default_export| {
        Fact::Settings(Arc::new(Settings { default_export, ..Settings::default() }))
    })
}

pub(super) fn any_fact() -> impl Strategy<Value = Fact> {
    prop_oneof![6 => any_declaration(), 6 => any_group(), 4 => any_workload()]
}

/// One word of a history: this registry puts a fact, or deletes it.
type Word = (usize, Fact, bool);

fn any_history() -> impl Strategy<Value = Vec<Word>> {
    // Settings come from one registry only: the naive function has no opinion on folding them.
    let word = prop_oneof![
        20 => (0..REGISTRIES.len(), any_fact(), any::<bool>()),
        1 => any_settings().prop_map(|fact| (0, fact, true)),
    ];
    let word = (word, 0..10_u8).prop_map(|((registry, fact, put), n)| (registry, fact, put || n > 2));
    proptest::collection::vec(word, 1..40)
}

/// Aliases of hosts that are declared, and of one that is not, by one registry.
fn any_alias() -> impl Strategy<Value = Fact> {
    let host = select(&["pay.shop", "cart.shop", "all.mesh"][..]);
    let member = select(&["pay.shop", "cart.shop", "east:go.shop", "west:pay.shop", "all.mesh"][..]);
    let namespace = select(&["shop", "default"][..]);
    let members = proptest::collection::vec(member, 1..4);
    (host, members, namespace, any_export(), any::<bool>()).prop_map(
        |(host, members, namespace, export, standby)| {
            mk_alias(host, &members.join(" "), |alias| {
                (alias.namespace, alias.export) = (mk_ns(namespace), export);
                alias.min_healthy_active = Some(2);
                alias.members =
                    alias.members.iter().cloned().map(|m| FederatedMember { standby, ..m }).collect();
            })
        },
    )
}

fn any_joining_history() -> impl Strategy<Value = Vec<Word>> {
    let words = proptest::collection::vec((any_alias(), 0..10_u8), 1..8);
    let place = proptest::collection::vec(any::<Index>(), 8);
    (any_history(), words, place).prop_map(|(mut history, words, place)| {
        history.truncate(32);
        for ((fact, n), at) in words.into_iter().zip(place) {
            history.insert(at.index(history.len() + 1), (0, fact, n > 2));
        }
        history
    })
}

fn final_facts(history: &[Word]) -> Facts {
    let mut facts = BTreeMap::new();
    for (registry, fact, put) in history {
        let key = (*registry, fact.item());
        if *put {
            facts.insert(key, fact.clone());
        } else {
            facts.remove(&key);
        }
    }
    facts
}

fn say(world: &mut World, word: &Word) {
    let (registry, fact, put) = word;
    let delta = if *put { mk_put(fact.clone()) } else { mk_deleted(fact) };
    world.says(REGISTRIES[*registry], [delta]);
}

fn mk_world() -> World {
    World::with(&mk_specs())
}

/// A second core that is told the final facts, each registry's in one list.
fn fresh(facts: &Facts) -> Arc<Catalog> {
    let mut world = mk_world();
    for (i, registry) in REGISTRIES.iter().enumerate() {
        let own = facts.iter().filter(|((r, _), _)| *r == i).map(|(_, fact)| fact.clone());
        world.lists(registry, own.collect::<Vec<_>>());
    }
    world.catalog()
}

/// Everything that is compared of two catalogs, conditions with all their words included.
fn conditions(catalog: &Catalog) -> BTreeMap<ServiceKey, Vec<Condition>> {
    catalog.services().map(|v| (v.key.clone(), v.conditions.to_vec())).collect()
}

/// What happens to a history on its way.
#[derive(Debug, Clone)]
struct Way {
    /// For each word: a random number by which words of different facts are reordered.
    order: Vec<u16>,
    /// After which words the state of a random fact is said again.
    again: Vec<(Index, Index)>,
    /// Where a turn ends.
    turns: Vec<bool>,
    /// After which words a registry runs anew and lists, in place after a list that was cut off, or
    /// as a rotation.
    relists: Vec<(Index, usize, usize, bool)>,
}

fn any_way() -> impl Strategy<Value = Way> {
    (
        proptest::collection::vec(any::<u16>(), 40),
        proptest::collection::vec(any::<(Index, Index)>(), 0..6),
        proptest::collection::vec(any::<bool>(), 40),
        proptest::collection::vec((any::<Index>(), 0..REGISTRIES.len(), 0..6_usize, any::<bool>()), 0..4),
    )
        .prop_map(|(order, again, turns, relists)| Way { order, again, turns, relists })
}

/// Reorders words of different facts; words of one fact stay in their order.
fn reordered(history: &[Word], order: &[u16]) -> Vec<Word> {
    let mut at: Vec<(u16, usize)> = order.iter().copied().zip(0..history.len()).collect();
    at.sort_unstable();
    let mut slots: BTreeMap<(usize, _), Vec<usize>> = BTreeMap::new();
    for (place, (_, word)) in at.iter().enumerate() {
        slots.entry((history[*word].0, history[*word].1.item())).or_default().push(place);
    }
    let mut out: Vec<Option<Word>> = vec![None; history.len()];
    for word in history {
        let places = slots.get_mut(&(word.0, word.1.item())).unwrap();
        out[places.remove(0)] = Some(word.clone());
    }
    out.into_iter().map(Option::unwrap).collect()
}

fn relist(world: &mut World, registry: usize, cut: usize, said: &Facts) {
    let name = REGISTRIES[registry];
    let own: Vec<Fact> = said.iter().filter(|((r, _), _)| *r == registry).map(|(_, f)| f.clone()).collect();
    world.restart(name);
    let mut partial = mk_list(own.iter().take(cut).cloned());
    partial.retain(|d| !matches!(d, RegistryUpdate::ListEnded(..)));
    world.says(name, partial);
    world.says(name, [RegistryUpdate::ListEnded(mk_collection(KINDS[0]), Completeness::Partial)]);
    world.restart(name);
    world.lists(name, own);
}

fn rotate(world: &mut World, registry: usize, cut: usize, said: &Facts) {
    let name = REGISTRIES[registry];
    let own: Vec<Fact> = said.iter().filter(|((r, _), _)| *r == registry).map(|(_, f)| f.clone()).collect();
    let stale = own.iter().rev().take(cut).cloned().map(mk_put);
    let shadow = world.shadow(name);
    let mut words: Vec<RegistryUpdate> = std::iter::once(mk_required()).chain(stale).collect();
    words.push(RegistryUpdate::ListStarted(mk_collection(KINDS[1])));
    world.says_in(name, shadow, words);
    world.says_in(name, shadow, mk_list(own));
}

fn walk(history: &[Word], way: &Way) -> Arc<Catalog> {
    let mut world = mk_world();
    let words = reordered(history, &way.order);
    let mut turn: Vec<tributary_model::Stamped<RegistryUpdate>> = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let said = final_facts(&words[..=i]);
        let name = REGISTRIES[word.0];
        let delta = if word.2 { mk_put(word.1.clone()) } else { mk_deleted(&word.1) };
        turn.push(world.stamp(name, world.generation(name), delta));
        for (when, what) in &way.again {
            if when.index(words.len()) == i && !said.is_empty() {
                let ((registry, _), fact) = said.iter().nth(what.index(said.len())).unwrap();
                let name = REGISTRIES[*registry];
                turn.push(world.stamp(name, world.generation(name), mk_put(fact.clone())));
            }
        }
        let relists = way.relists.iter().filter(|(when, ..)| when.index(words.len()) == i);
        let relists: Vec<_> = relists.collect();
        if way.turns[i] || !relists.is_empty() {
            world.now += 10;
            world.core.apply(tributary_model::Mono(world.now), std::mem::take(&mut turn));
            check_outlines(&world.core);
            world.catalog();
        }
        for (_, registry, cut, rotation) in relists {
            if *rotation {
                rotate(&mut world, *registry, *cut, &said);
            } else {
                relist(&mut world, *registry, *cut, &said);
            }
        }
    }
    world.core.apply(tributary_model::Mono(world.now), turn);
    check_outlines(&world.core);
    world.catalog()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_way_ends_in_the_naive_answer(history in any_history(), way in any_way()) {
        let facts = final_facts(&history);
        let naive = answer(&mk_specs(), &facts);
        let catalog = walk(&history, &way);
        prop_assert_eq!(read(&catalog), naive);
    }

    #[test]
    fn every_way_ends_in_a_fresh_build(history in any_history(), way in any_way()) {
        let (walked, fresh) = (walk(&history, &way), fresh(&final_facts(&history)));
        prop_assert_eq!(read(&walked), read(&fresh));
        prop_assert_eq!(conditions(&walked), conditions(&fresh));
        let ips = |c: &Catalog| c.workload_ips.iter().map(|(ip, keys)| (*ip, keys.to_vec())).collect::<Vec<_>>();
        prop_assert_eq!(ips(&walked), ips(&fresh));
        let odd = |c: &Catalog| c.registries.values().map(|r| r.conditions.to_vec()).collect::<Vec<_>>();
        prop_assert_eq!(odd(&walked), odd(&fresh));
        prop_assert_eq!(&*walked.settings, &*fresh.settings);
        for (a, b) in walked.services().zip(fresh.services()) {
            for (a, b) in a.ports.iter().zip(b.ports.iter()) {
                prop_assert_eq!(&a.endpoints.inputs, &b.endpoints.inputs, "order of sources included");
                prop_assert_eq!(&a.listener.inputs.addresses, &b.listener.inputs.addresses);
                prop_assert_eq!(&a.route.inputs.aliases, &b.route.inputs.aliases);
            }
        }
    }

    #[test]
    fn every_way_with_aliases_ends_in_a_fresh_build(history in any_joining_history(), way in any_way()) {
        let (walked, fresh) = (walk(&history, &way), fresh(&final_facts(&history)));
        prop_assert_eq!(read(&walked), read(&fresh));
        prop_assert_eq!(conditions(&walked), conditions(&fresh));
        let odd = |c: &Catalog| c.registries.values().map(|r| r.conditions.to_vec()).collect::<Vec<_>>();
        prop_assert_eq!(odd(&walked), odd(&fresh));
        for (a, b) in walked.services().zip(fresh.services()) {
            for (a, b) in a.ports.iter().zip(b.ports.iter()) {
                prop_assert_eq!(&a.endpoints.inputs, &b.endpoints.inputs);
                prop_assert_eq!(&a.listener.inputs.addresses, &b.listener.inputs.addresses);
                prop_assert_eq!(&a.route.inputs.aliases, &b.route.inputs.aliases);
            }
        }
    }

    #[test]
    fn what_goes_away_again_leaves_nothing_behind(history in any_joining_history()) {
        let mut world = mk_world();
        for word in &history {
            say(&mut world, word);
        }
        for registry in REGISTRIES {
            world.core.remove_registry(&mk_name(registry), &tributary_model::Evidence::Operator);
        }
        let catalog = world.catalog();
        prop_assert!(catalog.hosts.is_empty() && catalog.scoped.is_empty());
        prop_assert!(catalog.workloads.is_empty() && catalog.workload_ips.is_empty());
        prop_assert!(world.core.is_empty(), "{:?}", world.core);
    }
}
