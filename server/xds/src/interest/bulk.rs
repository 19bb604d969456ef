//! Streams that look at every change of what they see, in groups that see alike.
//!
//! A publication compares each changed host once per group, as clients of the group resolve it before and after. So
//! a change outside a scope wakes none of its streams. The cursor of a group still moves: after [`LAG`] generations
//! it is woken anyway, so that its streams release the catalog that they hold.

use std::collections::HashMap;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use parking_lot::Mutex;
use tributary_answer::{ClientSidecar, Scope, own_routes, resolve};
use tributary_model::{Catalog, Hostname, Namespace, ObservedSince, ServiceView};

use super::Wake;
use crate::answers::ClientClass;

/// Generations after which a group is woken that no change concerned.
pub(super) const LAG: u64 = 256;

/// Most comparisons of one publication; beyond them every group is woken.
const MAX_COMPARISONS: usize = 65_536;

/// What the streams of a group see.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Sight {
    namespace: Option<Namespace>,
    sidecar: Option<Arc<ClientSidecar>>,
}

impl Sight {
    pub(super) fn of(class: &ClientClass) -> Self {
        Self { namespace: class.namespace.clone(), sidecar: class.sidecar.clone() }
    }
    fn differs(&self, before: &Catalog, now: &Catalog, hosts: &[Hostname]) -> bool {
        let scope = Scope { namespace: self.namespace.as_ref(), sidecar: self.sidecar.as_deref() };
        let view =
            |catalog, host: &Hostname| resolve(catalog, host.as_str(), scope, &mut ()).map(Arc::as_ptr);
        hosts.iter().any(|host| -> bool {
            let (old, new): (Option<*const ServiceView>, _) = (view(before, host), view(now, host));
            old != new || own_routes(before, host, scope) != own_routes(now, host, scope)
        })
    }
}

#[derive(Debug, Default)]
struct Group {
    streams: HashMap<u64, Arc<Wake>>,
    /// Generation of the last wake-up; every stream has at least this one.
    at: u64,
}

impl Group {
    fn wake(&self, observed: ObservedSince) -> usize {
        self.streams.values().for_each(|wake| wake.wake(observed));
        self.streams.len()
    }
}

/// Streams by what they see.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    groups: Mutex<HashMap<Sight, Group>>,
}

impl Bulk {
    /// Adds a stream that will load a catalog of at least generation `at`.
    pub(super) fn insert(&self, sight: Sight, id: u64, wake: Arc<Wake>, at: u64) {
        let mut groups = self.groups.lock();
        let group = groups.entry(sight).or_insert_with(|| Group { at, ..Group::default() });
        group.streams.insert(id, wake);
    }
    pub(super) fn remove(&self, sight: &Sight, id: u64) {
        let mut groups = self.groups.lock();
        let Some(group) = groups.get_mut(sight) else { return };
        group.streams.remove(&id);
        if group.streams.is_empty() {
            groups.remove(sight);
        }
    }
    pub(super) fn len(&self) -> usize {
        self.groups.lock().values().map(|group| group.streams.len()).sum()
    }
    /// Wakes every stream, and returns their number.
    pub(super) fn wake_all(&self, now: &Catalog, observed: ObservedSince) -> usize {
        self.wake(now, observed, |_| true)
    }
    /// Wakes the streams that see a difference between two generations, and returns their number.
    pub(super) fn wake_for(&self, before: &Catalog, now: &Catalog, observed: ObservedSince) -> usize {
        let groups = self.groups.lock().len();
        let hosts: Vec<Hostname> = changed_hosts(before, now).take(MAX_COMPARISONS).collect();
        if hosts.len().saturating_mul(groups) > MAX_COMPARISONS {
            return self.wake_all(now, observed);
        }
        self.wake(now, observed, |sight| sight.differs(before, now, &hosts))
    }
    fn wake(&self, now: &Catalog, observed: ObservedSince, concerns: impl Fn(&Sight) -> bool) -> usize {
        let mut woken = 0;
        for (sight, group) in self.groups.lock().iter_mut() {
            if now.generation.saturating_sub(group.at) >= LAG || concerns(sight) {
                group.at = now.generation;
                woken += group.wake(observed);
            }
        }
        woken
    }
}

/// Returns the hosts whose entries differ; the cost follows the change.
fn changed_hosts<'c>(before: &'c Catalog, now: &'c Catalog) -> impl Iterator<Item = Hostname> + 'c {
    before.hosts.diff(&now.hosts).map(|item| match item {
        DiffItem::Add(host, _) | DiffItem::Remove(host, _) | DiffItem::Update { new: (host, _), .. } => {
            host.clone()
        }
    })
}
