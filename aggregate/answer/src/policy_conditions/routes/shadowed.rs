//! Condition of a VirtualService with routes that serve nothing, because the routes before them take it.

use std::collections::BTreeSet;

use tributary_model::{Code, PortNumber};

use super::order::{List, Order};
use super::ports::Listened;
use super::{Found, RouteConditions, named};

impl<'c> RouteConditions<'c> {
    /// Returns the condition of routes of which every request or connection is that of a route before them.
    pub(super) fn shadowed(&self, order: &Order<'_>, listened: Option<&Listened>) -> Option<Found<'c>> {
        let mut parts = Vec::new();
        for list in [List::Http, List::Tls, List::Tcp] {
            let ports = listened.map(|all| all.of(list));
            parts.extend(self.shadowed_in(order, list, ports.as_ref())?);
        }
        let message = || {
            format!("routes before them take every request of: {}", named(parts.iter().map(String::as_str)))
        };
        (!parts.is_empty()).then(|| Found(Code::ROUTE_SHADOWED, Vec::new(), message()))
    }
    /// Returns the routes of a list behind others that take all of theirs, on each port of the hosts; `None` beyond
    /// [`super::super::MAX_LOOKS`].
    fn shadowed_in(
        &self,
        order: &Order<'_>,
        list: List,
        ports: Option<&BTreeSet<PortNumber>>,
    ) -> Option<Vec<String>> {
        let mut parts = Vec::new();
        for at in 0..order.len(list) {
            let most = order.comparisons(list, at, None);
            self.look(most)?;
            let mut taken = order.takers(list, at, &BTreeSet::new());
            if let (None, Some(ports)) = (&taken, ports) {
                self.look(most * ports.len())?;
                taken = order.takers(list, at, ports);
            }
            if let Some(by) = taken {
                let by: Vec<String> = by.into_iter().map(|at| order.place(list, at)).collect();
                parts.push(format!("{} (by {})", order.place(list, at), by.join(" and ")));
            }
        }
        Some(parts)
    }
}
