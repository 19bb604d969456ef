//! Gateway of `networking.istio.io`: ports of routers, as far as they are served.

use tributary_model::{HostImport, HostPattern, ImportNamespace, Labels};

use super::sidecar::{Port, import};
use super::{Located, Text};

/// Ports of selected routers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gateway {
    /// Position of `spec`, or of the document without one.
    pub at: Located<()>,
    /// Selects routers of every namespace; all of them if absent or empty.
    pub selector: Option<Located<Labels>>,
    /// The servers.
    pub servers: Vec<Server>,
    /// Paths of fields that have no effect, with their positions.
    pub ignored: Vec<Text>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Server {
    /// Position.
    pub at: Located<()>,
    /// Mode of its TLS; empty without TLS.
    pub mode: Text,
    /// The port.
    pub port: Option<Port>,
    /// IP address of the listener.
    pub bind: Option<Text>,
    /// Hosts such as `shop/*.example.com` or `*.local`.
    pub hosts: Vec<Text>,
}

/// Mode of servers that forward mesh TLS.
pub(crate) const FORWARDS: &str = "AUTO_PASSTHROUGH";

impl Server {
    /// Whether it forwards mesh TLS by its server name. Other servers are not served.
    pub(crate) fn forwards(&self) -> bool {
        &*self.mode.value == FORWARDS
    }
}

/// Correction of the namespace of a host.
const NAMESPACE: &str = "write `*`, `.` or a namespace before the `/`";

/// Parses the hosts of a server; the error is a correction. A host without a namespace is of every namespace.
pub(crate) fn host(text: &str) -> Result<HostImport, &'static str> {
    if text.contains('/') {
        let found = import(text).map_err(|why| if why.contains("`~`") { NAMESPACE } else { why })?;
        return match found.namespace {
            ImportNamespace::None => Err(NAMESPACE),
            _ => Ok(found),
        };
    }
    let host = HostPattern::new(text)
        .map_err(|_| "write a DNS name, optionally with a wildcard in front, or `*`")?;
    Ok(HostImport { namespace: ImportNamespace::Any, host })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_of_every_namespace_unless_they_name_one() {
        for (text, shown) in [
            ("*.local", "*/*.local"),
            ("*", "*/*"),
            ("pay.example.com", "*/pay.example.com"),
            ("shop/*", "shop/*"),
            ("./*.local", "./*.local"),
        ] {
            assert_eq!(host(text).unwrap().to_string(), shown);
        }
        for (text, fix) in [("~/*", "write `*`"), ("a b", "write a DNS name"), ("Shop/*", "write `*`")] {
            assert!(host(text).unwrap_err().starts_with(fix), "{text}");
        }
    }
}
