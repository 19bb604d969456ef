//! Services that are declared in two parts: some offer ports and endpoints, others import them by addresses.
//!
//! Called by merge. Such a service is there while each part has somebody who declares it, wherever they are;
//! what is offered decides what it is, and an import only adds by which addresses it is reached.

use std::sync::Arc;

use tributary_model::{Code, DeclarationRole, DeclarationView, ObjectRef, PortNumber};

use crate::merge::Merged;
use crate::merge::precedence::Ranked;
use crate::state::services::Decl;

/// The declaration that decides what the service is; `None` where there is none to be served.
pub(crate) fn deciding<'a>(shards: &[Ranked<'a>]) -> Option<&'a Decl> {
    let all = || shards.iter().flat_map(|shard| shard.declarations.iter().copied());
    let is = |part: DeclarationRole| move |decl: &&Decl| decl.declaration.attributes.part == part;
    let imported = || all().any(|decl| is(DeclarationRole::Import)(&decl));
    let first = all().find(|decl| !is(DeclarationRole::Import)(decl))?;
    let whole = all().any(|decl| is(DeclarationRole::Whole)(&decl));
    (whole || imported()).then_some(first)
}

/// Whether a declaration is an import.
pub(crate) fn is_import(decl: &Decl) -> bool {
    decl.declaration.attributes.part == DeclarationRole::Import
}

/// Adds the imports behind what they import. Who sees the service is for those to say who offer it; a port that
/// an import names and nobody offers is a condition.
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
        let message = format!("{object} names ports that nobody offers: {}", ports.join(", "));
        let objects = std::iter::once(object).chain(offered_by.iter().cloned()).collect();
        out.conditions.push(Code::IMPORT_CONFLICT, objects, message);
    }
    out.addresses.extend(imports.iter().flat_map(|import| import.declaration.addresses.iter().cloned()));
    out.declarations.append(&mut imports);
}

/// An import as it is shown with the service.
pub(crate) fn import(shard: &Ranked<'_>, decl: &Decl) -> DeclarationView {
    DeclarationView {
        shard: Arc::clone(&shard.info.shard),
        declaration: Arc::clone(&decl.declaration),
        rank: shard.info.rank,
        visibility: tributary_model::Visibility::default(),
        federated: false,
    }
}
