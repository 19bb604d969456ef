//! How a gRPC server secures what it receives (gRFC A36): by the name of the listener that it requests, and its class.
//!
//! xds calls it for each such name. Nothing else decides it, so that a listener changes only with the class of its server.

use std::net::SocketAddr;
use std::sync::Arc;

use tributary_model::{ClientKind, MtlsMode, PortNumber};

use super::{InboundAuthorization, mode};
use crate::client::ClientClass;

/// What the names of such listeners begin with, before the address: that of Istio's bootstrap, and that of gRFC A36.
const PREFIXES: [&str; 2] = ["xds.istio.io/grpc/lds/inbound/", "grpc/server?xds.resource.listening_address="];

/// Listener of a gRPC server. Servers with equal ones share its encoding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GrpcServer {
    /// Name, as the server requested it.
    pub name: Box<str>,
    /// Address on which it listens, which the listener must repeat.
    pub at: SocketAddr,
    /// Whether it takes mesh TLS alone; plain text alone otherwise.
    pub is_meshed: bool,
    /// Which requests it accepts; `None` for all.
    pub authorization: Option<InboundAuthorization>,
    /// Trust domains whose clients it accepts with mesh TLS.
    pub domains: Arc<[Arc<str>]>,
    /// Whether it refuses every request.
    pub refuses: bool,
}

impl GrpcServer {
    /// Returns a listener that needs no certificates and refuses every request; `None` for another name.
    #[must_use]
    pub fn refusing(name: &str) -> Option<Self> {
        let (at, domains) = (listens_at(name)?, Arc::default());
        Some(Self { name: name.into(), at, is_meshed: false, authorization: None, domains, refuses: true })
    }
}

/// Returns the address on which a gRPC server listens that requests a listener of this name; `None` for any other name.
#[must_use]
pub fn listens_at(name: &str) -> Option<SocketAddr> {
    let address = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    address.parse().ok().filter(|at: &SocketAddr| at.port() != 0)
}

/// Returns the listener of a gRPC server. A server without a namespace gets no listener, because policies of its namespace might
/// restrict it, and no server gets one while policies were never read.
#[must_use]
pub fn grpc_server(class: &ClientClass, name: &str) -> Option<GrpcServer> {
    if class.kind != ClientKind::Grpc || class.namespace.is_none() || class.withholds_inbound {
        return None;
    }
    let at = listens_at(name)?;
    let port = PortNumber::new(at.port().into()).ok()?;
    let domains = class.trust_domains.clone().unwrap_or_default();
    let authorization = class.authorization.clone();
    let authorization =
        authorization.map(|policies| InboundAuthorization { policies, domains: Arc::clone(&domains) });
    let is_meshed = mode(class, port) == MtlsMode::Strict;
    let domains = if is_meshed { domains } else { Arc::default() };
    let refuses = class.tokens.as_ref().is_some_and(|checks| !checks.refusing.is_empty());
    Some(GrpcServer { name: name.into(), at, is_meshed, authorization, domains, refuses })
}

#[cfg(test)]
mod tests {
    use tributary_model::PeerModes;

    use super::*;
    use crate::fixtures::*;

    const ISTIO: &str = "xds.istio.io/grpc/lds/inbound/0.0.0.0:50051";

    fn mk_server() -> ClientClass {
        ClientClass { namespace: Some(mk_ns("shop")), ..ClientClass::new(ClientKind::Grpc) }
    }

    #[test]
    fn name_has_the_address_of_the_server() {
        let at = |name: &str| listens_at(name).map(|at| at.to_string());
        assert_eq!(at(ISTIO).as_deref(), Some("0.0.0.0:50051"));
        let six = "grpc/server?xds.resource.listening_address=[::]:50051";
        assert_eq!(at(six).as_deref(), Some("[::]:50051"));
        for other in [
            "pay.shop:50051",
            "xds.istio.io/grpc/lds/inbound/",
            "xds.istio.io/grpc/lds/inbound/pay.shop:80",
            "xds.istio.io/grpc/lds/inbound/0.0.0.0:0",
            "xds.istio.io/grpc/lds/inbound/0.0.0.0",
        ] {
            assert_eq!(at(other), None, "{other}");
        }
    }

    #[test]
    fn server_without_namespace_or_with_unread_policies_has_no_listener() {
        assert!(grpc_server(&mk_server(), ISTIO).is_some());
        assert_eq!(grpc_server(&mk_server(), "pay.shop:50051"), None);
        assert_eq!(grpc_server(&ClientClass { namespace: None, ..mk_server() }, ISTIO), None);
        assert_eq!(grpc_server(&ClientClass { withholds_inbound: true, ..mk_server() }, ISTIO), None);
        assert_eq!(grpc_server(&ClientClass { kind: ClientKind::Sidecar, ..mk_server() }, ISTIO), None);
    }

    #[test]
    fn mode_of_the_port_decides() {
        let domains: Arc<[Arc<str>]> = ["cluster.local".into()].into();
        let strict = PeerModes::default().settled(MtlsMode::Strict);
        let class = ClientClass {
            inbound: Some(Arc::new(strict)),
            trust_domains: Some(Arc::clone(&domains)),
            ..mk_server()
        };
        let server = grpc_server(&class, ISTIO).unwrap();
        assert_eq!((server.is_meshed, server.domains), (true, domains));
        let plain = grpc_server(&ClientClass { inbound: None, ..class }, ISTIO).unwrap();
        assert_eq!((plain.is_meshed, plain.domains.len()), (false, 0));
    }
}
