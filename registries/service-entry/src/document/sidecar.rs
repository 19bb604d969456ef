//! Sidecar of `networking.istio.io`: what the workloads of a namespace reach and receive.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    CaptureMode, HostImport, HostPattern, Hostname, ImportNamespace, IngressEndpoint, Labels, Namespace,
    PortNumber,
};

use super::workload::UNIX;
use super::{Located, Text};
use tributary_model::kubernetes_names::is_label_name;

/// What selected workloads reach and receive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sidecar {
    /// Position of `spec`, or of the document without one.
    pub at: Located<()>,
    /// Selects workloads of its namespace; all of them if absent or empty.
    pub selector: Option<Located<Labels>>,
    /// The egress listeners.
    pub egress: Vec<Egress>,
    /// The ingress listeners.
    pub ingress: Vec<Ingress>,
    /// Treatment of connections to unknown hosts.
    pub outbound: Option<Outbound>,
    /// Paths of fields that have no effect, with their positions.
    pub ignored: Vec<Text>,
}

/// Treatment of connections to unknown hosts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outbound {
    /// Whether they pass.
    pub passes: bool,
    /// The service that receives them.
    pub proxy: Option<EgressProxy>,
}

/// The service that receives connections to unknown hosts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressProxy {
    /// Position.
    pub at: Located<()>,
    /// Its host.
    pub host: Option<Text>,
    /// Number of its port.
    pub port: Option<Located<i64>>,
}

/// The hosts of one egress listener.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Egress {
    /// Position.
    pub at: Located<()>,
    /// The port; all ports if absent.
    pub port: Option<Port>,
    /// IP address of the listener.
    pub bind: Option<Text>,
    /// How traffic reaches it.
    pub capture: CaptureMode,
    /// Imports such as `shop/*.example.com`.
    pub hosts: Vec<Text>,
}

/// One ingress listener.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ingress {
    /// Position.
    pub at: Located<()>,
    /// The port.
    pub port: Option<Port>,
    /// IP address of the listener.
    pub bind: Option<Text>,
    /// How traffic reaches it.
    pub capture: CaptureMode,
    /// Destination, such as `127.0.0.1:8080` or `unix:///run/app.sock`.
    pub endpoint: Option<Text>,
}

/// Port of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Position.
    pub at: Located<()>,
    /// Its number.
    pub number: Located<i64>,
    /// Protocol name; empty if absent.
    pub protocol: Text,
    /// Its name; empty if absent.
    pub name: Text,
}

/// Parses an import; the error is a correction.
pub(crate) fn import(text: &str) -> Result<HostImport, &'static str> {
    let (namespace, host) = text.split_once('/').ok_or("write NAMESPACE/HOST, such as `shop/*` or `./*`")?;
    let namespace = match namespace {
        "*" => ImportNamespace::Any,
        "." => ImportNamespace::Own,
        "~" => ImportNamespace::None,
        excluded if excluded.starts_with('~') => {
            return Err("hosts cannot be excluded; import the hosts that are needed, or nothing with `~/*`");
        }
        name if is_label_name(name) => {
            Namespace::new(name).map(ImportNamespace::Named).map_err(|_| "name a namespace before the `/`")?
        }
        _ => return Err("write `*`, `.`, `~` or a namespace before the `/`"),
    };
    let host = HostPattern::new(host)
        .map_err(|_| "write a DNS name after the `/`, optionally with a wildcard in front, or `*`")?;
    Ok(HostImport { namespace, host })
}

/// Parses the host of an egress proxy.
pub(crate) fn proxy_host(text: &str) -> Option<Hostname> {
    Hostname::new(text).ok().filter(|host| !host.is_wildcard())
}

/// Parses the destination of an ingress listener; the error is a correction.
pub(crate) fn endpoint(text: &str) -> Result<IngressEndpoint, &'static str> {
    if let Some(path) = text.strip_prefix(UNIX) {
        let named = path
            .strip_prefix('@')
            .map_or_else(|| path.starts_with('/') && !path.ends_with('/'), |n| !n.is_empty());
        let path = Some(path).filter(|path| named && path.len() <= 107 && !path.contains('\0'));
        let path = path.ok_or("write an absolute path of at most 107 bytes, such as unix:///run/app.sock")?;
        return Ok(IngressEndpoint::Unix(Arc::from(path)));
    }
    const FIX: &str =
        "write 127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT, [::]:PORT, :PORT or unix:// and a path";
    let (host, port) = text.rsplit_once(':').ok_or(FIX)?;
    let port = port.parse().ok().and_then(|port: u32| PortNumber::new(port).ok()).ok_or(FIX)?;
    let host = host.strip_prefix('[').map_or(Some(host), |inner| inner.strip_suffix(']')).ok_or(FIX)?;
    if host.is_empty() {
        return Ok(IngressEndpoint::Address(None, port));
    }
    let ip: IpAddr = host.parse().map_err(|_| FIX)?;
    if !ip.is_unspecified()
        && ![IpAddr::from([127, 0, 0, 1]), std::net::Ipv6Addr::LOCALHOST.into()].contains(&ip)
    {
        return Err(FIX);
    }
    Ok(IngressEndpoint::Address(Some(ip), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_parsed_or_corrected() {
        for text in ["*/*", "./*", "~/*", "shop/*.example.com", "shop/pay.shop.svc.cluster.local"] {
            assert_eq!(import(text).unwrap().to_string(), text);
        }
        for (text, fix) in [
            ("pay.example.com", "write NAMESPACE/HOST"),
            ("~shop/*", "hosts cannot be excluded"),
            ("Shop/*", "write `*`"),
            ("/x", "write `*`"),
            ("shop/", "write a DNS name"),
            ("shop/a b", "write a DNS name"),
        ] {
            assert!(import(text).unwrap_err().starts_with(fix), "{text}");
        }
    }

    #[test]
    fn ingress_destinations_are_loopback_own_or_unix() {
        let port = PortNumber::new(80).unwrap();
        let at = |ip: &str| IngressEndpoint::Address(Some(ip.parse().unwrap()), port);
        assert_eq!(endpoint("127.0.0.1:80"), Ok(at("127.0.0.1")));
        assert_eq!(endpoint("0.0.0.0:80"), Ok(at("0.0.0.0")));
        assert_eq!(endpoint("[::1]:80"), Ok(at("::1")));
        assert_eq!(endpoint(":80"), Ok(IngressEndpoint::Address(None, port)));
        assert_eq!(endpoint("unix:///run/a"), Ok(IngressEndpoint::Unix("/run/a".into())));
        assert_eq!(endpoint("unix://@a"), Ok(IngressEndpoint::Unix("@a".into())));
        for bad in [
            "10.0.0.1:80",
            "127.0.0.1",
            "127.0.0.1:0",
            "unix://",
            "unix://a",
            "unix:///a/",
            "x:80",
            "[::1:80",
        ] {
            assert!(endpoint(bad).is_err(), "{bad} was accepted");
        }
    }
}
