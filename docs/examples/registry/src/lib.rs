//! A complete registry outside Tributary's own crates: it polls a service listing over HTTP, in the manner of Nacos.
//!
//! `GET {base}/namespaces/{namespace}/services` answers with every service of a namespace and its instances. Each
//! namespace is a scope: it fails alone. `main` adds the kind `listing` to a binary; [`convert`] maps answers to facts.

pub mod convert;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::StatusCode;
use serde::Deserialize;
use tributary_model::{
    ClusterId, CollectionKind, ProviderId, RegistryId, RegistryName, RegistryUpdate, Scope,
};
use tributary_registry_api::{
    CancellationToken, InvalidField, ReadFailure, Reading, Reason, Registry, RegistryError, RegistryFactory,
    RegistryIo, RegistrySpec, ScopeReporter, Span,
};

/// The collections that this registry reports for each scope.
const KINDS: &[CollectionKind] = &[CollectionKind::Services, CollectionKind::Groups];
/// Longest answer that is read, in bytes.
const MAX_BODY: usize = 16 << 20;

/// Fields of a registry of kind `listing` in the configuration file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListingFields {
    /// Base URL, such as `http://catalog:8848`.
    pub base: String,
    /// Namespaces to read; each is a scope.
    pub namespaces: Vec<String>,
    /// Suffix of every host: service `pay` becomes `pay.DOMAIN`.
    pub domain: String,
    /// Time between two rounds.
    #[serde(default = "ListingFields::interval")]
    pub interval: Span,
}

impl ListingFields {
    const fn interval() -> Span {
        Span::seconds(5)
    }
}

/// Builds runs.
#[derive(Debug, Clone)]
pub struct ListingFactory {
    id: Arc<RegistryId>,
    namespaces: Vec<Scope>,
    fields: ListingFields,
}

impl ListingFactory {
    /// A registry with this name, cluster and configuration.
    pub fn new(name: RegistryName, cluster: ClusterId, fields: ListingFields) -> Result<Self, InvalidField> {
        if fields.interval.get().is_zero() {
            return Err(InvalidField::new("interval", "must be more than 0"));
        }
        let provider = ProviderId::new("Listing").map_err(|e| InvalidField::new("kind", e))?;
        let namespaces = fields.namespaces.iter().map(Scope::new).collect::<Result<_, _>>();
        let namespaces = namespaces.map_err(|e| InvalidField::new("namespaces", e))?;
        Ok(Self { id: Arc::new(RegistryId { name, provider, cluster }), namespaces, fields })
    }
}

impl RegistryFactory for ListingFactory {
    fn spec(&self) -> RegistrySpec {
        RegistrySpec::new(Arc::clone(&self.id), 1).configured(self.namespaces.clone()).confirming()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build();
        let client = client.map_err(RegistryError::final_)?;
        Ok(Box::new(ListingRegistry { client, factory: self.clone() }))
    }
}

struct ListingRegistry {
    client: reqwest::Client,
    factory: ListingFactory,
}

#[async_trait]
impl Registry for ListingRegistry {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let RegistryIo { out, mut confirms, .. } = io;
        let reporter = |scope: &Scope| ScopeReporter::new(out.clone(), scope.clone(), KINDS);
        let mut all: Vec<ScopeReporter> = self.factory.namespaces.iter().map(reporter).collect();
        let required = all.iter().flat_map(ScopeReporter::collections).collect();
        out.send(RegistryUpdate::Follows { required, optional: Vec::new() });
        let mut round = tokio::time::interval(self.factory.fields.interval.get());
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = round.tick() => self.round(&mut all).await,
                key = confirms.next() => {
                    // the answer must come from a reading that began after the request
                    let Some(one) = all.iter_mut().find(|one| *one.scope() == key.scope) else { continue };
                    if let Ok(reading) = self.read(one.scope()).await {
                        one.complete(reading);
                        one.confirm(&key);
                    }
                }
            }
        }
    }
}

impl ListingRegistry {
    /// Reads every namespace once. A namespace that fails while another one answers fails alone.
    async fn round(&self, all: &mut [ScopeReporter]) {
        let mut failures = Vec::new();
        let mut is_answering = false;
        for one in all {
            match self.read(one.scope()).await {
                Ok(reading) => {
                    is_answering = true;
                    one.complete(reading);
                }
                Err(failure) => failures.push((one, failure)),
            }
        }
        for (one, failure) in failures {
            one.failed(&failure, is_answering, self.factory.fields.interval.get());
        }
    }
    /// Everything that a namespace holds now.
    async fn read(&self, namespace: &Scope) -> Result<Reading, ReadFailure> {
        let url = format!("{}/namespaces/{namespace}/services", self.factory.fields.base);
        let failing = |why: &dyn std::fmt::Display| ReadFailure::Failing(Reason::new(why));
        let mut response = self.client.get(url).send().await.map_err(|e| failing(&e))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::FORBIDDEN => {
                return Err(ReadFailure::Forbidden(Reason::new("403: grant read access")));
            }
            status => return Err(failing(&status)),
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| failing(&e))? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_BODY {
                return Err(failing(&"the answer is longer than 16 MiB"));
            }
        }
        convert::convert(&body, namespace, &self.factory.fields.domain).map_err(|why| failing(&why))
    }
}
