//! Sidecar: what the workloads of a namespace reach and receive.
//!
//! Adapters build these values from `networking.istio.io` Sidecars after validation; the answers of a client
//! follow the Sidecar that selects it. Fields that are not served are named in [`Sidecar::ignored`].

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::hostname::{HostPattern, Hostname};
use crate::id::Namespace;
use crate::labels::Labels;
use crate::port::{PortName, PortNumber};
use crate::protocol::Protocol;

/// What selected workloads reach and receive.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Sidecar {
    /// Labels of the workloads that it selects; empty for all workloads of its namespace.
    pub selector: Labels,
    /// Hosts that the workloads reach, in declared order. If empty, every visible host.
    pub egress: Arc<[EgressListener]>,
    /// Ports on which the workloads receive. If empty, those of their services.
    pub ingress: Arc<[IngressListener]>,
    /// Treatment of connections to unknown hosts; the mesh's if absent.
    pub outbound: Option<OutboundMode>,
    /// Paths of valid fields that have no effect, such as `inboundConnectionPool`, sorted.
    pub ignored: Arc<[Arc<str>]>,
}

/// Treatment of connections to unknown hosts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum OutboundMode {
    /// They pass.
    AllowAny,
    /// They are rejected.
    RegistryOnly,
    /// They go to a port of this service.
    Proxy(EgressProxy),
}

/// Port of a service that receives connections to unknown hosts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct EgressProxy {
    /// Host.
    pub host: Hostname,
    /// Port.
    pub port: PortNumber,
}

/// How traffic reaches a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub enum CaptureMode {
    /// As for other listeners of the workload.
    #[default]
    Default,
    /// Redirected by iptables.
    Iptables,
    /// The application connects to the listener itself.
    None,
}

/// Port of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct ListenerPort {
    /// Number.
    pub number: PortNumber,
    /// Protocol; `Unspecified` if it is detected.
    pub protocol: Protocol,
    /// Name; may be empty.
    pub name: PortName,
}

/// Hosts that workloads reach, all or through one port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct EgressListener {
    /// Port; absent for all ports. Only the last listener has none.
    pub port: Option<ListenerPort>,
    /// Address of the listener, if declared.
    pub bind: Option<IpAddr>,
    /// How traffic reaches it.
    pub capture: CaptureMode,
    /// Imported hosts, in declared order. Never empty.
    pub hosts: Arc<[HostImport]>,
}

/// Hosts of one or all namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct HostImport {
    /// Namespaces.
    pub namespace: ImportNamespace,
    /// Hosts in them.
    pub host: HostPattern,
}

/// Namespaces of an import.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum ImportNamespace {
    /// `*`: every namespace.
    Any,
    /// `.`: the namespace of the client.
    Own,
    /// `~`: no namespace.
    None,
    /// This namespace.
    Named(Namespace),
}

impl HostImport {
    /// Whether a client of namespace `own` imports a host that `namespace` declares.
    #[must_use]
    pub fn admits(&self, own: &Namespace, namespace: &Namespace, host: &Hostname) -> bool {
        self.namespace.admits(own, namespace) && self.host.matches(host)
    }
}

impl ImportNamespace {
    /// Whether a client of namespace `own` imports from `namespace`.
    #[must_use]
    pub fn admits(&self, own: &Namespace, namespace: &Namespace) -> bool {
        match self {
            Self::Any => true,
            Self::Own => own == namespace,
            Self::None => false,
            Self::Named(named) => named == namespace,
        }
    }
    /// Text in documents.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Any => "*",
            Self::Own => ".",
            Self::None => "~",
            Self::Named(named) => named.as_str(),
        }
    }
}

impl fmt::Display for HostImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace.as_str(), self.host)
    }
}

/// Port on which workloads receive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct IngressListener {
    /// Port.
    pub port: ListenerPort,
    /// Address of the listener, if declared.
    pub bind: Option<IpAddr>,
    /// How traffic reaches it.
    pub capture: CaptureMode,
    /// Destination of the traffic; the application's port of the same number if absent.
    pub endpoint: Option<IngressEndpoint>,
}

/// Destination of received traffic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum IngressEndpoint {
    /// Port of a loopback address, or of an unspecified one, which means the workload's own; without an address, of
    /// the loopback address of the client's family.
    Address(Option<IpAddr>, PortNumber),
    /// Unix socket: an absolute path, or `@` and an abstract name.
    Unix(Arc<str>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(text: &str) -> Namespace {
        Namespace::new(text).unwrap()
    }

    fn import(namespace: ImportNamespace, host: &str) -> HostImport {
        HostImport { namespace, host: HostPattern::new(host).unwrap() }
    }

    #[test]
    fn import_admits_hosts_of_its_namespaces() {
        let (shop, web) = (ns("shop"), ns("web"));
        let host = Hostname::new("pay.shop.svc").unwrap();
        let cases = [
            (import(ImportNamespace::Any, "*"), true),
            (import(ImportNamespace::Any, "*.web.svc"), false),
            (import(ImportNamespace::Own, "*"), false),
            (import(ImportNamespace::None, "*"), false),
            (import(ImportNamespace::Named(shop.clone()), "*.shop.svc"), true),
            (import(ImportNamespace::Named(web.clone()), "pay.shop.svc"), false),
        ];
        for (import, admitted) in cases {
            assert_eq!(import.admits(&web, &shop, &host), admitted, "{import}");
        }
        assert!(import(ImportNamespace::Own, "*").admits(&shop, &shop, &host));
    }

    #[test]
    fn import_prints_as_in_documents() {
        assert_eq!(import(ImportNamespace::None, "*").to_string(), "~/*");
        assert_eq!(import(ImportNamespace::Named(ns("shop")), "*.local").to_string(), "shop/*.local");
    }
}
