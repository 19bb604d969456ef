//! Watch events of the Secrets with one label, as events of the roster.
//!
//! The application calls it with the events of one watch, in order. It keeps what each Secret declares, so that an order can be given
//! the kubeconfig that it rests on. It promises that the kept kubeconfigs are always those of the claims that the roster has: a list
//! counts when it is complete, and only a complete list or a delete of the server removes a Secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_kube_client::{Event, ObjectName};
use tributary_model::{ClusterId, Code, SourceState, Withheld, WithheldCause};

use crate::allowed::Allowed;
use crate::kubeconfig::VettedKubeconfig;
use crate::roster::{self, Access, ClaimObject, DigestKey, Fault, Source, SourceHealth};
use crate::secret::{DeclaredClusters, Secret};

/// Secrets of one label.
#[derive(Debug)]
pub struct SecretFollower {
    source: Source,
    allowed: Allowed,
    key: DigestKey,
    known: BTreeMap<String, DeclaredClusters>,
    /// List in progress: `None` for a Secret that did not change.
    listing: Option<BTreeMap<String, Option<DeclaredClusters>>>,
    /// Secrets of lists that broke off. The next list can name them as unchanged.
    shown: BTreeMap<String, DeclaredClusters>,
    /// Why the last read failed, until one succeeds.
    error: Option<Arc<str>>,
}

impl SecretFollower {
    /// Creates a follower of a watch that has not begun.
    #[must_use]
    pub fn new(source: Source, allowed: Allowed, key: DigestKey) -> Self {
        let (known, shown) = (BTreeMap::new(), BTreeMap::new());
        Self { source, allowed, key, known, listing: None, shown, error: None }
    }

    /// Takes one event of the watch and returns that of the roster, if it has one.
    pub fn take(&mut self, event: Event<Secret>) -> Option<roster::Event> {
        self.note(&event);
        match event {
            Event::Init => {
                let broken_off = self.listing.replace(BTreeMap::new()).into_iter().flatten();
                self.shown.extend(broken_off.filter_map(|(name, declared)| Some((name, declared?))));
                Some(self.health(SourceHealth::Unsynced))
            }
            Event::Apply(secret) => {
                let declared = secret.declare(&self.allowed, &self.key);
                self.put(secret.name, declared)
            }
            Event::Unchanged(name) => self.unchanged(&name),
            Event::Delete(name) => self.delete(&name.to_string()),
            Event::Invalid(name, why) => {
                let declared = self.unreadable(&name.to_string(), &why);
                self.put(name.to_string(), declared)
            }
            Event::InitDone => self.listed(),
            // every server serves Secrets: an answer without them proves nothing
            Event::NotServed => Some(self.health(SourceHealth::Failed)),
            Event::Unavailable(Withheld { cause: WithheldCause::Forbidden, .. }) => {
                Some(self.health(SourceHealth::Forbidden))
            }
            Event::Unavailable(_) => Some(self.health(SourceHealth::Failed)),
            Event::Status(part) => self.state(part.state),
            Event::Resumed => self.state(SourceState::Live),
            Event::Confirmed | Event::Recovered(_) => None,
        }
    }

    /// Records that the watch could not begin, and returns the event of the roster.
    pub fn fail(&mut self, why: impl Into<Arc<str>>) -> roster::Event {
        self.error = Some(why.into());
        self.health(SourceHealth::Failed)
    }

    /// Returns why the last read failed; `None` after one that succeeded.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the kubeconfig of a claim, if it is still the one that an order rests on.
    #[must_use]
    pub fn kubeconfig(&self, access: &Access, cluster: &ClusterId) -> Option<&VettedKubeconfig> {
        self.known.get(&access.object)?.kubeconfig(access, cluster)
    }

    /// Returns every kubeconfig that is kept, with the object and the cluster.
    pub fn kept(&self) -> impl Iterator<Item = (&str, &ClusterId, &VettedKubeconfig)> {
        self.known.values().flat_map(DeclaredClusters::kept)
    }

    fn note(&mut self, event: &Event<Secret>) {
        match event {
            Event::Unavailable(Withheld { why, .. }) => self.error = Some(Arc::clone(why)),
            Event::NotServed => self.error = Some("the API server does not serve Secrets".into()),
            Event::Status(part) if part.state.is_failure() => self.error = Some(Arc::clone(&part.reason)),
            Event::InitDone | Event::Resumed | Event::Confirmed => self.error = None,
            _ => {}
        }
    }

    const fn health(&self, health: SourceHealth) -> roster::Event {
        roster::Event::Health(self.source, health)
    }

    fn state(&self, state: SourceState) -> Option<roster::Event> {
        let health = match state {
            // while a list is under way, only its end proves anything
            SourceState::Live if self.listing.is_some() => return None,
            SourceState::Live => SourceHealth::Synced,
            SourceState::Syncing => SourceHealth::Unsynced,
            SourceState::Forbidden | SourceState::AuthFailed => SourceHealth::Forbidden,
            SourceState::Unreachable | SourceState::Broken => SourceHealth::Failed,
        };
        Some(self.health(health))
    }

    fn put(&mut self, name: String, declared: DeclaredClusters) -> Option<roster::Event> {
        if let Some(listing) = &mut self.listing {
            listing.insert(name, Some(declared));
            return None;
        }
        let object = declared.object.clone();
        self.known.insert(name, declared);
        Some(roster::Event::Put(self.source, object))
    }

    fn unchanged(&mut self, name: &ObjectName) -> Option<roster::Event> {
        if let Some(listing) = &mut self.listing {
            let name = name.to_string();
            let shown = self.shown.remove(&name);
            listing.entry(name).or_insert(shown);
        }
        None
    }

    fn delete(&mut self, name: &str) -> Option<roster::Event> {
        if let Some(listing) = &mut self.listing {
            listing.remove(name);
            self.shown.remove(name);
            return None;
        }
        self.known.remove(name);
        Some(roster::Event::Delete(self.source, name.to_owned()))
    }

    /// Returns the claims that a Secret had before it became unreadable, with the fault.
    fn unreadable(&self, name: &str, why: &str) -> DeclaredClusters {
        let last = self.shown.get(name).or_else(|| self.known.get(name));
        let mut declared = last.cloned().unwrap_or_default();
        let text = format!("cannot be read: {why}");
        let faults = vec![Fault::coded(Code::SECRET_REFUSED, text)];
        declared.object = ClaimObject { name: name.to_owned(), faults, ..declared.object };
        declared
    }

    fn listed(&mut self) -> Option<roster::Event> {
        let listing = self.listing.take()?;
        self.shown.clear();
        let mut before = std::mem::take(&mut self.known);
        let now = listing.into_iter().filter_map(|(name, declared)| {
            let declared = declared.or_else(|| before.remove(&name))?;
            Some((name, declared))
        });
        self.known = now.collect();
        let objects = self.known.values().map(|declared| declared.object.clone()).collect();
        Some(roster::Event::List(self.source, objects))
    }
}
