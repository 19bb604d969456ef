//! Documents that the checks read, collected in the server itself: for the console's overview, which needs no request to its own
//! routes.
//!
//! The cost grows with registries, clusters, policies and clients, and with hosts for the conditions of services.

use std::sync::Arc;

use jiff::Timestamp;

use crate::admin::{AdminBackend, ContestedCache};
use crate::check::{Documents, conditions};
use crate::document::{Filter, ReadinessDocument, VersionDocument, gateways, server};

/// Collects the documents of a server. No cluster is tried.
pub async fn collect(inside: &Arc<dyn AdminBackend>, cache: &Arc<ContestedCache>) -> Documents {
    let (clusters, sources) = inside.clusters().await;
    let policies = inside.policies(Filter::default()).await;
    let (own, cache) = (Arc::clone(inside), Arc::clone(cache));
    let of_catalog = tokio::task::spawn_blocking(move || {
        let catalog = own.catalog();
        let contested = cache.of(&catalog, own.has_binding_client());
        let conditions = conditions::of_services(&catalog, &contested);
        (gateways::list(&catalog, &Filter::default(), own.now()).items, conditions)
    });
    let (gateways, conditions) = of_catalog.await.unwrap_or_default();
    Documents {
        server: inside.name().to_owned(),
        now: Timestamp::now(),
        reader_version: server::VERSION.to_owned(),
        version: Some(VersionDocument::own(inside.name(), None)),
        readiness: Some(ReadinessDocument::from(inside.explained_readiness().await)),
        config: inside.config(),
        certificates: inside.certificates(),
        registries: inside.registries().await,
        clusters,
        sources,
        gateways,
        conditions,
        more_policies: policies.total - policies.items.len(),
        policies: policies.items,
        clients: inside.clients(Filter::default()).await.items,
        held: inside.held().await,
        state: Some(inside.state().await),
        ..Documents::default()
    }
}
