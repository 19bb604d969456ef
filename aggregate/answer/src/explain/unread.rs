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
    catalog.unread_endpoints(view).take(MOST).map(of_endpoints).collect()
}

/// Returns the unread collections that may contain any endpoint.
pub(super) fn of_catalog(catalog: &Catalog) -> Vec<TraceStep> {
    let is_of_endpoints = |unread: &UnreadCollection<'_>| {
        matches!(unread.collection.kind, CollectionKind::Groups | CollectionKind::Workloads)
    };
    catalog.unread().filter(is_of_endpoints).take(MOST).map(of_endpoints).collect()
}

/// Returns the unread collections that may declare any host.
pub(super) fn of_services(catalog: &Catalog) -> Vec<TraceStep> {
    let unread = catalog.unread().filter(|unread| unread.collection.kind == CollectionKind::Services);
    unread.take(MOST).map(|one| step(&one, Code::SERVICES_UNREAD, one.text())).collect()
}

fn of_endpoints(unread: UnreadCollection<'_>) -> TraceStep {
    let detail = format!("{}; clients that hold endpoints from it keep them", unread.text());
    step(&unread, Code::ENDPOINTS_UNREAD, detail)
}

fn step(unread: &UnreadCollection<'_>, code: Code, detail: String) -> TraceStep {
    TraceStep {
        stage: Stage::Source,
        verdict: Verdict::Drop,
        code,
        registry: Some(unread.registry.clone()),
        object: None,
        endpoint: String::new(),
        detail,
        time: None,
    }
}
