//! What a document must hold to be served, rule by rule (`registries.md` 4.4).
//!
//! Called by [`crate::load`] with what the decoder made. Each rule is a function in a table, looks at
//! one document alone, and says the place of the field and what to write instead.

mod hosts;
mod names;
mod resolution;
mod service_entry;
mod workload;

use crate::document::{Body, Document, Meta};
use crate::fault::Faults;

/// Runs every rule.
pub(crate) fn validate(document: &Document, faults: &mut Faults) {
    meta(&document.meta, faults);
    match &document.body {
        Body::ServiceEntry(entry) => {
            for (_, rule) in service_entry::RULES {
                rule(entry, faults);
            }
        }
        Body::WorkloadEntry(entry) => workload::entry(entry, faults),
        Body::WorkloadGroup(group) => workload::group(group, faults),
    }
}

fn meta(meta: &Meta, faults: &mut Faults) {
    names::labels(&meta.labels, "metadata.labels", faults);
}

#[cfg(test)]
mod tests;
