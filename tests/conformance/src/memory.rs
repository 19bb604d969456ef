//! A registry in memory: a source that tests script, and an adapter that follows the registry contract.
//!
//! It has the same mechanisms as real registries: lists that arrive in pieces and may break off, a change log
//! that is followed from a position and may be lost, parts that fail independently, and a task per part.

#[cfg(test)]
mod against_core;
mod follow;
mod source;
mod updates;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tributary_model::{ClusterId, Hostname, ProviderId, RegistryId, RegistryName};
use tributary_registry_api::{Registry, RegistryError, RegistryFactory, RegistrySpec};

use crate::harness::{Ability, Act, Harness, Script, Service};
use follow::MemoryRegistry;
pub use source::{Bug, MemorySource};

/// Builds runs that read a source in memory.
#[derive(Debug, Clone)]
pub struct MemoryFactory {
    name: RegistryName,
    source: MemorySource,
    shadowing: bool,
    /// The configured parts; every part that discovery finds where `None`.
    parts: Option<&'static [usize]>,
}

impl MemoryFactory {
    /// Returns a factory for a registry of this name over this source.
    #[must_use]
    pub fn new(name: &str, source: MemorySource) -> Self {
        Self {
            name: RegistryName::new(name).expect("a registry name"),
            source,
            shadowing: false,
            parts: None,
        }
    }
    /// Restricts the registry to these parts.
    #[must_use]
    pub const fn only(mut self, parts: &'static [usize]) -> Self {
        self.parts = Some(parts);
        self
    }
    fn parts(&self) -> Option<&'static [usize]> {
        self.parts.filter(|_| !self.source.has(Bug::IgnoresConfiguration))
    }
    /// Makes each run after the first fill a shadow.
    #[must_use]
    pub const fn shadowing(mut self) -> Self {
        self.shadowing = true;
        self
    }
}

impl RegistryFactory for MemoryFactory {
    fn spec(&self) -> RegistrySpec {
        let cluster = ClusterId::new(self.name.as_str()).expect("a cluster name");
        let id = RegistryId { name: self.name.clone(), provider: ProviderId::MEMORY, cluster };
        let spec = RegistrySpec::new(Arc::new(id), 1);
        let spec = if self.shadowing { spec.shadowing() } else { spec };
        let spec = match self.parts() {
            Some(parts) => spec.configured(parts.iter().map(|part| updates::scope(*part))),
            None => spec,
        };
        if self.source.can_confirm() { spec.confirming() } else { spec }
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        Ok(Box::new(MemoryRegistry::new(self.source.clone(), self.parts())))
    }
}

/// The conformance suite's harness over the registry in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryHarness {
    /// Trusts every list, because the source cannot confirm a removal.
    pub gullible: bool,
    /// Restarts in a shadow.
    pub shadowing: bool,
    /// Bug that the suite must find.
    pub bug: Option<Bug>,
    /// Time to notice a change; 5 s where `None`, which costs nothing on a paused clock.
    pub patience: Option<Duration>,
}

#[async_trait]
impl Harness for MemoryHarness {
    async fn script(&self) -> Box<dyn Script> {
        let source = MemorySource::new(!self.gullible, self.bug);
        let factory = MemoryFactory::new("memory", source.clone());
        let factory = if self.shadowing { factory.shadowing() } else { factory };
        Box::new(MemoryScript { factory, source })
    }
    fn declines(&self, ability: Ability) -> Option<&'static str> {
        let lies = self.gullible && ability == Ability::LieEmpty;
        lies.then_some("a source that cannot confirm a removal is trusted")
    }
    fn patience(&self) -> Duration {
        self.patience.unwrap_or(Duration::from_secs(5))
    }
    fn is_quick(&self) -> bool {
        self.patience.is_none()
    }
}

struct MemoryScript {
    factory: MemoryFactory,
    source: MemorySource,
}

#[async_trait]
impl Script for MemoryScript {
    fn factory(&self) -> Arc<dyn RegistryFactory> {
        Arc::new(self.factory.clone())
    }
    fn host(&self, service: &str) -> Hostname {
        updates::host(service)
    }
    async fn set(&mut self, part: usize, service: &Service) {
        self.source.set(part, &service.name, service.endpoints.iter().copied());
    }
    async fn delete(&mut self, service: &str) {
        self.source.delete(service);
    }
    async fn act(&mut self, act: Act) {
        if act == Act::Narrow {
            self.factory = self.factory.clone().only(&[0]);
        }
        self.source.act(act);
    }
}

/// Returns the host of a service of a memory registry.
#[must_use]
pub fn memory_host(service: &str) -> Hostname {
    updates::host(service)
}

/// Returns `count` addresses 10.`net`.x.y.
pub fn many_addresses(net: u8, count: u16) -> impl Iterator<Item = IpAddr> {
    (0..count).map(move |i| {
        let [high, low] = i.to_be_bytes();
        IpAddr::from([10, net, high, low])
    })
}
