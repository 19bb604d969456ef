//! Explains an address that is a gateway of a network: which object declares it, and for which endpoints it stands in.
//!
//! Called by explain. An address may be a gateway and an endpoint; it then has an explanation of each. A gateway with a host name is
//! found by the name, which stands for all addresses that it has, and by each of them.

use std::net::{IpAddr, SocketAddr};

use tributary_model::{
    Catalog, Code, Gateway, GatewayAddress, GatewayKey, PortNumber, Stage, StepTime, TraceStep, Verdict,
};

use super::{Explanation, Outcome, Query, ServingPort, serves};
use crate::client::Client;
use crate::endpoints::{Destination, behind};
use crate::key::key as key_of;

/// Most endpoints behind a gateway that are named, and most addresses of a host name.
const MAX_NAMED: usize = 16;

/// Gateway at the address of the query.
struct Found<'a> {
    key: &'a GatewayKey,
    gateway: &'a Gateway,
    /// The address as the query means it.
    at: Destination<'a>,
}

/// Returns one explanation for each gateway at the address of the query, up to `max`.
pub(super) fn explanations(
    catalog: &Catalog,
    query: &Query,
    client: Option<&Client>,
    max: usize,
) -> Vec<Explanation> {
    let found = catalog.gateways.iter().filter_map(|(key, gateway)| {
        let at = targets(catalog, gateway).into_iter().find(|target| means(query, target))?;
        Some(Found { key, gateway, at })
    });
    found.take(max).map(|found| explanation(catalog, &found, client)).collect()
}

fn means(query: &Query, target: &Destination<'_>) -> bool {
    let is_address = |ip| matches!(target, Destination::Ip(own, _) if *own == ip);
    query.ip().is_none_or(is_address) && query.means(target)
}

/// Returns the addresses of a gateway as destinations; of one without a port for mesh TLS with that for HBONE.
fn targets<'a>(catalog: &'a Catalog, gateway: &'a Gateway) -> Vec<Destination<'a>> {
    let port = gateway.mtls_port.or(gateway.hbone_port).map_or(0, PortNumber::get);
    let name = match &gateway.address {
        Some(GatewayAddress::Name(name)) => Some(Destination::Name(name, port)),
        Some(GatewayAddress::Ip(_)) | None => None,
    };
    let ips = gateway.ips(catalog.resolved(gateway)).iter();
    name.into_iter().chain(ips.map(|ip| Destination::Ip(*ip, port))).collect()
}

fn explanation(catalog: &Catalog, found: &Found<'_>, client: Option<&Client>) -> Explanation {
    let Found { key, gateway, at } = found;
    let mut out = Explanation::new(catalog, at.to_string(), client);
    let step = |stage, (verdict, code), detail| TraceStep {
        stage,
        verdict,
        code,
        registry: None,
        object: Some(gateway.source.reference()),
        endpoint: at.to_string(),
        detail,
        time: None,
    };
    let declared = format!("gateway of network {}, reported by cluster {}", key.network, key.cluster);
    if let Some(lack) = catalog.lack_of(gateway) {
        let detail = format!("{declared}; clients do not use it: {lack}");
        out.add([TraceStep {
            time: failing_since(catalog, gateway),
            ..step(Stage::Source, (Verdict::Drop, Code::GATEWAY), detail)
        }]);
        return out;
    }
    out.add([step(Stage::Source, (Verdict::Pass, Code::GATEWAY), declared)]);
    out.add(resolution(catalog, gateway).map(|(verdict, code, detail)| TraceStep {
        time: failing_since(catalog, gateway),
        ..step(Stage::Source, (verdict, code), detail)
    }));
    let behind = stands_in(catalog, found, client);
    let verdict = if behind.count == 0 { Verdict::Warn } else { Verdict::Pass };
    let stands_in = step(Stage::Network, (verdict, Code::THROUGH_GATEWAY), behind.text());
    out.add([TraceStep { object: None, ..stands_in }]);
    if behind.count > 0 {
        out.verdict = Outcome::Served;
    }
    out
}

/// Returns since when the host name of a gateway cannot be resolved.
fn failing_since(catalog: &Catalog, gateway: &Gateway) -> Option<StepTime> {
    let failure = catalog.resolved(gateway)?.failure.as_ref()?;
    Some(StepTime::Since(failure.since))
}

/// Describes the addresses that the host name of a gateway has.
fn resolution(catalog: &Catalog, gateway: &Gateway) -> Option<(Verdict, Code, String)> {
    let (name, resolved) = (gateway.name()?, catalog.resolved(gateway)?);
    let all = resolved.addresses.iter();
    let shown: Vec<String> = all.clone().take(MAX_NAMED).map(ToString::to_string).collect();
    let more = resolved.addresses.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = shown.join(", ");
    Some(match &resolved.failure {
        None => (Verdict::Pass, Code::GATEWAY, format!("host name {name} has {shown}{more}")),
        Some(failure) => {
            let detail = format!("host name {name} had {shown}{more}, which stay in use: {}", failure.reason);
            (Verdict::Warn, Code::GATEWAY_NAME_FAILING, detail)
        }
    })
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

/// Returns the endpoints behind a gateway, at the address of the query or at all that its host name has.
fn stands_in(catalog: &Catalog, found: &Found<'_>, client: Option<&Client>) -> Behind {
    let Found { key, gateway, at } = found;
    let ips: Vec<IpAddr> = match at {
        Destination::Ip(ip, _) => vec![*ip],
        _ => gateway.ips(catalog.resolved(gateway)).to_vec(),
    };
    let (mut out, number) = (Behind::default(), gateway.mtls_port.map_or(0, PortNumber::get));
    for view in catalog.services() {
        for port in view.ports.iter().filter(|port| port.endpoints.inputs.gated(&key.network).is_some()) {
            let serving = ServingPort { view, port, endpoint: String::new() };
            if client.is_none_or(|client| serves(catalog, &serving, client, &mut ())) {
                let client = client.map(|client| key_of(&port.endpoints, &client.class));
                let through = |ip: &IpAddr| {
                    let socket = (&key.network, SocketAddr::new(*ip, number));
                    behind(&port.endpoints.inputs, socket, client.as_ref())
                };
                let mut all: Vec<Destination<'_>> = ips.iter().flat_map(through).collect();
                all.sort_unstable();
                all.dedup();
                out.add(&all, &serving);
            }
        }
    }
    out
}
