//! Virtual addresses of HTTP ports for which a sidecar was sent a listener, or a part of one, that leads to another service.
//!
//! [`Routed::leading`] and [`Routed::elsewhere`] call it. Requests to such an address do not arrive at the listener of the whole
//! port, which has the route table.

use std::net::IpAddr;

use tributary_answer::{Client, listener_name, requested_addresses};
use tributary_model::{Code, PortView, ServiceAddress, TraceStep, Verdict};
use tributary_xds::answers::ResourceType;

use super::super::sent_route::shares;
use super::{MAX_LISTENERS, Routed, Wanted, deliver_step, leads_to};

impl Routed<'_> {
    /// Returns a step for each address that another service has, and whether it has all of them.
    pub(super) fn taken_addresses(
        &mut self,
        table: &str,
        (port, client): (&PortView, &Client),
        to: &Wanted,
    ) -> (Vec<TraceStep>, bool) {
        let all = requested_addresses(port, &client.class);
        let steps: Vec<TraceStep> = all
            .iter()
            .take(MAX_LISTENERS)
            .filter_map(|address| self.taken_address((port, address), table, to))
            .collect();
        let is_unreached = !steps.is_empty() && steps.len() == all.len();
        (steps, is_unreached)
    }
    fn taken_address(
        &mut self,
        (port, address): (&PortView, &ServiceAddress),
        table: &str,
        to: &Wanted,
    ) -> Option<TraceStep> {
        let own = listener_name(address.ip, port.number.get());
        let (name, found) = match self.tables.resource(ResourceType::Listener, &own) {
            Some(_) => {
                let sent = self.tables.listener(&own)?;
                let is_own = sent.tables.contains(table) || sent.clusters.iter().any(|name| to.is(name));
                (!is_own).then(|| (own, leads_to(sent)))?
            }
            None => self.taken_range(address.ip, port)?,
        };
        let ip = address.ip;
        let detail =
            format!("LDS {name}: requests to {ip} {found}: another service has the address and port");
        Some(deliver_step((Verdict::Warn, Code::ROUTED_ELSEWHERE, detail)))
    }
    /// Returns the listener of the whole port whose range of another service has an address, and where it leads.
    fn taken_range(&mut self, ip: IpAddr, port: &PortView) -> Option<(String, String)> {
        let any: [IpAddr; 2] = [[0; 4].into(), [0; 16].into()];
        let names = any.map(|any| listener_name(any, port.number.get()));
        names.into_iter().find_map(|name| {
            self.tables.resource(ResourceType::Listener, &name)?;
            let to = self.tables.listener(&name)?.targets_at(ip)?;
            let found = format!("go to {}", shares(to));
            Some((name, found))
        })
    }
}
