//! What was done, counted: tests assert on these, never on time. Read by metrics at scrape.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::pushes::Pushes;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of everything that sessions and the transport do; one per server.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Count,)*
            /// What was pushed, by type.
            pub pushes: Pushes,
        }

        impl Counters {
            /// Every count with its name.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get())),*]
            }
        }
    };
}

counters! {
    /// Connections accepted.
    connections,
    /// Connections refused because there were too many.
    connections_refused,
    /// Connections that failed before they could ask (handshakes, deadlines).
    handshakes_failed,
    /// Streams opened.
    streams,
    /// Streams that ended.
    streams_ended,
    /// Streams refused with a status.
    streams_refused,
    /// Streams closed because the client stopped reading.
    streams_stuck,
    /// Requests taken.
    requests,
    /// Requests that had to wait because there were too many.
    requests_delayed,
    /// Requests for types that are not served.
    unknown_types,
    /// Requests that named a response other than the last.
    stale_nonces,
    /// Responses taken by clients.
    acks,
    /// Responses refused by clients.
    nacks,
    /// Responses sent.
    sends,
    /// Resources in them, unless a shared set was sent whole.
    resources_sent,
    /// Shared sets sent whole.
    sets_sent,
    /// Names told to be gone.
    removals_sent,
    /// Bytes sent.
    bytes_sent,
    /// Rounds begun.
    rounds,
    /// Times that a session was woken by a generation.
    wakeups,
    /// Of these, how often nothing was to be sent.
    wakeups_for_nothing,
    /// Assignments sent because their xDS cluster was.
    endpoints_forced,
    /// Bases given up for hashes because a client stopped reading.
    bases_dropped,
    /// Comparisons of whole sets: new or changed classes, and clients that stopped reading.
    full_comparisons,
}

/// One count.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// One more.
    pub fn inc(&self) {
        self.add(1);
    }
    /// So many more.
    pub fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Relaxed);
    }
    /// How many.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_listed_by_name() {
        let counters = Counters::default();
        counters.sends.add(3);
        assert!(counters.all().contains(&("sends", 3)));
        assert!(counters.all().contains(&("nacks", 0)));
    }
}
