//! PeerAuthentications of a catalog that apply to a workload.

use tributary_model::{Catalog, Labels, Namespace, PeerAuthentication, PeerScopes, PolicyKey, PolicyKind};

use crate::policies;

/// PeerAuthentication of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer<'c> {
    /// Key.
    pub key: &'c PolicyKey,
    /// Content.
    pub policy: &'c PeerAuthentication,
}

impl AsRef<PeerAuthentication> for Peer<'_> {
    fn as_ref(&self) -> &PeerAuthentication {
        self.policy
    }
}

/// Returns the policies that apply to a workload of a namespace with these labels.
#[must_use]
pub fn peer_policies<'c>(
    catalog: &'c Catalog,
    namespace: Option<&Namespace>,
    labels: &Labels,
) -> PeerScopes<Peer<'c>> {
    let root = catalog.settings.root_namespace();
    PeerScopes::of(root.as_ref(), namespace, labels, |namespace| in_order(catalog, namespace))
}

/// Returns the policies of a namespace, the first in precedence first.
fn in_order<'c>(catalog: &'c Catalog, namespace: &Namespace) -> impl Iterator<Item = Peer<'c>> + use<'c> {
    let own = policies::in_order(catalog, PolicyKind::PeerAuthentication, namespace).into_iter();
    own.filter_map(|(key, view)| Some(Peer { key, policy: view.peer_authentication()? }))
}

#[cfg(test)]
mod tests;
