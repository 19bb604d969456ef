//! Selection of services and instances by name, tag and meta.

use std::collections::{BTreeMap, BTreeSet};

use crate::wire::HealthEntry;

/// Name pattern in which `*` matches any text. Case-insensitive, as names are in Consul.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// Creates a pattern.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_lowercase().into())
    }
    /// Returns whether the pattern matches one name only.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }
    /// Returns whether the pattern matches a name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let mut parts: Vec<&str> = parts.collect();
        let Some(last) = parts.pop() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.len() >= last.len() && rest.ends_with(last)
    }
}

/// Selection of services and instances. The default selects all except Consul itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Select {
    /// Names must match one of these; empty selects all.
    pub include: Vec<Pattern>,
    /// Names must not match any of these.
    pub exclude: Vec<Pattern>,
    /// Names that are always selected because a federated service refers to them; in lower case, as hosts are.
    pub names: BTreeSet<String>,
    /// Instances must have all of these tags.
    pub tags: Vec<String>,
    /// Instances must have all of these pairs in their meta.
    pub meta: BTreeMap<String, String>,
    /// Whether Consul's own service is selected.
    pub consul: bool,
}

impl Select {
    /// Returns whether a service is selected; `tags` is the union of its instances' tags.
    #[must_use]
    pub fn service(&self, name: &str, tags: &[String]) -> bool {
        if name == "consul" && !self.consul {
            return false;
        }
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(name));
        let named = (self.include.is_empty() || any(&self.include)) && !any(&self.exclude);
        (named || self.names.contains(&name.to_lowercase())) && self.has_tags(tags)
    }
    /// Returns whether a federated service refers to this service, or a pattern without `*` is its name.
    #[must_use]
    pub fn names_exactly(&self, name: &str) -> bool {
        let exact = |pattern: &Pattern| pattern.is_exact() && pattern.matches(name);
        self.names.contains(&name.to_lowercase()) || self.include.iter().any(exact)
    }
    /// Returns whether an instance of a selected service is used.
    #[must_use]
    pub fn instance(&self, entry: &HealthEntry) -> bool {
        let meta = &entry.service.meta;
        self.has_tags(&entry.service.tags)
            && self.meta.iter().all(|(key, value)| meta.get(key) == Some(value))
    }
    /// Returns whether the selection excludes anything.
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        !(self.include.is_empty() && self.exclude.is_empty() && self.tags.is_empty() && self.meta.is_empty())
    }
    /// Compares tags without case, as the server does.
    fn has_tags(&self, tags: &[String]) -> bool {
        self.tags.iter().all(|tag| tags.iter().any(|own| own.eq_ignore_ascii_case(tag)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn star_matches_any_text() {
        let cases = [
            ("web", "Web", true),
            ("web", "web2", false),
            ("web-*", "web-a", true),
            ("web-*", "web", false),
            ("*-web", "a-web", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("*", "", true),
            ("", "x", false),
        ];
        for (pattern, name, want) in cases {
            assert_eq!(Pattern::new(pattern).matches(name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn names_and_tags_select_and_federated_names_always_match() {
        let select = Select {
            include: vec![Pattern::new("shop-*")],
            exclude: vec![Pattern::new("*-canary")],
            names: ["pay".to_owned()].into(),
            tags: vec!["Prod".into()],
            ..Select::default()
        };
        let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        for (name, own, want) in [
            ("shop-a", tags(&["prod"]), true),
            ("shop-a", tags(&["dev"]), false),
            ("shop-a-canary", tags(&["prod"]), false),
            ("pay", tags(&["prod", "x"]), true),
            ("Pay", tags(&["prod"]), true),
            ("other", tags(&["prod"]), false),
        ] {
            assert_eq!(select.service(name, &own), want, "{name} {own:?}");
        }
        assert!(
            ["pay", "Pay"].iter().all(|name| select.names_exactly(name)) && !select.names_exactly("shop-a")
        );
        let exact = Select { include: vec![Pattern::new("web")], ..Select::default() };
        assert!(exact.names_exactly("Web") && !exact.names_exactly("web2"));
        assert!(!Select::default().service("consul", &[]) && Select::default().service("consul2", &[]));
        assert!(Select { consul: true, ..Select::default() }.service("consul", &[]));
    }

    #[test]
    fn instance_needs_all_tags_and_all_meta() {
        let select = Select {
            tags: vec!["a".into()],
            meta: [("env".into(), "prod".into())].into(),
            ..Select::default()
        };
        let mut entry = HealthEntry::default();
        assert!(!select.instance(&entry));
        entry.service.tags = vec!["A".into()];
        assert!(!select.instance(&entry));
        entry.service.meta.insert("env".into(), "prod".into());
        assert!(select.instance(&entry));
    }

    proptest! {
        #[test]
        fn pattern_agrees_with_exhaustive_matching(pattern in "[ab*]{0,6}", name in "[ab]{0,8}") {
            fn naive(pattern: &[u8], name: &[u8]) -> bool {
                match (pattern.split_first(), name.split_first()) {
                    (None, None) => true,
                    (Some((b'*', rest)), _) => (0..=name.len()).any(|at| naive(rest, &name[at..])),
                    (Some((a, rest)), Some((b, left))) => a == b && naive(rest, left),
                    _ => false,
                }
            }
            prop_assert_eq!(Pattern::new(&pattern).matches(&name), naive(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
