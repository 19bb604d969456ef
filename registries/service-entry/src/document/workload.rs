//! WorkloadEntry and WorkloadGroup of `networking.istio.io`, and the specification that both share
//! with ServiceEntry's inline endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::Labels;

use super::{Located, Text};

/// One workload: its address, topology and identity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadSpec {
    /// Position.
    pub at: Located<()>,
    /// An IP, a DNS name, or `unix://` and a path.
    pub address: Option<Text>,
    /// Numbers of named ports, verbatim.
    pub ports: Vec<(Text, Located<i64>)>,
    /// The labels.
    pub labels: Located<Labels>,
    /// The network.
    pub network: Option<Text>,
    /// `region/zone/subzone`.
    pub locality: Option<Text>,
    /// The weight.
    pub weight: Option<Located<i64>>,
    /// The service account.
    pub account: Option<Text>,
}

/// The prefix of a unix path.
pub const UNIX: &str = "unix://";

impl WorkloadSpec {
    /// The unix path, if the address is one.
    #[must_use]
    pub fn unix_path(&self) -> Option<&str> {
        self.address.as_ref()?.value.strip_prefix(UNIX)
    }
}

/// A workload that services select.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadEntry {
    /// The address, topology and identity.
    pub spec: WorkloadSpec,
    /// `status.conditions`: type to status.
    pub conditions: BTreeMap<Arc<str>, Arc<str>>,
}

/// A template for workloads that register themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadGroup {
    /// Position of `spec`, or of the document without one.
    pub at: Located<()>,
    /// Labels of the workloads created from it.
    pub labels: Located<Labels>,
    /// Annotations of the workloads created from it.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Specification of the workloads.
    pub template: Option<WorkloadSpec>,
    /// The health probe.
    pub probe: Option<Probe>,
}

/// A health probe of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Probe {
    /// Position.
    pub at: Located<()>,
    /// Timing and counts by name, such as `periodSeconds`.
    pub timing: Vec<(&'static str, Located<i64>)>,
    /// The configured methods; exactly one is valid.
    pub methods: Vec<Located<ProbeMethod>>,
}

/// A method of probing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeMethod {
    /// An HTTP request.
    Http {
        /// Its path.
        path: Arc<str>,
        /// The port.
        port: Located<i64>,
        /// The host, empty for the workload's own address.
        host: Arc<str>,
        /// `HTTP` or `HTTPS`.
        scheme: Text,
        /// Headers, as (name, value).
        headers: Vec<(Arc<str>, Arc<str>)>,
    },
    /// A TCP connection.
    Tcp {
        /// The port.
        port: Located<i64>,
        /// The host, empty for the workload's own address.
        host: Arc<str>,
    },
    /// A command that exits with 0.
    Exec {
        /// The command and its arguments.
        command: Vec<Text>,
    },
    /// A gRPC health check.
    Grpc {
        /// The port.
        port: Located<i64>,
        /// The service to check.
        service: Arc<str>,
    },
}
