//! Services that are declared in two roles: exports offer ports and endpoints, imports add virtual addresses.
//!
//! Called by merge. Such a service exists while at least one registry declares each role. The exports define the
//! service; an import only adds addresses.

use std::sync::Arc;

use tributary_model::{Code, DeclarationRole, DeclarationView, ObjectRef, PortNumber};

use crate::merge::Merged;
use crate::merge::precedence::Ranked;
use crate::state::services::Decl;

/// Returns the declaration that defines the service; `None` if the service does not exist.
pub(crate) fn deciding<'a>(shards: &[Ranked<'a>]) -> Option<&'a Decl> {
    let all = || shards.iter().flat_map(|shard| shard.declarations.iter().copied());
    let is = |role: DeclarationRole| move |decl: &&Decl| decl.declaration.attributes.role == role;
    let imported = || all().any(|decl| is(DeclarationRole::Import)(&decl));
    let first = all().find(|decl| !is(DeclarationRole::Import)(decl))?;
    let whole = all().any(|decl| is(DeclarationRole::Whole)(&decl));
    (whole || imported()).then_some(first)
}

/// Returns whether a declaration is an import.
pub(crate) fn is_import(decl: &Decl) -> bool {
    decl.declaration.attributes.role == DeclarationRole::Import
}

/// Adds the imports after the exports. The exports define the visibility; a port of an import that no export offers is
/// a condition.
pub(crate) fn add_imports(mut imports: Vec<DeclarationView>, out: &mut Merged) {
    let Some(visibility) = out.declarations.first().map(|first| first.visibility.clone()) else { return };
    let offered_by: Vec<ObjectRef> =
        out.declarations.iter().map(|d| d.declaration.source.reference()).collect();
    for import in &mut imports {
        import.visibility = visibility.clone();
        let named = import.declaration.ports.iter().map(|port| port.number);
        let missing: Vec<PortNumber> = named.filter(|number| !out.ports.contains_key(number)).collect();
        if missing.is_empty() {
            continue;
        }
        let object = import.declaration.source.reference();
        let ports: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let message = format!("{} names ports that no export offers: {}", object.id, ports.join(", "));
        let objects = std::iter::once(object).chain(offered_by.iter().cloned()).collect();
        out.conditions.push(Code::IMPORT_CONFLICT, objects, message);
    }
    out.addresses.extend(imports.iter().flat_map(|import| import.declaration.addresses.iter().cloned()));
    out.declarations.append(&mut imports);
}

/// Returns the view of an import.
pub(crate) fn import(shard: &Ranked<'_>, decl: &Decl) -> DeclarationView {
    DeclarationView {
        shard: Arc::clone(&shard.info.shard),
        declaration: Arc::clone(&decl.declaration),
        precedence: shard.info.precedence,
        visibility: tributary_model::Visibility::default(),
        federated: false,
    }
}
