//! Checks of connected clients: rejected and unanswered responses, and what the server serves only in part.

use std::collections::BTreeMap;

use tributary_model::Code;

use super::finding::{counted, needs_nothing};
use super::{Documents, Finding, Found};
use crate::document::ClientItem;
use crate::document::clients::ClientTypeItem;

/// How long a client may take to answer, and the server to send, in milliseconds.
const LONG: u64 = 30_000;
/// Longest text of a client in a message, in characters.
const MAX_TEXT: usize = 400;

/// Judges what each client acknowledged.
pub(super) fn synced(documents: &Documents) -> Found {
    let synced = documents.clients.iter().filter(|one| one.state == "SYNCED").count();
    let findings = documents.clients.iter().flat_map(|one| one.types.iter().filter_map(|of| state(one, of)));
    Found::new(format!("{synced} of {} synced", documents.clients.len()), findings.collect())
}

fn state(client: &ClientItem, of: &ClientTypeItem) -> Option<Finding> {
    let kind = &of.kind;
    let made = match &*of.state {
        "ERROR" => {
            let names =
                if of.nacked_names.is_empty() { "" } else { &format!(" ({})", of.nacked_names.join(", ")) };
            let text: String = of.nack.chars().take(MAX_TEXT).collect();
            Finding::error("rejected", format!("{kind}{names}: {text}"))
                .code(Code::CLIENT_NACK)
                .since(of.sent_millis_ago)
        }
        "STALE" if of.sent_millis_ago.is_some_and(|millis| millis > LONG) => {
            Finding::warning("not answered", format!("{kind}: the last response is not answered"))
                .code(Code::NOT_ACKED)
                .since(of.sent_millis_ago)
        }
        "NOT SENT" if client.connected_millis > LONG => {
            Finding::warning("not sent", format!("{kind}: nothing was sent since the client connected"))
                .code(Code::NOT_DELIVERED)
                .since(Some(client.connected_millis))
        }
        _ => return None,
    };
    Some(made.about("client", client.id.as_str()))
}

/// Counts the notes of clients by code.
pub(super) fn notes(documents: &Documents) -> Found {
    let rejected = Code::CLIENT_NACK.to_string();
    let mut by_code: BTreeMap<&str, (u64, &str, &str)> = BTreeMap::new();
    for client in &documents.clients {
        for note in &client.notes {
            let code = note.split(' ').next().unwrap_or_default();
            // what a client rejected is a finding of the check above
            if code == rejected {
                continue;
            }
            by_code.entry(code).or_insert((0, &client.id, note)).0 += 1;
        }
    }
    let finding = |(code, (count, id, note)): (&str, (u64, &str, &str))| {
        let text = note.strip_prefix(code).unwrap_or(note).trim_start();
        let message = format!("{}, such as {id}: {text}", counted(count, "client", "clients"));
        let title = "served in part";
        let made = if needs_nothing(code) {
            Finding::info(title, message)
        } else {
            Finding::warning(title, message)
        };
        made.coded(code)
    };
    Found::new("", by_code.into_iter().map(finding).collect())
}
