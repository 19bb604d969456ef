//! The last changes of the server, bounded in number and bytes.
//!
//! The tasks that notice a change add it; the admin surface reads the entries, and its event streams wait for the next one. Adding an
//! entry waits for no reader. Entries are numbered in the order in which they were added, and an answer has them in the order of time: a
//! state that settles is added after later changes.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::document::bounded::MAX_TEXT;
use crate::document::filter::same_host;
use crate::document::timeline::{TimelineItem, TimelineObject};
use crate::document::timestamp;

/// Most hosts that one entry names.
pub const MOST_HOSTS: usize = 10;

/// The last changes. Clones share them.
#[derive(Debug, Clone)]
pub struct Timeline(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ring: Mutex<Ring>,
    last: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    items: VecDeque<Arc<TimelineItem>>,
    bytes: usize,
}

/// Entries of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    /// Entries, the oldest first; those of one time by their number.
    pub items: Vec<Arc<TimelineItem>>,
    /// Number of newer entries beyond the limit, if a sequence was given; of older ones if not.
    pub more: usize,
    /// Number of requested entries that are no longer kept.
    pub dropped: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Self(Arc::new(Inner { ring: Mutex::default(), last: watch::Sender::new(0) }))
    }
}

impl Timeline {
    /// Most entries that are kept.
    pub const MOST: usize = 1_000;
    /// Most bytes of all texts that are kept.
    pub const MOST_BYTES: usize = 1 << 20;

    /// Adds an entry under the next number; `at` is the time at which the change was noticed.
    pub fn add(&self, at: Timestamp, entry: TimelineItem) {
        let entry = bounded(entry);
        self.0.last.send_modify(|last| {
            *last += 1;
            let entry = TimelineItem { sequence: *last, at: timestamp(at), ..entry };
            self.0.ring.lock().push(entry);
        });
    }
    /// Returns a receiver of the number of the last entry, as it changes.
    #[must_use]
    pub fn last(&self) -> watch::Receiver<u64> {
        self.0.last.subscribe()
    }
    /// Returns entries: with `after` the oldest ones with a greater number, else the newest ones. `since` excludes those noticed
    /// earlier, and `host` what cannot be about it; an entry with more hosts than it names may be.
    #[must_use]
    pub fn read(
        &self,
        (after, since): (Option<u64>, Option<Timestamp>),
        host: Option<&str>,
        limit: usize,
    ) -> Entries {
        let since = since.map(timestamp);
        let ring = self.0.ring.lock();
        let first = ring.items.front().map_or(1, |item| item.sequence);
        let is_wanted = |item: &&Arc<TimelineItem>| {
            item.sequence > after.unwrap_or_default()
                && since.as_ref().is_none_or(|since| item.at >= *since)
                && host.is_none_or(|host| may_concern(item, host))
        };
        let mut items: Vec<Arc<TimelineItem>> = ring.items.iter().filter(is_wanted).cloned().collect();
        drop(ring);
        let more = items.len().saturating_sub(limit);
        // a reader that follows numbers must get the next ones, whatever their times
        if after.is_some() {
            items.truncate(limit);
        }
        items.sort_by(|a, b| a.at.cmp(&b.at));
        items.drain(..items.len().saturating_sub(limit));
        Entries { items, more, dropped: after.map_or(0, |after| (first - 1).saturating_sub(after)) }
    }
}

fn may_concern(item: &TimelineItem, host: &str) -> bool {
    item.more_hosts > 0
        || item.hosts.iter().any(|own| same_host(host, own))
        || item.object.as_ref().is_some_and(|object| same_host(host, &object.name))
}

impl Ring {
    fn push(&mut self, entry: TimelineItem) {
        self.bytes += size(&entry);
        self.items.push_back(Arc::new(entry));
        while self.items.len() > Timeline::MOST || self.bytes > Timeline::MOST_BYTES {
            let Some(oldest) = self.items.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(size(&oldest));
        }
    }
}

/// Returns the bytes of an entry's texts.
fn size(entry: &TimelineItem) -> usize {
    let TimelineItem { object, message, code, registry, hosts, at, .. } = entry;
    let object = object.as_ref().map_or(0, |object| object.kind.len() + object.name.len());
    object
        + message.len()
        + code.len()
        + registry.len()
        + at.len()
        + hosts.iter().map(String::len).sum::<usize>()
}

/// Cuts the texts and the hosts of an entry at their bounds.
fn bounded(mut entry: TimelineItem) -> TimelineItem {
    entry.more_hosts += entry.hosts.len().saturating_sub(MOST_HOSTS);
    entry.hosts.truncate(MOST_HOSTS);
    entry.hosts.iter_mut().chain([&mut entry.message, &mut entry.registry]).for_each(cut);
    if let Some(TimelineObject { name, .. }) = &mut entry.object {
        cut(name);
    }
    entry
}

fn cut(text: &mut String) {
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push('…');
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_entry(message: impl Into<String>) -> TimelineItem {
        TimelineItem { message: message.into(), ..TimelineItem::default() }
    }

    fn numbers(entries: &Entries) -> Vec<u64> {
        entries.items.iter().map(|item| item.sequence).collect()
    }

    #[test]
    fn entries_are_numbered_and_read_from_a_number_on() {
        let (timeline, mut last) = (Timeline::default(), Timeline::default().last());
        assert_eq!(timeline.read((None, None), None, 10), Entries::default());
        (1..=5).for_each(|second| timeline.add(Timestamp::from_second(second).unwrap(), mk_entry("x")));
        let read = |after, since: Option<i64>, limit| {
            let since = since.map(|second| Timestamp::from_second(second).unwrap());
            let entries = timeline.read((after, since), None, limit);
            (numbers(&entries), entries.more)
        };
        assert_eq!(read(None, None, 2), (vec![4, 5], 3), "the newest ones");
        assert_eq!(read(Some(1), None, 2), (vec![2, 3], 2), "the next ones, so that none is missed");
        assert_eq!(read(Some(5), None, 2), (vec![], 0));
        assert_eq!(read(Some(1), Some(4), 9), (vec![4, 5], 0));
        assert!(!last.has_changed().unwrap_or_default(), "of another timeline");
        last = timeline.last();
        assert_eq!(*last.borrow(), 5);
    }

    #[test]
    fn answer_is_in_the_order_of_time() {
        let timeline = Timeline::default();
        for second in [1, 3, 2, 2] {
            timeline.add(Timestamp::from_second(second).unwrap(), mk_entry("x"));
        }
        assert_eq!(numbers(&timeline.read((None, None), None, 10)), [1, 3, 4, 2]);
        assert_eq!(numbers(&timeline.read((None, None), None, 2)), [4, 2], "the newest ones");
        assert_eq!(numbers(&timeline.read((Some(1), None), None, 2)), [3, 2], "the next two numbers");
    }

    #[test]
    fn entries_are_read_by_host() {
        let timeline = Timeline::default();
        let hosts = |hosts: &[&str], more_hosts| TimelineItem {
            hosts: hosts.iter().map(ToString::to_string).collect(),
            more_hosts,
            ..mk_entry("x")
        };
        timeline.add(Timestamp::UNIX_EPOCH, hosts(&["pay.test", "cart.test"], 0));
        timeline.add(Timestamp::UNIX_EPOCH, hosts(&["cart.test"], 0));
        timeline.add(Timestamp::UNIX_EPOCH, hosts(&["cart.test"], 3));
        let object = TimelineObject::new("service", "pay.test");
        timeline.add(Timestamp::UNIX_EPOCH, TimelineItem { object, ..mk_entry("x") });
        assert_eq!(numbers(&timeline.read((None, None), Some("PAY.test."), 10)), [1, 3, 4]);
    }

    #[test]
    fn number_and_bytes_are_bounded_and_dropped_entries_are_counted() {
        let timeline = Timeline::default();
        let now = Timestamp::UNIX_EPOCH;
        (0..1_500).for_each(|_| timeline.add(now, mk_entry("x")));
        let all = timeline.read((Some(100), None), None, 5_000);
        assert_eq!((all.items.len(), all.items[0].sequence, all.dropped), (1_000, 501, 400));
        let hosts = (0..1_000).map(|at| format!("{at:0>9000}")).collect();
        let object = TimelineObject::new("Host", "é".repeat(9_000));
        (0..100).for_each(|_| {
            timeline.add(
                now,
                TimelineItem {
                    object: object.clone(),
                    hosts: Vec::clone(&hosts),
                    ..mk_entry("é".repeat(9_000))
                },
            );
        });
        let all = timeline.read((None, None), None, 5_000);
        let bytes: usize = all.items.iter().map(|item| size(item)).sum();
        assert!(
            bytes <= Timeline::MOST_BYTES && all.items.len() < 100,
            "{bytes} bytes of {}",
            all.items.len()
        );
        let last = all.items.last().unwrap();
        assert_eq!((last.hosts.len(), last.more_hosts), (MOST_HOSTS, 990));
        assert!(last.message.ends_with("é…") && last.message.len() <= MAX_TEXT + 3);
    }
}
