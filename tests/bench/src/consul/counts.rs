//! Counters of the scripted Consul of a bench: requests by kind and by time, bytes, connections, and requests
//! per connection.
//!
//! The server's tasks share them. Counters start at the last [`Counts::reset`]; maxima are never reset.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::catalog::What;

#[derive(Default)]
struct Figures {
    names: u64,
    checks: u64,
    services: u64,
    others: u64,
    /// Index of the last list of names that was sent.
    names_index: u64,
    bytes: u64,
    /// Bytes of answers about one service.
    service_bytes: u64,
    /// Arrival times of requests within the last second.
    recent: VecDeque<Instant>,
    busiest_second: usize,
    waiting: usize,
    connections: usize,
    most_connections: usize,
    connections_made: u64,
    most_streams: usize,
}

/// Counters of one server.
#[derive(Clone, Default)]
pub(super) struct Counts(Arc<Mutex<Figures>>);

/// A connection; counted until dropped.
pub(super) struct Connection {
    counts: Counts,
    streams: Mutex<usize>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.counts.0.lock().connections -= 1;
    }
}

/// An active request; counted until dropped.
pub(super) struct Stream(Arc<Connection>);

impl Drop for Stream {
    fn drop(&mut self) {
        *self.0.streams.lock() -= 1;
    }
}

/// A waiting long poll; counted until dropped.
pub(super) struct Waiting(Counts);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.lock().waiting -= 1;
    }
}

impl Counts {
    pub(super) fn connected(&self) -> Arc<Connection> {
        let mut all = self.0.lock();
        all.connections += 1;
        all.connections_made += 1;
        all.most_connections = all.most_connections.max(all.connections);
        Arc::new(Connection { counts: self.clone(), streams: Mutex::default() })
    }
    /// Counts a request on this connection.
    pub(super) fn requested(&self, what: Option<What>, over: &Arc<Connection>) -> Stream {
        let streams = {
            let mut streams = over.streams.lock();
            *streams += 1;
            *streams
        };
        let mut all = self.0.lock();
        match what {
            Some(What::Names) => all.names += 1,
            Some(What::Checks) => all.checks += 1,
            Some(What::Service(_) | What::Nothing) => all.services += 1,
            Some(What::Datacenters) | None => all.others += 1,
        }
        all.most_streams = all.most_streams.max(streams);
        all.arrived(Instant::now());
        Stream(Arc::clone(over))
    }
    pub(super) fn waits(&self) -> Waiting {
        self.0.lock().waiting += 1;
        Waiting(self.clone())
    }
    pub(super) fn answered(&self, what: What, index: u64, bytes: usize) {
        let mut all = self.0.lock();
        all.bytes += bytes as u64;
        match what {
            What::Service(_) => all.service_bytes += bytes as u64,
            What::Names => all.names_index = index,
            _ => {}
        }
    }
    /// Returns the index of the last list of names that was sent.
    pub(super) fn names_index(&self) -> u64 {
        self.0.lock().names_index
    }
    /// Resets the counters.
    pub(super) fn reset(&self) {
        let mut all = self.0.lock();
        let Figures {
            names_index,
            waiting,
            connections,
            most_connections,
            connections_made,
            most_streams,
            ..
        } = *all;
        *all = Figures {
            names_index,
            waiting,
            connections,
            most_connections,
            connections_made,
            most_streams,
            ..Figures::default()
        };
    }
    /// Returns all counters as JSON.
    pub(super) fn report(&self) -> Value {
        let all = self.0.lock();
        json!({
            "requests": all.names + all.checks + all.services + all.others,
            "names": all.names,
            "checks": all.checks,
            "services": all.services,
            "bytes": all.bytes,
            "service_bytes": all.service_bytes,
            "busiest_second": all.busiest_second,
            "waiting": all.waiting,
            "connections": all.connections,
            "most_connections": all.most_connections,
            "connections_made": all.connections_made,
            "most_streams": all.most_streams,
        })
    }
}

impl Figures {
    fn arrived(&mut self, now: Instant) {
        self.recent.push_back(now);
        while self.recent.front().is_some_and(|at| now.duration_since(*at) >= Duration::from_secs(1)) {
            self.recent.pop_front();
        }
        self.busiest_second = self.busiest_second.max(self.recent.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_keeps_maxima_and_the_busiest_second_is_found() {
        let counts = Counts::default();
        let over = counts.connected();
        let two = [Some(What::Names), Some(What::Service(1))].map(|what| counts.requested(what, &over));
        let mut figures = Figures::default();
        let begun = Instant::now();
        for millis in [0, 100, 900, 1_050, 2_500] {
            figures.arrived(begun + Duration::from_millis(millis));
        }
        assert_eq!(figures.busiest_second, 3, "100, 900 and 1,050");
        drop(two);
        counts.reset();
        let report = counts.report();
        assert_eq!((report["requests"].as_u64(), report["most_streams"].as_u64()), (Some(0), Some(2)));
        drop(over);
        let report = counts.report();
        assert_eq!((report["connections"].as_u64(), report["most_connections"].as_u64()), (Some(0), Some(1)));
    }
}
