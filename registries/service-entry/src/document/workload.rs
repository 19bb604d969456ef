//! WorkloadEntry and WorkloadGroup of `networking.istio.io`, and the specification that both share
//! with ServiceEntry's inline endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::Labels;

use super::{Located, Text};

/// One workload: where it listens and who it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadSpec {
    /// Where it stands.
    pub at: Located<()>,
    /// An IP, a DNS name or `unix://` and a path.
    pub address: Option<Text>,
    /// Numbers of named ports, as written.
    pub ports: Vec<(Text, Located<i64>)>,
    /// Its labels.
    pub labels: Located<Labels>,
    /// Its network.
    pub network: Option<Text>,
    /// `region/zone/subzone`.
    pub locality: Option<Text>,
    /// Its share of traffic.
    pub weight: Option<Located<i64>>,
    /// Its service account.
    pub account: Option<Text>,
}

/// What stands before a unix path.
pub const UNIX: &str = "unix://";

impl WorkloadSpec {
    /// The unix path, where the address is one.
    #[must_use]
    pub fn unix_path(&self) -> Option<&str> {
        self.address.as_ref()?.value.strip_prefix(UNIX)
    }
}

/// A workload that can be selected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadEntry {
    /// Where it listens and who it is.
    pub spec: WorkloadSpec,
    /// `status.conditions`: type to status.
    pub conditions: BTreeMap<Arc<str>, Arc<str>>,
}

/// A template for workloads that register themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadGroup {
    /// `spec`, or the document where it has none.
    pub at: Located<()>,
    /// Labels of the workloads made from it.
    pub labels: Located<Labels>,
    /// Annotations of the workloads made from it.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// The workloads' specification.
    pub template: Option<WorkloadSpec>,
    /// How their health is probed.
    pub probe: Option<Probe>,
}

/// How a workload's health is probed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Probe {
    /// Where it stands.
    pub at: Located<()>,
    /// Seconds and counts by their names: `periodSeconds` and the like.
    pub timing: Vec<(&'static str, Located<i64>)>,
    /// The ways that are given; exactly one is valid.
    pub methods: Vec<Located<ProbeMethod>>,
}

/// One way to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeMethod {
    /// An HTTP request is answered.
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
    /// A connection is taken.
    Tcp {
        /// The port.
        port: Located<i64>,
        /// The host, empty for the workload's own address.
        host: Arc<str>,
    },
    /// A command succeeds.
    Exec {
        /// The command and its arguments.
        command: Vec<Text>,
    },
    /// gRPC health says that it serves.
    Grpc {
        /// The port.
        port: Located<i64>,
        /// The service that is asked for.
        service: Arc<str>,
    },
}
