//! `/debug` documents about the server itself: version, readiness, certificates, and the conditions of services by code. The access
//! check precedes every handler.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;

use super::Shared;
use super::debug::{bounded, busy, metadata, problem};
use crate::check::conditions::of_services;
use crate::document::{Filter, List, ReadinessDocument, VersionDocument};

/// Version. Not `async`: nothing is waited for.
pub fn version(State(shared): State<Shared>) -> std::future::Ready<Json<VersionDocument>> {
    std::future::ready(Json(VersionDocument::own(shared.inside.name(), Some(Timestamp::now()))))
}

/// Readiness with its conditions. Its status is 200 also while the server is not ready.
pub async fn readiness(State(shared): State<Shared>) -> Response {
    let Ok(_permit) = shared.work.try_acquire() else { return busy() };
    Json(ReadinessDocument::from(shared.inside.explained_readiness().await)).into_response()
}

/// Certificates of the xDS listener. Not `async`: nothing is waited for.
pub fn certificates(State(shared): State<Shared>) -> std::future::Ready<Response> {
    let items = shared.inside.certificates();
    let list = List::new("CertificateList", items, metadata(&shared, &shared.inside.catalog()), Filter::MAX);
    std::future::ready(Json(list).into_response())
}

/// Conditions of services, by code.
pub async fn conditions(State(shared): State<Shared>) -> Response {
    let Ok(permit) = Arc::clone(&shared.work).try_acquire_owned() else { return busy() };
    let made = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let catalog = shared.inside.catalog();
        let contested = shared.contested.of(&catalog, shared.inside.has_binding_client());
        let items = of_services(&catalog, &contested);
        bounded(&List::new("ConditionCountList", items, metadata(&shared, &catalog), Filter::MAX))
    });
    made.await
        .unwrap_or_else(|_| problem(StatusCode::INTERNAL_SERVER_ERROR, None, "the list could not be built"))
}
