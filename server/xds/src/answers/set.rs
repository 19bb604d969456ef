//! Sets of resources and differences between them.

use std::sync::{Arc, OnceLock};

use tributary_model::{EncodedResource, Version, VersionSum};
use tributary_proto::{Body, Variant};

/// Resources in order of name, with the encodings that all their clients share. A set may be a base and what differs
/// from it, so many classes do not cost a list each.
#[derive(Debug, Default)]
pub struct ResourceSet {
    base: Option<Arc<ResourceSet>>,
    /// Resources beside those of the base, or in place of them.
    own: Box<[Arc<EncodedResource>]>,
    /// Names of the base that the set lacks, sorted.
    hidden: Box<[Arc<str>]>,
    len: usize,
    sum: VersionSum,
    sotw: OnceLock<Body>,
    delta: OnceLock<Body>,
    #[cfg(test)]
    flat: OnceLock<Vec<Arc<EncodedResource>>>,
}

impl ResourceSet {
    /// Builds a set from resources in order of name. The version is the hash over the members' versions.
    #[must_use]
    pub fn new(members: Vec<Arc<EncodedResource>>) -> Self {
        debug_assert!(members.is_sorted_by(|a, b| a.name < b.name), "members are not in order");
        let sum = members.iter().map(|m| m.version).collect();
        Self { len: members.len(), own: members.into(), sum, ..Self::default() }
    }
    /// Builds a set from a base that is not layered itself: without some of its members, and with others.
    #[must_use]
    pub fn layered(
        base: &Arc<Self>,
        mut own: Vec<Arc<EncodedResource>>,
        without: &[Arc<EncodedResource>],
    ) -> Self {
        own.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let mut sum = base.sum;
        without.iter().for_each(|member| sum.remove(member.version));
        own.iter().for_each(|member| sum.add(member.version));
        let is_replaced = |name: &str| own.binary_search_by(|m| (*m.name).cmp(name)).is_ok();
        let mut hidden: Vec<Arc<str>> =
            without.iter().map(|m| Arc::clone(&m.name)).filter(|name| !is_replaced(name)).collect();
        hidden.sort_unstable();
        let len = base.len + own.len() - without.len();
        let (own, hidden) = (own.into(), hidden.into());
        Self { base: Some(Arc::clone(base)), own, hidden, len, sum, ..Self::default() }
    }
    /// Iterates over the resources, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<EncodedResource>> {
        let mut own = self.own.iter().peekable();
        let mut base = self.base.iter().flat_map(|base| base.own.iter()).peekable();
        let mut hidden = self.hidden.iter().peekable();
        std::iter::from_fn(move || {
            while let Some(next) = base.peek() {
                let skipped = hidden.next_if(|name| ***name == *next.name).is_some();
                let replaced = own.peek().is_some_and(|own| own.name == next.name);
                if !skipped && !replaced {
                    break;
                }
                base.next();
            }
            match (base.peek(), own.peek()) {
                (Some(theirs), Some(ours)) if theirs.name < ours.name => base.next(),
                (Some(_), None) => base.next(),
                _ => own.next(),
            }
        })
    }
    /// Returns the number of resources.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }
    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the resources as one list.
    #[cfg(test)]
    pub(crate) fn members(&self) -> &[Arc<EncodedResource>] {
        self.flat.get_or_init(|| self.iter().cloned().collect())
    }
    /// Returns the hash over the members' versions.
    #[must_use]
    pub fn version(&self) -> Version {
        self.sum.version()
    }
    /// Returns a member by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<EncodedResource>> {
        if let Ok(at) = self.own.binary_search_by(|m| (*m.name).cmp(name)) {
            return Some(&self.own[at]);
        }
        let base = self.base.as_ref()?;
        let hidden = self.hidden.binary_search_by(|hidden| (**hidden).cmp(name)).is_ok();
        if hidden { None } else { base.get(name) }
    }
    /// Returns the rope of this form; the first caller builds it.
    pub fn rope_or_make(&self, variant: Variant, make: impl FnOnce() -> Body) -> Body {
        self.cell(variant).get_or_init(make).clone()
    }
    /// Whether the rope of this form is built.
    #[must_use]
    pub fn has_rope(&self, variant: Variant) -> bool {
        self.cell(variant).get().is_some()
    }
    const fn cell(&self, variant: Variant) -> &OnceLock<Body> {
        match variant {
            Variant::Sotw => &self.sotw,
            Variant::Delta => &self.delta,
        }
    }
}

/// The difference between two generations for one class and type.
#[derive(Debug, Default)]
pub struct ChangedSet {
    /// Resources that are new or changed, by name.
    pub upserted: Vec<Arc<EncodedResource>>,
    /// Removed names, sorted.
    pub removed: Vec<Arc<str>>,
}

impl ChangedSet {
    /// Whether the generations are equal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.upserted.is_empty() && self.removed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_finds_its_members_and_its_version_follows_them() {
        let mk = |name: &str, body: &'static str| Arc::new(EncodedResource::new(name.into(), body.into()));
        let set = ResourceSet::new(vec![mk("a", "1"), mk("b", "2")]);
        assert_eq!(set.get("b").map(|m| &*m.name), Some("b"));
        assert!(set.get("c").is_none());
        assert_ne!(set.version(), ResourceSet::new(vec![mk("a", "1"), mk("b", "3")]).version());
    }
}
