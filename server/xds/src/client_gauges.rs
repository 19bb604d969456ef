//! Numbers of connected streams, of their subscriptions and of rejected responses, kept where they change.
//!
//! A session counts itself through a [`SessionCount`], which takes back its part when the session ends. Metrics read the
//! sums; a read locks no session and costs the same for any number of clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tributary_model::ClientKind;

use crate::answers::{ResourceType, TypeMap};
use crate::counters::Counters;

/// Client kinds in the order of their names.
const KINDS: [ClientKind; 4] = [ClientKind::Envoy, ClientKind::Grpc, ClientKind::Sidecar, ClientKind::Router];

/// Sums over all sessions of a server.
#[derive(Debug, Default)]
pub struct ClientGauges {
    kinds: [OfKind; 4],
    nacked: TypeMap<AtomicU64>,
}

#[derive(Debug, Default)]
struct OfKind {
    streams: AtomicU64,
    types: TypeMap<AtomicU64>,
}

impl ClientGauges {
    /// Returns the connected streams of each client kind that has any.
    #[must_use]
    pub fn streams(&self) -> Vec<(ClientKind, u64)> {
        let all = KINDS.into_iter().map(|kind| (kind, self.of(kind).streams.load(Relaxed)));
        all.filter(|(_, count)| *count > 0).collect()
    }
    /// Returns the number of streams that use a type, by type and client kind, without zeros.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<(ResourceType, ClientKind, u64)> {
        let pairs = ResourceType::ALL.into_iter().flat_map(|of| KINDS.map(|kind| (of, kind)));
        let all = pairs.map(|(of, kind)| (of, kind, self.of(kind).types[of].load(Relaxed)));
        all.filter(|(.., count)| *count > 0).collect()
    }
    /// Returns the number of streams with a rejected resource of a type, for each type in use.
    #[must_use]
    pub fn nacked(&self) -> Vec<(ResourceType, u64)> {
        let is_used = |of: ResourceType| self.kinds.iter().any(|kind| kind.types[of].load(Relaxed) > 0);
        let used = ResourceType::ALL.into_iter().filter(|of| is_used(*of));
        used.map(|of| (of, self.nacked[of].load(Relaxed))).collect()
    }
    fn of(&self, kind: ClientKind) -> &OfKind {
        let [envoy, grpc, sidecar, router] = &self.kinds;
        match kind {
            ClientKind::Envoy => envoy,
            ClientKind::Grpc => grpc,
            ClientKind::Sidecar => sidecar,
            ClientKind::Router => router,
        }
    }
}

/// Part of one session in the sums.
#[derive(Debug)]
pub(crate) struct SessionCount {
    counters: Arc<Counters>,
    kind: ClientKind,
    /// For each type in use, whether a resource of it is rejected.
    types: TypeMap<Option<bool>>,
}

impl SessionCount {
    /// Counts a new stream.
    pub(crate) fn new(counters: Arc<Counters>, kind: ClientKind) -> Self {
        counters.clients.of(kind).streams.fetch_add(1, Relaxed);
        Self { counters, kind, types: TypeMap::default() }
    }
    /// Sets whether a type is in use, and if so whether a resource of it is rejected.
    pub(crate) fn set(&mut self, of: ResourceType, state: Option<bool>) {
        let old = std::mem::replace(&mut self.types[of], state);
        let gauges = &self.counters.clients;
        shift(&gauges.of(self.kind).types[of], old.is_some(), state.is_some());
        shift(&gauges.nacked[of], old == Some(true), state == Some(true));
    }
}

impl Drop for SessionCount {
    fn drop(&mut self) {
        ResourceType::ALL.into_iter().for_each(|of| self.set(of, None));
        self.counters.clients.of(self.kind).streams.fetch_sub(1, Relaxed);
    }
}

fn shift(gauge: &AtomicU64, was: bool, is: bool) {
    match (was, is) {
        (false, true) => gauge.fetch_add(1, Relaxed),
        (true, false) => gauge.fetch_sub(1, Relaxed),
        _ => return,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_takes_back_its_part_when_it_ends() {
        let counters = Arc::<Counters>::default();
        let mut first = SessionCount::new(Arc::clone(&counters), ClientKind::Sidecar);
        let second = SessionCount::new(Arc::clone(&counters), ClientKind::Envoy);
        first.set(ResourceType::Route, Some(false));
        first.set(ResourceType::Route, Some(true));
        let gauges = &counters.clients;
        assert_eq!(gauges.streams(), [(ClientKind::Envoy, 1), (ClientKind::Sidecar, 1)]);
        assert_eq!(gauges.subscriptions(), [(ResourceType::Route, ClientKind::Sidecar, 1)]);
        assert_eq!(gauges.nacked(), [(ResourceType::Route, 1)]);
        first.set(ResourceType::Route, Some(false));
        assert_eq!(gauges.nacked(), [(ResourceType::Route, 0)]);
        drop(first);
        assert_eq!((gauges.streams(), gauges.subscriptions()), (vec![(ClientKind::Envoy, 1)], Vec::new()));
        drop(second);
        assert_eq!((gauges.streams(), gauges.nacked()), (Vec::new(), Vec::new()));
    }
}
