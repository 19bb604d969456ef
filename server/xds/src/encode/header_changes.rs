//! Changes of headers in a `Route` or in a weighted xDS cluster (docs/reference/xds.md#routes).
//!
//! `http_route` and `route_action` call it. Envoy refuses changes of the host and of pseudo-headers, so they are left
//! out: the host is a rewrite of the route.

use std::sync::Arc;

use tributary_model::{HeaderChanges, HeaderOperations};
use tributary_proto::wire::Writer;

/// Longest name or value that Envoy accepts.
const MOST_TEXT: usize = 16 << 10;
const APPEND: u64 = 0;
const OVERWRITE: u64 = 2;

/// Numbers of the fields of changes in a message, in ascending order as far as they are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeaderFields {
    /// Added and replaced headers of requests.
    pub(super) set_request: u32,
    /// Added and replaced headers of responses.
    pub(super) set_response: u32,
    /// Removed headers of responses.
    pub(super) remove_response: u32,
    /// Removed headers of requests.
    pub(super) remove_request: u32,
}

/// Writes several changes, which apply one after the other.
pub(super) fn write<'a>(
    wire: &mut Writer,
    all: impl Iterator<Item = &'a HeaderChanges> + Clone,
    fields: HeaderFields,
) {
    let requests = all.clone().map(|changes| &changes.request);
    let responses = all.map(|changes| &changes.response);
    requests.clone().for_each(|operations| set(wire, fields.set_request, operations));
    responses.clone().for_each(|operations| set(wire, fields.set_response, operations));
    responses.for_each(|operations| remove(wire, fields.remove_response, operations));
    requests.for_each(|operations| remove(wire, fields.remove_request, operations));
}

fn set(wire: &mut Writer, field: u32, operations: &HeaderOperations) {
    let replaced = operations.set.iter().map(|header| (header, OVERWRITE));
    let added = operations.add.iter().map(|header| (header, APPEND));
    for ((name, value), action) in replaced.chain(added) {
        if may_change(name) && is_value(value) {
            wire.message(field, |w| {
                w.message(1, |w| pair(w, name, value));
                w.number(3, action);
            });
        }
    }
}

fn pair(wire: &mut Writer, name: &Arc<str>, value: &Arc<str>) {
    wire.string(1, name);
    wire.string(2, value);
}

fn remove(wire: &mut Writer, field: u32, operations: &HeaderOperations) {
    operations.remove.iter().filter(|name| may_change(name)).for_each(|name| wire.string(field, name));
}

fn may_change(name: &str) -> bool {
    is_name(name) && !name.starts_with(':') && !name.eq_ignore_ascii_case("host")
}

/// Whether Envoy accepts the text as the name of a header, cookie or parameter.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && is_value(text)
}

/// Whether Envoy accepts the text as the value of a header.
pub(super) fn is_value(text: &str) -> bool {
    text.len() <= MOST_TEXT && !text.contains(['\0', '\r', '\n'])
}
