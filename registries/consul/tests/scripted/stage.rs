//! A registry over the scripted Consul with a real core and core task, and with short times.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub(crate) use tributary_conformance::eventually;
use tributary_conformance::{Act, Harness, Script, Service, Stage, served};
use tributary_consul::config::{Address, Datacenters};
use tributary_consul::{ConsulConfig, ConsulFactory};
use tributary_model::{ClusterId, Hostname, RegistryName, Scope};
use tributary_registry_api::{
    CancellationToken, Registry, RegistryError, RegistryFactory, RegistryIo, RegistrySpec,
};

use crate::fake::Fake;

/// Pauses are about a hundredth of the real ones. The time limit of an answer is not, so that a busy machine fails no
/// request.
pub(crate) fn mk_config(urls: &[&str]) -> ConsulConfig {
    let mut config =
        ConsulConfig::new(urls.iter().map(|url| Address::parse(url).unwrap()).collect()).unwrap();
    let millis = Duration::from_millis;
    let timing = &mut config.timing;
    (timing.wait, timing.catch_up, timing.grace) = (millis(1_000), millis(100), millis(20_000));
    (timing.pause_first, timing.pause_most) = (millis(50), millis(200));
    (timing.pause_auth, timing.pause_config) = (millis(100), millis(100));
    (timing.burst, timing.refill, timing.checks_refill) = (100, millis(10), millis(50));
    (timing.coalesce, timing.explain) = (millis(20), millis(100));
    (timing.full_pass, timing.in_turn) = (millis(500), millis(100));
    (timing.poll, timing.files, timing.recheck) = (millis(100), millis(50), millis(100));
    (timing.status, timing.reread) = (millis(50), millis(200));
    config.datacenters = Datacenters::Local;
    config.mapping.direct.all = true;
    config
}

/// Gives each of `scopes` scopes a budget of long polls; a budget of 0 leaves notify and fetch alone.
pub(crate) fn set_poll_budget(config: &mut ConsulConfig, polls: usize, scopes: usize) {
    // what a scope keeps free for reads that are not long polls
    let others = config.limits.concurrency + 4;
    let requests = (polls + others) * scopes;
    config.limits.connections = requests + requests / 7;
    assert_eq!(config.limits.unshared_requests(), requests);
    (config.limits.shared_connections, config.limits.streams) = (1, requests);
}

/// Runs a test for each case at the same time, because tests mostly wait.
pub(crate) async fn for_each<T, F: Future<Output = ()>>(
    cases: impl IntoIterator<Item = T>,
    test: impl Fn(T) -> F,
) {
    futures::future::join_all(cases.into_iter().map(test)).await;
}

/// One registry over this Consul.
pub(crate) struct One {
    pub(crate) config: ConsulConfig,
    /// Scopes that its runs take as held.
    pub(crate) held: Vec<Scope>,
}

#[async_trait]
impl Harness for One {
    async fn script(&self) -> Box<dyn Script> {
        Box::new(Given { config: self.config.clone(), held: self.held.clone() })
    }
    fn patience(&self) -> Duration {
        Duration::from_millis(700)
    }
}

struct Given {
    config: ConsulConfig,
    held: Vec<Scope>,
}

#[async_trait]
impl Script for Given {
    fn factory(&self) -> Arc<dyn RegistryFactory> {
        Arc::new(Holding { inner: mk_factory(self.config.clone()), held: self.held.clone() })
    }
    fn host(&self, service: &str) -> Hostname {
        Hostname::new(format!("{service}.service.consul")).unwrap()
    }
    async fn set(&mut self, _: usize, _: &Service) {}
    async fn delete(&mut self, _: &str) {}
    async fn act(&mut self, _: Act) {}
}

/// Runs that take these scopes as held, in addition to those that the core holds facts of.
struct Holding<T> {
    inner: T,
    held: Vec<Scope>,
}

impl RegistryFactory for Holding<Arc<dyn RegistryFactory>> {
    fn spec(&self) -> RegistrySpec {
        self.inner.spec()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        Ok(Box::new(Holding { inner: self.inner.build()?, held: self.held.clone() }))
    }
}

#[async_trait]
impl Registry for Holding<Box<dyn Registry>> {
    async fn run(self: Box<Self>, mut io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        io.held = io.held.iter().cloned().chain(self.held).collect();
        self.inner.run(io, stop).await
    }
}

pub(crate) fn mk_factory(config: ConsulConfig) -> Arc<dyn RegistryFactory> {
    let name = RegistryName::new("consul").unwrap();
    Arc::new(ConsulFactory::new(name, ClusterId::new("consul").unwrap(), config).unwrap().seeded(7))
}

/// Starts a registry.
pub(crate) async fn open(config: ConsulConfig) -> Stage {
    open_holding(config, &[]).await
}

/// Starts a registry that takes these scopes as held.
pub(crate) async fn open_holding(config: ConsulConfig, held: &[&str]) -> Stage {
    let held = held.iter().map(|scope| Scope::new(*scope).unwrap()).collect();
    let stage = Stage::prepare(&One { config, held }, &[]).await;
    stage.open().await;
    stage
}

/// Starts a registry and waits until it is live.
pub(crate) async fn following(fake: &Fake) -> Stage {
    let stage = open(mk_config(&[&fake.url])).await;
    stage.until_live().await;
    stage
}

/// Returns the served addresses of a service.
pub(crate) fn addresses(stage: &Stage, service: &str) -> Vec<String> {
    let host = Hostname::new(format!("{service}.service.consul")).unwrap();
    let found: BTreeSet<IpAddr> = served(&stage.handle.catalog()).remove(&host).unwrap_or_default();
    found.into_iter().map(|ip| ip.to_string()).collect()
}

/// Waits until exactly these addresses are served.
pub(crate) async fn until_served(stage: &Stage, service: &str, want: &[&str]) {
    let host = Hostname::new(format!("{service}.service.consul")).unwrap();
    let want: BTreeSet<IpAddr> = want.iter().map(|ip| ip.parse().unwrap()).collect();
    let what = format!("{service} at {want:?}");
    stage.until(&what, |catalog| served(catalog).remove(&host).unwrap_or_default() == want).await;
}

/// Returns the number of held removals.
pub(crate) async fn held(stage: &Stage) -> usize {
    stage.handle.inspect(|core| core.held().count()).await.unwrap()
}

/// Returns the reason in a scope's status.
pub(crate) async fn reason(stage: &Stage, scope: &str) -> String {
    let scope = scope.to_owned();
    let find = move |core: &tributary_core::Core| {
        let sources = core.status().remove(0).sources;
        let source = sources.into_iter().find(|(own, _)| own.as_str() == scope);
        source.map(|(_, view)| view.status.reason.to_string())
    };
    stage.handle.inspect(find).await.unwrap().unwrap_or_default()
}

/// Returns a detail of a scope's status, or its `mode`.
pub(crate) async fn detail(stage: &Stage, scope: &str, name: &str) -> String {
    let (scope, name) = (scope.to_owned(), name.to_owned());
    let find = move |core: &tributary_core::Core| {
        let registry = core.status().remove(0);
        let source = registry.sources.into_iter().find(|(own, _)| own.as_str() == scope);
        let status = source.map(|(_, view)| view.status)?;
        match &*name {
            "mode" => status.mode.map(|mode| mode.to_string()),
            _ => status.details.iter().find(|one| *one.name == *name).map(|one| one.value.to_string()),
        }
    };
    stage.handle.inspect(find).await.unwrap().unwrap_or_default()
}
