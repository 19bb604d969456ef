//! Handles requests of the state-of-the-world variant (docs/reference/xds.md#state-of-the-world).

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Mono, Version};
use tributary_proto::SotwRequest;

use super::subscription::{Forced, Requested, TypeSubscription, Wildcard};
use super::{Acks, Refusal, Session};
use crate::answers::ResourceType;

impl Session {
    /// Handles a request. Returns how long the next one must wait.
    pub fn on_sotw(&mut self, request: &SotwRequest, now: Mono) -> Result<Duration, Refusal> {
        let wait = self.paced(now);
        let Some(kind) = ResourceType::parse(request.type_url.as_str()) else {
            self.unknown(request.type_url.as_str());
            return Ok(wait);
        };
        let nonce = request.nonce.as_str();
        let is_last = self.kinds[kind].acks.is_last(nonce);
        self.take_ack(kind, nonce, request.error.as_ref(), now);
        if request.names.is_empty() && !kind.has_wildcard() {
            return self.unsubscribe_all(kind).map(|()| wait);
        }
        if nonce.is_empty() || !self.watches(kind) {
            self.start_sotw(kind, request, now)?;
        } else if is_last {
            self.change_sotw(kind, request)?;
        } else {
            self.env.counters.stale_nonces.inc();
        }
        Ok(wait)
    }
    fn unsubscribe_all(&mut self, kind: ResourceType) -> Result<(), Refusal> {
        let state = self.state(kind);
        state.forget();
        if state.acks.nack().is_some() {
            // the client dropped what it rejected
            state.acks = Acks::default();
        }
        self.subscribed(kind, true)
    }
    /// Handles a first request, or the first after a reconnect: the response carries everything.
    fn start_sotw(&mut self, kind: ResourceType, request: &SotwRequest, now: Mono) -> Result<(), Refusal> {
        let all = wildcard_of(kind, request, None);
        let watch = self.sotw_watch(all, request, None);
        let state = self.state(kind);
        state.start(watch, Requested::Everything);
        state.listed = list_hash(request);
        state.must_reply = true;
        state.reconnected = !request.version.is_empty();
        if state.reconnected {
            state.acks.resume();
            if kind == ResourceType::Cluster {
                self.remember(request.version.as_str(), now);
            }
        }
        self.subscribed(kind, true)
    }
    /// Handles an answer to the last response: only a changed subscription gets a response.
    fn change_sotw(&mut self, kind: ResourceType, request: &SotwRequest) -> Result<(), Refusal> {
        let listed = list_hash(request);
        if std::mem::replace(&mut self.state(kind).listed, listed) == listed {
            return Ok(());
        }
        let Some(old) = self.kinds[kind].watch.clone() else { return Ok(()) };
        let new = self.sotw_watch(wildcard_of(kind, request, Some(&old)), request, Some(&old));
        if Arc::ptr_eq(&old.names, &new.names) && old.is_wildcard() == new.is_wildcard() {
            return Ok(());
        }
        if kind == ResourceType::Cluster {
            self.force_added(&old, &new);
        }
        let state = self.state(kind);
        if kind.has_wildcard() && !new.is_empty() {
            state.requested = Requested::Everything;
            state.must_reply = true;
        } else {
            added(&old, &new).for_each(|name| state.requested.add(name));
        }
        for removed in added(&new, &old) {
            state.requested.forget(removed);
            state.held.remove(removed);
        }
        state.watch = Some(new);
        self.subscribed(kind, false)
    }
    /// Requires an assignment for each xDS cluster that the client did not subscribe to before.
    fn force_added(&mut self, old: &TypeSubscription, new: &TypeSubscription) {
        self.forced.add(added(old, new).map(Arc::from));
        if new.is_wildcard() && !old.is_wildcard() {
            self.forced = Forced::Everything;
        }
    }
    fn sotw_watch(
        &self,
        all: Wildcard,
        request: &SotwRequest,
        earlier: Option<&TypeSubscription>,
    ) -> TypeSubscription {
        let star = all == Wildcard::Star;
        let names = request.names.iter().filter(|name| !(star && *name == "*"));
        let names = match earlier {
            Some(earlier) => self.env.subscriptions.replaced(&earlier.names, names),
            None => self.env.intern(names),
        };
        TypeSubscription { all, names }
    }
}

/// Hashes the listed names: every acknowledgement repeats the list, and comparing must stay cheap.
pub(super) fn list_hash(request: &SotwRequest) -> Version {
    Version::of_all(request.names.iter().map(|name| Version::of(name.as_bytes())))
}

/// An empty list is a wildcard in the first request; after names it means no names.
fn wildcard_of(kind: ResourceType, request: &SotwRequest, old: Option<&TypeSubscription>) -> Wildcard {
    if !kind.has_wildcard() {
        return Wildcard::No;
    }
    if request.names.iter().any(|name| name == "*") {
        return Wildcard::Star;
    }
    let still = old.is_none_or(|watch| watch.all == Wildcard::Legacy);
    if request.names.is_empty() && still { Wildcard::Legacy } else { Wildcard::No }
}

/// Returns the names of the later subscription that the earlier one lacks.
fn added<'w>(earlier: &'w TypeSubscription, later: &'w TypeSubscription) -> impl Iterator<Item = &'w str> {
    later.names.iter().map(|name| &**name).filter(|name| !earlier.names.contains(name))
}
