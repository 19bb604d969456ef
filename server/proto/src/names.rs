//! Text and lists of names of a received message.

use bytes::Bytes;

use crate::error::ProtoError;
use crate::limits::{MAX_NAME, MAX_NAMES, MAX_TEXT};

/// Text that shares the buffer it was received in; valid UTF-8 by construction.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Text(Bytes);

impl Text {
    /// Checks that a field's bytes are UTF-8 of a bounded length.
    pub fn new(field: u32, what: &'static str, bytes: Bytes) -> Result<Self, ProtoError> {
        Self::bounded(field, what, bytes, MAX_TEXT)
    }
    fn bounded(field: u32, what: &'static str, bytes: Bytes, limit: usize) -> Result<Self, ProtoError> {
        if bytes.len() > limit {
            return Err(ProtoError::TooLarge { what, limit });
        }
        if std::str::from_utf8(&bytes).is_err() {
            return Err(ProtoError::NotText { field });
        }
        Ok(Self(bytes))
    }
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}
impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self.as_str(), f)
    }
}
impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A list of resource names, each at most [`MAX_NAME`] long.
///
/// The names are copied behind each other: thousands of them are cheaper to copy than to count as views of the received
/// buffer, and each is checked once.
#[derive(Debug, Clone, Default)]
pub struct Names {
    text: String,
    /// Where each name ends in the text.
    ends: Vec<u32>,
}

impl Names {
    /// Adds a name; an error if the list or the name exceeds its bound.
    pub fn push(&mut self, field: u32, name: &[u8]) -> Result<(), ProtoError> {
        if self.ends.len() >= MAX_NAMES {
            return Err(ProtoError::TooLarge { what: "the list of resource names", limit: MAX_NAMES });
        }
        if name.len() > MAX_NAME {
            return Err(ProtoError::TooLarge { what: "a resource name", limit: MAX_NAME });
        }
        let name = std::str::from_utf8(name).map_err(|_| ProtoError::NotText { field })?;
        self.add(name);
        Ok(())
    }
    fn add(&mut self, name: &str) {
        self.text.push_str(name);
        // bounded by the lengths and the number of names
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }
    /// Returns the names, in order of arrival.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        let mut from = 0;
        self.ends.iter().map(move |end| {
            let range = from..*end as usize;
            from = range.end;
            self.text.get(range).unwrap_or_default()
        })
    }
    /// Returns the number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl<'a> FromIterator<&'a str> for Names {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut out = Self::default();
        names.into_iter().for_each(|name| out.add(name));
        out
    }
}

/// Resources that a client holds: names with versions, views of one received buffer.
#[derive(Debug, Clone, Default)]
pub struct Pairs(Vec<(Text, Text)>);

impl Pairs {
    /// Adds a pair; an error if the list or the name exceeds its bound.
    pub fn push(&mut self, name: Text, version: Text) -> Result<(), ProtoError> {
        if self.0.len() >= MAX_NAMES {
            return Err(ProtoError::TooLarge { what: "initial_resource_versions", limit: MAX_NAMES });
        }
        if name.0.len() > MAX_NAME {
            return Err(ProtoError::TooLarge { what: "a resource name", limit: MAX_NAME });
        }
        self.0.push((name, version));
        Ok(())
    }
    /// Returns names and versions, in order of arrival.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        self.0.iter().map(|(name, version)| (name.as_str(), version.as_str()))
    }
    /// Returns the number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(n, v)| (n.into(), v.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_in_length_and_number() {
        let mut names = Names::default();
        assert!(names.push(3, &[b'a'; MAX_NAME]).is_ok());
        assert!(matches!(names.push(3, &[b'a'; MAX_NAME + 1]), Err(ProtoError::TooLarge { .. })));
        assert_eq!(names.push(3, &[0xff]), Err(ProtoError::NotText { field: 3 }));
        for _ in 1..MAX_NAMES {
            names.push(3, b"x").unwrap();
        }
        assert!(names.push(3, b"x").is_err());
        assert_eq!(names.len(), MAX_NAMES);
    }

    #[test]
    fn names_keep_their_ends() {
        let all = ["ab", "", "\u{e9}c", "d"];
        let names: Names = all.into_iter().collect();
        assert!(names.iter().eq(all) && names.iter().len() == 4);
        assert!(!names.is_empty() && Names::default().is_empty());
    }
}
