//! PeerAuthentications by namespace, and the endpoints that accept no mesh TLS because of them.
//!
//! [`State::follow_peers`](crate::state::State) keeps the table, and the merge asks it for each group of endpoints. Nothing is
//! computed while no policy has the mode DISABLE.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    Address, DeclaredPolicy, EndpointGroup, MtlsMode, Namespace, PeerAuthentication, PeerScopes, Policy,
};

/// All PeerAuthentications.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    namespaces: BTreeMap<Namespace, Vec<Arc<DeclaredPolicy>>>,
    /// Namespaces with a policy that has the mode DISABLE.
    disabling: BTreeSet<Namespace>,
}

impl Peers {
    /// Replaces the policies of a namespace, which are in order of precedence. Returns whether modes of its endpoints may begin or
    /// cease to be DISABLE; `root` is the namespace of the mesh's policies.
    pub(crate) fn set(
        &mut self,
        root: Option<&Namespace>,
        namespace: &Namespace,
        policies: Vec<Arc<DeclaredPolicy>>,
    ) -> bool {
        // a policy without the mode may take the place of one that has it, also of the mesh's
        let before = self.disabling.remove(namespace);
        let now = policies.iter().filter_map(peer).any(PeerAuthentication::disables);
        if now {
            self.disabling.insert(namespace.clone());
        }
        if policies.is_empty() {
            self.namespaces.remove(namespace);
        } else {
            self.namespaces.insert(namespace.clone(), policies);
        }
        now || before || root.is_some_and(|root| self.disabling.contains(root))
    }
    /// Whether a policy has the mode DISABLE, so that endpoints need to be looked at.
    pub(crate) fn disable_any(&self) -> bool {
        !self.disabling.is_empty()
    }
    /// Returns the indexes of addresses whose port behind a service port accepts no mesh TLS, sorted. `namespace` is that of
    /// addresses without a workload.
    pub(crate) fn plain(
        &self,
        root: Option<&Namespace>,
        namespace: &str,
        group: &EndpointGroup,
        ports: &[Option<u16>],
    ) -> Vec<u32> {
        let is_plain = |address: &Address| {
            let at = ports.get(usize::from(address.port_set)).copied().flatten();
            let port = at.and_then(|at| group.ports(address).get(usize::from(at))?.number);
            let own = address.origin.as_ref().map_or(namespace, |origin| &*origin.object.namespace);
            let modes = |own: Namespace| {
                let of = |namespace: &Namespace| self.of(namespace);
                PeerScopes::of(root, Some(&own), &address.labels, of).modes()
            };
            let modes = Namespace::new(own).ok().map(modes);
            modes.zip(port).is_some_and(|(modes, port)| modes.of(port) == MtlsMode::Disable)
        };
        let meshed = group.addresses.iter().enumerate().filter(|(_, address)| address.mtls);
        meshed.filter(|(_, address)| is_plain(address)).filter_map(|(at, _)| u32::try_from(at).ok()).collect()
    }
    fn of(&self, namespace: &Namespace) -> impl Iterator<Item = &PeerAuthentication> + use<'_> {
        self.namespaces.get(namespace).into_iter().flatten().filter_map(peer)
    }
}

fn peer(declared: &Arc<DeclaredPolicy>) -> Option<&PeerAuthentication> {
    if let Policy::PeerAuthentication(policy) = &declared.policy { Some(policy) } else { None }
}
