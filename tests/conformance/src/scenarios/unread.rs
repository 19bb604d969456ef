//! Objects that a run cannot read any more: their facts are kept and become stale, and everything else
//! continues.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    Catalog, Freshness, Hostname, PortView, ServiceView, WithheldCause, Workload, WorkloadAddress,
};

use super::mk_services;
use crate::harness::{Ability, Act, Harness, Refusable, Rest, Service};
use crate::pace::Pace;
use crate::stage::{Stage, a_while, freshness, in_time, until_seen};
use crate::tamper::Crash;

/// Events that follow a refusal.
#[derive(Debug, Clone, Copy)]
enum Then {
    GoesOn,
    Restarts,
    Rotates,
}

impl Then {
    const ALL: [Self; 3] = [Self::GoesOn, Self::Restarts, Self::Rotates];

    async fn happens(self, stage: &Stage) {
        match self {
            Self::GoesOn => {}
            Self::Restarts => stage.crash_and_see(Crash::Error).await,
            Self::Rotates => stage.rotate().await,
        }
    }
}

async fn with_two_parts(harness: &dyn Harness) -> Stage {
    let mut stage = Stage::playing(harness, &mk_services()).await;
    stage.set_in(1, &Service::new("far", 20, 1..=3)).await;
    stage.until_true().await;
    stage.until_live().await;
    stage
}

fn is_live(stage: &Stage) -> bool {
    freshness(&stage.handle.catalog(), &stage.name).contains(&Freshness::Live)
}

/// Plays a refusal of each kind and part separately.
pub(super) async fn refused(harness: &dyn Harness, cause: WithheldCause) {
    for what in harness.refusables() {
        for then in Then::ALL {
            println!("{} {cause:?}, and the run {then:?}", what.name);
            one_refused(harness, *what, cause, then).await;
        }
    }
}

async fn one_refused(harness: &dyn Harness, what: Refusable, cause: WithheldCause, then: Then) {
    let mut stage = with_two_parts(harness).await;
    let (catalog, changes) = (stage.handle.catalog(), stage.witness.changes_by_host());
    stage.act(Act::Refuse(what.name, cause)).await;
    then.happens(&stage).await;
    until_shown(&stage, what).await;
    let moved = move_rest(&mut stage, what.rest).await;
    until_seen("the rest is confirmed", || is_live(&stage)).await;
    stage.settle().await;
    stage.assert_true();
    until_shown(&stage, what).await;
    let others = |mut changes: BTreeMap<Hostname, usize>| {
        changes.remove(&moved);
        changes
    };
    // a held endpoint becomes visible, which changes its service
    if held(&stage).await == 0 {
        assert_eq!(
            others(stage.witness.changes_by_host()),
            others(changes),
            "what is refused changes no service"
        );
    }
    let before = seen(&stage, &catalog, &moved);
    assert_eq!(seen(&stage, &stage.handle.catalog(), &moved), before);
    right_returns(&mut stage).await;
    assert_eq!(seen(&stage, &stage.handle.catalog(), &moved), before);
    stage.set_in(1, &Service::new("far", 20, 2..=5)).await;
    stage.until_true().await;
    stage.stop().await;
}

async fn right_returns(stage: &mut Stage) {
    let (changes, was_held) = (stage.witness.host_changes(), held(stage).await > 0);
    stage.act(Act::Recover).await;
    stage.until_live().await;
    stage.settle().await;
    stage.assert_true();
    assert_eq!(held(stage).await, 0, "nothing that can be read is still held");
    if !was_held {
        assert_eq!(stage.witness.host_changes(), changes, "a right that returns changes no service");
    }
    stage.until_agreed().await;
}

async fn held(stage: &Stage) -> usize {
    stage.handle.inspect(|core| core.held().count()).await.expect("it runs")
}

/// Waits until the refused collections are stale, or until the status shows the refusal if no collection
/// depends on it.
async fn until_shown(stage: &Stage, what: Refusable) {
    if what.goes_stale {
        return stage.until_stale().await;
    }
    let shown = async {
        while !stage.status_shows(what.name).await {
            a_while().await;
        }
    };
    in_time("the status shows it", shown).await;
    stage.until_live().await;
}

/// Changes something that can still be read, and waits until the change is visible. Returns the host that
/// changes.
async fn move_rest(stage: &mut Stage, rest: Rest) -> Hostname {
    let service = match rest {
        Rest::Removal => {
            stage.delete("cart").await;
            "cart"
        }
        Rest::Endpoint(0) => {
            stage.set(&Service::new("pay", 1, 2..=4)).await;
            "pay"
        }
        Rest::Endpoint(part) => {
            stage.set_in(part, &Service::new("far", 20, 2..=3)).await;
            "far"
        }
    };
    stage.until_true().await;
    stage.host(service)
}

/// Returns what clients see of every service except `moved`, in detail: endpoints with all their attributes,
/// workloads at served addresses, gateways and mesh-wide values.
fn seen(stage: &Stage, catalog: &Catalog, moved: &Hostname) -> BTreeSet<String> {
    let served: BTreeSet<IpAddr> = stage.truth().values().flatten().copied().collect();
    let stays = |workload: &Workload| {
        workload.addresses.iter().any(|at| matches!(at, WorkloadAddress::Ip(ip) if served.contains(ip)))
    };
    let workloads = catalog.workloads.values().filter(|view| stays(&view.workload));
    let workloads = workloads.map(|view| format!("{:?} of {:?}", view.workload, view.services));
    let gateways = catalog.gateways.iter().map(|(key, gateway)| format!("{key:?} {gateway:?}"));
    let services = catalog.services().filter(|view| view.key.host != *moved).flat_map(|view| endpoints(view));
    workloads.chain(gateways).chain(services).chain([format!("{:?}", catalog.settings)]).collect()
}

fn endpoints(view: &ServiceView) -> Vec<String> {
    let name = |port: &PortView| format!("{:?} {} {:?}", view.key, port.number, port.protocol);
    let of = |port: &PortView| {
        let groups = port.endpoints.inputs.sources.iter().map(|source| Arc::clone(&source.group));
        let all = groups.flat_map(|group| group.addresses.to_vec());
        all.map(|address| format!("{} {address:?}", name(port))).collect::<Vec<_>>()
    };
    view.ports.iter().flat_map(of).collect()
}

pub(super) async fn shorter_discovery(harness: &dyn Harness) {
    for then in Then::ALL {
        println!("discovery lists less, and the run {then:?}");
        let mut stage = with_two_parts(harness).await;
        stage.act(Act::Shorten).await;
        then.happens(&stage).await;
        stage.settle().await;
        stage.assert_true();
        stage.set_in(1, &Service::new("far", 20, 2..=5)).await;
        stage.delete("cart").await;
        stage.until_true().await;
        stage.act(Act::Recover).await;
        stage.until_live().await;
        stage.settle().await;
        stage.assert_true();
        stage.until_agreed().await;
        stage.stop().await;
    }
}

/// Plays a run that reports nothing, or reports that it can read nothing: it changes no fact.
pub(super) async fn silent_run(harness: &dyn Harness) {
    for pace in [Pace::Muted, Pace::Withheld] {
        for then in [Then::Restarts, Then::Rotates] {
            println!("{pace:?}, and the run {then:?}");
            let stage = with_two_parts(harness).await;
            let changes = stage.witness.host_changes();
            stage.tamper.pace(pace);
            then.happens(&stage).await;
            stage.settle().await;
            stage.assert_true();
            assert_eq!(stage.witness.host_changes(), changes, "a run without a list changes no service");
            stage.tamper.pace(Pace::Direct);
            stage.crash(Crash::Error);
            stage.until_live().await;
            stage.until_agreed().await;
            stage.assert_true();
            stage.stop().await;
        }
    }
}

pub(super) async fn scope_that_ended(harness: &dyn Harness) {
    for then in Then::ALL {
        println!("a scope ended, and the run {then:?}");
        let mut stage = with_two_parts(harness).await;
        let before = freshness(&stage.handle.catalog(), &stage.name).len();
        stage.expect_gone(&["far"]);
        stage.act(Act::End).await;
        then.happens(&stage).await;
        stage.until_true().await;
        stage.until_live().await;
        stage.until("the scope is free", |catalog| freshness(catalog, &stage.name).len() < before).await;
        stage.settle().await;
        stage.until_agreed().await;
        stage.assert_true();
        stage.stop().await;
    }
}

/// Configures the next run without a scope: the facts of that scope are withdrawn, and no others.
pub(super) async fn scope_configured_away(harness: &dyn Harness) {
    let mut stage = with_two_parts(harness).await;
    let before = freshness(&stage.handle.catalog(), &stage.name).len();
    stage.settle().await;
    stage.assert_true();
    stage.expect_gone(&["far"]);
    stage.act(Act::Narrow).await;
    stage.rotate().await;
    stage.until_true().await;
    stage.until_live().await;
    if harness.declines(Ability::Parts).is_none() {
        stage.until("the scope is free", |catalog| freshness(catalog, &stage.name).len() < before).await;
    }
    stage.until_agreed().await;
    stage.crash(Crash::Error);
    stage.set(&Service::new("pay", 1, 2..=5)).await;
    stage.until_true().await;
    stage.settle().await;
    stage.until_agreed().await;
    stage.assert_true();
    stage.stop().await;
}

/// Replaces the source by another one: its facts are rejected until an operator accepts it.
pub(super) async fn identity_swapped(harness: &dyn Harness) {
    for rotates in [false, true] {
        println!("identity changed by a rotation: {rotates}");
        let mut stage = Stage::playing(harness, &mk_services()).await;
        stage.crash_and_wait(Crash::Error).await;
        stage.act(Act::Swap).await;
        if rotates {
            stage.rotate().await;
        }
        stage.run_again();
        stage.settle().await;
        stage.assert_true();
        stage.expect_gone(&["pay", "cart", "idle"]);
        let name = stage.name.clone();
        assert!(stage.handle.accept(name).await.expect("it runs"), "a replaced source waits to be accepted");
        stage.crash(Crash::Error);
        stage.until_true().await;
        stage.until_live().await;
        stage.set(&Service::new("other", 5, 1..=3)).await;
        stage.until_true().await;
        stage.until_agreed().await;
        stage.stop().await;
    }
}
