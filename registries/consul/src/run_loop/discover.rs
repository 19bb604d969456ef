//! Discovery of datacenters, of the agent's own datacenter, and of the scopes that follow.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;
use tributary_model::{Completeness, RegistryUpdate, Scope, SourceDetail, SourceState, SourceStatus};
use tributary_registry_api::{Reason, RegistryError};

use super::fetch::Fetch;
use super::lists::{Below, ListReader};
use super::scope_run::{ScopeRun, collections};
use super::{Done, RunLoop, parts};
use crate::answer::RequestFailure;
use crate::client::{Client, Fault, Get};
use crate::config::{ConsulConfig, Datacenters};
use crate::machine::{Input, Settings};
use crate::map::name::Tenancy;
use crate::wire::lists::datacenters;

/// Datacenters that the agent reports.
pub(super) struct Discovered {
    pub(super) own: String,
    pub(super) all: Vec<String>,
    /// Scopes of each wanted datacenter, if they are discovered.
    pub(super) below: Vec<(String, Result<Below, Fault>)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AgentSelf {
    config: AgentConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AgentConfig {
    datacenter: String,
}

pub(super) async fn discover(client: Client, config: Arc<ConsulConfig>) -> Done {
    Done::Discovered(request(&client, &config).await)
}

/// Returns the datacenters to follow.
fn wanted(config: &ConsulConfig, own: &str, all: &[String]) -> Vec<String> {
    match &config.datacenters {
        Datacenters::Local => vec![own.to_owned()],
        Datacenters::All => all.to_vec(),
        Datacenters::Listed(names) => names.clone(),
    }
}

/// Requests the datacenters from the first address that answers. If the token may not read the agent's own
/// datacenter, the first one in the list is taken.
async fn request(client: &Client, config: &ConsulConfig) -> Result<Discovered, Fault> {
    let (mut found, mut last) = (None, None);
    for server in 0..client.addresses() {
        match request_all(client, server, config).await {
            // if no list at all could be read, another address may have them
            Ok(all) if !all.below.is_empty() && all.below.iter().all(|(_, below)| below.is_err()) => {
                found = Some(all);
            }
            Ok(all) => return Ok(all),
            Err(fault) => last = Some(fault),
        }
    }
    let none = || Fault { failure: RequestFailure::Config, reason: Reason::new("no address is configured") };
    found.ok_or_else(|| last.unwrap_or_else(none))
}

async fn request_all(client: &Client, server: usize, config: &ConsulConfig) -> Result<Discovered, Fault> {
    let timeout = config.timing.grace;
    let mut found = request_datacenters(client, server, timeout).await?;
    if !config.discover.any() {
        return Ok(found);
    }
    for datacenter in wanted(config, &found.own, &found.all) {
        let reader = ListReader { client, config, server, own: &found.own, timeout };
        let below = reader.below(&datacenter).await;
        found.below.push((datacenter, below));
    }
    Ok(found)
}

async fn request_datacenters(client: &Client, server: usize, timeout: Duration) -> Result<Discovered, Fault> {
    let get = |path| Get { path, query: Vec::new(), timeout, skip: None };
    let raw = client.get(server, &get(&["catalog", "datacenters"])).await?;
    let body = raw.body.unwrap_or_default();
    let broken = |why: String| Fault { failure: RequestFailure::Broken, reason: Reason::new(why) };
    let all = datacenters(raw.content_type.as_deref(), &body).map_err(|error| broken(error.to_string()))?;
    let first = all.first().cloned().ok_or_else(|| broken("the list of datacenters is empty".to_owned()))?;
    if all.len() == 1 {
        return Ok(Discovered { own: first, all, below: Vec::new() });
    }
    let own = match client.get(server, &get(&["agent", "self"])).await {
        Ok(raw) => serde_json::from_slice::<AgentSelf>(&raw.body.unwrap_or_default()).ok(),
        Err(_) => None,
    };
    Ok(Discovered { own: own.map_or(first, |own| own.config.datacenter), all, below: Vec::new() })
}

/// Returns the status of a directory whose list could not be read.
pub(super) fn failed(fault: &Fault, after: Duration) -> SourceStatus {
    let state = match fault.failure {
        RequestFailure::Auth => SourceState::AuthFailed,
        RequestFailure::Config | RequestFailure::Unsupported => SourceState::Forbidden,
        RequestFailure::Broken | RequestFailure::TooLarge => SourceState::Broken,
        RequestFailure::Transient | RequestFailure::Overload => SourceState::Unreachable,
    };
    SourceStatus {
        retry_in: Some(after),
        is_directory: true,
        ..SourceStatus::new(state, fault.reason.shared())
    }
}

impl RunLoop {
    /// Starts the scopes that are new. A datacenter that is no longer listed stays, because an agent that lost sight
    /// of a datacenter does not list it either.
    pub(super) fn discovered(&mut self, found: &Discovered) -> Result<(), RegistryError> {
        let wanted = wanted(&self.config, &found.own, &found.all);
        let confirms = self.repeats();
        let parts = match found.below.is_empty() {
            true => parts::of(&self.config, &wanted, &found.own),
            false => self.below(&found.below),
        };
        if confirms || !self.discovered {
            self.add_runs(&parts, found)?;
        }
        let fails = found.below.iter().any(|(_, below)| below.is_err());
        if !fails {
            self.discovery.reset();
        }
        if confirms {
            let pause = if fails { self.discovery.next(&mut self.random) } else { self.config.timing.poll };
            self.discover_at = Some(Instant::now() + pause);
        }
        self.discovered = true;
        self.report_directory(found);
        self.judge_scopes(&found.below);
        Ok(())
    }

    /// Starts scopes that are listed, or of which facts are held.
    fn add_runs(&mut self, wanted: &[Tenancy], found: &Discovered) -> Result<(), RegistryError> {
        let mut fresh = Vec::new();
        for part in wanted.iter().chain(&self.held.clone()) {
            let scope = parts::scope(part).map_err(RegistryError::final_)?;
            if self.by_scope.contains_key(&scope) {
                continue;
            }
            let run = self.new_run(part, &found.own, scope.clone())?;
            fresh.push(self.next_run);
            self.by_scope.insert(scope, self.next_run);
            self.runs.insert(self.next_run, run);
            self.next_run += 1;
        }
        let moved = self.note_unlisted(wanted, found);
        if moved || !fresh.is_empty() || !self.discovered {
            self.require();
        }
        self.share_polls();
        for at in fresh {
            if let Some(run) = self.runs.get(&at) {
                self.out.send_all(collections(&run.area.scope).map(RegistryUpdate::ListStarted));
            }
            self.step(at, Input::Started);
        }
        Ok(())
    }

    /// Records which scopes are listed. Returns whether that changed.
    fn note_unlisted(&mut self, wanted: &[Tenancy], found: &Discovered) -> bool {
        let mut moved = false;
        for run in self.runs.values_mut() {
            let part = &run.area.part;
            let unlisted = match found.below.iter().find(|(name, _)| *name == part.datacenter) {
                Some((_, Ok(below))) => !below.parts.contains(part),
                Some((_, Err(_))) => run.unlisted,
                None => !wanted.contains(part),
            };
            moved |= std::mem::replace(&mut run.unlisted, unlisted) != unlisted;
        }
        moved
    }

    /// Returns whether discovery is repeated.
    fn repeats(&self) -> bool {
        self.config.datacenters == Datacenters::All || self.config.discover.any()
    }

    /// Reports the collections that must be listed before this registry counts. A directory that is not requested
    /// again would never be confirmed again, and with it the registry. Scopes without a listing are optional.
    pub(super) fn require(&self) {
        let directory = parts::directory().filter(|_| self.repeats());
        let lists = self.listed.keys().filter_map(|datacenter| parts::lists(datacenter));
        let own = |unlisted: bool| {
            let runs = self.runs.values().filter(move |run| run.unlisted == unlisted);
            runs.flat_map(|run| collections(&run.area.scope))
        };
        let all = directory.into_iter().chain(lists).flat_map(|scope| collections(&scope));
        let (required, optional) = (all.chain(own(false)).collect(), own(true).collect());
        self.out.send(RegistryUpdate::Follows { required, optional });
    }

    fn new_run(&self, part: &Tenancy, own: &str, scope: Scope) -> Result<ScopeRun, RegistryError> {
        let client = match self.config.datacenter_addresses.get(&part.datacenter) {
            Some(addresses) => {
                let client = Client::new(&self.config, addresses).map_err(RegistryError::retryable)?;
                client.take_token(&self.client);
                client
            }
            None => self.client.clone(),
        };
        let fetch = Fetch::new(client, part.clone(), own, Arc::clone(&self.config));
        let settings = self.settings(&fetch.client, !part.peer.is_empty());
        Ok(ScopeRun::new(part, own, scope, fetch, settings))
    }

    /// Returns the settings of a scope, which has no long polls before [`Self::share_polls`].
    fn settings(&self, client: &Client, peer: bool) -> Settings {
        Settings {
            timing: self.config.timing,
            limits: self.config.limits,
            polls: 0,
            has_token: self.config.auth.has_token() && client.gives_token(),
            servers: client.addresses(),
            peer,
        }
    }

    /// Gives each scope an equal share of the connections as its poll budget; some stay free for reads that are not
    /// long polls. Scopes come and go, and only an answer shows whether connections are shared.
    pub(super) fn share_polls(&mut self) {
        let (limits, scopes) = (self.config.limits, self.runs.len().max(1));
        let mut changed = Vec::new();
        for (at, run) in &mut self.runs {
            let shared = run.fetch.client.shares(0);
            let room =
                if shared { limits.shared_connections * limits.streams } else { limits.unshared_requests() };
            let polls = (room / scopes).saturating_sub(limits.concurrency + 4);
            if std::mem::replace(&mut run.polls, polls) != polls {
                changed.push((*at, polls));
            }
        }
        changed.into_iter().for_each(|(at, polls)| self.step(at, Input::Polls(polls)));
    }

    pub(super) fn undiscovered(&mut self, fault: &Fault) {
        let mut after = self.discovery.next(&mut self.random);
        if fault.failure == RequestFailure::Auth {
            after = after.max(Duration::from_secs(5).min(self.config.timing.pause_auth));
        }
        self.discover_at = Some(Instant::now() + after);
        if self.discovered {
            return;
        }
        let status = failed(fault, after);
        if let Some(scope) = parts::directory() {
            self.out.send(RegistryUpdate::Status(scope, status));
        }
    }

    fn report_directory(&self, found: &Discovered) {
        let Some(scope) = parts::directory() else { return };
        let own = SourceDetail::text("own", &*found.own);
        let details = [own, SourceDetail::text("known", found.all.join(", "))].into();
        let status = SourceStatus { is_directory: true, details, ..SourceStatus::new(SourceState::Live, "") };
        let mut updates = Vec::new();
        for collection in collections(&scope) {
            updates.push(RegistryUpdate::ListStarted(collection.clone()));
            updates.push(RegistryUpdate::ListEnded(collection, Completeness::Complete));
        }
        updates.push(RegistryUpdate::Status(scope, status));
        self.out.send_all(updates);
    }

    /// Gives the token to clients of other datacenters.
    pub(super) fn share_token(&self) {
        for run in self.runs.values() {
            run.fetch.client.take_token(&self.client);
        }
    }
}
