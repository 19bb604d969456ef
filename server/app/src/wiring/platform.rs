//! What differs between a process and a simulation of one: connections to clusters, the name of the process, and the runs that the
//! supervisor starts.
//!
//! The factories of registries hold it. The binary uses [`Process`]; a simulation answers requests inside its own process and gives
//! equal names to equal seeds.

use std::fmt::Debug;
use std::sync::Arc;

use tributary_kube_client::{ConnectError, ConnectOptions, Connection, Connector};
use tributary_model::RegistryName;
use tributary_registry_api::RegistryFactory;
use tributary_remote::{Allowed, VettedKubeconfig};

use crate::environment::Environment;

/// Name of a process among replicas. Containers often have the same id on every host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessName {
    /// Name of the host.
    pub host: String,
    /// Id on that host.
    pub id: u32,
}

impl ProcessName {
    /// Returns the seed of a registry's pauses and audits: replicas and registries do not act in step.
    #[must_use]
    pub fn seed(&self, registry: &RegistryName) -> u64 {
        tributary_kube_client::seed(&self.host, self.id, registry)
    }
    /// Returns the identity of a candidate for a Lease.
    #[must_use]
    pub fn candidate(&self) -> String {
        format!("{}-{}", self.host, self.id)
    }
}

/// What the server needs from outside of it.
pub trait Platform: Debug + Send + Sync + 'static {
    /// Returns what opens the connections of a configured cluster.
    fn connector(&self, name: RegistryName, options: ConnectOptions, env: &Environment) -> Connector;
    /// Opens a connection to a remote cluster.
    fn connect(&self, kubeconfig: &VettedKubeconfig, allowed: &Allowed) -> Result<Connection, ConnectError>;
    /// Returns the name of this process.
    fn process(&self) -> ProcessName;
    /// Returns the factory whose runs the supervisor starts in place of this one.
    fn supervised(&self, factory: Arc<dyn RegistryFactory>) -> Arc<dyn RegistryFactory> {
        factory
    }
}

/// The process itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process;

impl Platform for Process {
    fn connector(&self, name: RegistryName, options: ConnectOptions, env: &Environment) -> Connector {
        let env = env.clone();
        Connector::new(name, options, move |variable| env.get(variable).map(ToOwned::to_owned))
    }
    fn connect(&self, kubeconfig: &VettedKubeconfig, allowed: &Allowed) -> Result<Connection, ConnectError> {
        kubeconfig.connect(allowed)
    }
    fn process(&self) -> ProcessName {
        ProcessName { host: super::host_name(), id: std::process::id() }
    }
}
