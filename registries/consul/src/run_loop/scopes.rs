//! Start and end of scopes that are discovered.
//!
//! A new scope starts. A scope that two consecutive complete lists of the leader lack is not taken for gone: its
//! services are removed one by one, each confirmed. When the leader itself reports that it has none, the scope ends,
//! and nothing more is reported of it unless it starts again.

#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::time::Instant;
use tributary_model::{Completeness, EndEvidence, RegistryUpdate, SourceDetail, SourceState, SourceStatus};

use super::discover::failed;
use super::lists::Below;
use super::scope_run::collections;
use super::withhold::Lists;
use super::{RunLoop, parts};
use crate::client::Fault;
use crate::machine::Input;
use crate::map::name::Tenancy;

/// Consecutive lists that must lack a scope.
const MISSED: u32 = 2;

impl RunLoop {
    /// Returns the scopes of all datacenters whose lists could be read. If this Consul lacks the list of namespaces
    /// or partitions, only the default exists, unless others were seen before: then the answer is wrong.
    pub(super) fn below(&mut self, below: &[(String, Result<Below, Fault>)]) -> Vec<Tenancy> {
        let mut out = Vec::new();
        for (datacenter, below) in below {
            let lists = self.listed.entry(datacenter.clone()).or_default();
            let Ok(below) = below else { continue };
            *lists = Lists::default();
            let followed = self.runs.values().map(|run| &run.area.part);
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

    /// Reports the status of each datacenter's lists, and ends scopes that they no longer name.
    pub(super) fn judge_scopes(&mut self, below: &[(String, Result<Below, Fault>)]) {
        let mut updates = Vec::new();
        for (datacenter, below) in below {
            let Some(scope) = parts::lists(datacenter) else { continue };
            let status = match below {
                Ok(below) => {
                    for collection in collections(&scope) {
                        updates.push(RegistryUpdate::ListStarted(collection.clone()));
                        updates.push(RegistryUpdate::ListEnded(collection, Completeness::Complete));
                    }
                    self.judge(datacenter, below);
                    lists_status(below)
                }
                Err(fault) => {
                    self.listed.entry(datacenter.clone()).or_default().fault = Some(fault.clone());
                    failed(fault, self.pause())
                }
            };
            updates.push(RegistryUpdate::Status(scope, status));
        }
        if !updates.is_empty() {
            self.out.send_all(updates);
        }
    }

    fn pause(&self) -> Duration {
        self.discover_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
    }

    fn judge(&mut self, datacenter: &str, below: &Below) {
        if !below.sure {
            return;
        }
        let (mut over, mut empty) = (Vec::new(), Vec::new());
        for (at, run) in &mut self.runs {
            if run.area.part.datacenter != datacenter {
                continue;
            }
            let listed = below.parts.contains(&run.area.part);
            run.missed = if listed { 0 } else { run.missed.saturating_add(1) };
            run.fetch.unlisted = run.missed >= MISSED;
            let report = run.machine.report();
            if run.fetch.unlisted && report.services == 0 && report.state == SourceState::Live {
                if run.machine.is_surely_empty() { &mut over } else { &mut empty }.push(*at);
            }
        }
        for at in empty {
            self.step(at, Input::NamesRequested);
        }
        for at in &over {
            self.end(*at);
        }
        if !over.is_empty() {
            self.require();
            self.share_polls();
        }
    }

    /// Ends a scope with its problems and facts.
    fn end(&mut self, at: usize) {
        let Some(run) = self.runs.remove(&at) else { return };
        run.under_way.into_values().for_each(|begun| begun.task.abort());
        self.by_scope.remove(&run.area.scope);
        self.held.remove(&run.area.part);
        let reason = EndEvidence::Confirmed("the leader neither lists it nor has a service of it".into());
        self.out.send(RegistryUpdate::End(run.area.scope, reason));
    }
}

fn lists_status(below: &Below) -> SourceStatus {
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
    let details = details.into_iter().map(|(name, value)| SourceDetail::text(name, value)).collect();
    SourceStatus { is_directory: true, details, ..SourceStatus::new(SourceState::Live, "") }
}
