//! What the admin surface needs to know of the server. `wiring` implements it over the real parts,
//! tests over made ones.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::watch;
use tributary_model::{Catalog, RegistryName};

use super::metrics::Sample;
use crate::document::state::{EndItem, Part, StateDocument};
use crate::document::{ClientItem, HeldItem, RegistryItem};

/// The server, seen from inside. Methods answer at once or in the time of a turn.
#[async_trait]
pub trait AdminBackend: Send + Sync + 'static {
    /// The name by which this server is told from its replicas.
    fn name(&self) -> &str;
    /// What is served now.
    fn catalog(&self) -> Arc<Catalog>;
    /// The generation of what is served, as it changes.
    fn generations(&self) -> watch::Receiver<u64>;
    /// Whether clients are answered, and why not.
    fn readiness(&self) -> Readiness;
    /// What a person on this machine should know beside readiness; no client waits for it.
    async fn notes(&self) -> Vec<Check>;
    /// Whether the owner still takes turns; nothing about registries.
    async fn is_alive(&self) -> bool;
    /// The connected clients.
    async fn clients(&self) -> Vec<ClientItem>;
    /// The registries.
    async fn registries(&self) -> Vec<RegistryItem>;
    /// The removals that are held.
    async fn held(&self) -> Vec<HeldItem>;
    /// Lets a held removal happen; nothing where none of this id is held.
    async fn release(&self, id: &str) -> Option<HeldItem>;
    /// What is remembered over a restart.
    async fn state(&self) -> StateDocument;
    /// What ending a part takes away. With `really` it is ended.
    async fn end(&self, part: Part, really: bool) -> Result<Vec<EndItem>, NotThere>;
    /// Takes what a registry's next run reports although it is less, or another source's.
    async fn accept(&self, registry: RegistryName) -> Result<(), NotThere>;
    /// How an endpoint came to be served; one item per service port behind which it stands.
    async fn explain(&self, endpoint: &str, host: Option<&str>, client: Option<&str>) -> Explained;
    /// Why a client is not given a host's endpoints.
    async fn why_not(&self, host: &str, client: &str) -> Explained;
    /// The running configuration and the last reload.
    fn config(&self) -> Value;
    /// Every metric, computed now.
    async fn samples(&self) -> Vec<Sample>;
}

/// What an operator named is not there; the text says what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotThere(pub String);

/// Explanations as `answer` writes them, or what the server does not know.
pub type Explained = Result<Vec<Value>, String>;

/// Whether clients are answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether they are.
    pub ready: bool,
    /// What that rests on.
    pub checks: Vec<Check>,
}

/// One thing that readiness rests on, or that a person should know beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// More about it.
    pub detail: String,
}

impl Check {
    /// From its parts.
    #[must_use]
    pub fn new(name: impl Into<String>, ok: bool, detail: impl Into<String>) -> Self {
        Self { name: name.into(), ok, detail: detail.into() }
    }
}
