//! Tables of routes that requests and connections go through, each with the ports of its hosts.
//!
//! A VirtualService with hosts has one; a delegate has one for each VirtualService that names it, in which its routes have
//! the place of the route that names it. Conditions of ports and of destinations without a port follow from them.

use std::slice;

use tributary_model::{HttpRoute, PolicyKey, PortNumber, VirtualService};

use super::RouteConditions;
use super::order::{List, Order};
use super::ports::Listened;

/// Tables with the routes of a VirtualService.
pub(super) struct Listening<'c> {
    /// Ports of the hosts of all tables.
    pub(super) known: Listened,
    tables: Vec<Table<'c>>,
}

/// Routes of some hosts in their order.
struct Table<'c> {
    order: Order<'c>,
    listened: Listened,
    /// For each HTTP route of the table the one of the delegate that it is; absent without a delegate.
    origins: Option<Vec<Option<usize>>>,
}

impl<'c> RouteConditions<'c> {
    /// Returns the tables with the routes of a VirtualService; `None` if services of a host may be declared elsewhere, there
    /// is no host, or beyond [`super::super::MAX_LOOKS`].
    pub(super) fn listening(&mut self, key: &PolicyKey, own: &'c VirtualService) -> Option<Listening<'c>> {
        if !own.is_delegate() {
            let known = self.listened(key, own)?;
            let table = Table { order: Order::of(own), listened: known.clone(), origins: None };
            return Some(Listening { known, tables: vec![table] });
        }
        let (mut known, mut tables) = (Listened::default(), Vec::new());
        for (root_key, root) in self.roots(key, own) {
            let listened = self.listened(root_key, root)?;
            self.look(root.http.len().saturating_add(own.http.len()))?;
            known.extend(&listened);
            tables.push(Table::of_root((root, listened), key, own));
        }
        (!tables.is_empty()).then_some(Listening { known, tables })
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
    /// Whether a route receives something of what comes to a port of the hosts of some table.
    pub(super) fn receives(
        &self,
        listening: &Listening<'_>,
        (list, at): (List, usize),
        port: PortNumber,
    ) -> bool {
        let reaches = |table: &Table<'_>, at: usize| {
            let comparisons = table.order.comparisons(list, at, Some(port));
            self.look(comparisons).is_some() && table.order.reaches(list, at, port)
        };
        let mut of_port = listening.tables.iter().filter(|table| table.listened.has(list, port));
        of_port.any(|table| table.positions(list, at).into_iter().any(|at| reaches(table, at)))
    }
}

impl<'c> Table<'c> {
    /// Returns the routes of a VirtualService with those of one of its delegates in their place. A delegate has routes of
    /// HTTP only.
    fn of_root(
        (root, listened): (&VirtualService, Listened),
        key: &PolicyKey,
        delegate: &VirtualService,
    ) -> Self {
        let names_it = |route: &HttpRoute| route.action.delegate().map(PolicyKey::from).as_ref() == Some(key);
        let (mut http, mut origins) = (Vec::new(), Vec::new());
        for route in root.http.iter() {
            if !names_it(route) {
                origins.push(None);
                http.push(route.clone());
                continue;
            }
            for (at, own) in delegate.http.iter().enumerate() {
                for merged in route.delegated(slice::from_ref(own)) {
                    // an answer of the root takes the place of destinations
                    origins.push((!merged.action.destinations().is_empty()).then_some(at));
                    http.push(merged);
                }
            }
        }
        Self { order: Order::of_http(http), listened, origins: Some(origins) }
    }
    /// Returns where a route of the VirtualService is in the table.
    fn positions(&self, list: List, at: usize) -> Vec<usize> {
        let Some(origins) = &self.origins else { return vec![at] };
        let is_it = |(_, origin): &(usize, &Option<usize>)| list == List::Http && **origin == Some(at);
        origins.iter().enumerate().filter(is_it).map(|(at, _)| at).collect()
    }
}
