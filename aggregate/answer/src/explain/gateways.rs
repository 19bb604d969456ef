//! Explains an address that is a gateway of a network: which object declares it, and for which endpoints it stands in.
//!
//! Called by explain. An address may be a gateway and an endpoint; it then has an explanation of each.

use std::net::SocketAddr;

use tributary_model::{
    Catalog, Code, Gateway, GatewayAddress, GatewayKey, PortNumber, Stage, TraceStep, Verdict,
};

use super::{Explanation, Outcome, Query, ServingPort, serves};
use crate::client::Client;
use crate::endpoints::{Destination, behind};
use crate::key::key as key_of;

/// Most endpoints behind a gateway that are named.
const MAX_NAMED: usize = 16;

/// Returns one explanation for each gateway at the address of the query, up to `max`.
pub(super) fn explanations(
    catalog: &Catalog,
    query: &Query,
    client: Option<&Client>,
    max: usize,
) -> Vec<Explanation> {
    let is_meant = |gateway: &Gateway| target(gateway).is_some_and(|target| means(query, &target));
    let meant = catalog.gateways.iter().filter(|(_, gateway)| is_meant(gateway));
    meant.take(max).map(|(key, gateway)| explanation(catalog, (key, gateway), client)).collect()
}

fn means(query: &Query, target: &Destination<'_>) -> bool {
    let is_address = |ip| matches!(target, Destination::Ip(own, _) if *own == ip);
    query.ip().is_none_or(is_address) && query.means(target)
}

/// Returns the address of a gateway as a destination; of one without a port for mesh TLS with that for HBONE.
fn target(gateway: &Gateway) -> Option<Destination<'_>> {
    let port = gateway.mtls_port.or(gateway.hbone_port).map_or(0, PortNumber::get);
    Some(match gateway.address.as_ref()? {
        GatewayAddress::Ip(ip) => Destination::Ip(*ip, port),
        GatewayAddress::Name(name) => Destination::Name(name, port),
    })
}

fn explanation(
    catalog: &Catalog,
    (key, gateway): (&GatewayKey, &Gateway),
    client: Option<&Client>,
) -> Explanation {
    let endpoint = target(gateway).map(|target| target.to_string()).unwrap_or_default();
    let mut out = Explanation::new(catalog, endpoint.clone(), client);
    let step = |stage, (verdict, code), detail| TraceStep {
        stage,
        verdict,
        code,
        registry: None,
        object: Some(gateway.source.reference()),
        endpoint: endpoint.clone(),
        detail,
        time: None,
    };
    let declared = format!("gateway of network {}, reported by cluster {}", key.network, key.cluster);
    if let Some(lack) = catalog.lack_of(gateway) {
        let detail = format!("{declared}; clients do not use it: {lack}");
        out.add([step(Stage::Source, (Verdict::Drop, Code::GATEWAY), detail)]);
        return out;
    }
    let behind = stands_in(catalog, (key, gateway), client);
    let verdict = if behind.count == 0 { Verdict::Warn } else { Verdict::Pass };
    let stands_in = step(Stage::Network, (verdict, Code::THROUGH_GATEWAY), behind.text());
    out.add([
        step(Stage::Source, (Verdict::Pass, Code::GATEWAY), declared),
        TraceStep { object: None, ..stands_in },
    ]);
    if behind.count > 0 {
        out.verdict = Outcome::Served;
    }
    out
}

/// Endpoints behind a gateway, each with its service port. Only the first are named.
#[derive(Default)]
struct Behind {
    named: Vec<String>,
    count: usize,
}

impl Behind {
    fn add<'a>(&mut self, all: &[Destination<'a>], of: &ServingPort<'_>) {
        let left = MAX_NAMED.saturating_sub(self.named.len());
        let name = |one: &Destination<'a>| format!("{one} of {}:{}", of.view.key.host, of.port.number);
        self.named.extend(all.iter().take(left).map(name));
        self.count += all.len();
    }
    fn text(&self) -> String {
        let shown = self.named.join(", ");
        match self.count.saturating_sub(self.named.len()) {
            _ if self.count == 0 => "it stands in for no healthy endpoint".to_owned(),
            0 => format!("it stands in for {shown}"),
            more => format!("it stands in for {shown} and {more} more"),
        }
    }
}

/// Returns the endpoints behind a gateway.
fn stands_in(catalog: &Catalog, (key, gateway): (&GatewayKey, &Gateway), client: Option<&Client>) -> Behind {
    let mut out = Behind::default();
    let Some(Destination::Ip(ip, number)) = target(gateway) else { return out };
    for view in catalog.services() {
        for port in view.ports.iter().filter(|port| port.endpoints.inputs.gated(&key.network).is_some()) {
            let serving = ServingPort { view, port, endpoint: String::new() };
            if client.is_none_or(|client| serves(catalog, &serving, client, &mut ())) {
                let client = client.map(|client| key_of(&port.endpoints, &client.class));
                let at = (&key.network, SocketAddr::new(ip, number));
                out.add(&behind(&port.endpoints.inputs, at, client.as_ref()), &serving);
            }
        }
    }
    out
}
