//! `/livez`, `/readyz` and `/metrics`: open to every client of a listener.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{Shared, Surface, metrics as text};

/// Whether the core still processes batches. An unreachable source never makes a server dead.
pub async fn livez(State(shared): State<Shared>) -> Response {
    if shared.inside.is_alive().await {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the core does not respond\n").into_response()
    }
}

/// Whether clients are answered.
pub async fn readyz(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Response {
    let verbose = query.is_some_and(|q| q.split('&').any(|part| part.split('=').next() == Some("verbose")));
    // Off this machine only the marks show; names and reasons stay local.
    let open = shared.surface == Surface::Admin;
    let readiness = match verbose && open {
        true => shared.inside.explained_readiness().await,
        false => shared.inside.readiness(),
    };
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = String::new();
    if verbose {
        for check in &readiness.checks {
            let mark = if check.ok { "+" } else { "-" };
            let detail =
                if open && !check.detail.is_empty() { format!(": {}", check.detail) } else { String::new() };
            let name =
                if open { check.name.as_str() } else { check.name.split(' ').next().unwrap_or_default() };
            body.push_str(&format!("[{mark}] {name}{detail}\n"));
        }
    }
    body.push_str(if readiness.ready { "ok\n" } else { "not ready\n" });
    (status, body).into_response()
}

/// Every metric, computed now, in the format that the client prefers.
pub async fn metrics(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let Ok(_permit) = shared.work.try_acquire() else { return super::debug::busy() };
    let accepted: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let format = text::Format::accepted(&accepted.join(","));
    match text::encode(shared.inside.samples().await, format) {
        Ok(body) => ([(header::CONTENT_TYPE, format.content_type())], body).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "cannot render metrics\n").into_response(),
    }
}
