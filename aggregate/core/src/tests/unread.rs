//! Collections that were never read: what the catalog reports about the endpoints of a service.

use super::fixtures::*;
use super::journal::Journal;
use tributary_model::{
    Code, Collection, CollectionKind, Completeness, Declaration, ProviderId, RegistryUpdate, Resolution,
    Withheld,
};

const PAY: &str = "shop/pay.shop";

fn withheld(kind: CollectionKind) -> RegistryUpdate {
    RegistryUpdate::Withheld(mk_collection(kind), Withheld::forbidden("403 forbidden"))
}
fn ended(kind: CollectionKind) -> RegistryUpdate {
    RegistryUpdate::ListEnded(mk_collection(kind), Completeness::Complete)
}

/// A run that may list services and not their endpoints.
fn mk_world() -> World {
    let mut world = World::with(&[mk_spec("east", ProviderId::KUBERNETES)]);
    world.report("east", without_endpoints());
    world
}
fn without_endpoints() -> Vec<RegistryUpdate> {
    let mut updates = mk_list([mk_service(PAY, mk_decl("pay", "80 http"))]);
    updates.retain(|update| {
        !matches!(update, RegistryUpdate::ListEnded(Collection { kind: CollectionKind::Groups, .. }, _))
    });
    updates.push(withheld(CollectionKind::Groups));
    updates
}

/// Whether the assignment of the port proves nothing, and the codes of the service's condition and of the registry.
fn judged(world: &mut World) -> (bool, Option<Code>, Vec<Code>) {
    let catalog = world.catalog();
    let view = catalog.service(&mk_key(PAY)).unwrap();
    let registry = &catalog.registries[&mk_name("east")];
    let of_registry = registry.conditions.iter().map(|condition| condition.code).collect();
    let of_service = catalog.unread_condition(view).map(|condition| condition.code);
    (catalog.lacks_endpoints(view, &view.ports[0]), of_service, of_registry)
}

#[test]
fn unread_endpoints_are_not_an_empty_service() {
    let mut world = mk_world();
    let unread = Code::ENDPOINTS_UNREAD;
    assert_eq!(judged(&mut world), (true, Some(unread), vec![unread]));
    let catalog = world.catalog();
    assert!(!catalog.complete && catalog.is_partial());
    let text = catalog.unread().next().unwrap().text();
    assert!(text.contains("registry east") && text.contains("403 forbidden"), "{text}");
    let outcome = world.report("east", [ended(CollectionKind::Groups)]);
    assert!(outcome.changed.complete, "clients that hold names are woken");
    assert_eq!(judged(&mut world), (false, None, Vec::new()));
    world.report("east", [withheld(CollectionKind::Groups)]);
    assert_eq!(judged(&mut world), (false, None, Vec::new()), "it was read once");
}

#[test]
fn alias_has_no_unread_endpoints() {
    let mut world = mk_world();
    let resolution = Resolution::Alias(mk_host("pay.shop"));
    let alias = Declaration { resolution, ..mk_decl("old", "80 http") };
    world.report("east", [mk_put(mk_service("shop/old.shop", alias))]);
    let catalog = world.catalog();
    let condition = |key| catalog.unread_condition(catalog.service(&mk_key(key)).unwrap());
    assert_eq!((condition("shop/old.shop"), condition(PAY).is_some()), (None, true));
}

#[test]
fn scope_that_was_never_read_is_named_without_its_kinds() {
    let texts = |world: &mut World| {
        let mut texts: Vec<String> = world.catalog().unread().map(|one| one.text()).collect();
        texts.dedup();
        texts
    };
    let part =
        format!("registry east has never read the endpoints of scope {}: 403 forbidden", mk_scope(SCOPE));
    assert_eq!(texts(&mut mk_world()), std::slice::from_ref(&part));
    let mut world = World::with(&[mk_spec("east", ProviderId::KUBERNETES)]);
    world.report("east", std::iter::once(mk_required()).chain(KINDS.map(withheld)));
    assert_eq!(texts(&mut world), [part.replace("the endpoints of ", "")]);
}

#[test]
fn first_readable_registry_of_two_wakes_its_holders() {
    let mut world =
        World::with(&[mk_spec("east", ProviderId::KUBERNETES), mk_spec("west", ProviderId::KUBERNETES)]);
    let refused = || std::iter::once(mk_required()).chain(KINDS.map(withheld));
    world.report("east", refused());
    world.report("west", refused());
    let outcome = world.report("east", KINDS.map(ended));
    assert!(!world.catalog().complete && outcome.changed.complete);
}

#[test]
fn known_endpoints_of_another_registry_are_served() {
    let mut world = mk_world();
    world.add_registry(&mk_spec("west", ProviderId::KUBERNETES));
    world.restart("west");
    world.list(
        "west",
        [mk_service(PAY, mk_decl("pay", "80 http")), mk_group(PAY, "pay", "a", "10.0.0.1:http=80")],
    );
    let (lacks, condition, _) = judged(&mut world);
    assert_eq!(
        (lacks, condition),
        (false, Some(Code::ENDPOINTS_UNREAD)),
        "what is known is served, and the rest is named"
    );
}

#[test]
fn policies_that_were_never_read_are_missed_after_a_restart() {
    let spec = mk_spec("east", ProviderId::SERVICE_ENTRY);
    let policies = || Collection { scope: mk_scope(SCOPE), kind: CollectionKind::Policies };
    let follows = RegistryUpdate::Follows { required: vec![policies()], optional: Vec::new() };
    let is_decided = |world: &World| world.core.status()[0].decided;
    let ends = [
        (RegistryUpdate::Withheld(policies(), Withheld::forbidden("403")), false),
        (RegistryUpdate::ListEnded(policies(), Completeness::Complete), true),
    ];
    for (end, decided) in ends {
        let mut before = World::with(std::slice::from_ref(&spec));
        let mut journal = Journal::default();
        journal.take(before.report("east", vec![follows.clone(), end.clone()]).records);
        let mut world = journal.restored(std::slice::from_ref(&spec));
        assert_eq!(is_decided(&world), decided, "{end:?}, and the source is away");
        world.restart("east");
        world.report("east", vec![follows.clone(), end]);
        assert_eq!(is_decided(&world), decided, "the source answers as before");
    }
}

#[test]
fn what_was_never_read_is_unread_after_a_restart() {
    let spec = mk_spec("east", ProviderId::KUBERNETES);
    let (mut before, mut journal) = (World::with(std::slice::from_ref(&spec)), Journal::default());
    journal.take(before.report("east", without_endpoints()).records);
    let mut world = journal.restored(std::slice::from_ref(&spec));
    let (lacks, condition, _) = judged(&mut world);
    assert_eq!((lacks, condition), (true, Some(Code::ENDPOINTS_UNREAD)), "the source is away");
    assert!(!world.catalog().complete);
    world.restart("east");
    world.report("east", without_endpoints());
    assert!(judged(&mut world).0, "the source still refuses");
}
