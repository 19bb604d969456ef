//! Region, zone and subzone.

use std::sync::Arc;

/// Where something runs. Parts that are not known are empty; all empty is "unknown".
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Locality {
    /// The region.
    pub region: Arc<str>,
    /// The zone within it.
    pub zone: Arc<str>,
    /// The subzone within that.
    pub subzone: Arc<str>,
}

impl Locality {
    /// Longest part that is kept; what is longer is cut, since a locality only orders endpoints.
    pub const MAX_PART: usize = 253;

    /// From its three parts.
    #[must_use]
    pub fn new(region: &str, zone: &str, subzone: &str) -> Self {
        Self { region: cut(region), zone: cut(zone), subzone: cut(subzone) }
    }
    /// From `region/zone/subzone`; what is missing is empty, what follows is ignored.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut parts = text.split('/');
        let mut next = || parts.next().unwrap_or_default();
        Self::new(next(), next(), next())
    }
    /// From a label value, in which `.` stands for `/` unless a `/` is there.
    #[must_use]
    pub fn parse_label(text: &str) -> Self {
        if text.contains('/') { Self::parse(text) } else { Self::parse(&text.replace('.', "/")) }
    }
    /// Whether nothing is known.
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
    fn text_round_trips() {
        for text in ["", "eu", "eu/1b", "eu/1b/rack3"] {
            assert_eq!(Locality::parse(text).to_string(), text);
        }
    }

    #[test]
    fn labels_use_dots_unless_they_use_slashes() {
        assert_eq!(Locality::parse_label("eu.1b"), Locality::parse("eu/1b"));
        assert_eq!(Locality::parse_label("eu.west/1b"), Locality::parse("eu.west/1b"));
    }

    #[test]
    fn a_long_part_is_cut_at_a_character() {
        let part = "\u{e9}".repeat(200);
        assert_eq!(Locality::new(&part, "", "").region.len(), 252);
    }
}
