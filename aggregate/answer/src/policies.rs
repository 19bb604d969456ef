//! Policies of one kind in a catalog, of one namespace or of all.
//!
//! `peer_modes`, `authorization`, `tokens` and `forwarding` call it to find those that apply to a workload.

use tributary_model::{Catalog, Labels, Namespace, PolicyKey, PolicyKind, PolicyView};

/// Returns the policies of a namespace, the first in precedence first.
pub(crate) fn in_order<'c>(
    catalog: &'c Catalog,
    kind: PolicyKind,
    namespace: &Namespace,
) -> Vec<(&'c PolicyKey, &'c PolicyView)> {
    let from = PolicyKey { kind, namespace: namespace.clone(), name: "".into() };
    let all = catalog.policies.range(from..);
    let own = all.take_while(|(key, _)| key.kind == kind && key.namespace == *namespace);
    let mut own: Vec<_> = own.map(|(key, view)| (key, &**view)).collect();
    own.sort_by(|(_, a), (_, b)| a.precedence_key().order(&b.precedence_key()));
    own
}

/// Returns the policies of a kind in every namespace, the first in precedence first.
pub(crate) fn everywhere(catalog: &Catalog, kind: PolicyKind) -> Vec<(&PolicyKey, &PolicyView)> {
    // no namespace is the first of a kind, so the others are passed from the end
    let from_end = catalog.policies.iter().rev().take_while(|(key, _)| key.kind >= kind);
    let mut all: Vec<_> =
        from_end.filter(|(key, _)| key.kind == kind).map(|(key, view)| (key, &**view)).collect();
    all.sort_by(|(_, a), (_, b)| a.precedence_key().order(&b.precedence_key()));
    all
}

/// Returns the policies that apply together to a workload of a namespace with these labels: those of the root namespace, then
/// those of its own, the first in precedence first. A selector of the root namespace is compared with the workloads of all.
pub(crate) fn selecting<'c>(
    catalog: &'c Catalog,
    kind: PolicyKind,
    namespace: Option<&Namespace>,
    labels: &Labels,
) -> Vec<(&'c PolicyKey, &'c PolicyView)> {
    let root = catalog.settings.root_namespace();
    let own = namespace.filter(|own| root.as_ref() != Some(*own));
    let scopes = root.as_ref().into_iter().chain(own);
    let selects = |view: &PolicyView| view.policy().selector().is_some_and(|own| own.is_subset_of(labels));
    let all = scopes.flat_map(|namespace| in_order(catalog, kind, namespace));
    all.filter(|(_, view)| selects(view)).collect()
}
