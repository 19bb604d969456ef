//! PeerAuthentication of `security.istio.io`: which connections workloads accept.

use tributary_model::{Labels, MtlsMode, PortNumber};

use super::{Located, Text};

/// Connections that workloads accept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerAuthentication {
    /// Position of `spec`, or of the document without one.
    pub at: Located<()>,
    /// Selects workloads of its namespace; all of them if absent or empty.
    pub selector: Option<Located<Labels>>,
    /// Mode of every port; inherited if absent.
    pub mode: Option<MtlsMode>,
    /// Modes of single ports, in document order, with the position of the map if it is declared.
    pub ports: Option<Located<Vec<PortMode>>>,
    /// Paths of fields that have no effect, with their positions.
    pub ignored: Vec<Text>,
}

/// Mode of one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortMode {
    /// Number, as it is written.
    pub port: Text,
    /// Mode; that of the workload if absent.
    pub mode: Option<MtlsMode>,
}

impl PeerAuthentication {
    /// Whether it selects workloads by labels.
    pub(crate) fn selects(&self) -> bool {
        self.selector.as_ref().is_some_and(|labels| !labels.value.is_empty())
    }
}

/// Returns the port of a key, in the one form that every reader of the document understands alike.
pub(crate) fn port_of(key: &str) -> Option<PortNumber> {
    let port = PortNumber::new(key.parse().ok()?).ok()?;
    (port.to_string() == key).then_some(port)
}
