//! Marks the declarations of services that have a sidecar, also those reported before the sidecar was listed.
//!
//! One scope's run owns it. Bounded by the services of the scope.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{Basis, Declaration, Fact, FactId, RegistryUpdate};

use super::scope_run::ScopeRun;
use crate::content::Names;
use crate::map::{MapConfig, keys, with_sidecar};

/// Services with a sidecar, and the last declaration of each service.
#[derive(Default)]
pub(super) struct Mesh {
    with_sidecar: BTreeSet<Arc<str>>,
    /// Declarations without the mark.
    declared: BTreeMap<Arc<str>, Arc<Declaration>>,
}

impl Mesh {
    /// Keeps the declaration among the facts of a service, which its hosts share, and marks it.
    pub(super) fn mark(&mut self, name: &Arc<str>, facts: &mut [Fact]) {
        let declared = facts.iter().find_map(|fact| match fact {
            Fact::Service(_, declaration) => Some(Arc::clone(declaration)),
            _ => None,
        });
        let Some(declared) = declared else {
            self.forget(name);
            return;
        };
        self.declared.insert(Arc::clone(name), declared);
        let Some(marked) = self.marked(name) else { return };
        for fact in facts {
            if let Fact::Service(_, declaration) = fact {
                *declaration = Arc::clone(&marked);
            }
        }
    }
    /// Drops a service.
    pub(super) fn forget(&mut self, name: &str) {
        self.declared.remove(name);
    }
    /// Applies a list to the services that it names, and returns those whose mark changed.
    fn apply(&mut self, list: &Names) -> Vec<Arc<str>> {
        let Some(sidecars) = &list.with_sidecar else { return Vec::new() };
        let differs = |name: &&Arc<str>| sidecars.contains(*name) != self.with_sidecar.contains(*name);
        let changed: Vec<Arc<str>> = list.names.keys().filter(differs).cloned().collect();
        for name in &changed {
            if !self.with_sidecar.remove(name) {
                self.with_sidecar.insert(Arc::clone(name));
            }
        }
        changed
    }
    /// Returns the declaration of a service as it is reported.
    fn marked(&self, name: &Arc<str>) -> Option<Arc<Declaration>> {
        let declared = self.declared.get(name)?;
        Some(match self.with_sidecar.contains(name) {
            true => Arc::new(with_sidecar(declared)),
            false => Arc::clone(declared),
        })
    }
}

impl ScopeRun {
    /// Reports the declarations again whose mark a list of names changes.
    pub(super) fn note_sidecars(&mut self, list: &Names, config: &MapConfig, out: &mut Vec<RegistryUpdate>) {
        for name in self.mesh.apply(list) {
            let Some(declaration) = self.mesh.marked(&name) else { continue };
            for key in keys(&self.area, &name, config) {
                let FactId::Service(id) = key.item else { continue };
                let basis = Basis::PossiblyPartial("only the condition of a sidecar changed".into());
                let fact = Fact::Service(id, Arc::clone(&declaration));
                out.push(RegistryUpdate::Put(key.scope, fact, basis));
            }
        }
    }
}
