//! Routes that lead a client's requests and connections to a host, in the order in which they are tried.
//!
//! The backend of the admin surface calls it. Routes of requests are those that the client was sent; [`connections`] plans those of
//! connections by the functions that serve clients, and compares them with the listeners that it was sent.

mod connections;
mod taken;

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_answer::{
    ClientClass, ClusterName, ListenerPlan, Serves, Takes, applied_routes, grpc_declared, leading_parts,
    leading_resources, longest_wildcard, resolve,
};
use tributary_model::{Catalog, ClientKind, PolicyKey, PortNumber, PortView, ServiceView};
use tributary_xds::answers::{HostSources, ResourceType};

use connections::{for_host, is_http};

use super::lost_clusters::Lack;
use super::rejected;
use super::resources::object_of;
use super::sent_route::{Action, SentHost, SentRoute, host_for};
use super::sent_tables::SentTables;
use super::sessions::{Found, Sessions};
use crate::admin::backend::Answer;
use crate::document::routes::WeightedItem;
use crate::document::short_name::ServicePart;
use crate::document::{Filter, ObjectItem, RouteItem, short_name};

/// Routes, or the reason why there are none.
pub type Routes = Result<Answer<RouteItem>, String>;

/// Returns the routes of a client to a host, which may have a port behind it or be the name of an xDS cluster.
pub fn list(catalog: &Arc<Catalog>, sessions: &Sessions, host: &str, client: &str) -> Routes {
    let found = sessions.find(catalog, client)?;
    let namespace = found.client.class.namespace.as_ref().map(|namespace| namespace.as_str());
    let ServicePart { host, port, .. } = short_name::part(catalog, host, namespace)?;
    let is_sidecar = found.client.class.kind == ClientKind::Sidecar;
    if found.client.class.kind == ClientKind::Envoy || (is_sidecar && found.client.takes == Takes::Clusters) {
        return Err(format!("the client {client} has listeners and routes of its own; it was sent none"));
    }
    let mut lister = Lister {
        catalog,
        found: &found,
        tables: SentTables::new(catalog, &found),
        host: host.to_ascii_lowercase(),
        port,
        notes: found.note.iter().cloned().collect(),
        unsent: BTreeSet::new(),
    };
    let mut items = lister.items();
    if items.is_empty() {
        return Err(lister.nothing(client));
    }
    let more = items.len().saturating_sub(Filter::MAX);
    items.truncate(Filter::MAX);
    Ok(Answer { items, more, notes: lister.notes.into_iter().chain(lister.unsent).collect() })
}

struct Lister<'a> {
    catalog: &'a Arc<Catalog>,
    found: &'a Found,
    tables: SentTables,
    host: String,
    port: Option<PortNumber>,
    /// What is not about one route, each once.
    notes: BTreeSet<String>,
    /// Why listeners of the host are not sent, each once.
    unsent: BTreeSet<String>,
}

impl Lister<'_> {
    fn items(&mut self) -> Vec<RouteItem> {
        let (catalog, class) = (Arc::clone(self.catalog), self.found.client.class.clone());
        let named = resolve(&catalog, &self.host, class.scope(), &mut ());
        let view = named.or_else(|| self.of_wildcard(&catalog, &class));
        let wanted = self.port;
        let ports = view.into_iter().flat_map(|view| view.ports.iter());
        let ports: Vec<&PortView> =
            ports.filter(|port| wanted.is_none_or(|number| port.number == number)).collect();
        let mut out = Vec::new();
        if class.kind == ClientKind::Grpc {
            ports.iter().for_each(|port| out.extend(self.of_target(port, &class)));
            return out;
        }
        ports.iter().for_each(|port| out.extend(self.of_port(port, &class)));
        let listed: BTreeSet<String> = out.iter().map(|item| item.table.clone()).collect();
        // a table can have a virtual host for the host without a service on its port
        for table in self.tables.names().difference(&listed) {
            let port = table.parse().ok().and_then(|number| PortNumber::new(number).ok());
            if wanted.is_none() || port == wanted {
                out.extend(self.of_table(table, port));
            }
        }
        out.sort_by_key(|item| item.port);
        out
    }
    /// Returns the service of a wildcard that serves a sidecar a host which no source declares.
    fn of_wildcard<'c>(&self, catalog: &'c Catalog, class: &ClientClass) -> Option<&'c Arc<ServiceView>> {
        let wildcard = longest_wildcard(catalog, &self.host)?;
        let is_sidecar = class.kind == ClientKind::Sidecar;
        is_sidecar.then(|| resolve(catalog, wildcard.as_str(), class.scope(), &mut ())).flatten()
    }
    /// Returns the routes of a gRPC target.
    fn of_target(&mut self, port: &PortView, class: &ClientClass) -> Vec<RouteItem> {
        let service = &port.cluster.inputs.service;
        let table = ClusterName::new(port.number, &service.host).to_string();
        let rule = applied_routes(port, class).requests;
        let hosts = self.tables.hosts(&table);
        // gRPC has no use for metadata, so its routes name neither the VirtualService nor the delegate
        let declared = grpc_declared(port, class);
        let named = |(at, route): (usize, &SentRoute)| {
            let of = declared.get(at).filter(|(name, _)| **name == *route.name);
            let delegate = of.and_then(|(_, delegate)| delegate.clone());
            SentRoute { rule: rule.cloned(), delegate, ..route.clone() }
        };
        let named = |host: &SentHost| SentHost {
            routes: host.routes.iter().enumerate().map(named).collect(),
            ..host.clone()
        };
        let hosts = hosts.iter().map(named);
        let none = HostSources::default();
        let of = |host: SentHost| self.of_host(&host, (table.as_str(), &none), Some(port.number));
        hosts.flat_map(of).collect()
    }
    /// Returns the routes of a sidecar to a port: of requests, else of connections.
    fn of_port(&mut self, port: &PortView, class: &ClientClass) -> Vec<RouteItem> {
        let tables: BTreeSet<String> =
            leading_resources(port, class).into_iter().filter_map(|(_, table)| table).collect();
        let mut out: Vec<RouteItem> =
            tables.iter().flat_map(|table| self.of_table(table, Some(port.number))).collect();
        let parts = for_host(leading_parts(port, class), &self.host);
        if self.found.client.takes < Takes::Listeners {
            self.note_own(port, &parts);
            return out;
        }
        self.note_removed(parts.iter().map(ListenerPlan::name).collect());
        let within: BTreeSet<String> =
            parts.iter().filter(|part| is_http(part)).map(ListenerPlan::name).collect();
        for listener in within {
            let hosts = self.tables.listener(&listener).map(|sent| sent.hosts.clone()).unwrap_or_default();
            let Some(host) = host_for(&hosts, &self.host) else { continue };
            out.extend(self.of_host(host, (listener.as_str(), &HostSources::default()), Some(port.number)));
            let by = self.tables.filters(ResourceType::Listener, &listener);
            self.note(&by, &format!("changed the listener {listener} with the routes"));
        }
        out.extend(self.of_taken(port, class));
        out.extend(self.of_connections(port, &parts));
        out
    }
    /// Notes that the client's own listeners lead its connections to a port.
    fn note_own(&mut self, port: &PortView, parts: &[ListenerPlan]) {
        let is_of_connections = parts.iter().any(|part| part.serves != Serves::Routes);
        let note = format!(
            "the client has listeners of its own, which lead its connections to port {}",
            port.number
        );
        self.unsent.extend(is_of_connections.then_some(note));
    }
    /// Notes the listeners that filters remove.
    fn note_removed(&mut self, listeners: BTreeSet<String>) {
        for name in listeners {
            let is_sent = self.tables.resource(ResourceType::Listener, &name).is_some();
            let by = self.found.removed_by(ResourceType::Listener, &name).filter(|_| !is_sent);
            let note = by.map(|by| format!("{by} removes the listener {name} from what the client is sent"));
            self.unsent.extend(note);
        }
    }
    fn of_table(&mut self, table: &str, port: Option<PortNumber>) -> Vec<RouteItem> {
        let Some((at, host)) = self.tables.host(table, &self.host) else { return Vec::new() };
        let by = self.sources(table, at);
        self.of_host(&host, (table, &by), port)
    }
    /// Returns the filters that changed parts of a virtual host, and notes those that changed more than that.
    fn sources(&mut self, table: &str, at: usize) -> HostSources {
        let by = self.tables.filters(ResourceType::Route, table);
        let known = self.tables.resource(ResourceType::Route, table).filter(|_| !by.is_empty());
        let Some((view, of)) = known else { return HostSources::default() };
        match view.host_sources(of, at) {
            Some(found) => {
                self.note(&found.table, &format!("changed the route table {table} for all hosts"));
                found
            }
            None => {
                self.note(
                    &by,
                    &format!("changed parts of the route table {table} that are not known any more"),
                );
                HostSources::default()
            }
        }
    }
    fn note(&mut self, by: &[PolicyKey], what: &str) {
        let by: Vec<String> = by.iter().map(ToString::to_string).collect();
        self.notes.extend((!by.is_empty()).then(|| format!("{} {what}", by.join(", "))));
    }
    fn of_host(
        &self,
        host: &SentHost,
        (table, by): (&str, &HostSources),
        port: Option<PortNumber>,
    ) -> Vec<RouteItem> {
        let known = self.tables.resource(ResourceType::Route, table);
        let known = known.or_else(|| self.tables.resource(ResourceType::Listener, table));
        let state = known.map_or("", |(_, of)| of.state.as_str());
        let item = |(at, route): (usize, &SentRoute)| RouteItem {
            kind: "requests".to_owned(),
            settings: route.settings.iter().cloned().chain(self.lacks(route.receivers())).collect(),
            port: port.map(PortNumber::get),
            order: at + 1,
            table: table.to_owned(),
            virtual_host: host.name.clone(),
            state: state.to_owned(),
            rules: self.rules(route, by.host.iter().chain(by.routes.get(at).into_iter().flatten())),
            ..of_route(route)
        };
        host.routes.iter().enumerate().map(item).collect()
    }
    /// Returns a note for each xDS cluster to which nothing can be sent, each once.
    fn lacks<'n>(&self, receivers: impl Iterator<Item = &'n str>) -> Vec<String> {
        let each_once: BTreeSet<&str> = receivers.collect();
        let is_rejected = |name: &str| rejected::is_lost(self.catalog, self.found, name);
        let note = |name: &str| match is_rejected(name) {
            true => Some(format!("the client rejected xDS cluster {name}")),
            false => Some(Lack::of(self.found, name)?.note(name)),
        };
        each_once.into_iter().filter_map(note).collect()
    }
    /// Returns the VirtualService of a route, the delegate that declares it, and these filters, each once.
    fn rules<'k>(
        &self,
        route: &'k SentRoute,
        filters: impl Iterator<Item = &'k PolicyKey>,
    ) -> Vec<ObjectItem> {
        let mut out: Vec<&PolicyKey> = route.rule.iter().chain(&route.delegate).collect();
        for key in filters {
            out.extend((!out.contains(&key)).then_some(key));
        }
        out.into_iter().map(|key| object_of(self.catalog, key)).collect()
    }
    /// Returns the filters of a route table, if it is that of the port.
    fn changed(&self, table: &str) -> Vec<String> {
        let is_of_port = self.port.is_none_or(|port| port.to_string() == table);
        let all = if is_of_port { self.tables.filters(ResourceType::Route, table) } else { Vec::new() };
        all.iter().map(ToString::to_string).collect()
    }
    /// Describes why a host has no route.
    fn nothing(&mut self, client: &str) -> String {
        let host = &self.host;
        let at = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        let next =
            "see `tributary why-not` for the host, and `tributary get resources` for all that it was sent";
        if self.found.client.class.kind == ClientKind::Grpc {
            return format!(
                "the client {client} has no route of {host}{at} that gRPC can use, or was sent no route table of it; {next}"
            );
        }
        let rest = self
            .tables
            .names()
            .into_iter()
            .find_map(|table| Some(self.tables.rest(&table)?.routes.first()?.action.to_string()));
        let rest = rest.map(|to| format!(": requests for it go to {to}")).unwrap_or_default();
        let by: BTreeSet<String> = self.tables.names().iter().flat_map(|table| self.changed(table)).collect();
        let by = by.into_iter().collect::<Vec<_>>().join(", ");
        let by = if by.is_empty() { by } else { format!("; route tables were changed by {by}") };
        let removed: String = self.unsent.iter().map(|note| format!("; {note}")).collect();
        format!("no route of the client {client} is for {host}{at}{rest}{by}{removed}; {next}")
    }
}

fn weighted(to: &[(String, u32)]) -> Vec<WeightedItem> {
    to.iter().map(|(cluster, weight)| WeightedItem { cluster: cluster.clone(), weight: *weight }).collect()
}

fn of_route(route: &SentRoute) -> RouteItem {
    let clusters = match &route.action {
        Action::Forward(to) => weighted(to),
        Action::Requested | Action::Answer(_) => Vec::new(),
    };
    RouteItem {
        name: route.name.clone(),
        conditions: route.conditions.clone(),
        to: route.action.to_string(),
        clusters,
        settings: route.settings.clone(),
        ..RouteItem::default()
    }
}
