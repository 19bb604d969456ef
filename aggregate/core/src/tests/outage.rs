//! Standby members of a federated service during an outage of the active members' registry. Time is passed in.

use std::sync::Arc;
use std::time::Duration;

use super::fixtures::*;
use super::joins::mk_federated;
use tributary_model::{
    Code, Fact, FederatedMember, FederatedService, Mono, ProviderId, SourceState, SourceStatus,
};

const GIVEN: Duration = Duration::from_secs(30);

/// Returns a core with an active member of `east` and a standby of `vms`, all live at 1 s.
fn mk_world(change: impl FnOnce(&mut FederatedService)) -> World {
    let mut world = World::with(&[
        mk_spec("config", ProviderId::CONFIG),
        mk_spec("east", ProviderId::KUBERNETES),
        mk_spec("vms", ProviderId::CONSUL),
    ]);
    world.now = 1_000;
    for (registry, ip) in [("east", "10.0.0.1"), ("vms", "10.1.0.1")] {
        world.list(registry, mk_facts(registry, ip));
    }
    let federated = mk_federated("pay.mesh", "pay.east pay.vms", |federated| {
        federated.standby_after_stale = Some(GIVEN);
        federated.min_healthy_active = Some(1);
        let standby = |(at, member): (usize, FederatedMember)| FederatedMember { standby: at == 1, ..member };
        federated.members = federated.members.iter().cloned().enumerate().map(standby).collect();
        change(federated);
    });
    world.list("config", [federated]);
    world
}
fn mk_facts(registry: &str, ip: &str) -> [Fact; 2] {
    let key = format!("shop/pay.{registry}");
    let group = mk_group(&key, "pay", "g", &format!("{ip}:http=80"));
    [mk_service(&key, mk_decl("pay", "80 http")), group]
}
fn is(world: &mut World, registry: &str, state: SourceState, at: u64) {
    // an outage counts from the update, a recovery from the batch 10 ms later
    world.now = if state == SourceState::Live { at - 10 } else { at };
    world.report(
        registry,
        [tributary_model::RegistryUpdate::Status(mk_scope(SCOPE), SourceStatus::new(state, "x"))],
    );
}
/// Returns for each source whether it counts as unreachable and whether it is an unused standby.
fn sources(world: &mut World) -> Vec<(bool, bool)> {
    let view = world.view("default/pay.mesh").unwrap();
    let sources = view.ports[0].endpoints.inputs.sources.iter();
    sources.filter_map(|s| s.federation.as_ref()).map(|joined| (joined.stale, joined.standby)).collect()
}
const WAITS: [(bool, bool); 2] = [(false, false), (false, true)];
const IN_USE: [(bool, bool); 2] = [(true, false), (false, true)];

#[test]
fn standby_is_used_after_the_allowed_outage() {
    let mut world = mk_world(|_| ());
    assert_eq!((sources(&mut world).as_slice(), world.core.next_tick()), (&WAITS[..], None));
    is(&mut world, "east", SourceState::Unreachable, 5_000);
    assert_eq!(world.core.next_tick(), Some(Mono(35_000)), "time alone activates the standby");
    assert!(world.core.tick(Mono(34_999)).changed.is_empty());
    assert_eq!((sources(&mut world).as_slice(), world.codes("default/pay.mesh")), (&WAITS[..], vec![]));
    let outcome = world.core.tick(Mono(35_000));
    assert!(outcome.changed.hosts.contains(&mk_host("pay.mesh")) && outcome.changed.hosts.len() == 1);
    assert_eq!((sources(&mut world).as_slice(), world.core.next_tick()), (&IN_USE[..], None));
    assert_eq!(
        world.served("default/pay.mesh", 80),
        ["10.0.0.1:80", "10.1.0.1:80"],
        "no endpoint is removed"
    );
    assert_eq!(world.codes("default/pay.mesh"), [Code::FEDERATED_STANDBY]);
    let view = world.view("default/pay.mesh").unwrap();
    let messages: Vec<&str> = view.conditions.iter().map(|c| &*c.message).collect();
    assert!(messages.contains(&"registry east has been unreachable for more than 30s"), "{messages:?}");
}

#[test]
fn standby_waits_again_after_an_equally_long_recovery() {
    let mut world = mk_world(|_| ());
    is(&mut world, "east", SourceState::Unreachable, 5_000);
    is(&mut world, "east", SourceState::Live, 30_000);
    assert_eq!(
        (sources(&mut world).as_slice(), world.core.next_tick()),
        (&WAITS[..], None),
        "a short outage"
    );
    is(&mut world, "east", SourceState::Unreachable, 40_000);
    world.core.tick(Mono(70_000));
    assert_eq!(sources(&mut world), IN_USE);
    is(&mut world, "east", SourceState::Live, 80_000);
    assert_eq!((sources(&mut world).as_slice(), world.core.next_tick()), (&IN_USE[..], Some(Mono(110_000))));
    is(&mut world, "east", SourceState::Unreachable, 90_000);
    assert_eq!(world.core.next_tick(), None, "a short recovery changes nothing");
    is(&mut world, "east", SourceState::Live, 100_000);
    world.core.tick(Mono(129_999));
    assert_eq!(sources(&mut world), IN_USE);
    world.core.tick(Mono(130_000));
    assert_eq!((sources(&mut world).as_slice(), world.codes("default/pay.mesh")), (&WAITS[..], vec![]));
}

#[test]
fn outage_without_a_limit_or_of_a_standby_changes_nothing() {
    let mut world = mk_world(|federated| federated.standby_after_stale = None);
    is(&mut world, "east", SourceState::Unreachable, 5_000);
    assert_eq!(world.core.next_tick(), None);
    world.core.tick(Mono(1_000_000));
    assert_eq!(sources(&mut world), WAITS);
    let mut world = mk_world(|_| ());
    is(&mut world, "vms", SourceState::Unreachable, 5_000);
    world.core.tick(Mono(1_000_000));
    assert_eq!((sources(&mut world).as_slice(), world.codes("default/pay.mesh")), (&WAITS[..], vec![]));
}

#[test]
fn outage_without_a_minimum_activates_the_standby() {
    let mut world = mk_world(|federated| federated.min_healthy_active = None);
    is(&mut world, "east", SourceState::Unreachable, 5_000);
    world.core.tick(Mono(35_000));
    assert_eq!(sources(&mut world), [(true, false), (false, false)], "both have the same priority");
}

#[test]
fn late_federated_service_counts_an_earlier_outage() {
    let mut world = mk_world(|federated| federated.standby_after_stale = None);
    is(&mut world, "east", SourceState::Unreachable, 5_000);
    world.now = 60_000;
    let mut late = Arc::new(FederatedService::clone(&federated(&mut world)));
    Arc::make_mut(&mut late).standby_after_stale = Some(GIVEN);
    world.put("config", [Fact::FederatedService(mk_host("pay.mesh"), late)]);
    assert_eq!(sources(&mut world), IN_USE);
    for registry in ["east", "vms", "config"] {
        world.core.remove_registry(&mk_name(registry), &tributary_model::Evidence::Operator);
    }
    assert!(world.core.is_empty() && world.core.next_tick().is_none());
}
fn federated(world: &mut World) -> Arc<FederatedService> {
    let service = world.core.state.hosts.get(&mk_key("default/pay.mesh")).unwrap();
    Arc::clone(service.federated.as_ref().unwrap())
}
