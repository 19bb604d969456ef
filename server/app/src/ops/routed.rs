//! Whether the route tables and listeners that a sidecar was sent lead to the endpoints of a host.
//!
//! `explain` and `why-not` call it for a connected client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_answer::{
    Client, ClusterName, Takes, connection_targets, leading_listeners, leading_resources, named, subsets_with,
};
use tributary_model::{Catalog, Code, Hostname, PolicyKey, PortView, Subset, TraceStep, Verdict};
use tributary_xds::answers::ResourceType;

use super::deliver_steps::{deliver_step, reference};
use super::lost_clusters::{self, Counted, Lack, Led};
use super::sent_listener::SentListener;
use super::sent_route::{Action, SentHost, SentRoute};
use super::sent_tables::SentTables;
use super::sessions::Found;
use super::taken_addresses::{Leads, MAX_LISTENERS, Taken};

mod addresses;

/// What a sidecar was sent, and the policies that it is from.
pub(super) struct Routed<'f> {
    catalog: Arc<Catalog>,
    found: &'f Found,
    tables: SentTables,
}

/// What leads to a port of a service by the routes and connections for a host.
#[derive(Debug, Default)]
pub(super) struct Leading {
    /// The virtual host that takes requests, if a table has the host, and the listeners that should lead there and do not.
    pub(super) ways: Vec<TraceStep>,
    /// xDS clusters to which they lead and that receive nothing: removals if the port is not reached for this.
    pub(super) lost: Vec<TraceStep>,
    /// VirtualServices whose routes of connections do not count, because another service has the listener.
    pub(super) overruled: BTreeSet<PolicyKey>,
}

/// Port of a service to which routes should lead, or one of its endpoints.
struct Wanted {
    cluster: ClusterName,
    /// Subsets with the endpoint; of a port every subset counts.
    subsets: Option<BTreeSet<Subset>>,
}

impl Wanted {
    /// Whether the name of an xDS cluster is that of the port, or of a subset that counts.
    fn is(&self, name: &str) -> bool {
        let has = |subset: &Subset| self.subsets.as_ref().is_none_or(|all| all.contains(subset));
        let counts = |name: &ClusterName| name.subset.as_ref().is_none_or(has);
        name.parse::<ClusterName>().is_ok_and(|name| name.is_port_of(&self.cluster) && counts(&name))
    }
}

impl<'f> Routed<'f> {
    /// Reads the names of the tables and listeners that a client was sent.
    pub(super) fn new(catalog: &Arc<Catalog>, found: &'f Found) -> Self {
        Self { catalog: Arc::clone(catalog), found, tables: SentTables::new(catalog, found) }
    }
    /// Returns what leads requests and connections for `host` to a port of the service `served_by`. Of the routes to subsets, those
    /// count that have the endpoint, if one is given.
    pub(super) fn leading(
        &mut self,
        host: &Hostname,
        served_by: &Hostname,
        (port, endpoint): (&PortView, Option<&str>),
        client: &Client,
    ) -> Leading {
        let cluster = ClusterName::new(port.number, served_by);
        let listeners = leading_listeners(port, &client.class);
        let wanted = Wanted { cluster, subsets: endpoint.map(|at| subsets_with(port, client, at)) };
        let astray = listeners.iter().take(MAX_LISTENERS).filter_map(|name| self.listener(name, &wanted));
        let astray: Vec<TraceStep> = astray.collect();
        let table = port.number.to_string();
        let of = self.tables.host(&table, host.as_str()).map(|(_, of)| of);
        // a table that no listener names takes no requests
        let requests = self.without_listener(&table, (port, client));
        let requests = requests.or_else(|| self.taken_requests(&table, (port, client)));
        let (at_addresses, is_unreached) = self.taken_addresses((port, client), &wanted);
        let by_table = |own: &mut Self| {
            let requests = of.as_ref().map(|of| own.requests(host, &table, (of, Some(&wanted))));
            requests.or_else(|| own.removed(host, &table, (port, client)))
        };
        let requests = requests.or_else(|| if is_unreached { None } else { by_table(self) });
        let elsewhere = self.removed_elsewhere((port, client), &listeners);
        let lost = self.lost((host, &table, of.as_ref()), (port, client), &wanted);
        let (taken, overruled) = self.taken((port, client), &listeners);
        let ways =
            requests.into_iter().chain(at_addresses).chain(astray).chain(elsewhere).chain(taken).collect();
        Leading { ways, lost, overruled }
    }
    /// Returns the step of a port of which another service has the listener for requests; `None` if a listener that was sent has its
    /// route table.
    fn taken_requests(&mut self, table: &str, (port, client): (&PortView, &Client)) -> Option<TraceStep> {
        let planned = leading_resources(port, &client.class).into_iter();
        let names = planned.filter(|(_, own)| own.as_deref() == Some(table)).map(|(name, _)| name);
        let Taken { listener, leads } = Taken::port(&mut self.tables, names, table)?;
        let detail = format!(
            "LDS {listener}: connections {leads}, and requests for the port have no listener: another service has the address and port"
        );
        Some(deliver_step((Verdict::Warn, Code::ROUTED_ELSEWHERE, detail)))
    }
    /// Returns the listeners that lead connections nowhere where the routes of a VirtualService lead those for the port, because
    /// another service has the same address and port; and these VirtualServices. Listeners that lead to the port have steps of
    /// their own.
    fn taken(
        &mut self,
        (port, client): (&PortView, &Client),
        to_port: &BTreeSet<String>,
    ) -> (Vec<TraceStep>, BTreeSet<PolicyKey>) {
        let (mut steps, mut overruled) = (Vec::new(), BTreeSet::new());
        let planned = connection_targets(port, &client.class).into_iter();
        let planned = planned.filter_map(|((listener, rule), to)| Some((listener, rule?, to)));
        for (listener, rule, to) in planned.take(MAX_LISTENERS) {
            let is_sent = self.tables.resource(ResourceType::Listener, &listener).is_some();
            let sent = if is_sent { self.tables.listener(&listener) } else { None };
            let Some(sent) = sent.filter(|sent| !sent.leads_to_any(&to)) else { continue };
            if !to_port.contains(&listener) {
                steps.push(taken_step(&listener, sent, (&rule, &to)));
            }
            overruled.insert(rule);
        }
        (steps, overruled)
    }
    /// Returns the step of a port whose route table a client with listeners of its own did not request; `None` for other ports.
    pub(super) fn unrequested(&mut self, port: &PortView) -> Option<TraceStep> {
        let client = &self.found.client;
        let planned = leading_resources(port, &client.class).into_iter().find_map(|(_, table)| table);
        let table = planned.filter(|table| client.takes == Takes::Routes && !self.tables.has_table(table))?;
        let own = ClusterName::new(port.number, &port.cluster.inputs.service.host);
        let detail = format!(
            "port {}: listeners are the client's own, and it requested no route table {table}; it receives xDS cluster {own}",
            port.number
        );
        Some(deliver_step((Verdict::Pass, Code::REACHED, detail)))
    }
    /// Returns the listeners that filters removed and that lead connections to other services, without those known to lead to the port.
    fn removed_elsewhere(
        &self,
        (port, client): (&PortView, &Client),
        to_port: &BTreeSet<String>,
    ) -> Vec<TraceStep> {
        let planned =
            connection_targets(port, &client.class).into_iter().map(|((listener, _), to)| (listener, to));
        let planned: BTreeMap<String, BTreeSet<String>> = planned.collect();
        let is_sent = |name: &str| self.tables.resource(ResourceType::Listener, name).is_some();
        let others = planned.iter().filter(|(name, _)| !to_port.contains(*name) && !is_sent(name));
        let step =
            |(name, to): (&String, &BTreeSet<String>)| {
                let by = self.found.removed_by(ResourceType::Listener, name)?;
                let to = named(to.iter().map(String::as_str));
                Some(self.removal(
                    &by,
                    &format!("the client was not sent the listener {name}, which leads to {to}"),
                ))
            };
        others.take(MAX_LISTENERS).filter_map(step).collect()
    }
    /// Returns where requests for a host go that no service has; empty if no table has it.
    pub(super) fn steps_of_host(&mut self, host: &Hostname) -> Vec<TraceStep> {
        let mut out = Vec::new();
        for table in &self.tables.names() {
            let Some((_, of)) = self.tables.host(table, host.as_str()) else { continue };
            out.push(self.requests(host, table, (&of, None)));
            let (led, all) = (Led::by_routes(&of, table, host), |_: &str| true);
            let counted = Counted { is_wanted: &all, is_named: &all };
            out.extend(lost_clusters::steps(&self.catalog, self.found, &led, &counted));
        }
        out
    }
    /// Returns what leads to a port of a service, or to a subset of it, whatever host the requests or connections are for:
    /// routes, copies of requests included, then listeners. Without a subset, those that `has` admits count.
    pub(super) fn elsewhere(
        &mut self,
        (of, port): (&ClusterName, &PortView),
        has: &dyn Fn(&Subset) -> bool,
    ) -> Vec<TraceStep> {
        let counts = |name: &ClusterName| match (&of.subset, &name.subset) {
            (None, Some(subset)) => has(subset),
            (own, named) => own == named,
        };
        let is_own = |name: &ClusterName| name.port == of.port && name.host == of.host;
        let found = self.found;
        let is = |name: &str| {
            let leads = name.parse::<ClusterName>().is_ok_and(|name| is_own(&name) && counts(&name));
            leads && Lack::of(found, name).is_none()
        };
        let own = port.number.to_string();
        // a table that no listener names takes no requests
        let mut tables = self.tables.names();
        tables.retain(|table| {
            *table != own || self.without_listener(table, (port, &self.found.client)).is_none()
        });
        // neither does its own virtual host where another service has the addresses
        let wanted = Wanted { cluster: ClusterName::new(of.port, &of.host), subsets: None };
        let (_, is_unreached) = self.taken_addresses((port, &found.client), &wanted);
        let closed = is_unreached.then(|| format!("{}:{own}", of.host));
        let is_open = |host: &SentHost| closed.as_ref() != Some(&host.name);
        let leads = |host: &SentHost| is_open(host) && !receivers(host, &is).is_empty();
        let mut out = self.led_by_routes((&tables, &of.host), &leads, &is);
        out.extend(self.led_by_listeners(&of.host, &is));
        out.truncate(MAX_NAMED);
        out
    }
    /// Whether tables or listeners were left out, because all together are too large.
    pub(super) const fn is_cut(&self) -> bool {
        self.tables.is_cut()
    }
    fn led_by_routes(
        &mut self,
        (tables, to): (&BTreeSet<String>, &Hostname),
        leads: &dyn Fn(&SentHost) -> bool,
        is: &dyn Fn(&str) -> bool,
    ) -> Vec<TraceStep> {
        let mut out = Vec::new();
        for table in tables {
            let most = MAX_NAMED.saturating_sub(out.len());
            for host in self.tables.leading(table, (to, most), leads) {
                let receivers = receivers(&host, is);
                let noun = if receivers.len() == 1 { "xDS cluster" } else { "xDS clusters" };
                let names = named(receivers.iter().map(String::as_str));
                let detail =
                    format!("RDS {table}, virtual host {}: routes lead to {noun} {names}", host.name);
                let object = host.rules().first().and_then(|rule| reference(&self.catalog, rule));
                out.push(TraceStep { object, ..deliver_step((Verdict::Pass, Code::ROUTED, detail)) });
            }
        }
        out
    }
    fn led_by_listeners(&mut self, to: &Hostname, is: &dyn Fn(&str) -> bool) -> Vec<TraceStep> {
        let mut out = Vec::new();
        for listener in self.tables.names_of(ResourceType::Listener) {
            let clusters = self.tables.listener_naming(&listener, to).map(|targets| targets.clusters);
            if let Some(name) = clusters.unwrap_or_default().iter().find(|name| is(name)) {
                let detail = format!("LDS {listener}: connections go to xDS cluster {name}");
                out.push(deliver_step((Verdict::Pass, Code::ROUTED, detail)));
            }
            if out.len() >= MAX_NAMED {
                break;
            }
        }
        out
    }
    /// Returns a step for each xDS cluster to which what the client was sent for a host leads and that receives nothing, except the own
    /// one of the port, which is a step of the port itself.
    fn lost(
        &mut self,
        (host, table, of): (&Hostname, &str, Option<&SentHost>),
        (port, client): (&PortView, &Client),
        wanted: &Wanted,
    ) -> Vec<TraceStep> {
        let by_routes = of.into_iter().flat_map(|of| Led::by_routes(of, table, host));
        let led: Vec<Led> = by_routes.chain(self.connections(host, (port, client))).collect();
        let is_own = |name: &str| wanted.is(name);
        // if all of it is for other services, these count for the port
        let counts_all = wanted.subsets.is_none() && !led.iter().any(|led| led.is_to(&is_own));
        // requests that name their destination need none of them
        let is_open = of.is_some_and(SentHost::is_open);
        let own = wanted.cluster.to_string();
        let counted = Counted {
            is_wanted: &|name| !is_open && (counts_all || is_own(name)),
            is_named: &|name| name != own,
        };
        lost_clusters::steps(&self.catalog, self.found, &led, &counted)
    }
    /// Returns where the connections to a port go, by each of its listeners that the client was sent. Another service may have taken
    /// a part of a listener.
    fn connections(&mut self, host: &Hostname, (port, client): (&PortView, &Client)) -> Vec<Led> {
        let mut out = Vec::new();
        for (at, ((listener, rule), mut to)) in
            connection_targets(port, &client.class).into_iter().enumerate()
        {
            if self.tables.resource(ResourceType::Listener, &listener).is_none() {
                continue;
            }
            if at < MAX_LISTENERS
                && let Some(sent) = self.tables.listener(&listener)
            {
                to.retain(|name| sent.clusters.contains(name));
            }
            out.push(Led::by_listener(&listener, rule, to, host));
        }
        out
    }
    fn requests(&self, host: &Hostname, table: &str, (of, to): (&SentHost, Option<&Wanted>)) -> TraceStep {
        let object = of.rules().first().and_then(|rule| reference(&self.catalog, rule));
        TraceStep { object, ..step_of(of, table, host, to) }
    }
    /// Returns the step of a route table of which the client has no listener, because filters removed them.
    fn without_listener(&self, table: &str, (port, client): (&PortView, &Client)) -> Option<TraceStep> {
        let planned = leading_resources(port, &client.class);
        let names: Vec<&String> =
            planned.iter().filter(|(_, own)| own.as_deref() == Some(table)).map(|(name, _)| name).collect();
        let is_sent = |name: &&String| self.tables.resource(ResourceType::Listener, name).is_some();
        let first = names.first().filter(|_| !names.iter().any(is_sent))?;
        let by = self.found.removed_by(ResourceType::Listener, first)?;
        let detail =
            format!("the client was not sent the listener {first}, which has the route table {table}");
        Some(self.removal(&by, &detail))
    }
    /// Returns the step of a listener that a filter removed.
    fn removal(&self, by: &PolicyKey, detail: &str) -> TraceStep {
        let object = reference(&self.catalog, by);
        let detail = format!("{detail}; {by} removes it");
        TraceStep { object, ..deliver_step((Verdict::Warn, Code::REMOVED_BY_FILTER, detail)) }
    }
    /// Returns which filters changed a route table that should have a virtual host for a host; it has none.
    fn removed(
        &mut self,
        host: &Hostname,
        table: &str,
        (port, client): (&PortView, &Client),
    ) -> Option<TraceStep> {
        let planned = leading_resources(port, &client.class);
        let by = self.tables.filters(ResourceType::Route, table);
        let is_planned = planned.iter().any(|(_, own)| own.as_deref() == Some(table));
        let first = by.first().filter(|_| is_planned && self.tables.has_table(table))?;
        let all: Vec<String> = by.iter().map(PolicyKey::to_string).collect();
        let all = named(all.iter().map(String::as_str));
        let detail = format!("RDS {table} has no virtual host for {host} after the changes of {all}");
        let object = reference(&self.catalog, first);
        Some(TraceStep { object, ..deliver_step((Verdict::Warn, Code::ROUTED_ELSEWHERE, detail)) })
    }
    /// Returns why a listener does not lead connections to a port, or to a subset with the endpoint; `None` if it does, or if it
    /// is not known.
    fn listener(&mut self, name: &str, to: &Wanted) -> Option<TraceStep> {
        if self.tables.resource(ResourceType::Listener, name).is_none() {
            let cluster = &to.cluster;
            let detail = format!("the client was not sent the listener {name}, which leads to {cluster}");
            return match self.found.removed_by(ResourceType::Listener, name) {
                Some(by) => Some(self.removal(&by, &detail)),
                None if !self.tables.has_any(ResourceType::Listener) => None,
                None => Some(deliver_step((Verdict::Warn, Code::NOT_DELIVERED, detail))),
            };
        }
        lost_step(name, to, self.tables.listener(name)?)
    }
}

/// Returns the xDS clusters, as `is` decides, that receive requests of a virtual host or copies of them.
fn receivers(host: &SentHost, is: &dyn Fn(&str) -> bool) -> BTreeSet<String> {
    let all = host.routes.iter().flat_map(SentRoute::receivers);
    all.filter(|name| is(name)).map(str::to_owned).collect()
}

/// Returns the step of a listener that another service has.
fn taken_step(name: &str, sent: &SentListener, (rule, to): (&PolicyKey, &BTreeSet<String>)) -> TraceStep {
    let found = Leads::of(sent).past(&named(to.iter().map(String::as_str)));
    let detail = format!(
        "LDS {name}: connections {found} as {rule} declares: another service has the address and port"
    );
    deliver_step((Verdict::Warn, Code::ROUTED_ELSEWHERE, detail))
}

fn lost_step(name: &str, wanted: &Wanted, sent: &SentListener) -> Option<TraceStep> {
    if sent.clusters.iter().any(|name| wanted.is(name)) {
        return None;
    }
    let there = if wanted.subsets.is_some() { " with the endpoint" } else { "" };
    let found = Leads::of(sent).past(&wanted.cluster.to_string());
    let detail = format!("LDS {name}: connections {found}{there}");
    Some(deliver_step((Verdict::Warn, Code::ROUTED_ELSEWHERE, detail)))
}

/// Returns the step of a virtual host: a warning if none of its routes leads to a port of a service.
fn step_of(of: &SentHost, table: &str, host: &Hostname, to: Option<&Wanted>) -> TraceStep {
    let leading = to.map_or(of.routes.len(), |to| of.routes.iter().filter(|route| leads(route, to)).count());
    let (verdict, code) = match leading {
        0 => (Verdict::Warn, Code::ROUTED_ELSEWHERE),
        _ => (Verdict::Pass, Code::ROUTED),
    };
    let rules: Vec<String> = of.rules().into_iter().map(PolicyKey::to_string).collect();
    let rules = if rules.is_empty() { String::new() } else { format!(" of {}", rules.join(", ")) };
    let what = match (&of.routes[..], to) {
        ([only], _) if only.conditions.is_empty() => match &only.action {
            Action::Answer(text) => format!("get {text}"),
            action => format!("go to {action}"),
        },
        (routes, Some(to)) => {
            let there = if to.subsets.is_some() { " with the endpoint" } else { "" };
            let targets = targets(routes, to);
            let verb = if leading == 1 { "leads" } else { "lead" };
            format!("take {}{rules}, of which {leading} {verb} to {targets}{there}", counted(routes.len()))
        }
        (routes, None) => format!("take {}{rules}", counted(routes.len())),
    };
    // Envoy answers what no route takes
    let has_rest = of.routes.iter().any(|route| route.conditions.is_empty());
    let rest = if has_rest { "" } else { "; others get answer 404" };
    deliver_step((
        verdict,
        code,
        format!("RDS {table}, virtual host {}: requests for {host} {what}{rest}", of.name),
    ))
}

fn counted(routes: usize) -> String {
    format!("{routes} {}", if routes == 1 { "route" } else { "routes" })
}

/// Whether a route leads to a port of a service.
fn leads(route: &SentRoute, to: &Wanted) -> bool {
    route.action == Action::Requested || route.action.clusters().any(|name| to.is(name))
}

/// Returns the xDS clusters of a port of a service to which routes lead, subsets included; without one that of the port.
fn targets(routes: &[SentRoute], to: &Wanted) -> String {
    let all = routes.iter().flat_map(|route| route.action.clusters()).filter(|name| to.is(name));
    let all: BTreeSet<&str> = all.collect();
    if all.is_empty() {
        return to.cluster.to_string();
    }
    named(all)
}

/// Most steps about xDS clusters that were not sent, and most about routes and listeners that lead to a service.
const MAX_NAMED: usize = 8;

#[cfg(test)]
mod tests;
