//! A complete registry outside Tributary's own crates: it polls a service listing over HTTP, in the manner of Nacos.
//!
//! `GET {base}/namespaces/{namespace}/services` answers with every service of a namespace and its instances. Each namespace is
//! a scope: it fails alone. [`CatalogFactory`] is passed to the supervisor; [`convert`] holds the mapping to facts.

pub mod convert;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::StatusCode;
use tributary_model::{
    CollectionKind, InvalidName, RegistryId, RegistryUpdate, Scope, SourceState, SourceStatus, Withheld,
};
use tributary_registry_api::{
    CancellationToken, Reading, Reason, Registry, RegistryError, RegistryFactory, RegistryIo, RegistrySpec,
    ScopeReporter,
};

use convert::{Listing, convert};

/// The collections that this registry reports for each scope.
const KINDS: &[CollectionKind] = &[CollectionKind::Services, CollectionKind::Groups];
/// Longest answer that is read, in bytes.
const MAX_BODY: usize = 16 << 20;
/// Rounds in which a namespace fails while another one answers, before its collections are withheld.
const FAILED_ROUNDS: u32 = 3;

/// Where the listing is, and what is read of it.
#[derive(Debug, Clone)]
pub struct CatalogConfig {
    /// Base URL, such as `http://catalog:8848`.
    pub base: String,
    /// Namespaces to read; each is a scope.
    pub namespaces: Vec<Scope>,
    /// Suffix of every host: service `pay` becomes `pay.DOMAIN`.
    pub domain: String,
    /// Time between two rounds.
    pub interval: Duration,
}

/// Builds runs.
#[derive(Debug, Clone)]
pub struct CatalogFactory {
    id: Arc<RegistryId>,
    config: CatalogConfig,
}

impl CatalogFactory {
    /// A registry with this identity and configuration.
    #[must_use]
    pub fn new(id: RegistryId, config: CatalogConfig) -> Self {
        Self { id: Arc::new(id), config }
    }
}

impl RegistryFactory for CatalogFactory {
    fn spec(&self) -> RegistrySpec {
        RegistrySpec::new(Arc::clone(&self.id), 1).configured(self.config.namespaces.clone()).confirming()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build();
        let client = client.map_err(RegistryError::final_)?;
        Ok(Box::new(CatalogRegistry { client, config: self.config.clone() }))
    }
}

struct CatalogRegistry {
    client: reqwest::Client,
    config: CatalogConfig,
}

/// One namespace and the rounds in which it failed alone.
struct Namespace {
    reporter: ScopeReporter,
    failed: u32,
}

/// Why a namespace has no reading.
enum Failure {
    /// The server refuses it.
    Forbidden(Reason),
    /// No usable answer.
    Failing(Reason),
}

#[async_trait]
impl Registry for CatalogRegistry {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let RegistryIo { out, mut confirms, .. } = io;
        let reporter = |scope: &Scope| ScopeReporter::new(out.clone(), scope.clone(), KINDS);
        let namespaces = self.config.namespaces.iter();
        let mut all: Vec<Namespace> =
            namespaces.map(|scope| Namespace { reporter: reporter(scope), failed: 0 }).collect();
        let required = all.iter().flat_map(|one| one.reporter.collections()).collect();
        out.send(RegistryUpdate::Follows { required, optional: Vec::new() });
        let mut round = tokio::time::interval(self.config.interval);
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = round.tick() => self.round(&mut all).await,
                key = confirms.next() => {
                    // the answer must come from a reading that began after the request
                    let Some(one) = all.iter_mut().find(|one| *one.reporter.scope() == key.scope) else { continue };
                    if let Ok(reading) = self.read(one.reporter.scope()).await {
                        one.reporter.complete(reading);
                        one.reporter.confirm(&key);
                    }
                }
            }
        }
    }
}

impl CatalogRegistry {
    /// Reads every namespace once.
    async fn round(&self, all: &mut [Namespace]) {
        let mut failures = Vec::new();
        let mut is_answering = false;
        for one in all {
            match self.read(one.reporter.scope()).await {
                Ok(reading) => {
                    (one.failed, is_answering) = (0, true);
                    one.reporter.complete(reading);
                }
                Err(failure) => failures.push((one, failure)),
            }
        }
        for (one, failure) in failures {
            one.failed = if is_answering { one.failed + 1 } else { 0 };
            report(one, failure, self.config.interval);
        }
    }
    /// Everything that a namespace holds now.
    async fn read(&self, namespace: &Scope) -> Result<Reading, Failure> {
        let url = format!("{}/namespaces/{namespace}/services", self.config.base);
        let failing = |why: &dyn std::fmt::Display| Failure::Failing(Reason::new(why));
        let mut response = self.client.get(url).send().await.map_err(|e| failing(&e))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::FORBIDDEN => return Err(Failure::Forbidden(Reason::new("403: grant read access"))),
            status => return Err(failing(&status)),
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| failing(&e))? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_BODY {
                return Err(failing(&"the answer is longer than 16 MiB"));
            }
        }
        let listing: Listing = serde_json::from_slice(&body).map_err(|e| failing(&e))?;
        convert(listing, namespace, &self.config.domain).map_err(|e: InvalidName| failing(&e))
    }
}

/// Reports a namespace that could not be read. Its facts stay served, stale.
fn report(one: &mut Namespace, failure: Failure, retry_in: Duration) {
    let (state, reason) = match &failure {
        Failure::Forbidden(reason) => (SourceState::Forbidden, reason),
        Failure::Failing(reason) => (SourceState::Unreachable, reason),
    };
    let status = SourceStatus { retry_in: Some(retry_in), ..SourceStatus::new(state, reason.as_str()) };
    match failure {
        Failure::Forbidden(why) => one.reporter.withheld(&Withheld::forbidden(why.as_str()), status),
        Failure::Failing(why) if one.failed >= FAILED_ROUNDS => {
            one.reporter.withheld(&Withheld::failing(why.as_str()), status);
        }
        Failure::Failing(_) => one.reporter.unavailable(status),
    }
}
