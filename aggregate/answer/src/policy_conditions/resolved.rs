//! Services that clients get where several namespaces declare one host: that of their own namespace, else the first that
//! they see and their Sidecar imports.
//!
//! The conditions of DestinationRules and VirtualServices judge a host by it. A host is looked up once per namespace of
//! clients; callers count the comparisons.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tributary_model::{Catalog, Namespace, ServiceView};

use super::Beside;
use crate::resolve::claimant;
use crate::scope::{ClientSidecar, Scope, attachable};

/// Most known clients of a namespace whose Sidecars are compared.
const MAX_CLIENTS: usize = 1_000;

/// Sidecars that may apply to clients, `None` for clients without one.
type Attachable = Rc<[Option<ClientSidecar>]>;

/// Services of one host, in order of precedence.
type Views<'c> = Rc<[&'c Arc<ServiceView>]>;

/// Services that clients get, by their namespace.
pub(super) struct ResolvedServices<'c> {
    catalog: &'c Catalog,
    beside: Beside<'c>,
    /// Sidecars that may apply to clients of a namespace, of most others without one.
    sidecars: RefCell<BTreeMap<Option<Namespace>, Attachable>>,
    /// Services of hosts that several namespaces declare.
    found: RefCell<BTreeMap<(Option<Namespace>, String), Views<'c>>>,
}

impl<'c> ResolvedServices<'c> {
    /// Returns the look-up of a catalog.
    pub(super) fn new(catalog: &'c Catalog, beside: Beside<'c>) -> Self {
        Self { catalog, beside, sidecars: RefCell::default(), found: RefCell::default() }
    }
    /// Returns the Sidecars that may apply to clients of a namespace, of most others without one.
    pub(super) fn sidecars(&self, client: Option<&Namespace>) -> Attachable {
        let mut read_before = self.sidecars.borrow_mut();
        let known = self.beside.clients.iter().filter(|one| Some(&one.namespace) == client);
        let labels = known.map(|one| &one.labels).take(MAX_CLIENTS);
        let read = || attachable(self.catalog, client, labels).into();
        Rc::clone(read_before.entry(client.cloned()).or_insert_with(read))
    }
    /// Returns the services that declare a host.
    pub(super) fn claimants(&self, host: &str) -> &'c [Arc<ServiceView>] {
        self.catalog.hosts.get(host).map_or(&[], |entry| &*entry.claimants)
    }
    /// Returns the services of a host that clients of a namespace get, one unless their Sidecars differ in it.
    pub(super) fn of(&self, host: &str, client: Option<&Namespace>) -> Views<'c> {
        let key = (client.cloned(), host.to_owned());
        if let Some(known) = self.found.borrow().get(&key) {
            return Rc::clone(known);
        }
        let found = self.look_up(host, client);
        self.found.borrow_mut().insert(key, Rc::clone(&found));
        found
    }
    fn look_up(&self, host: &str, client: Option<&Namespace>) -> Views<'c> {
        let with = |sidecar| claimant(self.catalog, host, Scope { namespace: client, sidecar }, &mut ());
        let several = self.claimants(host).len() > 1;
        let sidecars = if several { self.sidecars(client) } else { Rc::default() };
        let mut found: Vec<_> = sidecars.iter().filter_map(|sidecar| with(sidecar.as_ref())).collect();
        if found.is_empty() {
            found.extend(with(None));
        }
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found.dedup_by(|a, b| a.key == b.key);
        found.into()
    }
    /// Whether clients of a namespace get a service of its host.
    pub(super) fn has(&self, view: &ServiceView, client: Option<&Namespace>) -> bool {
        self.of(view.key.host.as_str(), client).iter().any(|got| got.key == view.key)
    }
}
