//! Policies of one kind and namespace in a catalog.
//!
//! `peer_modes` and `authorization` call it to find those that apply to a workload.

use tributary_model::{Catalog, Namespace, PolicyKey, PolicyKind, PolicyView};

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
