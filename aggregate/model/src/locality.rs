//! Localities: region, zone and subzone.

use std::sync::{Arc, OnceLock};

/// Location of a workload or client. Unknown parts are empty; a locality of empty parts is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Locality {
    /// Region.
    pub region: Arc<str>,
    /// Zone within the region.
    pub zone: Arc<str>,
    /// Subzone within the zone.
    pub subzone: Arc<str>,
}

impl Locality {
    /// Maximum length of a part in bytes. Longer parts are cut, because a locality only orders endpoints.
    pub const MAX_PART: usize = 253;

    /// Builds a locality from its three parts.
    #[must_use]
    pub fn new(region: &str, zone: &str, subzone: &str) -> Self {
        Self { region: cut(region), zone: cut(zone), subzone: cut(subzone) }
    }
    /// Parses `region/zone/subzone`. Missing parts are empty; further parts are ignored.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut parts = text.split('/');
        let mut next = || parts.next().unwrap_or_default();
        Self::new(next(), next(), next())
    }
    /// Parses a label value. `.` separates the parts unless the value contains `/`.
    #[must_use]
    pub fn parse_label(text: &str) -> Self {
        if text.contains('/') { Self::parse(text) } else { Self::parse(&text.replace('.', "/")) }
    }
    /// Returns a part that no locality has, because it is too long. It stands for every part that makes no
    /// difference to an answer.
    #[must_use]
    pub fn unnamed_part() -> Arc<str> {
        static PART: OnceLock<Arc<str>> = OnceLock::new();
        Arc::clone(PART.get_or_init(|| "-".repeat(Self::MAX_PART + 1).into()))
    }
    /// Whether a pattern such as `region/zone/*` matches it. `*` and a missing part match any part, a missing region only
    /// an unknown one.
    #[must_use]
    pub fn matches(&self, pattern: &str) -> bool {
        let mut parts = pattern.split('/');
        let (region, zone, subzone) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let is = |pattern: Option<&str>, own: &str| {
            pattern.is_none_or(|pattern| pattern.is_empty() || pattern == "*" || pattern == own)
        };
        (region == "*" || region == &*self.region) && is(zone, &self.zone) && is(subzone, &self.subzone)
    }
    /// Whether all parts are unknown.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.region.is_empty() && self.zone.is_empty() && self.subzone.is_empty()
    }
}

fn cut(part: &str) -> Arc<str> {
    let mut end = part.len().min(Locality::MAX_PART);
    while !part.is_char_boundary(end) {
        end -= 1;
    }
    part[..end].into()
}

impl std::fmt::Display for Locality {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = [&*self.region, &*self.zone, &*self.subzone].join("/");
        f.write_str(text.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locality_text_round_trips() {
        for text in ["", "eu", "eu/1b", "eu/1b/rack3"] {
            assert_eq!(Locality::parse(text).to_string(), text);
        }
    }

    #[test]
    fn label_value_uses_dots_unless_it_has_slashes() {
        assert_eq!(Locality::parse_label("eu.1b"), Locality::parse("eu/1b"));
        assert_eq!(Locality::parse_label("eu.west/1b"), Locality::parse("eu.west/1b"));
    }

    #[test]
    fn pattern_matches_the_parts_that_it_names() {
        let at = Locality::parse("eu/1b/rack3");
        for pattern in ["*", "eu", "eu/*", "eu/1b", "eu/1b/*", "eu/1b/rack3"] {
            assert!(at.matches(pattern), "{pattern}");
        }
        for pattern in ["", "us", "us/*", "eu/1c", "eu/1b/rack4", "eu/*/rack4"] {
            assert!(!at.matches(pattern), "{pattern}");
        }
        assert!(Locality::default().matches("*") && !Locality::default().matches("eu/*"));
    }

    #[test]
    fn long_part_is_cut_at_a_character_boundary() {
        let part = "\u{e9}".repeat(200);
        assert_eq!(Locality::new(&part, "", "").region.len(), 252);
    }
}
