//! Policies that select clients of one kind and namespace with the same labels.
//!
//! xds asks for them when the policies or a client's labels change, and keeps the result for all such clients. What the policies
//! mean for one client follows from it at little cost.

use std::sync::Arc;

use tributary_model::{Catalog, ClientKind, Labels, Namespace, PeerModes};

use crate::authorization::{AuthorizationChain, authorization_of};
use crate::forwarding::reach;
use crate::patches::{SelectedFilters, filters_of};
use crate::peer_modes::peer_policies;
use crate::scope::{ClientSidecar, attach};
use crate::tokens::{TokenChecks, token_checks};

/// Policies that select clients of a kind and namespace by their labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedPolicies {
    /// Sidecar that applies, or what a router forwards.
    pub sidecar: Option<Arc<ClientSidecar>>,
    /// EnvoyFilters whose patches may apply.
    pub filters: SelectedFilters,
    /// Whether a PeerAuthentication applies.
    pub has_peers: bool,
    /// Modes of the workload's ports.
    pub modes: Arc<PeerModes>,
    /// AuthorizationPolicies, of clients that receive connections.
    pub authorization: Option<Arc<AuthorizationChain>>,
    /// How tokens of requests are checked, of clients that receive connections.
    pub tokens: Option<Arc<TokenChecks>>,
}

impl SelectedPolicies {
    /// Returns the policies that select such clients. Shares with an earlier value whatever is equal, so that it is found equal
    /// by its address.
    #[must_use]
    pub fn after(
        earlier: Option<&Self>,
        catalog: &Catalog,
        kind: ClientKind,
        namespace: Option<&Namespace>,
        labels: &Labels,
    ) -> Self {
        let held = earlier.and_then(|earlier| earlier.sidecar.as_ref());
        let attached = || {
            let (key, sidecar) = attach(catalog, kind, namespace, labels)?;
            let same = held.filter(|held| held.is(key, sidecar));
            Some(same.map_or_else(|| Arc::new(ClientSidecar::new(key, sidecar)), Arc::clone))
        };
        let sidecar = match (kind, namespace) {
            (ClientKind::Router, Some(own)) => Some(shared(reach(catalog, own, labels), held)),
            _ => attached(),
        };
        let peers = peer_policies(catalog, namespace, labels);
        let chain = authorization_of(catalog, namespace, labels).filter(|_| kind.receives());
        let held = earlier.and_then(|earlier| earlier.authorization.as_ref());
        let tokens = token_checks(catalog, namespace, labels).and_then(|checks| checks.of_kind(kind));
        let held_tokens = earlier.and_then(|earlier| earlier.tokens.as_ref());
        Self {
            sidecar,
            filters: filters_of(catalog, kind, namespace, labels),
            has_peers: peers.iter().next().is_some(),
            modes: shared(peers.modes(), earlier.map(|earlier| &earlier.modes)),
            authorization: chain.map(|chain| shared(chain, held)),
            tokens: tokens.map(|tokens| shared(tokens, held_tokens)),
        }
    }
}

/// Returns the held value if it is equal, else a new one.
fn shared<T: Eq>(value: T, held: Option<&Arc<T>>) -> Arc<T> {
    held.filter(|held| ***held == value).map_or_else(|| Arc::new(value), Arc::clone)
}
