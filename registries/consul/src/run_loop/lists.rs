//! Which partitions, namespaces and peers a datacenter has, where the configuration asks for all of them.
//!
//! Asked of the leader, since what a list lacks may be taken for gone. A Consul that has no such lists has nothing
//! but the default, and a list that could not be had, or that a token may have shortened, judges nothing.

use std::time::Duration;

use tributary_registry_api::Reason;

use super::parts;
use crate::answer::RequestFailure;
use crate::client::{Client, Fault, Get};
use crate::config::{ConsulConfig, TokenSource};
use crate::map::name::Tenancy;
use crate::wire::lists::named;

/// What one datacenter has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Below {
    /// Its scopes.
    pub(super) parts: Vec<Tenancy>,
    /// Whether what is not among them is not there.
    pub(super) sure: bool,
    /// What this Consul has no list of.
    pub(super) without: Vec<&'static str>,
}

/// What a list came to.
enum List {
    Names(Vec<String>, bool),
    /// This Consul does not have it.
    None,
}

/// Asks one address about one datacenter.
pub(super) struct Asker<'a> {
    pub(super) client: &'a Client,
    pub(super) config: &'a ConsulConfig,
    pub(super) server: usize,
    /// The agent's own datacenter, which is asked without being named.
    pub(super) own: &'a str,
    pub(super) timeout: Duration,
}

impl Asker<'_> {
    /// The scopes of a datacenter.
    pub(super) async fn below(&self, datacenter: &str) -> Result<Below, Fault> {
        let (config, wanted) = (self.config, self.config.discover);
        let is_own = datacenter.eq_ignore_ascii_case(self.own);
        let known_peers: &[String] = if is_own { &config.peers } else { &[] };
        let out = Below { sure: true, ..Below::default() };
        let mut walk = Walk { asker: self, datacenter, partition: String::new(), out };
        let partitions = walk.names(wanted.partitions.then_some("partitions"), &config.partitions).await?;
        for partition in partitions {
            walk.partition = partition;
            let namespaces =
                walk.names(wanted.namespaces.then_some("namespaces"), &config.namespaces).await?;
            let peers = walk.list((wanted.peers && is_own).then_some("peerings"), known_peers).await?;
            parts::below(datacenter, &walk.partition, &namespaces, &peers, &mut walk.out.parts);
        }
        Ok(walk.out)
    }
}

/// One way through a datacenter: where it has come to, and what it has found.
struct Walk<'a> {
    asker: &'a Asker<'a>,
    datacenter: &'a str,
    /// The partition whose lists are asked for; empty for the default one, and while partitions are.
    partition: String,
    out: Below,
}

impl Walk<'_> {
    /// Names of which there is one at least: the default, which has none.
    async fn names(&mut self, ask: Option<&'static str>, known: &[String]) -> Result<Vec<String>, Fault> {
        let names = self.list(ask, known).await?;
        Ok(if names.is_empty() { vec![String::new()] } else { names })
    }

    /// What a list has; what the configuration names where it is not asked for.
    async fn list(&mut self, ask: Option<&'static str>, known: &[String]) -> Result<Vec<String>, Fault> {
        let Some(what) = ask else { return Ok(known.to_vec()) };
        match self.ask(what).await? {
            List::Names(names, sure) => {
                self.out.sure &= sure;
                Ok(names)
            }
            List::None => {
                self.out.sure = false;
                if !self.out.without.contains(&what) {
                    self.out.without.push(what);
                }
                Ok(Vec::new())
            }
        }
    }

    async fn ask(&self, what: &'static str) -> Result<List, Fault> {
        let Asker { client, config, server, timeout, .. } = *self.asker;
        let get = Get { path: &[what], query: self.query(), timeout, skip: None };
        let raw = match client.get(server, &get).await {
            Err(fault) if fault.failure == RequestFailure::Unsupported => return Ok(List::None),
            other => other?,
        };
        let names = named(raw.content_type.as_deref(), &raw.body.unwrap_or_default()).map_err(|error| {
            let reason = Reason::new(format!("{}: {what}: {error}", client.address(server)));
            Fault { failure: RequestFailure::Broken, reason }
        })?;
        let has_token = !matches!(config.auth.token, TokenSource::None);
        // there is always a default namespace and partition: a list of none is a mistake
        let explained = !names.is_empty() || what == "peerings";
        let seen = !raw.headers.may_be_filtered(has_token) && raw.headers.known_leader != Some(false);
        Ok(List::Names(names, explained && seen))
    }

    fn query(&self) -> Vec<(&'static str, String)> {
        let is_own = self.datacenter.eq_ignore_ascii_case(self.asker.own);
        let dc = if is_own { "" } else { self.datacenter };
        let all = [("dc", dc), ("partition", &self.partition)];
        all.into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(n, value)| (n, value.to_owned()))
            .collect()
    }
}
