//! Which PeerAuthentications apply to a workload, and the modes of its ports that follow.
//!
//! The core asks for endpoints, the answers for inbound listeners. Of the policies of one scope (the mesh, a namespace, selected
//! workloads) the first in precedence alone applies, as in Istio.

use crate::id::Namespace;
use crate::labels::Labels;
use crate::peer_authentication::{MtlsMode, PeerAuthentication};
use crate::port::PortNumber;

/// PeerAuthentications that apply to a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerScopes<T> {
    /// Policy of the root namespace without a selector.
    pub mesh: Option<T>,
    /// Policy of the workload's namespace without a selector.
    pub namespace: Option<T>,
    /// Policy of the workload's namespace that selects it.
    pub workload: Option<T>,
}

impl<T: AsRef<PeerAuthentication>> PeerScopes<T> {
    /// Returns the policies that apply to a workload of a namespace with these labels. `in_order` returns the policies of a
    /// namespace, the first in precedence first. In the root namespace, a policy without a selector is that of the mesh, and one
    /// with a selector applies to no workload.
    #[must_use]
    pub fn of<I: IntoIterator<Item = T>>(
        root: Option<&Namespace>,
        namespace: Option<&Namespace>,
        labels: &Labels,
        in_order: impl Fn(&Namespace) -> I,
    ) -> Self {
        let is_wide = |policy: &T| policy.as_ref().selector.is_empty();
        let (mut wide, mut workload) = (None, None);
        for policy in namespace.filter(|own| root != Some(*own)).into_iter().flat_map(&in_order) {
            if is_wide(&policy) {
                wide = wide.or(Some(policy));
            } else if policy.as_ref().selector.is_subset_of(labels) {
                workload = workload.or(Some(policy));
            }
        }
        let mesh = root.and_then(|root| in_order(root).into_iter().find(is_wide));
        Self { mesh, namespace: wide, workload }
    }
    /// Iterates over the policies, the narrowest scope first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.workload, &self.namespace, &self.mesh].into_iter().flatten()
    }
    /// Returns the modes that they set: that of a port, else that of the narrowest scope with one.
    #[must_use]
    pub fn modes(&self) -> PeerModes {
        let usual = self.iter().find_map(|policy| policy.as_ref().mode).unwrap_or(MtlsMode::DEFAULT);
        let ports = self.workload.iter().flat_map(|policy| &policy.as_ref().ports);
        let set = ports.filter_map(|(port, mode)| Some((*port, (*mode)?)));
        PeerModes { usual, others: set.filter(|(_, mode)| *mode != usual).collect() }
    }
}

/// Modes of the ports of a workload. Equal if each port has the same mode, so that listeners can be keyed by it.
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
    /// Returns the modes of a server whose ports take either mesh TLS or plain text, never both: what PERMISSIVE means to it.
    #[must_use]
    pub fn settled(&self, permissive: MtlsMode) -> Self {
        let settle = |mode: MtlsMode| if mode == MtlsMode::Permissive { permissive } else { mode };
        let usual = settle(self.usual);
        let others = self.others().map(|(port, mode)| (port, settle(mode)));
        Self { usual, others: others.filter(|(_, mode)| *mode != usual).collect() }
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
