//! Content hash for versions and for all values that must be equal on every replica.

use std::fmt;

/// 64-bit content hash, displayed as 16 hex digits. Equal bytes give equal versions in every
/// process and release of the same encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Version(pub u64);

impl Version {
    /// Hashes bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(rapidhash::v3::rapidhash_v3(bytes))
    }
    /// Hashes a sequence of hashes, in order.
    #[must_use]
    pub fn of_all(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(&part.0.to_le_bytes());
        }
        Self::of(&bytes)
    }
    /// Parses the output of [`fmt::Display`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 16 {
            return None;
        }
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

/// Sum over the hashes of a set: equal sets give equal versions in any order, and one member is exchanged without
/// reading the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VersionSum(u64);

impl VersionSum {
    /// Adds a member.
    pub fn add(&mut self, member: Version) {
        self.0 = self.0.wrapping_add(Self::term(member));
    }
    /// Removes a member that was added.
    pub fn remove(&mut self, member: Version) {
        self.0 = self.0.wrapping_sub(Self::term(member));
    }
    /// Returns the sum over both sets.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0.wrapping_add(more.0))
    }
    /// Returns the version of the set.
    #[must_use]
    pub fn version(self) -> Version {
        Version::of(&self.0.to_le_bytes())
    }
    fn term(member: Version) -> u64 {
        Version::of(&member.0.to_le_bytes()).0
    }
}

impl FromIterator<Version> for VersionSum {
    fn from_iter<I: IntoIterator<Item = Version>>(members: I) -> Self {
        let mut out = Self::default();
        members.into_iter().for_each(|member| out.add(member));
        out
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
    fn version_text_round_trips() {
        assert_eq!(Version::of(b"tributary").to_string(), Version::of(b"tributary").to_string());
        assert_eq!(Version::parse(&Version(255).to_string()), Some(Version(255)));
        assert_eq!(Version::parse("zz"), None);
    }

    #[test]
    fn sum_follows_the_members_and_not_their_order() {
        let [a, b, c] = [b"a", b"b", b"c"].map(|text| Version::of(text));
        let mut sum = VersionSum::from_iter([a, b, c]);
        assert_eq!(sum, VersionSum::from_iter([c, a, b]));
        assert_ne!(sum, VersionSum::from_iter([a, b, b]));
        sum.remove(c);
        assert_eq!(sum.version(), VersionSum::from_iter([b, a]).version());
    }

    #[test]
    fn hash_is_pinned() {
        // A change of the hash makes every client reload every resource once.
        assert_eq!(Version::of(b"").to_string(), PINNED_EMPTY);
        assert_eq!(Version::of(b"tributary").to_string(), PINNED_NAME);
    }
    const PINNED_EMPTY: &str = "0338dc4be2cecdae";
    const PINNED_NAME: &str = "0fca1f16a1f836c6";
}
