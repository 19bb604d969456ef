//! Where documents come from, as the registry sees it.
//!
//! A [`DocumentSource`] says what documents there are and how they changed; it knows about files or
//! custom resources, and nothing about services. The registry turns what it says into deltas by
//! [`deltas`], which is pure: the facts of the old version that the new one does not state any more
//! are dropped, and those that differ are put.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use tributary_model::{
    Basis, Collection, CollectionKind, Completeness, Evidence, ExcludedObject, Fact, FactId, FactKey,
    Fingerprint, ObjectRef, Problem, RegistryUpdate, Scope, SourceStatus, Withheld,
};
use tributary_registry_api::RegistryError;

use crate::convert::{Context, convert};
use crate::document::Object;

/// Says what documents there are.
#[async_trait]
pub trait DocumentSource: Send + 'static {
    /// The scopes that it speaks for; they do not change.
    fn scopes(&self) -> Vec<Scope>;
    /// Scopes of which facts are held from earlier runs; called once, before the first `next`.
    fn hold(&mut self, _scopes: &[Scope]) {}
    /// Waits until something is to be said and says it, in order. Events of one answer belong
    /// together. A source that is merely down says so with a status and does not fail.
    async fn next(&mut self) -> Result<Vec<ConfigEvent>, RegistryError>;
}

/// Something that a source says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigEvent {
    /// The source begins to list a scope from the start.
    Restart(Scope),
    /// A document is there, changed or gone.
    Changed(Scope, Change),
    /// An object of a scope is bad, or (with `None`) good again.
    Problem(Scope, ObjectRef, Option<Problem>),
    /// What of a scope is there and left out on purpose, in place of what was said of that before.
    LeftOut(Scope, Arc<[ExcludedObject]>),
    /// The scope cannot be read now, with the reason; its facts stay as they were until it is begun or listed.
    Withheld(Scope, Withheld),
    /// The identity of the source; sent before anything else, where it is known.
    Identity(Fingerprint),
    /// The list of a scope ended.
    Listed(Scope, Completeness),
    /// The scope was looked at, and all is as it was said.
    Confirmed(Scope),
    /// How the source of a scope is doing.
    Status(Scope, SourceStatus),
}

/// What became of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is now so.
    Is {
        /// What it was; `None` where it was not.
        old: Option<Object>,
        /// What it is.
        new: Object,
    },
    /// It is no more.
    Gone {
        /// What it was.
        old: Object,
        /// How that is known.
        evidence: Evidence,
    },
}

/// The kinds of facts that documents state.
pub(crate) const KINDS: [CollectionKind; 3] =
    [CollectionKind::Services, CollectionKind::Groups, CollectionKind::Workloads];

/// The collections of a scope.
pub(crate) fn collections(scope: &Scope) -> impl Iterator<Item = Collection> {
    KINDS.into_iter().map(|kind| Collection { scope: scope.clone(), kind })
}

/// What an event comes to.
#[must_use]
pub fn deltas(event: ConfigEvent, context: &Context) -> Vec<RegistryUpdate> {
    match event {
        ConfigEvent::Restart(scope) => collections(&scope).map(RegistryUpdate::ListStarted).collect(),
        ConfigEvent::Listed(scope, how) => {
            collections(&scope).map(|c| RegistryUpdate::ListEnded(c, how)).collect()
        }
        ConfigEvent::Confirmed(scope) => collections(&scope).map(RegistryUpdate::Progress).collect(),
        ConfigEvent::Problem(scope, object, problem) => vec![RegistryUpdate::Problem(scope, object, problem)],
        ConfigEvent::LeftOut(scope, list) => vec![RegistryUpdate::Excluded(scope, list)],
        ConfigEvent::Withheld(scope, why) => {
            collections(&scope).map(|c| RegistryUpdate::Withheld(c, why.clone())).collect()
        }
        ConfigEvent::Identity(identity) => vec![RegistryUpdate::Identity(identity)],
        ConfigEvent::Status(scope, status) => vec![RegistryUpdate::Status(scope, status)],
        ConfigEvent::Changed(scope, Change::Is { old, new }) => {
            let evidence = Evidence::Changed(new.source().reference());
            let old = old.map(|old| convert(&old, context)).unwrap_or_default();
            changed(&scope, old, convert(&new, context), &evidence)
        }
        ConfigEvent::Changed(scope, Change::Gone { old, evidence }) => {
            changed(&scope, convert(&old, context), Vec::new(), &evidence)
        }
    }
}

/// Drops come last: a service that moves from one host to another is never without both.
fn changed(scope: &Scope, old: Vec<Fact>, new: Vec<Fact>, evidence: &Evidence) -> Vec<RegistryUpdate> {
    let mut old: BTreeMap<FactId, Fact> = old.into_iter().map(|fact| (fact.item(), fact)).collect();
    let mut deltas = Vec::new();
    for fact in new {
        if old.remove(&fact.item()).as_ref() != Some(&fact) {
            deltas.push(RegistryUpdate::Put(scope.clone(), fact, Basis::Authoritative));
        }
    }
    let gone = old.into_keys().map(|item| FactKey { scope: scope.clone(), item });
    deltas.extend(gone.map(|key| RegistryUpdate::Remove(key, evidence.clone())));
    deltas
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load_str;
    use tributary_model::ClusterId;

    fn mk_entry(hosts: &str, address: &str) -> Object {
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: pay}}\nspec:\n  hosts: [{hosts}]\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n  resolution: STATIC\n  endpoints: [{{address: {address}}}]\n"
        );
        load_str(&text, "f.yaml").documents.remove(0)
    }

    fn said(old: Option<Object>, new: Object) -> Vec<String> {
        let scope = Scope::new("s").unwrap();
        let context = Context::new(ClusterId::new("c").unwrap());
        let show = |delta: RegistryUpdate| match delta {
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
        deltas(ConfigEvent::Changed(scope, Change::Is { old, new }), &context).into_iter().map(show).collect()
    }

    #[test]
    fn only_what_differs_is_said() {
        let one = mk_entry("a.b, c.d", "10.0.0.1");
        assert_eq!(
            said(None, one.clone()),
            ["put service a.b", "put group a.b", "put service c.d", "put group c.d"]
        );
        assert!(said(Some(one.clone()), one.clone()).is_empty());
        let moved = mk_entry("a.b, c.d", "10.0.0.2");
        assert_eq!(
            said(Some(one), moved),
            ["put group a.b", "put group c.d"],
            "its declarations are the same"
        );
    }

    #[test]
    fn a_host_taken_off_a_list_is_dropped_after_what_comes() {
        let said = said(Some(mk_entry("a.b, c.d", "10.0.0.1")), mk_entry("a.b, e.f", "10.0.0.1"));
        assert_eq!(said, ["put service e.f", "put group e.f", "drop service c.d", "drop group c.d"]);
    }

    #[test]
    fn an_object_that_is_gone_takes_all_its_facts_along() {
        let context = Context::new(ClusterId::new("c").unwrap());
        let gone = Change::Gone { old: mk_entry("a.b, c.d", "10.0.0.1"), evidence: Evidence::Confirmed };
        let said = deltas(ConfigEvent::Changed(Scope::new("s").unwrap(), gone), &context);
        assert_eq!(said.len(), 4);
        assert!(said.iter().all(|delta| matches!(delta, RegistryUpdate::Remove(_, Evidence::Confirmed))));
    }
}
