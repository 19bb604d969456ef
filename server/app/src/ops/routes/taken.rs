//! Connections for an HTTP port that do not arrive at its routes, because another service has its listener or an address of it.

use tributary_answer::{ClientClass, ClusterName, leading_resources, requested_addresses};
use tributary_model::PortView;
use tributary_xds::answers::ResourceType;

use super::Lister;
use crate::document::RouteItem;
use crate::ops::taken_addresses::{MAX_LISTENERS, Taken};

impl Lister<'_> {
    /// Returns where they go.
    pub(super) fn of_taken(&mut self, port: &PortView, class: &ClientClass) -> Vec<RouteItem> {
        let table = port.number.to_string();
        let planned = leading_resources(port, class).into_iter();
        let names = planned.filter(|(_, own)| own.as_ref() == Some(&table)).map(|(name, _)| name);
        let whole = Taken::port(&mut self.tables, names, &table);
        let mut out: Vec<RouteItem> =
            whole.into_iter().map(|taken| self.of_listener(port, taken, None)).collect();
        let own = ClusterName::new(port.number, &port.cluster.inputs.service.host);
        let is_own = |name: &str| name.parse::<ClusterName>().is_ok_and(|name| name.is_port_of(&own));
        for address in requested_addresses(port, class).into_iter().take(MAX_LISTENERS) {
            let taken = Taken::at(&mut self.tables, (address.ip, port.number), is_own);
            let condition = format!("destination {}", address.ip);
            out.extend(taken.map(|taken| self.of_listener(port, taken, Some(condition))));
        }
        out
    }
    fn of_listener(&self, port: &PortView, taken: Taken, condition: Option<String>) -> RouteItem {
        let known = self.tables.resource(ResourceType::Listener, &taken.listener);
        let instead = format!(
            "instead of HTTP routes of table {}: another service has the address and port",
            port.number
        );
        RouteItem {
            kind: "connections".to_owned(),
            port: Some(port.number.get()),
            order: 1,
            conditions: condition.into_iter().collect(),
            to: taken.leads.to(),
            settings: vec![instead],
            state: known.map_or("NOT SENT", |(_, of)| of.state.as_str()).to_owned(),
            table: taken.listener,
            ..RouteItem::default()
        }
    }
}
