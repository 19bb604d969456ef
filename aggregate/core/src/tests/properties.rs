//! Every delivery ends in a fresh build: permutation, duplication, conflation, splitting into batches and
//! relists of the same facts result in the same catalog, which equals the naive one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use tributary_model::{
    Catalog, Completeness, Condition, Declaration, ExportTo, Fact, FederatedMember, Health, Hostname, Labels,
    PortName, ProviderId, RegistrySpec, RegistryUpdate, Resolution, Selector, ServiceKey, Settings,
    Timestamp, Visibility, Workload,
};

use super::fixtures::*;
use super::joins::mk_federated;
use super::naive::{Facts, answer, read};

const HOSTS: [&str; 3] = ["pay.shop", "cart.shop", "go.shop"];
pub(super) const REGISTRIES: [&str; 3] = ["east", "file", "west"];

pub(super) fn mk_specs() -> Vec<RegistrySpec> {
    vec![
        mk_spec("east", ProviderId::KUBERNETES),
        mk_spec("file", ProviderId::SERVICE_ENTRY),
        mk_spec_of(mk_registry("west", ProviderId::SERVICE_ENTRY), 0),
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
        2 => Just(Resolution::Passthrough),
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
    let account = select(&["", "@a", "@a", "@b"][..]);
    let endpoint = (1..5_u8, account, ports, any::<bool>()).prop_map(|(i, account, ports, sick)| {
        format!("10.0.0.{i}{account}:{ports}{}", if sick { "!" } else { "" })
    });
    let endpoints = proptest::collection::vec(endpoint, 0..4);
    (any_service(), select(&["x", "y"][..]), select(&["g", "h"][..]), endpoints)
        .prop_map(|(service, declaration, object, e)| mk_group(&service, declaration, object, &e.join(" ")))
}

fn any_workload() -> impl Strategy<Value = Fact> {
    let at = select(&["10.1.0.1", "10.1.0.2", "name.example"][..]);
    let account = proptest::option::of(select(&["a", "c"][..]));
    let flags = (any::<bool>(), any::<bool>());
    (0..3_usize, at, any_labels(), flags, account).prop_map(|(i, at, labels, (sick, web), account)| {
        let name = format!("w{i}");
        let ports: Arc<[_]> =
            if web { [(PortName::new("web").unwrap(), mk_port(99))].into() } else { Arc::from([]) };
        let health = if sick { Health::Unhealthy } else { Health::Healthy };
        let (identity, mtls) = (account.map(mk_identity), account.is_some());
        let augmented = labels.clone();
        let of = mk_workload_value(&name, at, "");
        let value = Workload { augmented, labels, health, ports, identity, mtls, ..of };
        Fact::Workload(mk_workload_key(&name), Arc::new(value))
    })
}

const ALIASES: &[&[&str]] = &[&["old"], &["old", "older"]];

fn any_settings() -> impl Strategy<Value = Fact> {
    let export = proptest::option::of(prop_oneof![any_visibility(), Just(Visibility::Own)]);
    let aliases = proptest::option::of(select(ALIASES));
    (export, aliases, proptest::option::of(any::<bool>())).prop_map(|(default_export, aliases, auto_mtls)| {
        let aliases = aliases.map(|all| all.iter().map(|alias| Arc::from(*alias)).collect());
        let settings =
            Settings { default_export, trust_domain_aliases: aliases, auto_mtls, ..Settings::default() };
        Fact::Settings(Arc::new(settings))
    })
}

fn any_sidecar() -> impl Strategy<Value = Fact> {
    let selector = select(&["", "", "a=1", "b=1", "a=1,b=2"][..]);
    (select(&["shop/s", "shop/t", "shop/u", "web/s"][..]), selector, proptest::option::of(0..3_i64))
        .prop_map(|(name, selector, created)| mk_sidecar(name, selector, created))
}

pub(super) fn any_fact() -> impl Strategy<Value = Fact> {
    prop_oneof![6 => any_declaration(), 6 => any_group(), 4 => any_workload(), 3 => any_sidecar()]
}

/// Update of a history: this registry puts a fact (`true`) or deletes it.
pub(super) type Update = (usize, Fact, bool);

fn any_history() -> impl Strategy<Value = Vec<Update>> {
    // only one registry has settings: the naive function does not combine them
    let update = prop_oneof![
        20 => (0..REGISTRIES.len(), any_fact(), any::<bool>()),
        1 => any_settings().prop_map(|fact| (0, fact, true)),
    ];
    let update = (update, 0..10_u8).prop_map(|((registry, fact, put), n)| (registry, fact, put || n > 2));
    proptest::collection::vec(update, 1..40)
}

/// Federated services of one registry, for declared hosts and an undeclared one.
fn any_federated() -> impl Strategy<Value = Fact> {
    let host = select(&["pay.shop", "cart.shop", "all.mesh"][..]);
    let member = select(&["pay.shop", "cart.shop", "east:go.shop", "west:pay.shop", "all.mesh"][..]);
    let namespace = select(&["shop", "default"][..]);
    let members = proptest::collection::vec(member, 1..4);
    (host, members, namespace, any_export(), any::<bool>()).prop_map(
        |(host, members, namespace, export, standby)| {
            mk_federated(host, &members.join(" "), |federated| {
                (federated.namespace, federated.export) = (mk_ns(namespace), export);
                federated.min_healthy_active = Some(2);
                federated.members =
                    federated.members.iter().cloned().map(|m| FederatedMember { standby, ..m }).collect();
            })
        },
    )
}

fn any_joining_history() -> impl Strategy<Value = Vec<Update>> {
    let updates = proptest::collection::vec((any_federated(), 0..10_u8), 1..8);
    let position = proptest::collection::vec(any::<Index>(), 8);
    (any_history(), updates, position).prop_map(|(mut history, updates, position)| {
        history.truncate(32);
        for ((fact, n), at) in updates.into_iter().zip(position) {
            history.insert(at.index(history.len() + 1), (0, fact, n > 2));
        }
        history
    })
}

pub(super) fn final_facts(history: &[Update]) -> Facts {
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

fn apply(world: &mut World, update: &Update) {
    let (registry, fact, put) = update;
    let delta = if *put { mk_put(fact.clone()) } else { mk_deleted(fact) };
    world.report(REGISTRIES[*registry], [delta]);
}

fn mk_world() -> World {
    World::with(&mk_specs())
}

/// Returns the catalog of a new core that receives the final facts, one list per registry.
pub(super) fn fresh(facts: &Facts) -> Arc<Catalog> {
    let mut world = mk_world();
    for (i, registry) in REGISTRIES.iter().enumerate() {
        let own = facts.iter().filter(|((r, _), _)| *r == i).map(|(_, fact)| fact.clone());
        world.list(registry, own.collect::<Vec<_>>());
    }
    world.catalog()
}

/// Returns all conditions with their messages.
/// Returns what the catalog lists as aliases.
fn alias_hosts(catalog: &Catalog) -> BTreeMap<Hostname, BTreeSet<Hostname>> {
    catalog.aliases.iter().map(|(host, aliases)| (host.clone(), aliases.iter().cloned().collect())).collect()
}
/// Reads the aliases from the declarations of all services.
fn declared_aliases(catalog: &Catalog) -> BTreeMap<Hostname, BTreeSet<Hostname>> {
    let mut out: BTreeMap<Hostname, BTreeSet<Hostname>> = BTreeMap::new();
    for view in catalog.services() {
        for target in view.declarations.iter().filter_map(|seen| seen.declaration.alias_target()) {
            out.entry(target.clone()).or_default().insert(view.key.host.clone());
        }
    }
    out
}

fn conditions(catalog: &Catalog) -> BTreeMap<ServiceKey, Vec<Condition>> {
    catalog.services().map(|v| (v.key.clone(), v.conditions.to_vec())).collect()
}

/// Order and batches in which a history is delivered.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    /// Random number for each update, by which updates of different facts are reordered.
    order: Vec<u16>,
    /// Updates after which the state of a random fact is reported again.
    repeats: Vec<(Index, Index)>,
    /// Whether a batch ends after each update.
    batches: Vec<bool>,
    /// Updates after which a registry starts a new run and lists, either in place after an interrupted list
    /// or as a rotation.
    relists: Vec<(Index, usize, usize, bool)>,
}

pub(super) fn any_delivery() -> impl Strategy<Value = Delivery> {
    (
        proptest::collection::vec(any::<u16>(), 40),
        proptest::collection::vec(any::<(Index, Index)>(), 0..6),
        proptest::collection::vec(any::<bool>(), 40),
        proptest::collection::vec((any::<Index>(), 0..REGISTRIES.len(), 0..6_usize, any::<bool>()), 0..4),
    )
        .prop_map(|(order, repeats, batches, relists)| Delivery { order, repeats, batches, relists })
}

/// Reorders updates of different facts; updates of one fact keep their order.
fn reordered(history: &[Update], order: &[u16]) -> Vec<Update> {
    let mut at: Vec<(u16, usize)> = order.iter().copied().zip(0..history.len()).collect();
    at.sort_unstable();
    let mut slots: BTreeMap<(usize, _), Vec<usize>> = BTreeMap::new();
    for (slot, (_, update)) in at.iter().enumerate() {
        slots.entry((history[*update].0, history[*update].1.item())).or_default().push(slot);
    }
    let mut out: Vec<Option<Update>> = vec![None; history.len()];
    for update in history {
        let own = slots.get_mut(&(update.0, update.1.item())).unwrap();
        out[own.remove(0)] = Some(update.clone());
    }
    out.into_iter().map(Option::unwrap).collect()
}

fn relist(world: &mut World, registry: usize, cut: usize, reported: &Facts) {
    let name = REGISTRIES[registry];
    let own: Vec<Fact> =
        reported.iter().filter(|((r, _), _)| *r == registry).map(|(_, f)| f.clone()).collect();
    world.restart(name);
    let mut partial = mk_list(own.iter().take(cut).cloned());
    partial.retain(|d| !matches!(d, RegistryUpdate::ListEnded(..)));
    world.report(name, partial);
    world.report(name, [RegistryUpdate::ListEnded(mk_collection(KINDS[0]), Completeness::Partial)]);
    world.restart(name);
    world.list(name, own);
}

fn rotate(world: &mut World, registry: usize, cut: usize, reported: &Facts) {
    let name = REGISTRIES[registry];
    let own: Vec<Fact> =
        reported.iter().filter(|((r, _), _)| *r == registry).map(|(_, f)| f.clone()).collect();
    let stale = own.iter().rev().take(cut).cloned().map(mk_put);
    let shadow = world.shadow(name);
    let mut updates: Vec<RegistryUpdate> = std::iter::once(mk_required()).chain(stale).collect();
    updates.push(RegistryUpdate::ListStarted(mk_collection(KINDS[1])));
    world.report_in(name, shadow, updates);
    world.report_in(name, shadow, mk_list(own));
}

pub(super) fn walk(history: &[Update], delivery: &Delivery) -> Arc<Catalog> {
    let mut world = mk_world();
    let updates = reordered(history, &delivery.order);
    let mut batch: Vec<tributary_model::Stamped<RegistryUpdate>> = Vec::new();
    for (i, update) in updates.iter().enumerate() {
        let reported = final_facts(&updates[..=i]);
        let name = REGISTRIES[update.0];
        let delta = if update.2 { mk_put(update.1.clone()) } else { mk_deleted(&update.1) };
        batch.push(world.stamp(name, world.generation(name), delta));
        for (when, what) in &delivery.repeats {
            if when.index(updates.len()) == i && !reported.is_empty() {
                let ((registry, _), fact) = reported.iter().nth(what.index(reported.len())).unwrap();
                let name = REGISTRIES[*registry];
                batch.push(world.stamp(name, world.generation(name), mk_put(fact.clone())));
            }
        }
        let relists = delivery.relists.iter().filter(|(when, ..)| when.index(updates.len()) == i);
        let relists: Vec<_> = relists.collect();
        if delivery.batches[i] || !relists.is_empty() {
            world.now += 10;
            world.core.apply(tributary_model::Mono(world.now), std::mem::take(&mut batch));
            check_outlines(&world.core);
            world.catalog();
        }
        for (_, registry, cut, rotation) in relists {
            if *rotation {
                rotate(&mut world, *registry, *cut, &reported);
            } else {
                relist(&mut world, *registry, *cut, &reported);
            }
        }
    }
    world.core.apply(tributary_model::Mono(world.now), batch);
    check_outlines(&world.core);
    world.catalog()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_delivery_ends_in_the_naive_answer(history in any_history(), delivery in any_delivery()) {
        let facts = final_facts(&history);
        let naive = answer(&mk_specs(), &facts);
        let catalog = walk(&history, &delivery);
        prop_assert_eq!(read(&catalog), naive);
    }

    #[test]
    fn every_delivery_ends_in_a_fresh_build(history in any_history(), delivery in any_delivery()) {
        let (walked, fresh) = (walk(&history, &delivery), fresh(&final_facts(&history)));
        prop_assert_eq!(read(&walked), read(&fresh));
        prop_assert_eq!(conditions(&walked), conditions(&fresh));
        let policies = |c: &Catalog| c.policies.iter().map(|(k, v)| (k.clone(), (**v).clone())).collect::<Vec<_>>();
        prop_assert_eq!(policies(&walked), policies(&fresh));
        let ips = |c: &Catalog| c.workload_ips.iter().map(|(ip, keys)| (*ip, keys.to_vec())).collect::<Vec<_>>();
        prop_assert_eq!(ips(&walked), ips(&fresh));
        let odd = |c: &Catalog| c.registries.values().map(|r| r.conditions.to_vec()).collect::<Vec<_>>();
        prop_assert_eq!(odd(&walked), odd(&fresh));
        prop_assert_eq!(&*walked.settings, &*fresh.settings);
        for (a, b) in walked.services().zip(fresh.services()) {
            for (a, b) in a.ports.iter().zip(b.ports.iter()) {
                prop_assert_eq!(&a.endpoints.inputs, &b.endpoints.inputs, "order of sources included");
                prop_assert_eq!(&a.listener.inputs.addresses, &b.listener.inputs.addresses);
            }
            prop_assert_eq!(&a.aliases, &b.aliases);
        }
        prop_assert_eq!(alias_hosts(&walked), declared_aliases(&walked));
    }

    #[test]
    fn every_delivery_with_joins_ends_in_a_fresh_build(history in any_joining_history(), delivery in any_delivery()) {
        let (walked, fresh) = (walk(&history, &delivery), fresh(&final_facts(&history)));
        prop_assert_eq!(read(&walked), read(&fresh));
        prop_assert_eq!(conditions(&walked), conditions(&fresh));
        let odd = |c: &Catalog| c.registries.values().map(|r| r.conditions.to_vec()).collect::<Vec<_>>();
        prop_assert_eq!(odd(&walked), odd(&fresh));
        for (a, b) in walked.services().zip(fresh.services()) {
            for (a, b) in a.ports.iter().zip(b.ports.iter()) {
                prop_assert_eq!(&a.endpoints.inputs, &b.endpoints.inputs);
                prop_assert_eq!(&a.listener.inputs.addresses, &b.listener.inputs.addresses);
            }
            prop_assert_eq!(&a.aliases, &b.aliases);
        }
        prop_assert_eq!(alias_hosts(&walked), declared_aliases(&walked));
    }

    #[test]
    fn removed_registries_leave_every_index_empty(history in any_joining_history()) {
        let mut world = mk_world();
        for update in &history {
            apply(&mut world, update);
        }
        for registry in REGISTRIES {
            world.core.remove_registry(&mk_name(registry), &tributary_model::Evidence::Operator);
        }
        let catalog = world.catalog();
        prop_assert!(catalog.hosts.is_empty() && catalog.scoped.is_empty() && catalog.aliases.is_empty());
        prop_assert!(catalog.workloads.is_empty() && catalog.workload_ips.is_empty());
        prop_assert!(catalog.policies.is_empty());
        prop_assert!(world.core.is_empty(), "{:?}", world.core);
    }
}
