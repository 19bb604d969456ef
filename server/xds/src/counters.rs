//! Counters of sessions and transport. Tests assert on them instead of on time; the scrape reads them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::client_events::ClientEvents;
use crate::client_gauges::ClientGauges;
use crate::pushes::Pushes;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of everything that sessions and the transport do; one per server.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Count,)*
            /// Push statistics by type.
            pub pushes: Pushes,
            /// Connected streams and their subscriptions.
            pub clients: ClientGauges,
            /// Events of clients.
            pub events: ClientEvents,
        }

        impl Counters {
            /// Returns every count with its name.
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
    /// Connections that failed before their first request (handshakes, deadlines).
    handshakes_failed,
    /// Streams opened.
    streams,
    /// Streams that ended.
    streams_ended,
    /// Streams refused with a status.
    streams_refused,
    /// Streams refused because their client did not prove the identity that its node claims.
    identities_refused,
    /// Streams refused because the cluster of a token did not review it.
    tokens_unreviewed,
    /// Streams closed because the client stopped reading.
    streams_stuck,
    /// Requests received.
    requests,
    /// Requests that were delayed by the rate limit.
    requests_delayed,
    /// Requests for types that are not served.
    unknown_types,
    /// Requests with a nonce other than that of the last response.
    stale_nonces,
    /// Responses that clients acknowledged.
    acks,
    /// Responses that clients rejected.
    nacks,
    /// Responses sent.
    sends,
    /// Responses that left in one write with the response before them.
    sends_joined,
    /// Resources in responses, unless a shared set was sent whole.
    resources_sent,
    /// Shared sets sent whole.
    sets_sent,
    /// Removed names sent.
    removals_sent,
    /// Bytes sent.
    bytes_sent,
    /// Rounds begun.
    rounds,
    /// Rounds whose responses another session of the class had sent alike.
    rounds_repeated,
    /// Times that a stream's task had nothing to do and waited.
    waits,
    /// Wake-ups of a session by a generation.
    wakeups,
    /// Wake-ups after which nothing had to be sent.
    wakeups_for_nothing,
    /// Rounds that went on because the client did not acknowledge new xDS clusters in time.
    warms_expired,
    /// Rounds whose first CDS response kept xDS clusters of the client's earlier stream.
    carried_over,
    /// Assignments sent because their xDS cluster was sent.
    endpoints_forced,
    /// Bases replaced by hashes because a client stopped reading.
    bases_dropped,
    /// Pieces of heavy work that left the runtime's workers.
    offloaded,
    /// Times that policies were read for clients: once for those of a namespace with equal labels, until policies change.
    policies_selected,
    /// Comparisons of whole sets: new or changed classes, and clients that stopped reading.
    full_comparisons,
}

/// A counter.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Increments the counter.
    pub fn inc(&self) {
        self.add(1);
    }
    /// Adds to the counter.
    pub fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Relaxed);
    }
    /// Returns the count.
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
