//! Which partitions, namespaces and peers a datacenter has, where the configuration asks for all of them.
//!
//! Asked of the leader, since what a list lacks may be taken for gone. A Consul that has no such lists has nothing
//! but the default, and a list that could not be had, or that a token may have shortened, judges nothing.

use std::time::Duration;

use tributary_registry_api::Reason;

use super::parts;
use crate::answer::Failure;
use crate::client::{Client, Fault, Get};
use crate::config::{ConsulConfig, TokenSource};
use crate::map::name::Part;
use crate::wire::lists::named;

/// What one datacenter has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Below {
    /// Its scopes.
    pub(super) parts: Vec<Part>,
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
        let wanted = self.config.discover;
        let mut out = Below { sure: true, ..Below::default() };
        let ask = wanted.partitions.then_some("partitions");
        let partitions = self.names(ask, datacenter, "", &self.config.partitions, &mut out).await?;
        for partition in &partitions {
            let ask = wanted.namespaces.then_some("namespaces");
            let namespaces =
                self.names(ask, datacenter, partition, &self.config.namespaces, &mut out).await?;
            let is_own = datacenter.eq_ignore_ascii_case(self.own);
            let ask = (wanted.peers && is_own).then_some("peerings");
            let known: &[String] = if is_own { &self.config.peers } else { &[] };
            let peers = self.list(ask, datacenter, partition, known, &mut out).await?;
            parts::below(datacenter, partition, &namespaces, &peers, &mut out.parts);
        }
        Ok(out)
    }

    /// Names of which there is one at least: the default, which has none.
    async fn names(
        &self,
        ask: Option<&'static str>,
        datacenter: &str,
        partition: &str,
        known: &[String],
        out: &mut Below,
    ) -> Result<Vec<String>, Fault> {
        let names = self.list(ask, datacenter, partition, known, out).await?;
        Ok(if names.is_empty() { vec![String::new()] } else { names })
    }

    async fn list(
        &self,
        ask: Option<&'static str>,
        datacenter: &str,
        partition: &str,
        known: &[String],
        out: &mut Below,
    ) -> Result<Vec<String>, Fault> {
        let Some(what) = ask else { return Ok(known.to_vec()) };
        match self.ask(what, datacenter, partition).await? {
            List::Names(names, sure) => {
                out.sure &= sure;
                Ok(names)
            }
            List::None => {
                out.sure = false;
                if !out.without.contains(&what) {
                    out.without.push(what);
                }
                Ok(Vec::new())
            }
        }
    }

    async fn ask(&self, what: &'static str, datacenter: &str, partition: &str) -> Result<List, Fault> {
        let mut query = Vec::new();
        if !datacenter.eq_ignore_ascii_case(self.own) {
            query.push(("dc", datacenter.to_owned()));
        }
        if !partition.is_empty() {
            query.push(("partition", partition.to_owned()));
        }
        let get = Get { path: &[what], query, timeout: self.timeout, skip: None };
        let raw = match self.client.get(self.server, &get).await {
            Err(fault) if fault.failure == Failure::Unsupported => return Ok(List::None),
            other => other?,
        };
        let names = named(raw.content_type.as_deref(), &raw.body.unwrap_or_default()).map_err(|error| {
            let reason = Reason::new(format!("{}: {what}: {error}", self.client.address(self.server)));
            Fault { failure: Failure::Broken, reason }
        })?;
        let has_token = !matches!(self.config.auth.token, TokenSource::None);
        // there is always a default namespace and partition: a list of none is a mistake
        let explained = !names.is_empty() || what == "peerings";
        let seen = !raw.headers.may_be_filtered(has_token) && raw.headers.known_leader != Some(false);
        Ok(List::Names(names, explained && seen))
    }
}
