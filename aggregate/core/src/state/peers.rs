//! PeerAuthentications by namespace, and the endpoints that accept no mesh TLS because of them.
//!
//! [`State::follow_peers`](crate::state::State) keeps the table, and the merge asks it for each group of endpoints. Nothing is
//! computed while no policy has the mode DISABLE.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    Address, DeclaredPolicy, EndpointGroup, MtlsMode, Namespace, PeerAuthentication, Policy, PortNumber,
};

/// All PeerAuthentications.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    namespaces: BTreeMap<Namespace, Vec<Arc<DeclaredPolicy>>>,
    /// Namespaces with a policy that has the mode DISABLE.
    disabling: BTreeSet<Namespace>,
}

impl Peers {
    /// Replaces the policies of a namespace, which are in order of precedence. Returns whether modes of endpoints may change.
    pub(crate) fn set(&mut self, namespace: &Namespace, policies: Vec<Arc<DeclaredPolicy>>) -> bool {
        let now = policies.iter().filter_map(peer).any(PeerAuthentication::disables);
        // a policy without the mode may take the place of one that has it
        let before = self.disabling.remove(namespace);
        if now {
            self.disabling.insert(namespace.clone());
        }
        if policies.is_empty() {
            self.namespaces.remove(namespace);
        } else {
            self.namespaces.insert(namespace.clone(), policies);
        }
        now || before
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
            let mode = |own| port.map(|port| self.mode(root, &own, address, port));
            Namespace::new(own).ok().and_then(mode) == Some(MtlsMode::Disable)
        };
        let meshed = group.addresses.iter().enumerate().filter(|(_, address)| address.mtls);
        meshed.filter(|(_, address)| is_plain(address)).filter_map(|(at, _)| u32::try_from(at).ok()).collect()
    }
    fn mode(
        &self,
        root: Option<&Namespace>,
        namespace: &Namespace,
        address: &Address,
        port: PortNumber,
    ) -> MtlsMode {
        let of = |namespace| self.namespaces.get(namespace).into_iter().flatten().filter_map(peer);
        let is_root = root == Some(namespace);
        let selects = |policy: &&PeerAuthentication| {
            !policy.selector.is_empty() && policy.selector.is_subset_of(&address.labels)
        };
        let wide = |namespace| of(namespace).find(|policy| policy.selector.is_empty());
        let own = (!is_root).then_some(namespace);
        let narrow = own.and_then(|own| of(own).find(selects));
        let all = [narrow, own.and_then(wide), root.and_then(wide)];
        MtlsMode::of_port(port, &all)
    }
}

fn peer(declared: &Arc<DeclaredPolicy>) -> Option<&PeerAuthentication> {
    match &declared.policy {
        Policy::PeerAuthentication(policy) => Some(policy),
        Policy::Sidecar(_)
        | Policy::DestinationRule(_)
        | Policy::VirtualService(_)
        | Policy::EnvoyFilter(_) => None,
    }
}
