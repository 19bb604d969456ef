//! One encodable part of a view: its inputs, client dimensions and encoded answers.

use std::ops::BitOr;
use std::sync::OnceLock;

use crate::encoded_cache::EncodedCache;
use crate::named_values::NamedValues;

/// Set of client attributes that an answer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ClientDimensions(u16);

impl ClientDimensions {
    /// Empty set: every client gets the same bytes.
    pub const NONE: Self = Self(0);
    /// Kind of client.
    pub const KIND: Self = Self(1);
    /// Network.
    pub const NETWORK: Self = Self(1 << 1);
    /// Cluster.
    pub const CLUSTER: Self = Self(1 << 2);
    /// Locality.
    pub const LOCALITY: Self = Self(1 << 3);
    /// Node.
    pub const NODE: Self = Self(1 << 4);
    /// Namespace.
    pub const NAMESPACE: Self = Self(1 << 5);
    /// IP families.
    pub const FAMILIES: Self = Self(1 << 6);
    /// Whether listeners bind their ports.
    pub const BINDS: Self = Self(1 << 7);
    /// DNS domain.
    pub const DOMAIN: Self = Self(1 << 8);
    /// Whether the client captures DNS.
    pub const DNS_CAPTURE: Self = Self(1 << 9);
    /// Labels that order endpoints.
    pub const LABELS: Self = Self(1 << 10);
    /// Where the client has its certificates of the mesh.
    pub const CERTIFICATES: Self = Self(1 << 11);

    /// Whether `self` contains all dimensions of `other`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// Whether `self` and `other` have a dimension in common.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
impl BitOr for ClientDimensions {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Inputs, the client dimensions that their answers read, and the answers encoded so far. The core
/// keeps the value from one catalog generation to the next while the inputs are equal.
#[derive(Debug)]
pub struct ResourceInputs<T> {
    /// All inputs of the answer.
    pub inputs: T,
    /// Client attributes that the answer reads.
    pub dimensions: ClientDimensions,
    /// Encoded answers.
    pub encoded: EncodedCache,
    named: OnceLock<Box<NamedValues>>,
}

impl<T> ResourceInputs<T> {
    /// Creates a value without encoded answers.
    pub fn new(inputs: T, dimensions: ClientDimensions) -> Self {
        Self { inputs, dimensions, encoded: EncodedCache::default(), named: OnceLock::new() }
    }
    /// Returns the client values that the inputs name; calls `make` on the first request.
    pub fn named_or_make(&self, make: impl FnOnce(&T) -> NamedValues) -> &NamedValues {
        self.named.get_or_init(|| Box::new(make(&self.inputs)))
    }
}
