//! Differences between the facts that were reported and those of a new reading.
//!
//! Called by adapters whose source answers with the whole state of an object or a scope. Guarantees that additions and changes
//! come before removals, so that a fact that moves to another key is never missing, and that an equal fact costs nothing.

use std::collections::BTreeMap;

use tributary_model::{Basis, Evidence, Fact, FactId, FactKey, RegistryUpdate, Scope};

/// Facts that a run reported for one scope or object.
#[derive(Debug, Clone)]
pub struct Differ {
    scope: Scope,
    reported: BTreeMap<FactId, Fact>,
    /// Reported facts that the reading which is under way has not named yet.
    missing: BTreeMap<FactId, Fact>,
}

impl Differ {
    /// Creates a differ of a scope without reported facts.
    #[must_use]
    pub const fn new(scope: Scope) -> Self {
        Self { scope, reported: BTreeMap::new(), missing: BTreeMap::new() }
    }
    /// Creates a differ of a scope whose facts an earlier reading has reported.
    #[must_use]
    pub fn starting_with(scope: Scope, facts: impl IntoIterator<Item = Fact>) -> Self {
        let reported = facts.into_iter().map(|fact| (fact.item(), fact)).collect();
        Self { scope, reported, missing: BTreeMap::new() }
    }
    /// The scope of all facts.
    #[must_use]
    pub const fn scope(&self) -> &Scope {
        &self.scope
    }
    /// The reported fact with this id.
    #[must_use]
    pub fn get(&self, id: &FactId) -> Option<&Fact> {
        self.reported.get(id).or_else(|| self.missing.get(id))
    }
    /// All reported facts, in the order of their ids. While a reading is under way, those that it has named.
    pub fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.reported.values()
    }
    /// Begins a reading whose facts come one by one. A reading that is under way starts again.
    pub fn begin(&mut self) {
        let mut missing = std::mem::take(&mut self.reported);
        missing.append(&mut self.missing);
        self.missing = missing;
    }
    /// Takes a fact of the reading, and returns the update if the fact is new or changed.
    pub fn put(&mut self, fact: Fact) -> Option<RegistryUpdate> {
        let id = fact.item();
        let old = self.missing.remove(&id).or_else(|| self.reported.remove(&id));
        let (fact, update) = match old {
            // the equal value that the core already holds is kept, not its copy
            Some(old) if fact.is_unchanged(&old) => (old, None),
            _ => {
                let put = RegistryUpdate::Put(self.scope.clone(), fact.clone(), Basis::Authoritative);
                (fact, Some(put))
            }
        };
        self.reported.insert(id, fact);
        update
    }
    /// Ends the reading, and returns the removals. A fact that the reading did not name is removed with `evidence`, unless
    /// `keeps` returns true for it.
    pub fn end(&mut self, evidence: &Evidence, keeps: impl Fn(&Fact) -> bool) -> Vec<RegistryUpdate> {
        let mut updates = Vec::new();
        for (item, fact) in std::mem::take(&mut self.missing) {
            if keeps(&fact) {
                self.reported.insert(item, fact);
            } else {
                let key = FactKey { scope: self.scope.clone(), item };
                updates.push(RegistryUpdate::Remove(key, evidence.clone()));
            }
        }
        updates
    }
    /// Replaces the reported facts and returns the updates between both. A fact that is missing from `facts` is removed with
    /// `evidence`, unless `keeps` returns true for it.
    pub fn replace(
        &mut self,
        facts: impl IntoIterator<Item = Fact>,
        evidence: &Evidence,
        keeps: impl Fn(&Fact) -> bool,
    ) -> Vec<RegistryUpdate> {
        self.begin();
        let mut updates: Vec<RegistryUpdate> = facts.into_iter().filter_map(|fact| self.put(fact)).collect();
        updates.extend(self.end(evidence, keeps));
        updates
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{
        DeclKey, Declaration, Hostname, Namespace, ObjectId, Position, ServiceKey, Source, Timestamp,
    };

    use super::*;

    fn mk_fact(name: &str, created: i64) -> Fact {
        let object = ObjectId::new("Test", "shop", name);
        let host = Hostname::new(format!("{name}.test")).unwrap();
        let service = ServiceKey { host, namespace: Namespace::new("shop").unwrap() };
        let source = Source::new(object.clone());
        let created = Timestamp::from_second(created).ok();
        let declaration = Declaration { created, ..Declaration::new(source) };
        Fact::Service(DeclKey { service, object }, Arc::new(declaration))
    }

    fn mk_differ(facts: &[Fact]) -> Differ {
        Differ::starting_with(Scope::new("test").unwrap(), facts.iter().cloned())
    }

    #[test]
    fn equal_facts_make_no_update_and_changes_precede_removals() {
        let mut differ = mk_differ(&[mk_fact("a", 1), mk_fact("b", 1), mk_fact("z", 1)]);
        let new = [mk_fact("a", 1), mk_fact("b", 2), mk_fact("c", 1)];
        let updates = differ.replace(new.clone(), &Evidence::AbsentFromList, |_| false);
        let scope = differ.scope().clone();
        let put = |fact: &Fact| RegistryUpdate::Put(scope.clone(), fact.clone(), Basis::Authoritative);
        let key = FactKey { scope: scope.clone(), item: mk_fact("z", 1).item() };
        let removed = RegistryUpdate::Remove(key, Evidence::AbsentFromList);
        assert_eq!(updates, [put(&new[1]), put(&new[2]), removed]);
        assert_eq!(differ.replace(new, &Evidence::AbsentFromList, |_| false), []);
    }

    #[test]
    fn equal_fact_of_an_object_that_moved_is_reported() {
        let at = |position: &str| {
            let Fact::Service(key, mut declaration) = mk_fact("a", 1) else { panic!("not a service") };
            Arc::make_mut(&mut declaration).source.position = Position::new(position.into());
            Fact::Service(key, declaration)
        };
        let mut differ = mk_differ(&[at("a.yaml:3:1")]);
        assert!(differ.put(at("a.yaml:3:1")).is_none());
        assert!(differ.put(at("a.yaml:9:1")).is_some());
        assert!(differ.put(at("a.yaml:9:1")).is_none());
    }

    #[test]
    fn kept_facts_are_compared_with_later_readings() {
        let mut differ = mk_differ(&[mk_fact("a", 1)]);
        assert_eq!(differ.replace([], &Evidence::AbsentFromList, |_| true), []);
        assert_eq!(differ.replace([mk_fact("a", 1)], &Evidence::AbsentFromList, |_| false), []);
        assert_eq!(differ.facts().count(), 1);
    }
}
