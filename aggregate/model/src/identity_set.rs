//! Identities that the endpoints of a service may prove, with what is encoded from them.
//!
//! The core shares equal sets between services, and a set stays while nothing changes it. So the part of an xDS cluster that
//! names the identities is encoded once for a set, whichever service, port or subset has it (law 5).

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::certificates::CertificateSource;
use crate::id::Identity;

/// What decides the encoded part beside the identities.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketKey {
    /// Where clients have their certificates.
    pub certificates: CertificateSource,
    /// Whether connections are HTTP/2.
    pub http2: bool,
}

/// Identities, sorted, each once.
#[derive(Debug, Default)]
pub struct IdentitySet {
    identities: Box<[Identity]>,
    encoded: Mutex<BTreeMap<SocketKey, Bytes>>,
}

impl IdentitySet {
    /// Creates a set of identities in any order.
    #[must_use]
    pub fn new(mut identities: Vec<Identity>) -> Self {
        identities.sort_unstable();
        identities.dedup();
        Self { identities: identities.into(), encoded: Mutex::default() }
    }
    /// Returns the part of a key; calls `make` for the first caller, which others wait for.
    pub fn encoded(&self, key: &SocketKey, make: impl FnOnce(&[Identity]) -> Bytes) -> Bytes {
        let mut encoded = self.encoded.lock();
        if let Some(known) = encoded.get(key) {
            return known.clone();
        }
        let made = make(&self.identities);
        encoded.insert(key.clone(), made.clone());
        made
    }
    /// Returns the number of encoded parts.
    #[must_use]
    pub fn encoded_parts(&self) -> usize {
        self.encoded.lock().len()
    }
}

impl Deref for IdentitySet {
    type Target = [Identity];
    fn deref(&self) -> &[Identity] {
        &self.identities
    }
}
impl PartialEq for IdentitySet {
    fn eq(&self, other: &Self) -> bool {
        self.identities == other.identities
    }
}
impl Eq for IdentitySet {}
impl Hash for IdentitySet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identities.hash(state);
    }
}
impl FromIterator<Identity> for IdentitySet {
    fn from_iter<I: IntoIterator<Item = Identity>>(all: I) -> Self {
        Self::new(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_set(texts: &[&str]) -> IdentitySet {
        texts.iter().map(|text| Identity::new(text).unwrap()).collect()
    }

    #[test]
    fn set_is_its_identities_in_any_order() {
        assert_eq!(mk_set(&["b", "a", "b"]), mk_set(&["a", "b"]));
        assert_ne!(mk_set(&["a"]), mk_set(&["a", "b"]));
        assert_eq!(mk_set(&["b", "a"]).iter().map(Identity::as_str).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn part_is_encoded_once_per_key() {
        let set = mk_set(&["a"]);
        let key = |http2| SocketKey { certificates: CertificateSource::Files, http2 };
        let first = set.encoded(&key(false), |all| all[0].as_str().to_owned().into());
        let again = set.encoded(&key(false), |_| unreachable!("encoded twice"));
        assert_eq!((first.as_ptr(), first.len()), (again.as_ptr(), again.len()));
        set.encoded(&key(true), |_| Bytes::from_static(b"h2"));
        assert_eq!(set.encoded_parts(), 2);
    }
}
