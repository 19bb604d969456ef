//! Outcome of the choice among the VirtualServices of a host.
//!
//! The answer of a client makes it from the client's namespace, labels and Sidecar; it is a part of the key of the bytes.

/// Which candidate serves a client, and which of its conditions on clients the client fulfils.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteChoice {
    /// Position among the candidates.
    pub candidate: u16,
    /// For each condition in which clients differ, in order, whether the client fulfils it.
    pub fulfilled: Box<[bool]>,
}
