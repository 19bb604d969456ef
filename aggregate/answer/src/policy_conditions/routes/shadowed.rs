//! Condition of a VirtualService with routes that serve nothing, because the routes before them take it: its own, and
//! those of its delegates or of the VirtualServices that name it.

use std::collections::BTreeSet;

use tributary_model::{Code, PolicyKey, VirtualService};

use super::listening::{Listening, Table};
use super::order::List;
use super::{Found, RouteConditions, named};

impl<'c> RouteConditions<'c> {
    /// Returns the condition of routes of which every request or connection is that of a route before them; none beyond
    /// [`super::super::MAX_LOOKS`].
    pub(super) fn shadowed(
        &self,
        key: &PolicyKey,
        own: &VirtualService,
        listening: &Listening<'_>,
    ) -> Option<Found<'c>> {
        let of = |lists: &[List], what: &str| {
            let all = lists.iter().flat_map(|&list| (0..list.len(own)).map(move |at| (list, at)));
            let parts: Vec<String> = all.filter_map(|route| self.shadow(key, route, listening)).collect();
            let names = named(parts.iter().map(String::as_str));
            (!parts.is_empty()).then(|| format!("routes before them take every {what} of: {names}"))
        };
        let requests = of(&[List::Http], "request");
        let connections = of(&[List::Tls, List::Tcp], "connection");
        self.look(0)?;
        let parts: Vec<String> = requests.into_iter().chain(connections).collect();
        (!parts.is_empty()).then(|| Found(Code::ROUTE_SHADOWED, Vec::new(), parts.join("; ")))
    }
    /// Returns a route that serves nothing in any table that has it, with those that take its part.
    fn shadow(
        &self,
        key: &PolicyKey,
        (list, at): (List, usize),
        listening: &Listening<'_>,
    ) -> Option<String> {
        let (mut own, mut by) = (None, Vec::new());
        for table in &listening.tables {
            for at in table.positions(key, list, at) {
                own.get_or_insert_with(|| table.place(key, list, at));
                let takers = self.takers(table, list, at)?;
                by.extend(takers.into_iter().map(|at| table.place(key, list, at)));
            }
        }
        let mut seen = BTreeSet::new();
        by.retain(|place| seen.insert(place.clone()));
        own.map(|own| format!("{own} (by {})", by.join(" and ")))
    }
    /// Returns the routes of a table that take all of one, on each port of the hosts; `None` if they leave something, and
    /// beyond [`super::super::MAX_LOOKS`].
    fn takers(&self, table: &Table<'_>, list: List, at: usize) -> Option<BTreeSet<usize>> {
        let order = &table.order;
        let most = order.comparisons(list, at, None);
        self.look(most)?;
        let taken = order.takers(list, at, &BTreeSet::new());
        taken.or_else(|| {
            let ports = table.listened.as_ref()?.of(list);
            self.look(most * ports.len())?;
            order.takers(list, at, &ports)
        })
    }
}
