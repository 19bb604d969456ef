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
    /// Returns the connected streams of each client kind, zeros too: a series that is absent until the first client would make
    /// queries over it empty.
    #[must_use]
    pub fn streams(&self) -> Vec<(ClientKind, u64)> {
        KINDS.into_iter().map(|kind| (kind, self.of(kind).streams.load(Relaxed))).collect()
    }
    /// Returns the number of streams that use a type, by type and client kind, zeros too.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<(ResourceType, ClientKind, u64)> {
        let pairs = ResourceType::ALL.into_iter().flat_map(|of| KINDS.map(|kind| (of, kind)));
        pairs.map(|(of, kind)| (of, kind, self.of(kind).types[of].load(Relaxed))).collect()
    }
    /// Returns the number of streams with a rejected resource of each type, zeros too.
    #[must_use]
    pub fn nacked(&self) -> Vec<(ResourceType, u64)> {
        ResourceType::ALL.into_iter().map(|of| (of, self.nacked[of].load(Relaxed))).collect()
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
        let streams = || gauges.streams().into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
        let used = || gauges.subscriptions().into_iter().filter(|(.., count)| *count > 0).collect::<Vec<_>>();
        let nacked = || gauges.nacked().into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
        assert_eq!(streams(), [(ClientKind::Envoy, 1), (ClientKind::Sidecar, 1)]);
        assert_eq!(used(), [(ResourceType::Route, ClientKind::Sidecar, 1)]);
        assert_eq!(nacked(), [(ResourceType::Route, 1)]);
        first.set(ResourceType::Route, Some(false));
        assert_eq!(nacked(), []);
        drop(first);
        assert_eq!((streams(), used()), (vec![(ClientKind::Envoy, 1)], Vec::new()));
        drop(second);
        assert_eq!((streams(), nacked()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn every_kind_and_type_is_counted_before_the_first_client() {
        let gauges = ClientGauges::default();
        assert_eq!(gauges.streams().len(), KINDS.len());
        assert_eq!(gauges.nacked().len(), ResourceType::ALL.len());
        assert_eq!(gauges.subscriptions().len(), KINDS.len() * ResourceType::ALL.len());
    }
}
