//! Condition of destinations that clients of some namespaces lack and those of others have: a DestinationRule without the
//! subset applies to them, they do not see the service, or they get another one of the host than others do.
//!
//! Namespaces with known clients are compared; while none is known, those that the VirtualService, a service or a rule
//! names, and most others. One counts if requests or connections of its clients go to the destination, which none do whose
//! Sidecar does not import the host.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{Code, Namespace, PolicyKey};

use super::destinations::Placed;
use super::listening::Listening;
use super::target::{Lack, Target};
use super::{Found, RouteConditions, named};
use crate::policy_conditions::clients::Concerned;
use crate::policy_conditions::found::MAX_OTHERS;

/// Destinations that some clients lack.
#[derive(Default)]
pub(super) struct Partly<'c> {
    parts: Vec<String>,
    rules: BTreeSet<&'c PolicyKey>,
}

impl<'c> Partly<'c> {
    /// Returns the condition; `None` without a destination.
    pub(super) fn found(self) -> Option<Found<'c>> {
        let Self { parts, rules } = self;
        let message =
            || format!("some clients lack these destinations: {}", named(parts.iter().map(String::as_str)));
        let others = || rules.into_iter().take(MAX_OTHERS).collect();
        (!parts.is_empty()).then(|| Found(Code::ROUTE_LACKED_BY_SOME, others(), message()))
    }
    fn add(&mut self, placed: &Placed<'_>, host: &str, lack: Lack<'c>, clients: &[Option<&Namespace>]) {
        let what = match (lack, &placed.to.subset) {
            (Lack::Subset(rules), Some(subset)) => {
                self.rules.extend(rules);
                format!("have no subset {} of {host}: {}", subset.as_str(), applied(rules))
            }
            (Lack::Port(service, port), _) => format!("get {service}, which has no port {port}"),
            (Lack::Endpoints(service), subset) => {
                let of = subset.as_ref().map(|subset| format!(" of subset {}", subset.as_str()));
                format!("get {service}, which has no endpoints{}", of.unwrap_or_default())
            }
            _ => format!("may not see {host}, by its exportTo"),
        };
        self.parts.push(format!("{} ({} {what})", placed.place, described(clients)));
    }
}

impl<'c> RouteConditions<'c> {
    /// Adds what clients of some namespaces lack of a destination; nothing if all clients have the same. If all clients lack it whose
    /// requests or connections go there, returns the condition of a destination that leads nowhere, with the text that names it.
    pub(super) fn add_lacks(
        &self,
        out: &mut Partly<'c>,
        (placed, target): (&Placed<'c>, &Target<'c>),
        clients: &Concerned,
        listening: (&PolicyKey, &Listening<'_>),
    ) -> Option<(Code, String)> {
        if target.ends.is_empty() || target.is_alike(placed.to) {
            return None;
        }
        let goes_there = |client| self.receives_from(listening, placed.route, client);
        let mut lacks: BTreeMap<Lack<'c>, Vec<Option<&Namespace>>> = BTreeMap::new();
        let mut others = Vec::new();
        for client in self.compared(placed, target, clients) {
            match self.lack(placed, target, client) {
                None => others.push(client),
                Some(lack) if self.may_have(client) && goes_there(client) => {
                    lacks.entry(lack).or_default().push(client);
                }
                Some(_) => {}
            }
        }
        let last = lacks.keys().next_back()?;
        if !others.into_iter().any(goes_there) {
            return Some(target.lost(placed.to, *last));
        }
        for (lack, clients) in lacks {
            out.add(placed, &target.shown(), lack, &clients);
        }
        None
    }
    /// Returns the namespaces whose clients are compared, with clients or not; `None` stands for most others.
    fn compared<'s>(
        &self,
        placed: &Placed<'s>,
        target: &'s Target<'c>,
        clients: &'s Concerned,
    ) -> BTreeSet<Option<&'s Namespace>> {
        let named = placed.namespaces.iter().copied().chain(target.ruled(placed.to)).map(Some);
        target.clients(clients).into_iter().chain(named).collect()
    }
    /// Whether clients of a namespace are known, or of most others without one, or no client is.
    fn may_have(&self, client: Option<&Namespace>) -> bool {
        let known = self.inhabited.as_ref().filter(|known| !known.is_empty());
        known.is_none_or(|known| client.is_some_and(|client| known.contains(client)))
    }
}

/// Returns which rules apply to clients.
pub(super) fn applied(rules: &[PolicyKey]) -> String {
    let names: Vec<String> = rules.iter().map(ToString::to_string).collect();
    match names.as_slice() {
        [] => "no DestinationRule applies to them".to_owned(),
        [one] => format!("{one} applies to them"),
        all => format!("{} apply to them", named(all.iter().map(String::as_str))),
    }
}

/// Names the clients of some namespaces.
fn described(clients: &[Option<&Namespace>]) -> String {
    let listed: Vec<&str> = clients.iter().flatten().map(|namespace| namespace.as_str()).collect();
    let own = match listed.as_slice() {
        [] => return "clients of most namespaces".to_owned(),
        [one] => format!("clients of namespace {one}"),
        _ => format!("clients of namespaces {}", named(listed)),
    };
    if clients.contains(&None) { format!("{own} and of most others") } else { own }
}
