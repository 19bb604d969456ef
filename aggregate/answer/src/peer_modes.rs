//! PeerAuthentications of a catalog that apply to a workload.

use tributary_model::{
    Catalog, Labels, Namespace, PeerAuthentication, PeerScopes, PolicyKey, PolicyKind, PolicyView,
};

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
    let kind = PolicyKind::PeerAuthentication;
    let from = PolicyKey { kind, namespace: namespace.clone(), name: "".into() };
    let all = catalog.policies.range(from..);
    let own = all.take_while(|(key, _)| key.kind == kind && key.namespace == *namespace);
    let peer = |(key, view): (&'c PolicyKey, &'c tributary_model::Shared<PolicyView>)| {
        Some((&**view, Peer { key, policy: view.peer_authentication()? }))
    };
    let mut peers: Vec<(&PolicyView, Peer<'_>)> = own.filter_map(peer).collect();
    peers.sort_by(|(a, _), (b, _)| a.precedence_key().order(&b.precedence_key()));
    peers.into_iter().map(|(_, peer)| peer)
}

#[cfg(test)]
mod tests;
