//! Discovery of the partitions, namespaces and peers of a datacenter.
//!
//! Read from the leader, because what a list lacks may count as gone. A Consul without such lists has only the
//! default. A list that could not be read, or that a token may have shortened, proves nothing.

use std::time::Duration;

use tributary_registry_api::Reason;

use super::parts;
use crate::answer::RequestFailure;
use crate::client::{Client, Fault, Get};
use crate::config::ConsulConfig;
use crate::map::name::Tenancy;
use crate::wire::lists::named;

/// Scopes of one datacenter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Below {
    /// The scopes.
    pub(super) parts: Vec<Tenancy>,
    /// Whether scopes that are not in `parts` do not exist.
    pub(super) sure: bool,
    /// Lists that this Consul lacks.
    pub(super) without: Vec<&'static str>,
}

/// Result of a list.
enum List {
    Names(Vec<String>, bool),
    /// This Consul lacks the list.
    None,
}

/// Requests the lists of one datacenter from one address.
pub(super) struct ListReader<'a> {
    pub(super) client: &'a Client,
    pub(super) config: &'a ConsulConfig,
    pub(super) server: usize,
    /// The agent's own datacenter, which requests do not name.
    pub(super) own: &'a str,
    pub(super) timeout: Duration,
}

impl ListReader<'_> {
    /// Returns the scopes of a datacenter.
    pub(super) async fn below(&self, datacenter: &str) -> Result<Below, Fault> {
        let (config, wanted) = (self.config, self.config.discover);
        let is_own = datacenter.eq_ignore_ascii_case(self.own);
        let known_peers: &[String] = if is_own { &config.peers } else { &[] };
        let out = Below { sure: true, ..Below::default() };
        let mut walk = Walk { reader: self, datacenter, partition: String::new(), out };
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

/// Traversal of a datacenter: current partition and results.
struct Walk<'a> {
    reader: &'a ListReader<'a>,
    datacenter: &'a str,
    /// Partition of the current lists; empty for the default one, and while partitions are listed.
    partition: String,
    out: Below,
}

impl Walk<'_> {
    /// Returns the names of a list, or the default, whose name is empty.
    async fn names(&mut self, list: Option<&'static str>, known: &[String]) -> Result<Vec<String>, Fault> {
        let names = self.list(list, known).await?;
        Ok(if names.is_empty() { vec![String::new()] } else { names })
    }

    /// Returns the entries of a list, or the configured ones if it is not polled.
    async fn list(&mut self, list: Option<&'static str>, known: &[String]) -> Result<Vec<String>, Fault> {
        let Some(what) = list else { return Ok(known.to_vec()) };
        match self.request(what).await? {
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

    async fn request(&self, what: &'static str) -> Result<List, Fault> {
        let ListReader { client, config, server, timeout, .. } = *self.reader;
        let get = Get { path: &[what], query: self.query(), timeout, skip: None };
        let raw = match client.get(server, &get).await {
            Err(fault) if fault.failure == RequestFailure::Unsupported => return Ok(List::None),
            other => other?,
        };
        let names = named(raw.content_type.as_deref(), &raw.body.unwrap_or_default()).map_err(|error| {
            let reason = Reason::new(format!("{}: {what}: {error}", client.address(server)));
            Fault { failure: RequestFailure::Broken, reason }
        })?;
        let has_token = config.auth.has_token() && client.gives_token();
        // a default namespace and partition always exist, so an empty list is a fault
        let explained = !names.is_empty() || what == "peerings";
        let seen = !raw.headers.may_be_filtered(has_token) && raw.headers.known_leader != Some(false);
        Ok(List::Names(names, explained && seen))
    }

    fn query(&self) -> Vec<(&'static str, String)> {
        let is_own = self.datacenter.eq_ignore_ascii_case(self.reader.own);
        let dc = if is_own { "" } else { self.datacenter };
        let all = [("dc", dc), ("partition", &self.partition)];
        all.into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(n, value)| (n, value.to_owned()))
            .collect()
    }
}
