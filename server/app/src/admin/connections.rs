//! Connections of one listener, bounded in number.
//!
//! `listener` takes a slot for each accepted connection. When all are taken, the oldest connection that has not proved itself makes way, so
//! that peers without credentials cannot keep operators out. `access` marks a connection as proven with the first request that it admits
//! to a route that is not open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Whether a connection has proved itself; the listener adds it to every request.
#[derive(Debug, Clone, Default)]
pub(super) struct Proven(Arc<AtomicBool>);

impl Proven {
    /// Marks the connection as proven, until it ends.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Slots of a listener.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    /// By number, which is the order of acceptance.
    slots: BTreeMap<u64, (Proven, CancellationToken)>,
}

/// Slot of an open connection; dropping it frees the slot.
#[derive(Debug)]
pub(super) struct Slot {
    connections: Arc<Connections>,
    number: u64,
    /// Whether the connection has proved itself.
    pub(super) proven: Proven,
    /// Cancelled when the connection has to make way.
    pub(super) evicted: CancellationToken,
}

impl Connections {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, all: Mutex::default() })
    }
    /// Takes a slot, that of the oldest unproven connection if there is no free one; `None` if all have proved themselves.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Slot> {
        let mut all = self.all.lock();
        if all.slots.len() >= self.most {
            let oldest =
                all.slots.iter().find(|(_, (proven, _))| !proven.is_set()).map(|(number, _)| *number)?;
            if let Some((_, evicted)) = all.slots.remove(&oldest) {
                evicted.cancel();
            }
        }
        let (proven, evicted) = (Proven::default(), CancellationToken::new());
        let number = all.next;
        all.next += 1;
        all.slots.insert(number, (proven.clone(), evicted.clone()));
        Some(Slot { connections: Arc::clone(self), number, proven, evicted })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.all.lock().slots.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_unproven_connection_makes_way() {
        let connections = Connections::new(2);
        let (first, second) = (connections.enter().unwrap(), connections.enter().unwrap());
        first.proven.set();
        let third = connections.enter().unwrap();
        assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled());
        third.proven.set();
        assert!(connections.enter().is_none(), "proven connections stay");
        drop(second);
        assert!(connections.enter().is_none(), "an evicted connection has no slot to free");
        drop(first);
        let fourth = connections.enter().unwrap();
        assert!(!third.evicted.is_cancelled() && !fourth.evicted.is_cancelled());
    }
}
