//! Virtual addresses that HTTP services share with services of other protocols.
//!
//! Requests take the listener of their whole port. A service of another protocol has a listener or a range of its own for
//! each address, which comes first whatever the precedence of the services. [`super::contested`] calls it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tributary_model::{Code, PortView, ServiceView};

use crate::client::ClientClass;
use crate::compose::{Conflict, precedence, share_address};
use crate::explain::requested_addresses;
use crate::listener::{ListenerPlan, listener_name};

type Claimants<'c> = Vec<&'c Arc<ServiceView>>;

/// Services by the addresses at which clients of a class reach them.
#[derive(Default)]
pub(super) struct Addresses<'c> {
    /// Those with a listener or a range of their own.
    owners: BTreeMap<(u16, IpNet), Claimants<'c>>,
    /// Those whose requests take the listener of the port.
    requested: BTreeMap<(u16, IpNet), Claimants<'c>>,
}

impl<'c> Addresses<'c> {
    /// Adds a port of a service with its parts of listeners.
    pub(super) fn add(
        &mut self,
        view: &'c Arc<ServiceView>,
        (port, class): (&PortView, &ClientClass),
        parts: &[ListenerPlan],
    ) {
        for part in parts {
            if let Some(range) = range_of(part) {
                self.owners.entry((part.port, range)).or_default().push(view);
            }
        }
        for address in requested_addresses(port, class) {
            if let Ok(range) = IpNet::new(address.ip, address.prefix) {
                self.requested.entry((port.number.get(), range.trunc())).or_default().push(view);
            }
        }
    }
    /// Returns the addresses whose requests reach a service that has them too.
    pub(super) fn conflicts(&self) -> impl Iterator<Item = Conflict> {
        self.requested.iter().filter_map(|((port, range), all)| {
            let owners = self.owners(*port, *range)?;
            let winner = owners.iter().min_by(|a, b| precedence(a, b))?;
            let losers = all.iter().map(|view| &***view).filter(|view| !share_address(winner, view));
            let claimants: Vec<&ServiceView> = std::iter::once(&***winner).chain(losers).collect();
            let name = named(*range, *port);
            (claimants.len() > 1).then(|| Conflict::new(Code::ADDRESS_CONFLICT, name, &claimants))
        })
    }
    /// Returns the services that have the connections of a whole range: those of the narrowest range around it.
    fn owners(&self, port: u16, range: IpNet) -> Option<&Claimants<'c>> {
        let around = |length| Some(IpNet::new(range.addr(), length).ok()?.trunc());
        (0..=range.prefix_len()).rev().find_map(|length| self.owners.get(&(port, around(length)?)))
    }
}

/// Returns the addresses of which a part has every connection; `None` for one of the whole port, and for one that opens a socket.
fn range_of(part: &ListenerPlan) -> Option<IpNet> {
    let is_all = !part.binds && part.matches.sni.is_none() && !part.matches.http;
    match part.matches.range {
        _ if !is_all => None,
        Some((ip, prefix)) => Some(IpNet::new(ip, prefix).ok()?.trunc()),
        None => (!part.bind.ip.is_unspecified()).then(|| IpAddr::into(part.bind.ip)),
    }
}

fn named(range: IpNet, port: u16) -> String {
    match range.prefix_len() == range.max_prefix_len() {
        true => listener_name(range.addr(), port),
        false => format!("{range} on port {port}"),
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{ClientDimensions, ClientKind, Protocol, ResourceInputs, Shared};

    use super::super::contested;
    use super::*;
    use crate::fixtures::*;

    fn mk_at(host: &str, protocol: Protocol, ip: &str, address: &str) -> Arc<ServiceView> {
        mk_addressed(host, mk_one(vec![mk_address(ip)]), (protocol, &[address]))
    }

    #[test]
    fn http_service_at_the_address_of_another_protocol_gives_a_condition() {
        let shown = |all: Vec<Arc<ServiceView>>| {
            let found = contested(&mk_catalog(all), &ClientClass::new(ClientKind::Sidecar));
            let text = |one: &Conflict| format!("{} {}", one.code, one.condition().message);
            found.iter().map(text).collect::<Vec<_>>()
        };
        let http = |address| mk_at("a.shop", Protocol::Http, "10.0.0.1", address);
        let tcp = |address| mk_at("b.shop", Protocol::Tcp, "10.0.0.2", address);
        let lost =
            |name: &str| vec![format!("TRB0409 {name} is served by shop/b.shop; shop/a.shop also claims it")];
        // the HTTP service is the first in precedence, by its host
        assert_eq!(shown(vec![http("10.9.0.1/32"), tcp("10.9.0.1/32")]), lost("10.9.0.1_80"));
        assert_eq!(shown(vec![http("10.9.0.1/32"), tcp("10.9.0.2/32")]), [""; 0]);
        assert_eq!(shown(vec![http("10.9.0.1/32"), tcp("10.9.0.0/16")]), lost("10.9.0.1_80"));
        assert_eq!(shown(vec![http("10.9.1.0/24"), tcp("10.9.0.0/16")]), lost("10.9.1.0/24 on port 80"));
        assert_eq!(shown(vec![http("10.9.0.0/16"), tcp("10.9.0.1/32")]), [""; 0], "it has the others");
        let detected = mk_at("b.shop", Protocol::Unspecified, "10.0.0.2", "10.9.0.1/32");
        assert_eq!(shown(vec![http("10.9.0.1/32"), detected]), lost("10.9.0.1_80"));
    }

    #[test]
    fn services_that_need_one_port_conflict_where_listeners_bind_it() {
        let http = mk_at("a.shop", Protocol::Http, "10.0.0.1", "10.9.0.1/32");
        let tcp = mk_at("b.shop", Protocol::Tcp, "10.0.0.2", "10.9.0.1/32");
        let class = ClientClass { binds: true, ..ClientClass::new(ClientKind::Sidecar) };
        let projected = ClientDimensions::KIND | ClientDimensions::BINDS;
        let binding = |view: Arc<ServiceView>| {
            let own = view.ports[0].clone();
            let listener = Shared::new(ResourceInputs::new(own.listener.inputs.clone(), projected));
            Arc::new(ServiceView { ports: [PortView { listener, ..own }].into(), ..(*view).clone() })
        };
        let found = contested(&mk_catalog(vec![binding(http), binding(tcp)]), &class);
        assert_eq!(found.iter().map(|one| one.code).collect::<Vec<_>>(), [Code::LISTENER_CONFLICT]);
    }
}
