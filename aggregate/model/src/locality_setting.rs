//! `localityLbSetting` as documents write it, before it is checked.
//!
//! Readers of the mesh configuration and of the config file fill a [`LocalitySetting`]. Readers of DestinationRules name the
//! position of each fault, and call the single checks below.

use std::sync::Arc;

use crate::kubernetes_names::{is_label_key, is_label_value};
use crate::labels;
use crate::traffic_policy::{Distribution, FailoverLabel, LocalityBalancing};

/// Labels that order regions as `failover` does.
const TOPOLOGY: [&str; 3] = [labels::REGION, labels::ZONE, labels::SUBZONE];

/// Values of a `localityLbSetting` in document order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalitySetting {
    /// Whether clients prefer localities; they do if absent.
    pub enabled: Option<bool>,
    /// Shares in percent of places, for the clients of a place.
    pub distribute: Vec<(String, Vec<(String, u32)>)>,
    /// Region of the endpoints that fail, and the region that replaces it.
    pub failover: Vec<(String, String)>,
    /// Labels in order of significance, each `key` or `key=value`.
    pub failover_priority: Vec<String>,
}

impl LocalitySetting {
    /// Maximum number of entries of each list, and of places in one entry.
    pub const MOST_ITEMS: usize = 256;

    /// Returns the setting that these values mean, or the first fault, which names the field.
    pub fn parse(&self) -> Result<LocalityBalancing, String> {
        self.check_sizes()?;
        self.check_kinds()?;
        self.check_shares()?;
        self.failover.iter().enumerate().try_for_each(check_region)?;
        self.failover_priority.iter().enumerate().try_for_each(check_label)?;
        Ok(self.balancing())
    }
    /// Returns the lists that have no effect, because `enabled` is `false`.
    #[must_use]
    pub fn ignored(&self) -> Vec<&'static str> {
        let lists = [
            ("distribute", self.distribute.is_empty()),
            ("failover", self.failover.is_empty()),
            ("failoverPriority", self.failover_priority.is_empty()),
        ];
        let set = lists.into_iter().filter(|(_, is_empty)| !is_empty && self.enabled == Some(false));
        set.map(|(name, _)| name).collect()
    }
    fn balancing(&self) -> LocalityBalancing {
        if self.enabled == Some(false) {
            return LocalityBalancing::Off;
        }
        if !self.distribute.is_empty() {
            return LocalityBalancing::Distribute(self.distribute.iter().map(distribution).collect());
        }
        let region = |(from, to): &(String, String)| (from.as_str().into(), to.as_str().into());
        LocalityBalancing::Failover {
            regions: self.failover.iter().map(region).collect(),
            labels: self.failover_priority.iter().map(|text| FailoverLabel::read(text)).collect(),
        }
    }
    fn check_sizes(&self) -> Result<(), String> {
        let longest = self.distribute.iter().map(|(_, to)| to.len()).max().unwrap_or_default();
        let lists = [
            ("distribute", self.distribute.len()),
            ("distribute[].to", longest),
            ("failover", self.failover.len()),
            ("failoverPriority", self.failover_priority.len()),
        ];
        match lists.into_iter().find(|(_, len)| *len > Self::MOST_ITEMS) {
            Some((name, len)) => Err(format!("{name} has {len} items; write {} at most", Self::MOST_ITEMS)),
            None => Ok(()),
        }
    }
    fn check_kinds(&self) -> Result<(), String> {
        if !self.distribute.is_empty() && !self.failover.is_empty() {
            return Err("has both distribute and failover; keep one of them".into());
        }
        let topology = self.failover_priority.iter().find(|label| is_topology(label));
        match topology.filter(|_| !self.failover.is_empty()) {
            Some(label) => Err(format!(
                "failoverPriority has {label} beside failover, which both order regions; remove one of them"
            )),
            None => Ok(()),
        }
    }
    fn check_shares(&self) -> Result<(), String> {
        let from: Vec<&str> = self.distribute.iter().map(|(from, _)| from.as_str()).collect();
        check_places("distribute[].from", &from)?;
        for (at, (_, to)) in self.distribute.iter().enumerate() {
            let path = format!("distribute[{at}].to");
            if let Some((place, share)) = to.iter().find(|(_, share)| !(1..=100).contains(share)) {
                return Err(format!("{path}[{place:?}] is {share}; write a share from 1 to 100"));
            }
            let sum: u32 = to.iter().fold(0, |sum, (_, share)| sum.saturating_add(*share));
            if sum != 100 {
                return Err(format!("the shares of {path} add up to {sum}; make them add up to 100"));
            }
            check_places(&path, &to.iter().map(|(place, _)| place.as_str()).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// Places are sorted: their order in the document has no meaning.
fn distribution((from, to): &(String, Vec<(String, u32)>)) -> Distribution {
    let mut to: Vec<(Arc<str>, u32)> =
        to.iter().map(|(place, share)| (place.as_str().into(), *share)).collect();
    to.sort();
    Distribution { from: from.as_str().into(), to: to.into() }
}

fn check_places(path: &str, places: &[&str]) -> Result<(), String> {
    match place_faults(places.iter().copied()).next() {
        Some((at, fault)) => Err(format!("{path}: {:?} {fault}", places.get(at).unwrap_or(&""))),
        None => Ok(()),
    }
}

fn check_region((at, (from, to)): (usize, &(String, String))) -> Result<(), String> {
    if let Some(text) = [from, to].into_iter().find(|text| !is_region(text)) {
        return Err(format!("failover[{at}]: {text:?} is not a region; write its name alone"));
    }
    if from == to {
        return Err(format!("failover[{at}] has from and to alike; name another region"));
    }
    Ok(())
}

fn check_label((at, text): (usize, &String)) -> Result<(), String> {
    let label = FailoverLabel::read(text);
    if is_label_key(&label.key) && is_label_value(label.value.as_deref().unwrap_or_default()) {
        return Ok(());
    }
    Err(format!("failoverPriority[{at}]: {text:?} is not a label; write `key` or `key=value`"))
}

/// Whether a label orders regions, zones or subzones as `failover` does.
#[must_use]
pub fn is_topology(label: &str) -> bool {
    TOPOLOGY.contains(&label)
}

/// Whether a text is the name of a region alone.
#[must_use]
pub fn is_region(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', '*'])
}

/// Returns the indexes of the places of a list that are not valid, with the reason. Places do not contain each other, as in
/// Istio. Only the first [`LocalitySetting::MOST_ITEMS`] count: comparing more would take long.
pub fn place_faults<'p>(
    places: impl Iterator<Item = &'p str>,
) -> impl Iterator<Item = (usize, &'static str)> {
    let mut seen: Vec<&str> = Vec::new();
    places.take(LocalitySetting::MOST_ITEMS).enumerate().filter_map(move |(at, text)| {
        let fault = match text.find('*') {
            _ if text.split('/').count() > 3 || text.split('/').any(str::is_empty) => {
                "is not a place; write region, region/zone or region/zone/subzone"
            }
            Some(at) if at + 1 != text.len() => "has a `*` before its end; write `*` last",
            _ if seen.iter().any(|other| contains(other, text) || contains(text, other)) => {
                "contains, or is in, another place of the list; remove one"
            }
            _ => {
                seen.push(text);
                return None;
            }
        };
        Some((at, fault))
    })
}

/// Whether a place has all of another one: `*` and an absent zone or subzone mean all of them.
fn contains(outer: &str, inner: &str) -> bool {
    let outer = outer.strip_suffix('*').map_or(outer, |start| start.strip_suffix('/').unwrap_or(start));
    outer.is_empty() || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_contains_those_below_it() {
        for (outer, inner, want) in [
            ("*", "a", true),
            ("a", "a", true),
            ("a", "a/b/c", true),
            ("a/*", "a/b", true),
            ("a/b/*", "a/b", true),
            ("a/b", "a", false),
            ("a", "ab", false),
            ("a/b", "a/bc", false),
        ] {
            assert_eq!(contains(outer, inner), want, "{outer} {inner}");
        }
    }
}
