//! Ports on which a client's proxy cannot listen. Planners of listeners ask before they plan one: Envoy refuses a listener
//! that it cannot bind, and one whose address another listener has.

use std::net::IpAddr;

/// Port to which an interceptor redirects outbound traffic.
pub const OUTBOUND_PORT: u16 = 15_001;
/// Port to which an interceptor redirects inbound traffic.
pub const INBOUND_PORT: u16 = 15_006;
/// Port of the health listener in the bootstrap of Istio's proxy.
pub const STATUS_PORT: u16 = 15_021;
/// Port of the metrics listener in the bootstrap of Istio's proxy.
pub const METRICS_PORT: u16 = 15_090;

/// Least port that any process may open.
const FIRST_OPEN: u16 = 1_024;

/// Ports that are closed to listeners of a client, beside those of all sidecars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ClosedPorts {
    /// Whether its process may not open ports below 1024.
    pub privileged: bool,
    /// Whether its bootstrap has a listener on [`STATUS_PORT`].
    pub status: bool,
    /// Whether its bootstrap has a listener on [`METRICS_PORT`].
    pub metrics: bool,
}

/// Why a listener is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortClosed {
    /// The proxy may not open ports below 1024.
    Privileged,
    /// A listener of the proxy itself has the port at all addresses.
    Taken,
}

impl ClosedPorts {
    /// Returns why the client cannot have a listener at this address; `binds` is whether it opens a socket.
    #[must_use]
    pub fn reason(self, ip: IpAddr, port: u16, binds: bool) -> Option<PortClosed> {
        let taken = match port {
            OUTBOUND_PORT | INBOUND_PORT => true,
            STATUS_PORT => self.status,
            METRICS_PORT => self.metrics,
            _ => false,
        };
        if taken && ip.is_unspecified() {
            return Some(PortClosed::Taken);
        }
        (self.privileged && binds && port < FIRST_OPEN).then_some(PortClosed::Privileged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_closed_by_privilege_and_by_own_listeners() {
        let (any, own) = ("0.0.0.0".parse().unwrap(), "127.0.0.1".parse().unwrap());
        let none = ClosedPorts::default();
        let all = ClosedPorts { privileged: true, status: true, metrics: true };
        let (privileged, taken) = (Some(PortClosed::Privileged), Some(PortClosed::Taken));
        for (ip, port, binds, of_none, of_all) in [
            (own, 80, true, None, privileged),
            (own, 1023, true, None, privileged),
            (own, 1024, true, None, None),
            (any, 80, false, None, None),
            (any, 15_001, false, taken, taken),
            (any, 15_006, false, taken, taken),
            (own, 15_001, true, None, None),
            (any, 15_020, false, None, None),
            (any, 15_021, false, None, taken),
            (any, 15_090, false, None, taken),
            ("::".parse().unwrap(), 15_090, true, None, taken),
        ] {
            assert_eq!(none.reason(ip, port, binds), of_none, "{ip} {port}");
            assert_eq!(all.reason(ip, port, binds), of_all, "{ip} {port}");
        }
    }
}
