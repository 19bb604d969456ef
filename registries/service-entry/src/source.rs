//! The interface between sources of documents and the registry.
//!
//! A [`DocumentSource`] reports documents and their changes; it knows files or custom resources, but no
//! services. The registry converts its events to updates with the pure function [`registry_updates`]: facts that
//! the new version lacks are removed, and facts that differ are put.

use std::sync::Arc;

use async_trait::async_trait;
use tributary_model::{
    Collection, CollectionKind, Completeness, Evidence, ExcludedObject, Fact, Fingerprint, ObjectRef,
    Problem, RegistryUpdate, Scope, SourceStatus, Withheld,
};
use tributary_registry_api::{Differ, RegistryError};

use crate::convert::{Context, convert};
use crate::document::Object;

/// What a scope may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Kinds of facts that its documents have.
    pub kinds: &'static [CollectionKind],
    /// When the registry is complete only with it.
    pub need: Need,
}

/// When a registry is complete only with a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Always, also while it may not be read: without it, clients lose hosts or reach more than they may.
    Always,
    /// While it may be read.
    WhileReadable,
    /// Never: it has no facts.
    Never,
}

impl Content {
    /// Documents of any kind, not waited for while they may not be read.
    pub const ANY: Self = Self { kinds: &KINDS, need: Need::WhileReadable };
}

/// Reports documents and their changes.
#[async_trait]
pub trait DocumentSource: Send + 'static {
    /// The scopes that it reports; they are constant.
    fn scopes(&self) -> Vec<Scope>;
    /// What one of these scopes may contain; constant.
    fn content(&self, _scope: &Scope) -> Content {
        Content::ANY
    }
    /// Passes the scopes whose facts are held from earlier runs; called once, before the first `next`.
    fn hold(&mut self, _scopes: &[Scope]) {}
    /// Waits for the next events, in order. Events of one answer belong to one batch. A source that is
    /// temporarily unreadable reports a status and does not fail.
    async fn next(&mut self) -> Result<Vec<SourceEvent>, RegistryError>;
}

/// An event of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceEvent {
    /// The list of a scope begins.
    ListStarted(Scope),
    /// An object was added, changed or removed.
    Changed(Scope, Change),
    /// An object of a scope is invalid, or (with `None`) valid again.
    Problem(Scope, ObjectRef, Option<Problem>),
    /// The excluded objects of a scope; replaces the previous list.
    Excluded(Scope, Arc<[ExcludedObject]>),
    /// The scope cannot be read, with the reason; its facts stay until its list begins or ends again.
    Withheld(Scope, Withheld),
    /// The identity of the source; reported before anything else, if it is known.
    Identity(Fingerprint),
    /// The list of a scope ended.
    ListEnded(Scope, Completeness),
    /// The scope was checked and is unchanged.
    Confirmed(Scope),
    /// The status of the source of a scope.
    Status(Scope, SourceStatus),
}

/// A change of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The object was added or changed.
    Updated {
        /// The previous version; `None` if it was added.
        old: Option<Object>,
        /// The new version.
        new: Object,
    },
    /// The object was removed.
    Removed {
        /// The last version.
        old: Object,
        /// The proof of the removal.
        evidence: Evidence,
    },
}

/// The kinds of facts that documents have.
const KINDS: [CollectionKind; 4] =
    [CollectionKind::Services, CollectionKind::Groups, CollectionKind::Workloads, CollectionKind::Policies];

/// The collections that a list of a scope may contain.
fn collections(scope: &Scope) -> impl Iterator<Item = Collection> {
    KINDS.into_iter().map(|kind| Collection { scope: scope.clone(), kind })
}

/// Converts an event to updates. Those of a list name every kind of facts that documents have; a run passes on the kinds that
/// the scope may contain.
#[must_use]
pub fn registry_updates(event: SourceEvent, context: &Context) -> Vec<RegistryUpdate> {
    match event {
        SourceEvent::ListStarted(scope) => collections(&scope).map(RegistryUpdate::ListStarted).collect(),
        SourceEvent::ListEnded(scope, how) => {
            collections(&scope).map(|c| RegistryUpdate::ListEnded(c, how)).collect()
        }
        SourceEvent::Confirmed(scope) => collections(&scope).map(RegistryUpdate::Progress).collect(),
        SourceEvent::Problem(scope, object, problem) => vec![RegistryUpdate::Problem(scope, object, problem)],
        SourceEvent::Excluded(scope, list) => vec![RegistryUpdate::Excluded(scope, list)],
        SourceEvent::Withheld(scope, why) => {
            collections(&scope).map(|c| RegistryUpdate::Withheld(c, why.clone())).collect()
        }
        SourceEvent::Identity(identity) => vec![RegistryUpdate::Identity(identity)],
        SourceEvent::Status(scope, status) => vec![RegistryUpdate::Status(scope, status)],
        SourceEvent::Changed(scope, Change::Updated { old, new }) => {
            let evidence = Evidence::Changed(new.source().reference());
            let old = old.map(|old| convert(&old, context)).unwrap_or_default();
            changed(&scope, old, convert(&new, context), &evidence)
        }
        SourceEvent::Changed(scope, Change::Removed { old, evidence }) => {
            changed(&scope, convert(&old, context), Vec::new(), &evidence)
        }
    }
}

/// The updates between two versions. Removals come last, so that a service that moves to a different host is
/// never without both.
fn changed(scope: &Scope, old: Vec<Fact>, new: Vec<Fact>, evidence: &Evidence) -> Vec<RegistryUpdate> {
    Differ::starting_with(scope.clone(), old).replace(new, evidence, |_| false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::load::load_str;
    use tributary_model::{ClusterId, FactId, FactKey};

    fn mk_entry(hosts: &str, address: &str) -> Object {
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: pay}}\nspec:\n  hosts: [{hosts}]\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n  resolution: STATIC\n  endpoints: [{{address: {address}}}]\n"
        );
        load_str(&text, "f.yaml").documents.remove(0)
    }

    fn updates(old: Option<Object>, new: Object) -> Vec<String> {
        let scope = Scope::new("s").unwrap();
        let context = Context::new(ClusterId::new("c").unwrap());
        let show = |update: RegistryUpdate| match update {
            RegistryUpdate::Put(_, Fact::Service(key, _), _) => format!("put service {}", key.service.host),
            RegistryUpdate::Put(_, Fact::Group(key, _), _) => format!("put group {}", key.service.host),
            RegistryUpdate::Remove(FactKey { item: FactId::Service(key), .. }, Evidence::Changed(_)) => {
                format!("drop service {}", key.service.host)
            }
            RegistryUpdate::Remove(FactKey { item: FactId::Group(key), .. }, Evidence::Changed(_)) => {
                format!("drop group {}", key.service.host)
            }
            other => format!("{other:?}"),
        };
        registry_updates(SourceEvent::Changed(scope, Change::Updated { old, new }), &context)
            .into_iter()
            .map(show)
            .collect()
    }

    #[test]
    fn only_differences_are_reported() {
        let one = mk_entry("a.b, c.d", "10.0.0.1");
        assert_eq!(
            updates(None, one.clone()),
            ["put service a.b", "put group a.b", "put service c.d", "put group c.d"]
        );
        assert!(updates(Some(one.clone()), one.clone()).is_empty());
        let moved = mk_entry("a.b, c.d", "10.0.0.2");
        assert_eq!(
            updates(Some(one), moved),
            ["put group a.b", "put group c.d"],
            "its declarations are unchanged"
        );
    }

    #[test]
    fn host_left_by_an_entry_is_removed_after_additions() {
        let updates = updates(Some(mk_entry("a.b, c.d", "10.0.0.1")), mk_entry("a.b, e.f", "10.0.0.1"));
        assert_eq!(updates, ["put service e.f", "put group e.f", "drop service c.d", "drop group c.d"]);
    }

    #[test]
    fn an_object_that_is_gone_takes_all_its_facts_along() {
        let context = Context::new(ClusterId::new("c").unwrap());
        let gone = Change::Removed { old: mk_entry("a.b, c.d", "10.0.0.1"), evidence: Evidence::Confirmed };
        let updates = registry_updates(SourceEvent::Changed(Scope::new("s").unwrap(), gone), &context);
        assert_eq!(updates.len(), 4);
        assert!(
            updates.iter().all(|update| matches!(update, RegistryUpdate::Remove(_, Evidence::Confirmed)))
        );
    }
}
