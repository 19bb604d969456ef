//! Listeners of other services that a sidecar was sent where an HTTP port should have its route table: that of the whole port, or one,
//! or a part of one, of a virtual address of the port.
//!
//! `routed` and `routes` call it. Requests that come to such a listener do not arrive at the route table.

use std::fmt;
use std::net::IpAddr;

use tributary_answer::listener_name;
use tributary_model::PortNumber;
use tributary_xds::answers::ResourceType;

use super::sent_listener::SentListener;
use super::sent_route::shares;
use super::sent_tables::SentTables;

/// Most listeners of a port that are decoded.
pub(super) const MAX_LISTENERS: usize = 8;

/// Listener of another service, and where it leads.
pub(super) struct Taken {
    pub(super) listener: String,
    pub(super) leads: Leads,
}

impl Taken {
    /// Returns the listener that has the requests of a port, of those that should have its route table; `None` if one that was sent has it.
    pub(super) fn port(
        tables: &mut SentTables,
        planned: impl Iterator<Item = String>,
        table: &str,
    ) -> Option<Self> {
        let mut taken = None;
        for listener in planned.take(MAX_LISTENERS) {
            if tables.resource(ResourceType::Listener, &listener).is_none() {
                continue;
            }
            let sent = tables.listener(&listener).filter(|sent| !sent.takes_requests(table))?;
            taken = Some(Self { leads: Leads::of(sent), listener });
        }
        taken
    }
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
        (!leads_there).then(|| Self { listener, leads: Leads::of(sent) })
    }
    /// Returns the listener of the whole port whose range of another service has an address.
    fn range(tables: &mut SentTables, ip: IpAddr, port: PortNumber) -> Option<Self> {
        let any: [IpAddr; 2] = [[0; 4].into(), [0; 16].into()];
        any.map(|any| listener_name(any, port.get())).into_iter().find_map(|listener| {
            tables.resource(ResourceType::Listener, &listener)?;
            let leads = Leads::Services(shares(tables.listener(&listener)?.targets_at(ip)?));
            Some(Self { listener, leads })
        })
    }
}

/// Where a listener leads connections.
pub(super) enum Leads {
    /// To these xDS clusters.
    Services(String),
    /// By a route table, which takes them as HTTP requests.
    Requests(String),
    /// To no service.
    Nowhere,
}

impl Leads {
    /// Reads a listener.
    pub(super) fn of(sent: &SentListener) -> Self {
        let services = sent.clusters.iter().map(String::as_str).filter(|of| of.starts_with("outbound|"));
        let services: Vec<&str> = services.collect();
        match sent.tables.first() {
            _ if !services.is_empty() => Self::Services(services.join(", ")),
            Some(table) => Self::Requests(table.clone()),
            None => Self::Nowhere,
        }
    }
    /// Names the destination.
    pub(super) fn to(&self) -> String {
        match self {
            Self::Services(names) => names.clone(),
            Self::Requests(table) => format!("HTTP routes of table {table}"),
            Self::Nowhere => "no service".to_owned(),
        }
    }
    /// Describes that connections go there in place of a destination.
    pub(super) fn past(&self, to: &str) -> String {
        let joint = if let Self::Requests(_) = self { " and do not go to" } else { ", not to" };
        format!("{self}{joint} {to}")
    }
}

impl fmt::Display for Leads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests(table) => write!(f, "are taken as HTTP requests by route table {table}"),
            Self::Services(_) | Self::Nowhere => write!(f, "go to {}", self.to()),
        }
    }
}
