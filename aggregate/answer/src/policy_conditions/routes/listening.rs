//! Tables of routes that requests and connections go through, each with the ports of its hosts.
//!
//! A VirtualService with hosts has one, in which the routes of its delegates follow the route that names them; a delegate
//! has those of the VirtualServices that name it. Conditions of ports, of destinations without a port and of routes that
//! others take follow from them. A table is merged once.

use std::rc::Rc;
use std::slice;

use tributary_model::{
    HttpAction, HttpRoute, Namespace, PolicyKey, PortNumber, ServiceView, VirtualService, Visibility,
};

use super::order::{Clients, List, Order};
use super::ports::{HostServices, Listened};
use super::taken::serves;
use super::{RouteConditions, place};
use crate::resolve::is_exported;
use crate::scope::{ClientSidecar, Scope};

/// Tables with the routes of a VirtualService.
pub(super) struct Listening<'c> {
    /// Ports of the hosts of all tables; `None` if services of a host may be declared elsewhere, or there is no host.
    pub(super) known: Option<Listened>,
    pub(super) tables: Vec<Rc<Table<'c>>>,
}

impl Listening<'_> {
    /// Whether answers or faults take all requests of a route, in every table that has it.
    pub(super) fn is_answered(&self, key: &PolicyKey, (list, at): (List, usize)) -> bool {
        let has = |table: &Rc<Table<'_>>| !table.positions(key, list, at).is_empty();
        let receives = |table: &Rc<Table<'_>>| !table.receivers(key, list, at).is_empty();
        self.tables.iter().any(has) && !self.tables.iter().any(receives)
    }
}

/// Routes of some hosts in their order.
pub(super) struct Table<'c> {
    pub(super) order: Order<'c>,
    /// Ports of its hosts, as far as they are known.
    pub(super) listened: Option<Listened>,
    /// Services of its hosts.
    hosts: HostServices<'c>,
    /// VirtualService whose hosts it is for.
    root: (&'c PolicyKey, &'c VirtualService),
    /// Where its HTTP routes are declared; `None` if all of them are the root's.
    rows: Option<Vec<Row<'c>>>,
}

/// Where an HTTP route of a table is declared.
struct Row<'c> {
    of: &'c PolicyKey,
    at: usize,
    route: &'c HttpRoute,
}

impl<'c> RouteConditions<'c> {
    /// Returns the tables with the routes of a VirtualService; `None` beyond [`super::super::MAX_LOOKS`]. A delegate that none
    /// with hosts uses has a table of its own, without ports.
    pub(super) fn listening(&mut self, key: &'c PolicyKey, own: &'c VirtualService) -> Option<Listening<'c>> {
        let roots = if own.is_delegate() { self.roots(key, own) } else { vec![(key, own)] };
        let roots = if roots.is_empty() { vec![(key, own)] } else { roots };
        let tables: Option<Vec<_>> = roots.into_iter().map(|(key, root)| self.table(key, root)).collect();
        let tables = tables?;
        let mut known = Some(Listened::default());
        for table in &tables {
            known = known.zip(table.listened.as_ref()).map(|(all, own)| all.with(own));
        }
        Some(Listening { known, tables })
    }
    /// Returns the table of a VirtualService; `None` beyond [`super::super::MAX_LOOKS`].
    fn table(&mut self, key: &'c PolicyKey, root: &'c VirtualService) -> Option<Rc<Table<'c>>> {
        if let Some(table) = self.tables.get(key) {
            return Some(Rc::clone(table));
        }
        let hosts = self.hosts(key, root);
        let (order, rows) = self.merged(key, root)?;
        let table = Rc::new(Table { order, listened: hosts.listened(), hosts, root: (key, root), rows });
        self.tables.insert(key, Rc::clone(&table));
        Some(table)
    }
    /// Returns the routes of a VirtualService, each that names a delegate before those of the delegate, with where they are
    /// declared.
    fn merged(
        &self,
        key: &'c PolicyKey,
        root: &'c VirtualService,
    ) -> Option<(Order<'c>, Option<Vec<Row<'c>>>)> {
        if root.delegates().next().is_none() {
            return Some((Order::of(root), None));
        }
        let (mut http, mut rows) = (Vec::new(), Vec::new());
        for (at, route) in root.http.iter().enumerate() {
            http.push(route.clone());
            rows.push(Row { of: key, at, route });
            let Some((of, delegate)) = self.delegate(key, route) else { continue };
            self.look(delegate.http.len())?;
            for (at, own) in delegate.http.iter().enumerate() {
                let merged = route.delegated(slice::from_ref(own));
                rows.extend(merged.iter().map(|_| Row { of, at, route: own }));
                http.extend(merged);
            }
        }
        Some((Order::merged(root, http), Some(rows)))
    }
    /// Returns the delegate that a route names, if it can be used.
    fn delegate(&self, by: &PolicyKey, route: &HttpRoute) -> Option<(&'c PolicyKey, &'c VirtualService)> {
        let HttpAction::Delegate(to, _) = &route.action else { return None };
        let to = PolicyKey::from(to);
        let delegate = self.usable(by, &to).ok()?;
        let (key, _) = self.catalog.policies.get_key_value(&to)?;
        Some((key, delegate))
    }
    /// Returns the VirtualServices with hosts that use a delegate.
    fn roots(&self, key: &PolicyKey, own: &VirtualService) -> Vec<(&'c PolicyKey, &'c VirtualService)> {
        let all = self.delegates.get(key).into_iter().flatten().copied();
        let uses = |(by, root): &(&PolicyKey, &VirtualService)| {
            root.mesh && !root.is_delegate() && own.is_delegate_for(&key.namespace, &by.namespace)
        };
        let mut out: Vec<_> = all.filter(uses).collect();
        out.dedup_by_key(|(by, _)| *by);
        out
    }
    /// Whether a route of a VirtualService receives something of what comes to a port of the hosts of some table.
    pub(super) fn receives(
        &self,
        (key, listening): (&PolicyKey, &Listening<'_>),
        (list, at): (List, usize),
        port: PortNumber,
    ) -> bool {
        let reaches = |table: &Table<'_>, at: usize| {
            let comparisons = table.order.comparisons(list, at, Some(port));
            self.look(comparisons).is_some() && table.order.reaches(list, at, &[port].into(), Clients::Any)
        };
        let is_of_port =
            |table: &Table<'_>| table.listened.as_ref().is_some_and(|known| known.has(list, port));
        let mut of_port = listening.tables.iter().filter(|table| is_of_port(table));
        of_port.any(|table| table.receivers(key, list, at).into_iter().any(|at| reaches(table, at)))
    }
    /// Whether a route of a VirtualService receives something of the clients of a namespace, of most others without one.
    pub(super) fn receives_from(
        &self,
        (key, listening): (&PolicyKey, &Listening<'_>),
        (list, at): (List, usize),
        client: Option<&Namespace>,
    ) -> bool {
        let reaches = |table: &Table<'_>, at: usize| {
            let ports = table.listened.as_ref().map(|known| known.of(list)).unwrap_or_default();
            let comparisons = table.order.comparisons(list, at, None) * ports.len().max(1);
            self.look(comparisons).is_some()
                && table.order.reaches(list, at, &ports, Clients::Namespace(client))
        };
        let sidecars = self.resolved.sidecars(client);
        let mut tables = listening.tables.iter().filter(|table| table.is_for(list, client, &sidecars));
        tables.any(|table| table.receivers(key, list, at).into_iter().any(|at| reaches(table, at)))
    }
}

impl Table<'_> {
    /// Whether clients of a namespace use it: it is exported to them, their Sidecar imports it, and they see a service of its
    /// hosts, for which no other VirtualService takes their requests. Clients whose Sidecar does not import that service have
    /// the routes of requests, for port 80.
    fn is_for(&self, list: List, client: Option<&Namespace>, sidecars: &[Option<ClientSidecar>]) -> bool {
        let (key, root) = self.root;
        let has = |scope: Scope<'_>, view: &ServiceView| match scope.rank(view) {
            _ if !is_exported(view, Scope::of(client)) => false,
            Some(_) => list != List::Http || serves(view, key, client),
            None => list == List::Http,
        };
        let imports = |sidecar: &Option<ClientSidecar>| {
            let scope = Scope { namespace: client, sidecar: sidecar.as_ref() };
            let hosts = &self.hosts;
            scope
                .egress()
                .is_none_or(|egress| egress.imports_pattern(client, &key.namespace, &hosts.patterns))
                && (hosts.is_unserved || hosts.views.iter().any(|view| has(scope, view)))
        };
        root.export.resolve(&Visibility::Public).admits(&key.namespace, client)
            && sidecars.iter().any(imports)
    }
    /// Returns where a route of a VirtualService is in the table.
    pub(super) fn positions(&self, key: &PolicyKey, list: List, at: usize) -> Vec<usize> {
        let is_it = |(_, row): &(usize, &Row<'_>)| row.of == key && row.at == at;
        match &self.rows {
            Some(rows) if list == List::Http => {
                rows.iter().enumerate().filter(is_it).map(|(at, _)| at).collect()
            }
            _ if self.root.0 == key => vec![at],
            _ => Vec::new(),
        }
    }
    /// Returns where the destinations of a route are in the table: an answer of the root takes their place.
    fn receivers(&self, key: &PolicyKey, list: List, at: usize) -> Vec<usize> {
        let mut out = self.positions(key, list, at);
        out.retain(|at| list != List::Http || !self.order.is_answer(*at));
        out
    }
    /// Returns where a route of the table is declared, as a VirtualService names it.
    pub(super) fn place(&self, key: &PolicyKey, list: List, at: usize) -> String {
        let row = self.rows.as_ref().filter(|_| list == List::Http).and_then(|rows| rows.get(at));
        let (of, place) = match row {
            Some(row) => (row.of, place("http", row.at, &row.route.name)),
            None => (self.root.0, self.order.place(list, at)),
        };
        if of == key { place } else { format!("{place} of {}/{}", of.namespace, of.name) }
    }
}
