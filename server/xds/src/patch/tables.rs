//! Patches of route configurations and their virtual hosts. A table is split into its virtual hosts without decoding them, and
//! only those that a patch matches are decoded.

use std::collections::BTreeSet;

use prost::encoding::decode_varint;
use prost_reflect::{DynamicMessage, Value};
use tributary_descriptors::encode;
use tributary_model::{ApplyTo, ObjectMatch, Operation, PolicyKey, RoutesMatch};

use super::message::{list, merge_valid, set_list, set_text, take_list, text, texts};
use super::{Outcome, Patch, Patches, RefusedPatch, Side};

const HOSTS: &str = "virtual_hosts";
/// Number of that field.
const HOSTS_FIELD: u32 = 2;
/// Numbers of the fields of a virtual host.
const NAME_FIELD: u32 = 1;
const DOMAINS_FIELD: u32 = 2;

/// A route configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'n> {
    name: &'n str,
    side: Side,
    port: Option<u32>,
}

impl<'n> Table<'n> {
    /// Describes the table of a name. Only names that are one number, or those of inbound tables, have a port.
    pub(super) fn new(name: &'n str, side: Side) -> Self {
        let inbound = name.strip_prefix("inbound|").and_then(|rest| rest.split('|').next());
        Self { name, side, port: inbound.unwrap_or(name).parse().ok() }
    }
    pub(super) fn is(&self, patch: &Patch) -> bool {
        self.of(patch).is_some()
    }
    /// Returns the match of a patch if it is one of this table.
    pub(super) fn of<'p>(&self, patch: &'p Patch) -> Option<Option<&'p RoutesMatch>> {
        match &patch.of.object {
            ObjectMatch::All => Some(None),
            ObjectMatch::Routes(of) => {
                let fits = of.name.as_deref().is_none_or(|name| name == self.name)
                    && of.port.is_none_or(|port| Some(port) == self.port);
                fits.then_some(Some(of))
            }
            ObjectMatch::Listener(_) | ObjectMatch::Cluster(_) => None,
        }
    }
}

/// Filters whose patches changed a virtual host of a route table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSources {
    /// Those that changed the table beside its virtual hosts.
    pub table: Vec<PolicyKey>,
    /// Those that added, changed or replaced the virtual host, or removed routes of it.
    pub host: Vec<PolicyKey>,
    /// Those that changed or added each of its routes, in order; empty if none did.
    pub routes: Vec<Vec<PolicyKey>>,
}

/// What patches changed of a virtual host. Filters are positions.
#[derive(Debug, Default)]
struct HostChange {
    own: Vec<usize>,
    routes: Vec<Vec<usize>>,
}

/// A virtual host, decoded once a patch matches it.
enum Host<'b> {
    Encoded(&'b [u8]),
    Decoded(Box<DynamicMessage>),
}

/// Whether a virtual host is one that a patch matches.
pub(super) fn is_host<'d>(
    of: Option<&RoutesMatch>,
    name: &str,
    mut domains: impl Iterator<Item = &'d str>,
) -> bool {
    let Some(host) = of.and_then(|of| of.host.as_ref()) else { return true };
    host.name.as_deref().is_none_or(|wanted| wanted == name)
        && host.domain.as_deref().is_none_or(|wanted| domains.any(|domain| domain == wanted))
}

impl Host<'_> {
    fn is(&self, of: Option<&RoutesMatch>) -> bool {
        match self {
            Self::Encoded(bytes) => {
                let name = fields(bytes).find(|(number, ..)| *number == NAME_FIELD);
                let domains = fields(bytes).filter(|(number, ..)| *number == DOMAINS_FIELD);
                let name = name.map_or("", |(_, value, _)| utf8(value));
                is_host(of, name, domains.map(|(_, value, _)| utf8(value)))
            }
            Self::Decoded(host) => is_host(of, &text(host, "name"), texts(host, "domains")),
        }
    }
    fn name(&self) -> String {
        match self {
            Self::Encoded(bytes) => {
                let name = fields(bytes).find(|(number, ..)| *number == NAME_FIELD);
                name.map_or("", |(_, value, _)| utf8(value)).to_owned()
            }
            Self::Decoded(host) => text(host, "name").into_owned(),
        }
    }
    fn domains(&self) -> Vec<String> {
        match self {
            Self::Encoded(bytes) => {
                let domains = fields(bytes).filter(|(number, ..)| *number == DOMAINS_FIELD);
                domains.map(|(_, value, _)| utf8(value).to_owned()).collect()
            }
            Self::Decoded(host) => texts(host, "domains").map(str::to_owned).collect(),
        }
    }
}

fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

impl Patches {
    /// Applies the patches to a route configuration.
    #[must_use]
    pub fn table(&self, name: &str, side: Side, body: &[u8]) -> Outcome {
        self.patched_table(Table::new(name, side), body, &mut |_| ()).map_or(Outcome::Same, Outcome::Changed)
    }
    /// Returns the table with patches, and passes on what they changed of each virtual host of it, in order; `None` if they change
    /// nothing.
    fn patched_table(
        &self,
        table: Table<'_>,
        body: &[u8],
        seen: &mut dyn FnMut(HostChange),
    ) -> Option<Vec<u8>> {
        if !self.concerns(table) {
            return None;
        }
        let (mut head, mut hosts) = (Vec::new(), Vec::new());
        for (number, value, whole) in fields(body) {
            match number {
                HOSTS_FIELD => hosts.push(Host::Encoded(value)),
                _ => head.extend_from_slice(whole),
            }
        }
        let merged = self.merge_table(table, &mut head, &mut hosts);
        let changed = self.patch_hosts(table, &mut hosts, seen);
        (merged || changed).then(|| join(head, &hosts))
    }
    /// Applies the patches to a route configuration, and returns it with the filters that changed the virtual host at a position
    /// of it; `None` if nothing changes.
    #[must_use]
    pub fn host_sources(
        &self,
        name: &str,
        side: Side,
        (body, at): (&[u8], usize),
    ) -> Option<(Vec<u8>, HostSources)> {
        let table = Table::new(name, side);
        let mut changes = Vec::new();
        let patched = self.patched_table(table, body, &mut |change| changes.push(change))?;
        let HostChange { own, routes } = changes.into_iter().nth(at)?;
        let whole = self.merges(table).map(|(patch, _)| patch.filter).collect();
        let routes = routes.into_iter().map(|by| self.keys(by)).collect();
        Some((patched, HostSources { table: self.keys(whole), host: self.keys(own), routes }))
    }
    /// Returns the patches that are left out of the virtual host with a domain of a route configuration, or of the fields beside
    /// its virtual hosts.
    #[must_use]
    pub fn left_out_of_host(
        &self,
        name: &str,
        side: Side,
        (body, domain): (&[u8], &str),
    ) -> Vec<RefusedPatch> {
        let is_of_host = |value| Host::Encoded(value).domains().iter().any(|own| own == domain);
        let kept = fields(body).filter(|(number, value, _)| *number != HOSTS_FIELD || is_of_host(*value));
        let own: Vec<u8> = kept.flat_map(|(_, _, whole)| whole).copied().collect();
        drop(self.table(name, side, &own));
        self.take_left_out()
    }
    fn keys(&self, mut filters: Vec<usize>) -> Vec<PolicyKey> {
        filters.dedup();
        filters.into_iter().filter_map(|at| self.filters.get(at).cloned()).collect()
    }
    /// Iterates over the patches of the fields beside the virtual hosts, with their values.
    fn merges<'p>(&'p self, table: Table<'p>) -> impl Iterator<Item = (&'p Patch, &'p DynamicMessage)> {
        let merges = self.of(ApplyTo::RouteConfiguration, table.side).filter(move |patch| table.is(patch));
        merges.filter_map(|patch| Some((patch, patch.value.as_ref()?)))
    }
    /// Whether a patch may match a route configuration or a part of it.
    #[must_use]
    pub fn may_change_table(&self, name: &str, side: Side) -> bool {
        self.concerns(Table::new(name, side))
    }
    fn concerns(&self, table: Table<'_>) -> bool {
        let kinds = [ApplyTo::RouteConfiguration, ApplyTo::VirtualHost, ApplyTo::HttpRoute];
        kinds.iter().any(|kind| self.of(*kind, table.side).any(|patch| table.is(patch)))
    }
    /// Merges values into the fields beside the virtual hosts, and adds virtual hosts of values.
    fn merge_table(&self, table: Table<'_>, head: &mut Vec<u8>, hosts: &mut Vec<Host<'_>>) -> bool {
        let values: Vec<(&Patch, &DynamicMessage)> = self.merges(table).collect();
        if values.is_empty() {
            return false;
        }
        let Some(mut message) = self.types.decode(ApplyTo::RouteConfiguration.message(), head) else {
            return false;
        };
        let mut changed = false;
        for (patch, value) in values {
            changed |= patch.take(merge_valid(self.types, &mut message, value));
        }
        if !changed {
            return false;
        }
        let more = take_list(&mut message, HOSTS);
        hosts.extend(more.into_iter().filter_map(decoded));
        set_text(&mut message, "name", table.name);
        *head = encode(&message);
        true
    }
    fn patch_hosts(
        &self,
        table: Table<'_>,
        hosts: &mut Vec<Host<'_>>,
        seen: &mut dyn FnMut(HostChange),
    ) -> bool {
        let of_table = |kind| self.of(kind, table.side).filter(move |patch| table.is(patch));
        let patches: Vec<&Patch> = of_table(ApplyTo::VirtualHost).collect();
        let routes: Vec<&Patch> = of_table(ApplyTo::HttpRoute).collect();
        let (mut changed, mut removed) = (false, BTreeSet::new());
        hosts.retain_mut(|host| {
            let mut change = HostChange::default();
            for patch in &patches {
                if !table.of(patch).is_some_and(|of| host.is(of)) {
                    continue;
                }
                match (patch.of.operation, &patch.value) {
                    (Operation::Remove, _) => {
                        patch.apply();
                        removed.insert(host.name());
                        changed = true;
                        return false;
                    }
                    (Operation::Merge, Some(value)) => {
                        if let Some(own) = self.decode(host)
                            && patch.take(merge_valid(self.types, own, value))
                        {
                            change.own.push(patch.filter);
                            changed = true;
                        }
                    }
                    (Operation::Replace, Some(value)) => {
                        patch.apply();
                        *host = Host::Decoded(Box::new(value.clone()));
                        change.own = vec![patch.filter];
                        changed = true;
                    }
                    _ => {}
                }
            }
            let here = |patch: &&&Patch| table.of(patch).is_some_and(|of| host.is(of));
            if routes.iter().any(|patch| here(&patch))
                && let Some(own) = self.decode(host)
            {
                let of_routes = super::routes::patch(self.types, table, &routes, own);
                changed |= of_routes.is_changed;
                change.own.extend(of_routes.removed_by);
                change.routes = of_routes.by;
            }
            seen(change);
            true
        });
        let added = add_hosts(&patches, hosts, &removed);
        changed |= !added.is_empty();
        added.into_iter().for_each(|by| seen(HostChange { own: vec![by], routes: Vec::new() }));
        changed
    }
    fn decode<'h>(&self, host: &'h mut Host<'_>) -> Option<&'h mut DynamicMessage> {
        if let Host::Encoded(bytes) = host {
            *host = Host::Decoded(Box::new(self.types.decode(ApplyTo::VirtualHost.message(), bytes)?));
        }
        match host {
            Host::Decoded(message) => Some(message),
            Host::Encoded(_) => None,
        }
    }
}

/// Appends the virtual hosts that are added. One of a removed name is removed too, as by Istio. Domains that the table has
/// already are left out, because Envoy refuses the whole table. Returns the filter of each added one.
fn add_hosts(patches: &[&Patch], hosts: &mut Vec<Host<'_>>, removed: &BTreeSet<String>) -> Vec<usize> {
    let adds = patches.iter().filter(|patch| patch.of.operation.adds());
    let mut values = adds.filter_map(|patch| Some((patch, patch.value.as_ref()?))).peekable();
    let mut added = Vec::new();
    if values.peek().is_none() {
        return added;
    }
    let mut taken: BTreeSet<String> = hosts.iter().flat_map(Host::domains).collect();
    for (patch, value) in values.filter(|(_, value)| !removed.contains(&*text(value, "name"))) {
        let mut host = value.clone();
        let all = take_list(&mut host, "domains").into_iter();
        let free = all.filter(|domain| domain.as_str().is_some_and(|domain| taken.insert(domain.to_owned())));
        let domains: Vec<Value> = free.collect();
        if !domains.is_empty() || list(value, "domains").is_empty() {
            set_list(&mut host, "domains", domains);
            patch.apply();
            hosts.push(Host::Decoded(Box::new(host)));
            added.push(patch.filter);
        }
    }
    added
}

fn decoded<'b>(value: Value) -> Option<Host<'b>> {
    match value {
        Value::Message(message) => Some(Host::Decoded(Box::new(message))),
        _ => None,
    }
}

/// Encodes a table: its own fields, then its virtual hosts.
fn join(mut out: Vec<u8>, hosts: &[Host<'_>]) -> Vec<u8> {
    for host in hosts {
        match host {
            Host::Encoded(bytes) => crate::encode::route::append_host(&mut out, bytes),
            Host::Decoded(message) => crate::encode::route::append_host(&mut out, &encode(message)),
        }
    }
    out
}

/// Iterates over the fields of an encoded message: number, content and whole field. Ends at a field that is not valid.
fn fields(bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8], &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let start = rest;
        let key = decode_varint(&mut rest).ok()?;
        let length = match key & 7 {
            0 => {
                let before = rest;
                decode_varint(&mut rest).ok()?;
                let used = before.len() - rest.len();
                rest = before;
                used
            }
            1 => 8,
            2 => usize::try_from(decode_varint(&mut rest).ok()?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (value, after) = rest.split_at_checked(length)?;
        rest = after;
        Some((u32::try_from(key >> 3).ok()?, value, &start[..start.len() - after.len()]))
    })
}
