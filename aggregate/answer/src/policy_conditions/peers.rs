//! Condition of a PeerAuthentication that no workload has.

use tributary_model::{Catalog, Code, Condition, PolicyKey, PolicyView};

use super::condition;

/// Returns the condition of a PeerAuthentication of the root namespace with a selector: as in Istio, it applies to no workload.
pub(super) fn without_scope(catalog: &Catalog, key: &PolicyKey, view: &PolicyView) -> Option<Condition> {
    let policy = view.peer_authentication()?;
    let is_of_root = catalog.settings.root_namespace().as_ref() == Some(&key.namespace);
    (is_of_root && !policy.selector.is_empty()).then(|| {
        let message = format!(
            "it applies to no workload: in the root namespace {} a policy with a selector has no effect; declare it in the \
             namespace of the workloads",
            key.namespace
        );
        condition(Code::POLICY_FIELD_IGNORED, view, message)
    })
}
