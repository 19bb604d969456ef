//! Which connections the ports of a workload accept, by the PeerAuthentications that apply to it.
//!
//! Of the policies of one scope (the mesh, a namespace, selected workloads) the oldest alone applies, as in Istio. Inbound
//! listeners can be keyed by [`PeerModes`]: equal values give equal modes for every port.

use tributary_model::{
    Catalog, Labels, MtlsMode, Namespace, PeerAuthentication, PolicyKey, PolicyKind, PolicyView, PortNumber,
};

/// Modes of the ports of a workload. Equal if each port has the same mode.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerModes {
    usual: MtlsMode,
    /// Ports with another mode than the usual one, sorted.
    others: Box<[(PortNumber, MtlsMode)]>,
}

impl Default for PeerModes {
    fn default() -> Self {
        Self { usual: MtlsMode::DEFAULT, others: Box::default() }
    }
}

impl PeerModes {
    /// Returns the mode of ports that have none of their own, and of connections to other ports of the workload.
    #[must_use]
    pub const fn usual(&self) -> MtlsMode {
        self.usual
    }
    /// Returns the mode of a port of the workload, which is not that of its services.
    #[must_use]
    pub fn of(&self, port: PortNumber) -> MtlsMode {
        let at = self.others.binary_search_by_key(&port, |(number, _)| *number).ok();
        at.and_then(|at| self.others.get(at)).map_or(self.usual, |(_, mode)| *mode)
    }
    /// Whether a port refuses plain text.
    #[must_use]
    pub fn refuses_plain(&self) -> bool {
        self.usual == MtlsMode::Strict || self.others().any(|(_, mode)| mode == MtlsMode::Strict)
    }
    /// Iterates over the ports with another mode than the usual one, by number.
    pub fn others(&self) -> impl Iterator<Item = (PortNumber, MtlsMode)> {
        self.others.iter().copied()
    }
}

/// PeerAuthentication with its key.
type Peer<'c> = (&'c PolicyKey, &'c PeerAuthentication);

/// PeerAuthentications that apply to a workload, the narrowest scope last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerPolicies<'c> {
    /// Policy of the root namespace without a selector.
    pub mesh: Option<Peer<'c>>,
    /// Policy of the workload's namespace without a selector.
    pub namespace: Option<Peer<'c>>,
    /// Policy of the workload's namespace that selects it.
    pub workload: Option<Peer<'c>>,
}

impl<'c> PeerPolicies<'c> {
    /// Returns the policies that apply to a workload of a namespace with these labels. In the root namespace, a policy
    /// without a selector is that of the mesh, and one with a selector applies to no workload.
    #[must_use]
    pub fn of(catalog: &'c Catalog, namespace: Option<&Namespace>, labels: &Labels) -> Self {
        if catalog.policies.is_empty() {
            return Self::default();
        }
        let root = catalog.settings.root_namespace();
        let own = namespace.filter(|own| root.as_ref() != Some(*own));
        let wide = |namespace| first(peers(catalog, namespace).filter(|(_, _, it)| it.selector.is_empty()));
        let selects = |it: &PeerAuthentication| !it.selector.is_empty() && it.selector.is_subset_of(labels);
        Self {
            mesh: root.as_ref().and_then(wide),
            namespace: own.and_then(wide),
            workload: own.and_then(|own| first(peers(catalog, own).filter(|(_, _, it)| selects(it)))),
        }
    }
    /// Returns the modes that they set: that of a port, else that of the narrowest scope with one.
    #[must_use]
    pub fn modes(&self) -> PeerModes {
        let all = [self.workload, self.namespace, self.mesh].into_iter().flatten();
        let usual = all.into_iter().find_map(|(_, policy)| policy.mode).unwrap_or(MtlsMode::DEFAULT);
        let ports = self.workload.into_iter().flat_map(|(_, policy)| &policy.ports);
        let set = ports.filter_map(|(port, mode)| Some((*port, (*mode)?)));
        PeerModes { usual, others: set.filter(|(_, mode)| *mode != usual).collect() }
    }
    /// Returns the key of the policy that selects the workload.
    #[must_use]
    pub fn workload_key(&self) -> Option<&'c PolicyKey> {
        self.workload.map(|(key, _)| key)
    }
    /// Iterates over the policies, the narrowest scope first.
    pub fn keys(&self) -> impl Iterator<Item = &'c PolicyKey> {
        [self.workload, self.namespace, self.mesh].into_iter().flatten().map(|(key, _)| key)
    }
}

/// Returns the modes of the ports of a workload of a namespace with these labels.
#[must_use]
pub fn peer_modes(catalog: &Catalog, namespace: Option<&Namespace>, labels: &Labels) -> PeerModes {
    PeerPolicies::of(catalog, namespace, labels).modes()
}

type Candidate<'c> = (&'c PolicyKey, &'c PolicyView, &'c PeerAuthentication);

fn peers<'c>(catalog: &'c Catalog, namespace: &Namespace) -> impl Iterator<Item = Candidate<'c>> + use<'c> {
    let (kind, namespace) = (PolicyKind::PeerAuthentication, namespace.clone());
    let from = PolicyKey { kind, namespace: namespace.clone(), name: "".into() };
    let all = catalog.policies.range(from..);
    all.take_while(move |(key, _)| key.kind == kind && key.namespace == namespace)
        .filter_map(|(key, view)| Some((key, &**view, view.peer_authentication()?)))
}

fn first<'c>(candidates: impl Iterator<Item = Candidate<'c>>) -> Option<Peer<'c>> {
    let oldest = candidates.min_by(|(_, a, _), (_, b, _)| a.precedence_key().order(&b.precedence_key()));
    oldest.map(|(key, _, policy)| (key, policy))
}

#[cfg(test)]
mod tests;
