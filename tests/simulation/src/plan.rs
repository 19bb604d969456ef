//! Random steps of a run.
//!
//! A step is drawn from the state of the model, so that it can be taken; the runner takes it. Equal seeds draw equal steps.

use std::net::IpAddr;
use std::time::Duration;

use crate::bugs::Bug;
use crate::dice::Dice;
use crate::invariants::GRACE;
use crate::observer::Model;
use crate::site::Link;
use crate::world::HOME;

const SERVICES: [&str; 5] = ["pay", "cart", "stock", "mail", "own"];

/// New credential of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// It may do everything.
    Valid,
    /// The server refuses it.
    Refused,
    /// It may not read one kind that the old one may.
    Weaker,
    /// It leads to another cluster.
    WrongCluster,
    /// It cannot be read.
    Garbage,
}

/// Step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// An endpoint comes; perhaps with a pod, perhaps without a watch event.
    Add(String, String, bool, bool),
    /// An endpoint goes.
    Remove(String, String, IpAddr, bool),
    /// A service goes with its endpoints.
    RemoveService(String, String),
    /// The network of a cluster changes.
    Link(String, Link),
    /// The connections of a cluster break.
    Disconnect(String),
    /// Watched versions of a cluster expire, and its connections break.
    Expire(String),
    /// A cluster begins or stops to refuse the credential in use.
    Refuse(String, bool),
    /// The credential in use loses the right to read a kind, or has all rights again.
    Deny(String, Option<&'static str>),
    /// A cluster gets another credential.
    Rotate(String, Rotation),
    /// A cluster gets a valid credential while nothing else happens: clients must receive nothing.
    RotateQuietly(String),
    /// The first claim of a cluster goes or comes back.
    Claim(String, bool),
    /// The second claim of a cluster goes or comes.
    Second(String, bool),
    /// Another cluster answers at the address, or the first one again.
    Swap(String),
    /// The process is killed and starts again; perhaps the power is lost.
    Restart(bool),
    /// The disk fails or works again.
    Disk(bool),
    /// The wall clock jumps by this many hours.
    Clock(i64),
    /// One cluster stops to answer; another one must not notice.
    Isolate(String, String),
    /// A cluster does not answer for this long; perhaps its connections break at the end.
    Outage(String, Duration, bool),
    /// Time passes.
    Wait(Duration),
}

/// Returns the number that draws the step which a bug needs; `None` if it needs none in particular.
const fn favoured(bug: Bug) -> Option<usize> {
    match bug {
        Bug::UnauthorizedIsEmpty => Some(45),
        Bug::ResetIsEmpty => Some(43),
        Bug::WithheldIsEmpty => Some(49),
        Bug::MeshIsEmpty => Some(HOME_FAILS),
        Bug::FailedListLeaves => Some(HOME_LISTS),
        Bug::LoserIsForgotten => Some(67),
        Bug::IdentityOnce => Some(70),
        Bug::FrozenBlocksOthers => Some(79),
        Bug::SwapBeforeSync | Bug::AdoptedAlone => Some(53),
        Bug::AdoptionRewrites => Some(60),
        Bug::LiveWithoutProgress => Some(81),
        Bug::RestoredAsLive => Some(72),
        Bug::UnseenForgotten | Bug::LateDelete | Bug::WakeUpLost => None,
    }
}

/// Draws a failure of the config cluster.
const HOME_FAILS: usize = 100;
/// Draws lists of the config cluster, once it fails, and the time in which their effect shows: a watch that breaks continues without
/// a list.
const HOME_LISTS: usize = 101;

impl Step {
    /// Draws the next step.
    #[must_use]
    pub fn next(dice: &mut Dice, model: &Model, (silent, bug): (bool, Option<Bug>)) -> Self {
        let names: Vec<String> = model.clusters.keys().cloned().collect();
        let remotes: Vec<String> = names.iter().filter(|name| *name != HOME).cloned().collect();
        let any = dice.pick(&names).cloned().unwrap_or_default();
        let remote = dice.pick(&remotes).cloned().unwrap_or_default();
        let drawn = dice.below(100);
        // a bug shows in few seeds if what it needs is frequent
        let favoured = bug.and_then(favoured).filter(|_| dice.percent(30));
        match favoured.unwrap_or(drawn) {
            0..=17 => Self::add(dice, any, silent),
            18..=27 => Self::remove(dice, model, any, silent),
            28..=29 => Self::remove_service(dice, model, any),
            30..=39 => Self::link(dice, any),
            40..=42 => Self::Disconnect(any),
            43..=44 => Self::Expire(any),
            45..=48 => Self::Refuse(remote, dice.percent(60)),
            49..=52 => Self::deny(dice, remote),
            53..=59 => Self::rotate(dice, remote),
            60..=61 => Self::RotateQuietly(remote),
            62..=66 => Self::Claim(remote, dice.percent(50)),
            67..=69 => Self::Second(remote, dice.percent(60)),
            70..=71 => Self::Swap(remote),
            72..=75 => Self::Restart(dice.percent(40)),
            76..=77 => Self::Disk(dice.percent(50)),
            78 => Self::Clock(if dice.percent(50) { 1 } else { -1 }),
            79..=80 => Self::Isolate(remote, any),
            81 => Self::outage(dice, any),
            HOME_LISTS if model.clusters[HOME].site.link() == Link::Flaky => Self::list_and_wait(dice),
            HOME_FAILS | HOME_LISTS => Self::Link(HOME.to_owned(), Link::Flaky),
            _ => Self::wait(dice),
        }
    }
    fn add(dice: &mut Dice, cluster: String, silent: bool) -> Self {
        let service = dice.pick(&SERVICES).copied().unwrap_or_default();
        Self::Add(cluster, service.to_owned(), dice.percent(40), silent && dice.percent(30))
    }
    fn remove(dice: &mut Dice, model: &Model, cluster: String, silent: bool) -> Self {
        let all: Vec<(String, IpAddr)> =
            model.clusters[&cluster].endpoints().map(|(service, ip)| (service.clone(), ip)).collect();
        match dice.pick(&all).cloned() {
            Some((service, ip)) => Self::Remove(cluster, service, ip, silent && dice.percent(30)),
            None => Self::add(dice, cluster, silent),
        }
    }
    fn remove_service(dice: &mut Dice, model: &Model, cluster: String) -> Self {
        let all: Vec<String> = model.clusters[&cluster].services.keys().cloned().collect();
        match dice.pick(&all).cloned() {
            Some(service) => Self::RemoveService(cluster, service),
            None => Self::add(dice, cluster, false),
        }
    }
    fn link(dice: &mut Dice, cluster: String) -> Self {
        let link = [Link::Up, Link::Up, Link::Up, Link::Frozen, Link::Down, Link::Flaky];
        Self::Link(cluster, dice.pick(&link).copied().unwrap_or_default())
    }
    fn outage(dice: &mut Dice, cluster: String) -> Self {
        let bound = [200_000, 200_000, 200_000, 700_000];
        let bound = dice.pick(&bound).copied().unwrap_or(200_000);
        Self::Outage(cluster, Duration::from_secs(20) + dice.millis(bound), dice.percent(50))
    }
    fn deny(dice: &mut Dice, cluster: String) -> Self {
        let kinds = ["services", "endpointslices", "pods", "nodes", "namespaces"];
        let kind = dice.pick(&kinds).copied();
        Self::Deny(cluster, kind.filter(|_| dice.percent(60)))
    }
    fn rotate(dice: &mut Dice, cluster: String) -> Self {
        let all = [
            Rotation::Valid,
            Rotation::Valid,
            Rotation::Refused,
            Rotation::Weaker,
            Rotation::WrongCluster,
            Rotation::Garbage,
        ];
        Self::Rotate(cluster, dice.pick(&all).copied().unwrap_or(Rotation::Valid))
    }
    fn list_and_wait(dice: &mut Dice) -> Self {
        let is_list = dice.percent(50);
        if is_list { Self::Expire(HOME.to_owned()) } else { Self::Wait(GRACE + dice.millis(20_000)) }
    }
    fn wait(dice: &mut Dice) -> Self {
        let bound = [200, 2_000, 2_000, 20_000, 60_000];
        let bound = dice.pick(&bound).copied().unwrap_or(200);
        Self::Wait(dice.millis(bound))
    }
}
