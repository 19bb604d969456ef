//! Turns collections that were never read into steps: an endpoint that no source lists may exist all the same.
//!
//! Called by explain for an endpoint that no source lists, and by why-not for a host. Only reports what the core knows.

use tributary_model::{
    Catalog, Code, CollectionKind, ServiceView, Stage, TraceStep, UnreadCollection, Verdict,
};

/// Most collections that one answer names.
const MOST: usize = 4;

/// Returns the unread collections that decide about the endpoints of a service.
pub(super) fn of_service(catalog: &Catalog, view: &ServiceView) -> Vec<TraceStep> {
    catalog.unread_endpoints(view).take(MOST).map(step).collect()
}

/// Returns the unread collections that may contain any endpoint.
pub(super) fn of_catalog(catalog: &Catalog) -> Vec<TraceStep> {
    let of_endpoints = |unread: &UnreadCollection<'_>| {
        matches!(unread.collection.kind, CollectionKind::Groups | CollectionKind::Workloads)
    };
    catalog.unread().filter(of_endpoints).take(MOST).map(step).collect()
}

fn step(unread: UnreadCollection<'_>) -> TraceStep {
    TraceStep {
        stage: Stage::Source,
        verdict: Verdict::Drop,
        code: Code::ENDPOINTS_UNREAD,
        registry: Some(unread.registry.clone()),
        object: None,
        endpoint: String::new(),
        detail: format!("{}; clients that hold endpoints from it keep them", unread.text()),
        time: None,
    }
}
