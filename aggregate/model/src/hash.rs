//! The one hash: content versions and everything that must be equal on every replica.

use std::fmt;

/// A 64-bit content hash, shown as 16 hex digits. Equal bytes give equal versions in every
/// process and release of the same encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Version(pub u64);

impl Version {
    /// The hash of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(rapidhash::v3::rapidhash_v3(bytes))
    }
    /// The hash of a sequence of hashes, in order.
    #[must_use]
    pub fn of_all(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(&part.0.to_le_bytes());
        }
        Self::of(&bytes)
    }
    /// Reads what [`fmt::Display`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 16 {
            return None;
        }
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_same_in_every_process() {
        assert_eq!(Version::of(b"tributary").to_string(), Version::of(b"tributary").to_string());
        assert_eq!(Version::parse(&Version(255).to_string()), Some(Version(255)));
        assert_eq!(Version::parse("zz"), None);
    }

    #[test]
    fn the_hash_is_pinned() {
        // A change here makes every client reload everything once: do it knowingly.
        assert_eq!(Version::of(b"").to_string(), PINNED_EMPTY);
        assert_eq!(Version::of(b"tributary").to_string(), PINNED_NAME);
    }
    const PINNED_EMPTY: &str = "0338dc4be2cecdae";
    const PINNED_NAME: &str = "0fca1f16a1f836c6";
}
