//! Scopes that lists name, and scopes that they name no more.
//!
//! A scope that is new begins. One that two lists in a row lack, which the leader gave in full, is not taken for gone:
//! its services go as all services do, name by name, each confirmed. Once the leader itself reports that it has none,
//! the scope ends, and nothing is reported of it any more unless it begins again.

#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::time::Instant;
use tributary_model::{Completeness, EndEvidence, RegistryUpdate, SourceState, SourceStatus};

use super::discover::failed;
use super::lists::Below;
use super::scope_run::collections;
use super::withhold::Lists;
use super::{RunLoop, parts};
use crate::client::Fault;
use crate::map::name::Tenancy;
use crate::modes::Input;

/// How many lists in a row must lack a scope.
const MISSED: u32 = 2;

impl RunLoop {
    /// The scopes of all datacenters whose lists could be had. Where this Consul has no list of namespaces or
    /// partitions the default is all there is, unless others have been seen: then something is wrong with the answer.
    pub(super) fn below(&mut self, below: &[(String, Result<Below, Fault>)]) -> Vec<Tenancy> {
        let mut out = Vec::new();
        for (datacenter, below) in below {
            let lists = self.listed.entry(datacenter.clone()).or_default();
            let Ok(below) = below else { continue };
            *lists = Lists::default();
            let followed = self.places.values().map(|place| &place.area.part);
            let others = followed.chain(&self.held).any(|part| {
                let named = !part.namespace.is_empty() || !part.partition.is_empty();
                part.datacenter == *datacenter && named
            });
            if !(others && below.without.iter().any(|what| *what != "peerings")) {
                out.extend(below.parts.iter().cloned());
            }
            for what in &below.without {
                if self.without.insert(format!("{datacenter}/{what}")) {
                    tracing::info!(datacenter, what, "this Consul has no such list; the default is followed");
                }
            }
        }
        parts::bounded(out)
    }

    /// Says how each datacenter's lists fare, and takes leave of what they name no more.
    pub(super) fn judge_scopes(&mut self, below: &[(String, Result<Below, Fault>)]) {
        let mut said = Vec::new();
        for (datacenter, below) in below {
            let Some(scope) = parts::lists(datacenter) else { continue };
            let status = match below {
                Ok(below) => {
                    for collection in collections(&scope) {
                        said.push(RegistryUpdate::ListStarted(collection.clone()));
                        said.push(RegistryUpdate::ListEnded(collection, Completeness::Complete));
                    }
                    self.judge(datacenter, below);
                    told(below)
                }
                Err(fault) => {
                    self.listed.entry(datacenter.clone()).or_default().fault = Some(fault.clone());
                    failed(fault, self.pause())
                }
            };
            said.push(RegistryUpdate::Status(scope, status));
        }
        if !said.is_empty() {
            self.out.send_all(said);
        }
    }

    fn pause(&self) -> Duration {
        self.discover_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
    }

    fn judge(&mut self, datacenter: &str, below: &Below) {
        if !below.sure {
            return;
        }
        let now = self.now();
        let (mut over, mut empty) = (Vec::new(), Vec::new());
        for (at, place) in &mut self.places {
            if place.area.part.datacenter != datacenter {
                continue;
            }
            let listed = below.parts.contains(&place.area.part);
            place.missed = if listed { 0 } else { place.missed.saturating_add(1) };
            place.fetch.unlisted = place.missed >= MISSED;
            let report = place.machine.report(now);
            if place.fetch.unlisted && report.services == 0 && report.state == SourceState::Live {
                if place.machine.is_surely_empty() { &mut over } else { &mut empty }.push(*at);
            }
        }
        for at in empty {
            self.step(at, Input::NamesAsked);
        }
        for at in &over {
            self.end(*at);
        }
        if !over.is_empty() {
            self.require();
        }
    }

    /// A scope is gone, with its problems and all that was known of it.
    fn end(&mut self, at: usize) {
        let Some(place) = self.places.remove(&at) else { return };
        place.under_way.into_values().for_each(|begun| begun.task.abort());
        self.by_scope.remove(&place.area.scope);
        self.held.remove(&place.area.part);
        let reason = EndEvidence::Confirmed("the leader neither lists it nor has a service of it".into());
        self.out.send(RegistryUpdate::End(place.area.scope, reason));
    }
}

fn told(below: &Below) -> SourceStatus {
    let names = |name: fn(&Tenancy) -> &str| {
        let all: std::collections::BTreeSet<&str> = below.parts.iter().map(name).collect();
        all.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ")
    };
    let mut details = vec![
        ("partitions", names(|part| &part.partition)),
        ("namespaces", names(|part| &part.namespace)),
        ("peers", names(|part| &part.peer)),
    ];
    details.retain(|(_, value)| !value.is_empty());
    if !below.without.is_empty() {
        details.push(("not in this Consul", below.without.join(", ")));
    }
    let details = details.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    SourceStatus { details, ..SourceStatus::new(SourceState::Live, "") }
}
