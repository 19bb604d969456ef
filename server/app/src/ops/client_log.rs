//! Adds events of clients to the timeline: streams that opened or ended, and rejections.
//!
//! Started with the server. It takes what the sessions recorded, at most once a second, so that a storm of streams is few entries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tributary_model::Code;
use tributary_xds::client_events::{ClientChange, ClientEvent, Taken};

use super::sessions::Sessions;
use super::timeline::Timeline;
use crate::document::timeline::{TimelineItem, TimelineKind, TimelineObject, TimelineSeverity};

/// Shortest time between two looks.
const PACE: Duration = Duration::from_secs(1);
/// Most streams that have an entry each.
const MOST_ALONE: usize = 3;
/// Most names in an entry about many clients.
const MOST_NAMES: usize = 5;
/// Most entries about rejections of one look.
const MOST_REJECTIONS: usize = 10;

/// Adds events until the server stops.
pub async fn run(sessions: Arc<Sessions>, timeline: Timeline, stop: CancellationToken) {
    loop {
        let taken = tokio::select! {
            taken = sessions.counters.events.take() => taken,
            () = stop.cancelled() => return,
        };
        let at = Timestamp::now();
        entries(&taken).into_iter().for_each(|entry| timeline.add(at, entry));
        tokio::select! {
            () = tokio::time::sleep(PACE) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Returns the entries of some events.
fn entries(taken: &Taken) -> Vec<TimelineItem> {
    let of = |is_of: fn(&ClientChange) -> bool| -> Vec<&ClientEvent> {
        taken.events.iter().filter(|event| is_of(&event.what)).collect()
    };
    let mut out = streams(&of(|what| matches!(what, ClientChange::Connected(_))), "connected");
    out.extend(streams(&of(|what| matches!(what, ClientChange::Disconnected(_))), "disconnected"));
    if taken.missed > 0 {
        out.push(TimelineItem {
            kind: TimelineKind::Client,
            message: format!("{} further events of clients", taken.missed),
            ..TimelineItem::default()
        });
    }
    out.extend(rejections(taken));
    out
}

/// Returns an entry for each of a few streams, or one for many.
fn streams(events: &[&ClientEvent], what: &str) -> Vec<TimelineItem> {
    let entry = |object, message| TimelineItem {
        kind: TimelineKind::Client,
        object,
        message,
        ..TimelineItem::default()
    };
    if events.len() > MOST_ALONE {
        return vec![entry(None, format!("{} clients {what}: {}", events.len(), named(events)))];
    }
    let one = |event: &&ClientEvent| {
        let (ClientChange::Connected(peer) | ClientChange::Disconnected(peer)) = event.what else {
            return None;
        };
        Some(entry(TimelineObject::new("client", &*event.node), format!("{what}, from {peer}")))
    };
    events.iter().filter_map(one).collect()
}

/// Names the first clients.
fn named(events: &[&ClientEvent]) -> String {
    let shown: Vec<&str> = events.iter().take(MOST_NAMES).map(|event| &*event.node).collect();
    let more = events.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Returns an entry for each type and text that clients rejected.
fn rejections(taken: &Taken) -> Vec<TimelineItem> {
    let mut by_text: BTreeMap<(&str, &str), Vec<&ClientEvent>> = BTreeMap::new();
    for event in &taken.events {
        if let ClientChange::Rejected(kind, text) = &event.what {
            by_text.entry((kind.as_str(), text)).or_default().push(event);
        }
    }
    let entry = |((kind, text), events): ((&str, &str), Vec<&ClientEvent>)| {
        let kind = kind.to_uppercase();
        let only = events.first().filter(|first| events.iter().all(|event| event.node == first.node));
        let message = match only {
            Some(_) => format!("rejected {kind}: {text}"),
            None => format!("{} clients rejected {kind}: {text} ({})", events.len(), named(&events)),
        };
        TimelineItem {
            kind: TimelineKind::Rejection,
            severity: TimelineSeverity::Error,
            object: only.and_then(|event| TimelineObject::new("client", &*event.node)),
            message,
            code: Code::CLIENT_NACK.to_string(),
            ..TimelineItem::default()
        }
    };
    by_text.into_iter().take(MOST_REJECTIONS).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_xds::answers::ResourceType;

    fn mk_event(node: &str, what: ClientChange) -> ClientEvent {
        ClientEvent { node: node.into(), what }
    }

    fn shown(events: Vec<ClientEvent>, missed: u64) -> Vec<String> {
        let all = entries(&Taken { events: events.into(), missed });
        let name =
            |one: &TimelineItem| one.object.as_ref().map(|object| object.name.clone()).unwrap_or_default();
        all.iter().map(|one| format!("{} {}", name(one), one.message)).collect()
    }

    #[test]
    fn few_streams_have_entries_and_many_have_one() {
        let peer = "10.0.0.9:80".parse().unwrap();
        let streams = |count: usize, what: fn(std::net::SocketAddr) -> ClientChange| {
            (0..count).map(|at| mk_event(&format!("c{at}"), what(peer))).collect::<Vec<_>>()
        };
        let mut few = streams(1, ClientChange::Connected);
        few.extend(streams(2, ClientChange::Disconnected));
        let expected = ["connected", "disconnected", "disconnected"].iter().zip(["c0", "c0", "c1"]);
        let expected: Vec<_> = expected.map(|(what, name)| format!("{name} {what}, from {peer}")).collect();
        assert_eq!(shown(few, 0), expected);
        let many = shown(streams(900, ClientChange::Connected), 20);
        let all = " 900 clients connected: c0, c1, c2, c3, c4 and 895 more";
        assert_eq!(many, [all, " 20 further events of clients"]);
    }

    #[test]
    fn rejections_of_one_text_are_one_entry() {
        let rejected = |node: &str, text: &str| {
            mk_event(node, ClientChange::Rejected(ResourceType::Cluster, text.into()))
        };
        let events = vec![rejected("a", "no"), rejected("b", "no"), rejected("c", "<b>never</b>")];
        assert_eq!(shown(events, 0), ["c rejected CDS: <b>never</b>", " 2 clients rejected CDS: no (a, b)"]);
        let events = (0..100).map(|at| rejected("a", &at.to_string())).collect();
        assert_eq!(shown(events, 0).len(), MOST_REJECTIONS);
    }
}
