//! Virtual addresses of HTTP ports that other services have, as steps.
//!
//! [`Routed::leading`] and [`Routed::elsewhere`] call it.

use tributary_answer::{Client, requested_addresses};
use tributary_model::{Code, PortView, ServiceAddress, TraceStep, Verdict};

use super::{Routed, Wanted, deliver_step};
use crate::ops::taken_addresses::{MAX_LISTENERS, Taken};

impl Routed<'_> {
    /// Returns a step for each address that another service has, and whether it has all of them.
    pub(super) fn taken_addresses(
        &mut self,
        (port, client): (&PortView, &Client),
        to: &Wanted,
    ) -> (Vec<TraceStep>, bool) {
        let all = requested_addresses(port, &client.class);
        let steps: Vec<TraceStep> = all
            .iter()
            .take(MAX_LISTENERS)
            .filter_map(|address| self.taken_address((port, address), to))
            .collect();
        let is_unreached = !steps.is_empty() && steps.len() == all.len();
        (steps, is_unreached)
    }
    fn taken_address(
        &mut self,
        (port, address): (&PortView, &ServiceAddress),
        to: &Wanted,
    ) -> Option<TraceStep> {
        let taken = Taken::at(&mut self.tables, (address.ip, port.number), |name| to.is(name))?;
        let detail = format!(
            "LDS {}: requests to {} {}: another service has the address and port",
            taken.listener, address.ip, taken.leads
        );
        Some(deliver_step((Verdict::Warn, Code::ROUTED_ELSEWHERE, detail)))
    }
}
