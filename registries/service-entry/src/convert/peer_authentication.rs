//! Converts a PeerAuthentication to a policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{DeclaredPolicy, Fact, PeerAuthentication, Policy, PolicyKey, PolicyKind};

use crate::document::peer_authentication::{self, port_of};
use crate::document::{Meta, Object};

/// The policy of a document.
pub(super) fn fact(object: &Object, meta: &Meta, document: &peer_authentication::PeerAuthentication) -> Fact {
    let key = PolicyKey {
        kind: PolicyKind::PeerAuthentication,
        namespace: meta.namespace.clone(),
        name: Arc::clone(&meta.name),
    };
    let mut ignored: Vec<Arc<str>> = document.ignored.iter().map(|path| Arc::clone(&path.value)).collect();
    ignored.sort();
    // without a selector they have no meaning, and validation refuses them
    let ports = document.ports.iter().filter(|_| document.selects()).flat_map(|ports| &ports.value);
    let ports: BTreeMap<_, _> = ports.filter_map(|one| Some((port_of(&one.port.value)?, one.mode))).collect();
    let policy = Policy::PeerAuthentication(PeerAuthentication {
        selector: document.selector.as_ref().map(|labels| labels.value.clone()).unwrap_or_default(),
        mode: document.mode,
        ports,
        ignored: ignored.into(),
    });
    Fact::Policy(key, Arc::new(DeclaredPolicy { source: object.source(), created: meta.created, policy }))
}
