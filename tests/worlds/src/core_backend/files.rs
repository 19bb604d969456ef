//! A file registry in memory: the updates of a directory of documents when one file changes. Custom resources
//! of a cluster are such files too, one object each.

use std::collections::BTreeMap;

use anyhow::Result;
use tributary_model::{
    Basis, ClusterId, Collection, CollectionKind, Completeness, Evidence, Fact, FactKey, ObjectRef,
    RegistryName, RegistryUpdate, Scope,
};
use tributary_service_entry::{Context as Conversion, convert, load_str};

const KINDS: [CollectionKind; 4] =
    [CollectionKind::Services, CollectionKind::Groups, CollectionKind::Workloads, CollectionKind::Policies];

/// A file registry.
pub(super) struct Registry {
    pub(super) name: RegistryName,
    pub(super) scope: Scope,
    pub(super) context: Conversion,
    files: BTreeMap<String, File>,
}

/// Reported state of a file: its facts by key, and its bad objects.
#[derive(Default)]
struct File {
    facts: BTreeMap<FactKey, Fact>,
    problems: Vec<ObjectRef>,
}

impl Registry {
    pub(super) fn new(name: &str, cluster: &str) -> Result<Self> {
        Ok(Self {
            name: RegistryName::new(name)?,
            scope: Scope::new(format!("dir:{name}"))?,
            context: Conversion::new(ClusterId::new(cluster)?),
            files: BTreeMap::new(),
        })
    }
    fn collections(&self) -> impl Iterator<Item = Collection> + '_ {
        KINDS.into_iter().map(|kind| Collection { scope: self.scope.clone(), kind })
    }
    /// Returns the updates of an empty directory.
    pub(super) fn initial_updates(&self) -> Vec<RegistryUpdate> {
        let required =
            RegistryUpdate::Follows { required: self.collections().collect(), optional: Vec::new() };
        let restarts = self.collections().map(RegistryUpdate::ListStarted);
        let synced = self.collections().map(|c| RegistryUpdate::ListEnded(c, Completeness::Complete));
        std::iter::once(required).chain(restarts).chain(synced).collect()
    }
    /// Returns the updates for a new text of a file. Facts that it no longer states are removed, except those
    /// of a bad object, whose last good version stays.
    pub(super) fn read(&mut self, file: &str, text: &str) -> Vec<RegistryUpdate> {
        let load = load_str(text, file);
        let refused: Vec<_> = load.problems.iter().filter(|p| p.is_refused()).collect();
        let old = self.files.remove(file).unwrap_or_default();
        let mut new = File { facts: BTreeMap::new(), problems: Vec::new() };
        let mut out = Vec::new();
        for fact in load.documents.iter().flat_map(|object| convert(object, &self.context)) {
            let key = FactKey { scope: self.scope.clone(), item: fact.item() };
            if old.facts.get(&key) != Some(&fact) {
                out.push(RegistryUpdate::Put(self.scope.clone(), fact.clone(), Basis::Authoritative));
            }
            new.facts.insert(key, fact);
        }
        for (key, fact) in old.facts {
            let object = fact.object().cloned();
            let is_bad = |id: &_| refused.iter().any(|p| p.object.id == *id);
            match object {
                Some(id) if is_bad(&id) => drop(new.facts.entry(key).or_insert(fact)),
                Some(id) if !new.facts.contains_key(&key) => {
                    out.push(RegistryUpdate::Remove(key, Evidence::Changed(ObjectRef::new(id))));
                }
                _ => {}
            }
        }
        let good = old.problems.into_iter().filter(|o| !refused.iter().any(|p| p.object.id == o.id));
        out.extend(good.map(|object| RegistryUpdate::Problem(self.scope.clone(), object, None)));
        for problem in refused {
            new.problems.push(problem.object.clone());
            out.push(RegistryUpdate::Problem(
                self.scope.clone(),
                problem.object.clone(),
                Some(problem.problem.clone()),
            ));
        }
        self.files.insert(file.to_owned(), new);
        out
    }
    pub(super) fn forget(&mut self, file: &str) -> Vec<RegistryUpdate> {
        let old = self.files.remove(file).unwrap_or_default();
        let gone = |(key, fact): (FactKey, Fact)| {
            let object = fact.object().cloned().map(ObjectRef::new)?;
            Some(RegistryUpdate::Remove(key, Evidence::Deleted(object)))
        };
        let drops: Vec<RegistryUpdate> = old.facts.into_iter().filter_map(gone).collect();
        drops
            .into_iter()
            .chain(old.problems.into_iter().map(|o| RegistryUpdate::Problem(self.scope.clone(), o, None)))
            .collect()
    }
}
