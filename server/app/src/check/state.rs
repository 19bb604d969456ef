//! Checks of held removals and of the state that is kept across restarts.

use std::collections::BTreeMap;

use tributary_model::Code;

use super::finding::counted;
use super::{Documents, Finding, Found};
use crate::document::HeldItem;

/// Reason of a registry whose last changes the journal has not written yet.
const WRITING: &str = "not all of it is written yet";

/// Counts held removals by registry.
pub(super) fn held(documents: &Documents) -> Found {
    let mut by_registry: BTreeMap<&str, Vec<&HeldItem>> = BTreeMap::new();
    for one in &documents.held {
        by_registry.entry(&one.registry).or_default().push(one);
    }
    let finding = |(registry, all): (&str, Vec<&HeldItem>)| {
        let first = all.iter().max_by_key(|one| one.since_millis_ago);
        let example = first
            .map(|one| format!(", such as {} ({}, id {})", one.what, one.reason, one.id))
            .unwrap_or_default();
        Finding::warning(
            "removals are held",
            format!("{}{example}", counted(all.len() as u64, "removal", "removals")),
        )
        .next("wait for the source, or release one with `tributary guard release ID`")
        .code(Code::REMOVAL_HELD)
        .about("registry", registry)
        .since(first.map(|one| one.since_millis_ago))
    };
    Found::new(format!("{} held", documents.held.len()), by_registry.into_iter().map(finding).collect())
}

/// Judges whether a restart would restore what is served.
pub(super) fn kept(documents: &Documents) -> Found {
    let Some(state) = &documents.state else { return Found::skipped("not known") };
    if state.directory.is_empty() && state.fault.is_empty() {
        let message = "no state directory: after a restart everything is unknown until its source is read";
        return Found::new("not kept", vec![Finding::info("state is not kept", message)]);
    }
    let fault = (!state.fault.is_empty()).then(|| state.fault.clone());
    let journal = state.journal.as_ref();
    let error = journal.map(|journal| journal.last_error.clone()).filter(|error| !error.is_empty());
    let unusable = fault.or(error).map(|why| {
        // the error names the path
        Finding::error("state cannot be kept", why).code(Code::STATE_UNUSABLE)
    });
    let parts = state.registries.iter().filter(|one| !one.whole && one.reason != WRITING);
    let parts = parts.filter(|_| unusable.is_none()).map(|one| {
        Finding::warning("a registry is kept in part", one.reason.as_str())
            .about("registry", one.name.as_str())
    });
    let parts: Vec<Finding> = parts.collect();
    let size = journal.map(|journal| format!("{} bytes", journal.bytes)).unwrap_or_default();
    Found::new(size, unusable.into_iter().chain(parts).collect())
}

/// Reports journals that were set aside.
pub(super) fn set_aside(documents: &Documents) -> Found {
    let Some(state) = &documents.state else { return Found::skipped("not known") };
    let finding = |file: &String| {
        Finding::warning("a journal was set aside", "it could not be used at a start")
            .code(Code::STATE_UNUSABLE)
            .next("report it, and delete the file when it is no longer needed")
            .about("file", file.as_str())
    };
    Found::new("", state.set_aside.iter().map(finding).collect())
}
