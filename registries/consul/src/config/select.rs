//! Which services are followed: by name, by tag, by what instances say of themselves.

use std::collections::{BTreeMap, BTreeSet};

use crate::wire::HealthEntry;

/// A name in which `*` stands for any text. Case does not matter: it does not to Consul either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// From a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_lowercase().into())
    }
    /// Whether a name is meant.
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

/// Which services and instances are followed; nothing said follows all but Consul itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Select {
    /// Only names that one of these means; empty for all.
    pub include: Vec<Pattern>,
    /// No name that one of these means.
    pub exclude: Vec<Pattern>,
    /// Names that are followed whatever the patterns say, because an alias refers to them; in lower case, as hosts are.
    pub names: BTreeSet<String>,
    /// Only instances with all of these tags.
    pub tags: Vec<String>,
    /// Only instances with all of these in their meta.
    pub meta: BTreeMap<String, String>,
    /// Whether Consul's own service is followed too.
    pub consul: bool,
}

impl Select {
    /// Whether a service of this name, with this union of its instances' tags, is followed.
    #[must_use]
    pub fn service(&self, name: &str, tags: &[String]) -> bool {
        if name == "consul" && !self.consul {
            return false;
        }
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(name));
        let named = (self.include.is_empty() || any(&self.include)) && !any(&self.exclude);
        (named || self.names.contains(&name.to_lowercase())) && self.has_tags(tags)
    }
    /// Whether an instance of a followed service is taken.
    #[must_use]
    pub fn instance(&self, entry: &HealthEntry) -> bool {
        let meta = &entry.service.meta;
        self.has_tags(&entry.service.tags)
            && self.meta.iter().all(|(key, value)| meta.get(key) == Some(value))
    }
    /// Whether fewer than all are followed.
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        !(self.include.is_empty() && self.exclude.is_empty() && self.tags.is_empty() && self.meta.is_empty())
    }
    /// Tags compare without case, as on the server.
    fn has_tags(&self, tags: &[String]) -> bool {
        self.tags.iter().all(|tag| tags.iter().any(|own| own.eq_ignore_ascii_case(tag)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_star_is_any_text() {
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
    fn names_and_tags_decide_together_and_an_alias_overrides_names() {
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
        assert!(!Select::default().service("consul", &[]) && Select::default().service("consul2", &[]));
        assert!(Select { consul: true, ..Select::default() }.service("consul", &[]));
    }

    #[test]
    fn an_instance_needs_all_tags_and_all_meta() {
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
        fn a_pattern_is_the_same_as_trying_every_way(pattern in "[ab*]{0,6}", name in "[ab]{0,8}") {
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
