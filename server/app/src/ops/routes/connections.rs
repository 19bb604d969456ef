//! Routes of connections: what is planned for a client, and where it differs, what its listeners really have.
//!
//! Of several services that need the same connections of a listener only one has them, and EnvoyFilters change listeners.

use std::collections::BTreeMap;

use tributary_answer::{ListenerPlan, Serves};
use tributary_model::{HostPattern, PolicyKey, PortView};
use tributary_xds::answers::ResourceType;

use super::{Lister, object_of, weighted};
use crate::document::RouteItem;
use crate::ops::sent_listener::Targets;
use crate::ops::sent_route::shares;
use crate::ops::taken_addresses::Leads;

impl Lister<'_> {
    /// Returns the parts of listeners that lead connections to xDS clusters.
    pub(super) fn of_connections(&mut self, port: &PortView, parts: &[ListenerPlan]) -> Vec<RouteItem> {
        let mut out = Vec::new();
        for part in parts {
            if let Some(planned) = targets(part) {
                let (port, order) = (Some(port.number.get()), out.len() + 1);
                out.push(RouteItem { port, order, ..self.of_part(part, planned) });
            }
        }
        out
    }
    fn of_part(&mut self, part: &ListenerPlan, planned: Targets) -> RouteItem {
        let table = part.name();
        let sent = self.tables.listener(&table);
        let sent = sent.map(|sent| (sent.targets(&part.matches).cloned(), sent.tables.first().cloned()));
        match sent {
            None => self.of_targets(part, &planned),
            Some((Some(sent), _)) if names(&sent).eq(names(&planned)) => self.of_targets(part, &sent),
            Some((sent, requests)) => self.of_other(part, (sent, requests), &planned),
        }
    }
    /// Returns a part that leads to other xDS clusters than planned, or to the route table of the listener; without any, no
    /// service has its connections.
    fn of_other(
        &self,
        part: &ListenerPlan,
        (sent, requests): (Option<Targets>, Option<String>),
        planned: &[(String, u32)],
    ) -> RouteItem {
        let to = match (sent.as_deref(), requests) {
            (None, _) => "no service".to_owned(),
            (Some([]), Some(table)) => Leads::Requests(table).to(),
            (Some([]), None) => "what other filters choose".to_owned(),
            (Some(all), _) => shares(all),
        };
        let item = self.of_targets(part, &sent.unwrap_or_default());
        let instead = format!("instead of {}", shares(planned));
        let settings = std::iter::once(instead).chain(item.settings).collect();
        let filters = self.tables.filters(ResourceType::Listener, &item.table);
        let rules = filters.iter().map(|key| object_of(self.catalog, key)).collect();
        RouteItem { to, settings, rules, ..item }
    }
    fn of_targets(&self, part: &ListenerPlan, to: &[(String, u32)]) -> RouteItem {
        let table = part.name();
        let known = self.tables.resource(ResourceType::Listener, &table);
        let removed_by = match known {
            Some(_) => None,
            None => self.found.removed_by(ResourceType::Listener, &table),
        };
        let rules = part.rule.iter().chain(&removed_by);
        RouteItem {
            kind: "connections".to_owned(),
            conditions: matched(part),
            to: shares(to),
            clusters: weighted(to),
            settings: self.lacks(names(to)),
            state: known.map_or("NOT SENT", |(_, of)| of.state.as_str()).to_owned(),
            rules: rules.map(|key: &PolicyKey| object_of(self.catalog, key)).collect(),
            table,
            ..RouteItem::default()
        }
    }
}

/// Returns the parts that take connections for a host: of those by server name, the one with the narrowest name that
/// matches the host; of a wildcard, all whose names may be of its hosts.
pub(super) fn for_host(mut parts: Vec<ListenerPlan>, host: &str) -> Vec<ListenerPlan> {
    let Ok(host) = HostPattern::new(host) else { return parts };
    let name = |part: &ListenerPlan| part.matches.sni.as_ref().and_then(|sni| HostPattern::new(sni).ok());
    parts.retain(|part| name(part).is_none_or(|name| overlap(&name, &host)));
    if host.suffix().is_some() {
        return parts;
    }
    let rank = |part: &ListenerPlan| name(part).map(|name| name.specificity());
    let place = |part: &ListenerPlan| (part.name(), part.matches.range);
    let mut best = BTreeMap::new();
    for part in &parts {
        let known = best.entry(place(part)).or_insert_with(|| rank(part));
        *known = rank(part).max(*known);
    }
    parts.retain(|part| part.matches.sni.is_none() || best.get(&place(part)) == Some(&rank(part)));
    parts
}

/// Whether one host may be of both patterns.
fn overlap(one: &HostPattern, other: &HostPattern) -> bool {
    let within = |one: &HostPattern, other: &HostPattern| {
        other.suffix().map_or(one == other, |suffix| one.as_str().ends_with(suffix))
    };
    within(one, other) || within(other, one)
}

pub(super) fn is_http(part: &ListenerPlan) -> bool {
    matches!(part.serves, Serves::Http(..))
}

/// Returns the xDS clusters of a part for connections, with their weights.
fn targets(part: &ListenerPlan) -> Option<Targets> {
    match &part.serves {
        Serves::Cluster(to, _) => Some(vec![(to.to_string(), 1)]),
        Serves::Weighted(all, _) => Some(all.iter().map(|(to, weight)| (to.to_string(), *weight)).collect()),
        Serves::Routes | Serves::Http(..) => None,
    }
}

fn names(to: &[(String, u32)]) -> impl Iterator<Item = &str> {
    to.iter().map(|(name, _)| name.as_str())
}

/// Returns the conditions of a part on connections: the address of its listener, unless it is for every address.
fn matched(part: &ListenerPlan) -> Vec<String> {
    let address = match part.matches.range {
        Some((ip, prefix)) => Some(format!("destination {ip}/{prefix}")),
        None => (!part.bind.ip.is_unspecified()).then(|| format!("destination {}", part.bind.ip)),
    };
    let sni = part.matches.sni.as_ref().map(|name| format!("server name {name}"));
    address.into_iter().chain(sni).collect()
}
