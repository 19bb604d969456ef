//! Condition of subsets that DestinationRules declare which, by their `exportTo`, are for no client of the VirtualService.

use std::collections::BTreeSet;

use tributary_model::{Code, ExportTo, Namespace, PolicyKey, RouteDestination, Visibility};

use super::target::{Target, of_subset};
use super::{Found, RouteConditions, named};
use crate::policy_conditions::clients::Concerned;
use crate::policy_conditions::found::MAX_OTHERS;

/// Destinations with such subsets.
#[derive(Default)]
pub(super) struct Withheld<'c> {
    parts: Vec<String>,
    rules: BTreeSet<&'c PolicyKey>,
}

impl<'c> Withheld<'c> {
    /// Adds a destination, which is at a place, with a rule that declares its subset.
    pub(super) fn add(
        &mut self,
        (place, to, target): (&str, &RouteDestination, &Target<'c>),
        (key, export): (&'c PolicyKey, &ExportTo),
    ) {
        let subset = of_subset(to.subset.as_ref(), &target.shown());
        self.parts.push(format!("{place} ({subset}: the exportTo of {key} {})", shown(export, key)));
        self.rules.insert(key);
    }
    /// Returns the condition; `None` without a destination.
    pub(super) fn found(self) -> Option<Found<'c>> {
        let Self { parts, rules } = self;
        let message = || {
            let parts = named(parts.iter().map(String::as_str));
            format!("DestinationRules that declare these subsets are not exported to its clients: {parts}")
        };
        let others = || rules.into_iter().take(MAX_OTHERS).collect();
        (!parts.is_empty()).then(|| Found(Code::ROUTE_SUBSET_UNDECLARED, others(), message()))
    }
}

impl<'c> RouteConditions<'c> {
    /// Returns the first rule that declares the subset of a destination, with its `exportTo`, if this admits none of the clients.
    pub(super) fn withholding(
        &self,
        to: &RouteDestination,
        target: &Target<'c>,
        clients: &Concerned,
    ) -> Option<(&'c PolicyKey, &'c ExportTo)> {
        let (subset, host) = (to.subset.as_ref()?, target.end());
        let rules =
            self.catalog.policies.iter().filter_map(|(key, view)| Some((key, view.destination_rule()?)));
        let of_host = rules.filter(|(key, rule)| self.completed(key, &rule.host).matches(host));
        let mut declaring = of_host.filter(|(_, rule)| rule.subsets.iter().any(|own| own.name == *subset));
        let (key, rule) = declaring.next()?;
        let export = rule.export.resolve(&Visibility::Public);
        let mut clients = clients.of_services(&target.ends);
        let is_seen = clients.any(|client| export.admits(&key.namespace, client));
        (!is_seen && declaring.next().is_none()).then_some((key, &rule.export))
    }
}

/// Names the namespaces of an `exportTo`.
fn shown(export: &ExportTo, key: &PolicyKey) -> String {
    let visibility = export.resolve(&Visibility::Public);
    let names: Vec<&str> = visibility.namespaces(&key.namespace).map(Namespace::as_str).collect();
    match names.is_empty() {
        true => "names no namespace".to_owned(),
        false => format!("is {}", named(names)),
    }
}
