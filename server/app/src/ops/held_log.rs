//! Entries of the timeline about held removals, by registry.
//!
//! The log of states calls it with each status that changed. It compares numbers, so its cost does not grow with the removals.

use std::collections::BTreeMap;

use tributary_core::{HeldView, RegistryStatus};
use tributary_model::RegistryName;

use super::removals::describe;
use crate::document::timeline::{TimelineItem, TimelineKind, TimelineObject, TimelineSeverity};

/// Most held removals that are read for their names.
pub(super) const MOST_HELD: usize = 1_000;
/// Most removals that an entry names.
const MOST_NAMED: usize = 3;

/// Number of held removals that had an entry last, by registry.
#[derive(Debug, Default)]
pub(super) struct HeldLog(BTreeMap<RegistryName, usize>);

impl HeldLog {
    /// Returns an entry for each registry whose number of held removals changed. `held` has the first of them.
    pub(super) fn compare(&mut self, all: &[RegistryStatus], held: &[HeldView]) -> Vec<TimelineItem> {
        let known = std::mem::take(&mut self.0);
        let mut out = Vec::new();
        for status in all {
            let name = &status.id.name;
            let before = known.get(name).copied().unwrap_or_default();
            if status.held > before {
                out.push(more(name, status.held - before, held));
            } else if status.held < before {
                out.push(fewer(name, before - status.held, status.held));
            }
            if status.held > 0 {
                self.0.insert(name.clone(), status.held);
            }
        }
        out
    }
}

fn entry(registry: &RegistryName, severity: TimelineSeverity, message: String) -> TimelineItem {
    TimelineItem {
        kind: TimelineKind::Held,
        severity,
        object: TimelineObject::new("registry", registry.to_string()),
        message,
        registry: registry.to_string(),
        ..TimelineItem::default()
    }
}

fn more(registry: &RegistryName, count: usize, held: &[HeldView]) -> TimelineItem {
    let mut own: Vec<&HeldView> = held.iter().filter(|one| one.registry == *registry).collect();
    own.sort_by_key(|one| std::cmp::Reverse(one.since));
    let named: Vec<String> =
        own.iter().take(count.min(MOST_NAMED)).map(|one| describe(&one.key.item)).collect();
    let rest = count - named.len();
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let reason = own.first().map(|one| format!(": {}", one.reason)).unwrap_or_default();
    let message = format!("{count} removals are held: {}{rest}{reason}", named.join(", "));
    entry(registry, TimelineSeverity::Warning, message)
}

fn fewer(registry: &RegistryName, count: usize, left: usize) -> TimelineItem {
    let left = if left > 0 { format!("; {left} still are") } else { String::new() };
    let message = format!("{count} removals are no longer held: removed, or reported again{left}");
    entry(registry, TimelineSeverity::Info, message)
}

#[cfg(test)]
mod tests {
    use tributary_core::Core;
    use tributary_model::{FactId, FactKey, Hostname, Scope};

    use super::super::receipts::tests::list;
    use super::*;

    #[test]
    fn each_change_of_the_number_is_one_entry() {
        let mut core = Core::default();
        list(&mut core, "home", &[("pay.test", 1)]);
        let name = RegistryName::new("home").unwrap();
        let held = |at: usize| HeldView {
            registry: name.clone(),
            key: FactKey {
                scope: Scope::new("all").unwrap(),
                item: FactId::FederatedService(Hostname::new(format!("h{at}.test")).unwrap()),
            },
            since: at as u64,
            reason: "why",
            confirm_attempts: 0,
        };
        let mut log = HeldLog::default();
        let mut messages = |count: usize| {
            let mut all = core.status();
            all.iter_mut().for_each(|status| status.held = count);
            let views: Vec<HeldView> = (0..count).map(held).collect();
            log.compare(&all, &views).into_iter().map(|one| one.message).collect::<Vec<_>>()
        };
        assert!(messages(0).is_empty());
        let named = "federated service h4.test, federated service h3.test, federated service h2.test";
        assert_eq!(messages(5), [format!("5 removals are held: {named} and 2 more: why")]);
        assert!(messages(5).is_empty());
        assert_eq!(messages(6), ["1 removals are held: federated service h5.test: why"]);
        assert_eq!(messages(2), ["4 removals are no longer held: removed, or reported again; 2 still are"]);
        assert_eq!(messages(0), ["2 removals are no longer held: removed, or reported again"]);
    }
}
