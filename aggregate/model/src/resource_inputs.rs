//! A part of a view with its own inputs, dimensions and slots.

use std::ops::BitOr;

use crate::encoded_cache::EncodedCache;

/// Which attributes of a client an answer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ClientDimensions(u16);

impl ClientDimensions {
    /// None: every client gets the same bytes.
    pub const NONE: Self = Self(0);
    /// The client's kind.
    pub const KIND: Self = Self(1);
    /// Its network.
    pub const NETWORK: Self = Self(1 << 1);
    /// Its cluster.
    pub const CLUSTER: Self = Self(1 << 2);
    /// Its locality.
    pub const LOCALITY: Self = Self(1 << 3);
    /// Its node.
    pub const NODE: Self = Self(1 << 4);
    /// Its namespace.
    pub const NAMESPACE: Self = Self(1 << 5);
    /// Its IP families.
    pub const FAMILIES: Self = Self(1 << 6);
    /// Whether its listeners bind.
    pub const BINDS: Self = Self(1 << 7);
    /// Its DNS domain.
    pub const DOMAIN: Self = Self(1 << 8);
    /// Whether it captures DNS.
    pub const DNS_CAPTURE: Self = Self(1 << 9);

    /// Whether all of `other` is in `self`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
impl BitOr for ClientDimensions {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Facts, the dimensions that answers from them read, and the answers made so far. Kept by the
/// core from one generation to the next while the facts are equal.
#[derive(Debug)]
pub struct ResourceInputs<T> {
    /// All that an answer reads.
    pub inputs: T,
    /// What an answer reads of a client.
    pub dimensions: ClientDimensions,
    /// The answers.
    pub encoded: EncodedCache,
}

impl<T> ResourceInputs<T> {
    /// With no answers yet.
    pub fn new(facts: T, dims: ClientDimensions) -> Self {
        Self { inputs: facts, dimensions: dims, encoded: EncodedCache::default() }
    }
}
