//! Virtual addresses of HTTP ports for which a sidecar was sent a listener, or a part of one, that leads to another service.
//!
//! `routed` and `routes` call it. Requests to such an address do not arrive at the listener of the whole port, which has the
//! route table.

use std::net::IpAddr;

use tributary_answer::listener_name;
use tributary_model::PortNumber;
use tributary_xds::answers::ResourceType;

use super::sent_listener::SentListener;
use super::sent_route::shares;
use super::sent_tables::SentTables;

/// Listener of another service, and where it leads: `go to outbound|80||pay.shop`.
pub(super) struct Taken {
    pub(super) listener: String,
    pub(super) leads: String,
}

impl Taken {
    /// Returns the listener that has the requests to an address of a port; `None` if they arrive at that of the whole port.
    /// `is_own` recognizes the xDS clusters of the port.
    pub(super) fn at(
        tables: &mut SentTables,
        (ip, port): (IpAddr, PortNumber),
        is_own: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let listener = listener_name(ip, port.get());
        if tables.resource(ResourceType::Listener, &listener).is_none() {
            return Self::range(tables, ip, port);
        }
        let sent = tables.listener(&listener)?;
        let leads_there =
            sent.tables.contains(&port.to_string()) || sent.clusters.iter().any(|name| is_own(name));
        (!leads_there).then(|| Self { listener, leads: leads_to(sent) })
    }
    /// Returns the listener of the whole port whose range of another service has an address.
    fn range(tables: &mut SentTables, ip: IpAddr, port: PortNumber) -> Option<Self> {
        let any: [IpAddr; 2] = [[0; 4].into(), [0; 16].into()];
        any.map(|any| listener_name(any, port.get())).into_iter().find_map(|listener| {
            tables.resource(ResourceType::Listener, &listener)?;
            let leads = format!("go to {}", shares(tables.listener(&listener)?.targets_at(ip)?));
            Some(Self { listener, leads })
        })
    }
}

/// Names where a listener leads connections: to services, or by a route table.
pub(super) fn leads_to(sent: &SentListener) -> String {
    let services = sent.clusters.iter().map(String::as_str).filter(|of| of.starts_with("outbound|"));
    let services: Vec<&str> = services.collect();
    match sent.tables.first() {
        _ if !services.is_empty() => format!("go to {}", services.join(", ")),
        Some(table) => format!("are taken as HTTP requests by route table {table}"),
        None => "go to no service".to_owned(),
    }
}
