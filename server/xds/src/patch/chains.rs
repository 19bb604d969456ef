//! Patches of filter chains, and of the filters in them.

use prost_reflect::{DynamicMessage, Value};
use tributary_model::{ApplyTo, ChainMatch, ListenerMatch, ObjectMatch, Operation};

use super::filters::{self, Targeted};
use super::message::{
    Merged, child, child_mut, get, merge_config, merge_valid, number, pack, set_list, take_list, text, texts,
    type_of, unpack,
};
use super::{Outcome, Patch, Patches, Side};

const SOCKET: &str = "transport_socket";
const FILTERS: &str = "filters";
/// Name and type of the filter that has HTTP filters and routes.
const MANAGER: &str = "envoy.filters.network.http_connection_manager";
const MANAGER_TYPE: &str =
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

/// A listener, as patches of its parts find it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'n> {
    pub(super) name: &'n str,
    pub(super) side: Side,
    pub(super) port: Option<u32>,
    /// Whether it is for all ports: then a port is that of a chain.
    pub(super) is_virtual: bool,
}

impl Place<'_> {
    /// Whether a patch of the listener itself matches.
    pub(super) fn is(&self, patch: &Patch) -> bool {
        self.fits(patch, self.port)
    }
    /// Whether a patch that adds a chain, or of listener filters, matches: for all ports, its port does not count.
    pub(super) fn takes(&self, patch: &Patch) -> bool {
        let ports = listener(patch).and_then(|of| of.port).filter(|_| self.is_virtual);
        self.fits(patch, ports.or(self.port))
    }
    fn fits(&self, patch: &Patch, port: Option<u32>) -> bool {
        match &patch.of.object {
            ObjectMatch::All => true,
            ObjectMatch::Listener(of) => {
                of.name.as_deref().is_none_or(|name| name == self.name)
                    && of.port.is_none_or(|wanted| Some(wanted) == port)
            }
            ObjectMatch::Routes(_) | ObjectMatch::Cluster(_) => false,
        }
    }
    /// Whether a patch of a chain or of its filters matches a chain.
    fn has(&self, patch: &Patch, chain: &DynamicMessage) -> bool {
        let matched = child(chain, "filter_chain_match");
        let to = matched.and_then(|of| number(of, "destination_port"));
        let port = if self.is_virtual { to } else { self.port };
        let Some(of) = listener(patch).and_then(|of| of.chain.as_ref()) else {
            return self.fits(patch, port);
        };
        self.fits(patch, port) && is_chain(of, chain, matched, to)
    }
}

fn is_chain(
    of: &ChainMatch,
    chain: &DynamicMessage,
    matched: Option<&DynamicMessage>,
    to: Option<u32>,
) -> bool {
    let has = |field: &str, wanted: &str| matched.is_some_and(|of| texts(of, field).any(|one| one == wanted));
    let transport = matched.map_or_else(Default::default, |of| text(of, "transport_protocol"));
    of.name.as_deref().is_none_or(|name| name == text(chain, "name"))
        && of.sni.as_deref().is_none_or(|sni| has("server_names", sni))
        && of.transport.as_deref().is_none_or(|wanted| wanted == transport)
        && of.applications.iter().all(|one| has("application_protocols", one))
        && of.port.is_none_or(|port| Some(port) == to)
}

fn listener(patch: &Patch) -> Option<&ListenerMatch> {
    match &patch.of.object {
        ObjectMatch::Listener(of) => Some(of),
        _ => None,
    }
}

fn chain_match(patch: &Patch) -> Option<&ChainMatch> {
    listener(patch)?.chain.as_ref()
}

/// What became of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Same,
    Changed,
    Removed,
}

impl Patches {
    /// Applies the patches of a chain and of its filters.
    pub(super) fn chain(&self, place: Place<'_>, chain: &mut DynamicMessage) -> Kept {
        let mut changed = false;
        for patch in self.of(ApplyTo::FilterChain, place.side) {
            if !place.has(patch, chain) {
                continue;
            }
            match (patch.of.operation, &patch.value) {
                (Operation::Remove, _) => {
                    patch.apply();
                    return Kept::Removed;
                }
                (Operation::Merge, Some(value)) => {
                    changed |= patch.take(self.merge_chain(chain, value));
                }
                _ => {}
            }
        }
        changed |= self.network_filters(place, chain);
        changed |= self.http_filters(place, chain);
        if changed { Kept::Changed } else { Kept::Same }
    }
    /// A socket of the same name is merged, and nothing else of such a patch counts.
    fn merge_chain(&self, chain: &mut DynamicMessage, value: &DynamicMessage) -> Merged {
        let socket = child(value, SOCKET);
        let own = child_mut(chain, SOCKET);
        if let (Some(socket), Some(own)) = (socket, own)
            && text(own, "name") == text(socket, "name")
        {
            return merge_config(self.types, own, socket);
        }
        merge_valid(self.types, chain, value)
    }
    fn network_filters(&self, place: Place<'_>, chain: &mut DynamicMessage) -> bool {
        let here = self.of(ApplyTo::NetworkFilter, place.side).filter(|patch| place.has(patch, chain));
        let here: Vec<Targeted<'_>> =
            here.map(|patch| (patch, chain_match(patch).and_then(|of| of.filter.as_deref()))).collect();
        if here.is_empty() {
            return false;
        }
        let mut filters = take_list(chain, FILTERS);
        let changed = filters::patch(self.types, &here, &mut filters);
        set_list(chain, FILTERS, filters);
        changed
    }
    fn http_filters(&self, place: Place<'_>, chain: &mut DynamicMessage) -> bool {
        let of_manager = |patch: &&Patch| {
            chain_match(patch).and_then(|of| of.filter.as_deref()).is_none_or(|filter| filter == MANAGER)
        };
        let here = self.of(ApplyTo::HttpFilter, place.side).filter(of_manager);
        let here: Vec<Targeted<'_>> = here
            .filter(|patch| place.has(patch, chain))
            .map(|patch| (patch, chain_match(patch).and_then(|of| of.sub_filter.as_deref())))
            .collect();
        if here.is_empty() {
            return false;
        }
        self.each_manager(chain, |manager| {
            let mut filters = take_list(manager, "http_filters");
            let changed = filters::patch(self.types, &here, &mut filters);
            set_list(manager, "http_filters", filters);
            changed
        })
    }
    /// Applies the patches of routes to the tables that a chain has itself.
    pub(super) fn inline_tables(&self, side: Side, chain: &mut DynamicMessage) -> bool {
        self.each_manager(chain, |manager| {
            let Some(table) = child_mut(manager, "route_config") else { return false };
            let name = text(table, "name").into_owned();
            let encoded = tributary_descriptors::encode(table);
            let Outcome::Changed(bytes) = self.table(&name, side, &encoded) else { return false };
            let Some(now) = self.types.decode(ApplyTo::RouteConfiguration.message(), &bytes) else {
                return false;
            };
            *table = now;
            true
        })
    }
    /// Whether a patch of routes may concern a table within a listener.
    pub(super) fn has_inline(&self, side: Side) -> bool {
        let kinds = [ApplyTo::RouteConfiguration, ApplyTo::VirtualHost, ApplyTo::HttpRoute];
        let inline = |patch: &Patch| match &patch.of.object {
            // a table whose name is a number is never within a listener
            ObjectMatch::Routes(of) => of.name.as_deref().is_none_or(|name| name.parse::<u32>().is_err()),
            _ => true,
        };
        kinds.iter().any(|kind| self.of(*kind, side).any(inline))
    }
    /// Changes each HTTP connection manager of a chain. Returns whether one changed.
    fn each_manager(
        &self,
        chain: &mut DynamicMessage,
        mut change: impl FnMut(&mut DynamicMessage) -> bool,
    ) -> bool {
        if get(chain, FILTERS).is_none() {
            return false;
        }
        let mut changed = false;
        let Some(Value::List(filters)) = chain.get_field_by_name_mut(FILTERS) else { return false };
        for filter in filters.iter_mut().filter_map(Value::as_message_mut) {
            if text(filter, "name") != MANAGER {
                continue;
            }
            let Some(any) = child_mut(filter, "typed_config").filter(|any| type_of(any) == MANAGER_TYPE)
            else {
                continue;
            };
            let Some(mut manager) = unpack(self.types, any) else { continue };
            if change(&mut manager) {
                pack(any, &manager);
                changed = true;
            }
        }
        changed
    }
}
