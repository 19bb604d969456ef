//! Conditions of DestinationRules: a host or a port that no service has, a subset whose labels no endpoint has, shares of
//! places without endpoints, settings of requests or of HTTP/2 where there are none, a rule or a part of it that another one
//! precedes, and a rule that no client uses.
//!
//! The list of policies calls it once. It reads which rules the core applied. It walks all services once, and the
//! endpoints of those with subsets, bounded by [`MAX_LOOKS`].

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{
    Catalog, Code, Condition, DestinationRule, EndpointPolicy, ExportTo, HostPattern, Namespace, PolicyKey,
    PolicyKind, PolicyView, PortNumber, PortView, Protocol, ServiceView, Subset, Visibility,
};

use super::clients::{Inhabited, concerned_by, inhabited};
use super::found::{Found, MAX_OTHERS, named};
use super::resolved::ResolvedServices;
use super::services::{Services, any_has_labels, selects};
use super::{Beside, MAX_LOOKS};

mod protocols;
mod shares;

use shares::Shares;

/// Conditions of rules.
pub(super) struct RuleConditions<'c> {
    catalog: &'c Catalog,
    /// Namespaces that have a known workload or a connected client; `None` while workloads are not known.
    inhabited: Option<Inhabited<'c>>,
    used: BTreeMap<&'c PolicyKey, Use<'c>>,
    services: Services<'c>,
    resolved: ResolvedServices<'c>,
    /// Endpoints, and services of one host, that were compared.
    looks: usize,
}

/// Where a rule applies.
#[derive(Default)]
struct Use<'c> {
    /// Whether clients of namespaces that no rule names use it.
    by_most: bool,
    /// Namespaces whose clients use it.
    by: BTreeSet<&'c Namespace>,
    /// Its subsets that another rule has already.
    taken: BTreeMap<&'c Subset, &'c PolicyKey>,
    /// Rule whose settings apply in place of its own.
    settings_of: Option<&'c PolicyKey>,
    /// Ports of services where no endpoint has the labels of a subset.
    unmatched: BTreeMap<&'c Subset, BTreeSet<String>>,
    /// Those where some endpoint has them: clients may get different services of one host.
    matched: BTreeMap<&'c Subset, BTreeSet<String>>,
    /// Places whose clients have shares of endpoints.
    shares: Shares<'c>,
    /// Ports of the services of its host.
    ports: BTreeSet<PortNumber>,
    /// Whether one of them is for requests, or sidecars may recognize requests on it.
    has_requests: bool,
    /// Those of them that are for HTTP/2.
    http2: BTreeSet<PortNumber>,
}

impl<'c> RuleConditions<'c> {
    /// Reads where rules apply; nothing if none is wanted.
    pub(super) fn new(catalog: &'c Catalog, beside: Beside<'c>, wanted: &dyn Fn(&PolicyKey) -> bool) -> Self {
        let mut out = Self {
            catalog,
            inhabited: None,
            used: BTreeMap::new(),
            services: Services::new(catalog, beside.elsewhere),
            resolved: ResolvedServices::new(catalog, beside),
            looks: 0,
        };
        if !catalog.policies.keys().any(|key| key.kind == PolicyKind::DestinationRule && wanted(key)) {
            return out;
        }
        out.inhabited = inhabited(catalog, beside);
        // what a rule sets for an alias has no effect: no client receives an xDS cluster of it
        for view in catalog.services().filter(|view| view.alias_target().is_none()) {
            view.ports.iter().for_each(|port| out.read(view, port, wanted));
        }
        out
    }
    /// Returns the conditions of a rule.
    pub(super) fn of(&mut self, key: &'c PolicyKey, view: &'c PolicyView) -> Vec<Condition> {
        let Some(rule) = view.destination_rule() else { return Vec::new() };
        let found: Vec<Found<'c>> = match self.used.get(key) {
            Some(used) => {
                let all = [
                    self.unused(used),
                    shadowed(used),
                    unmatched(used, rule),
                    used.shares.unmatched(rule),
                    used.shares.partly_unmatched(rule),
                    portless(used, rule),
                    self.unhashed(key, used, rule),
                    protocols::without_http2(used, rule),
                ];
                all.into_iter().flatten().collect()
            }
            None => self.without_effect(key, rule).into_iter().collect(),
        };
        found.into_iter().map(|found| found.condition(self.catalog, view)).collect()
    }
    /// Records which rules a port has for which clients, and which of their subsets have endpoints.
    fn read(&mut self, view: &'c ServiceView, port: &'c PortView, wanted: &dyn Fn(&PolicyKey) -> bool) {
        let Some(policies) = &port.cluster.inputs.policy else { return };
        let mut seen: Vec<&[PolicyKey]> = Vec::new();
        for namespace in std::iter::once(None).chain(policies.namespaces().map(Some)) {
            let Some(policy) = policies.get(namespace) else { continue };
            for key in policy.from.iter().filter(|key| wanted(key)) {
                let used = self.used.entry(key).or_default();
                used.by_most |= namespace.is_none();
                used.by.extend(namespace);
                used.ports.insert(port.number);
                used.has_requests |= port.protocol.is_http() || port.protocol == Protocol::Unspecified;
                used.http2.extend(port.protocol.is_http2().then_some(port.number));
            }
            if seen.contains(&&*policy.from) {
                continue;
            }
            seen.push(&policy.from);
            self.compare(&policy.from, wanted);
        }
        let mut counted: Vec<&[PolicyKey]> = Vec::new();
        for client in self.clients_of(view, policies.namespaces()) {
            let (policy, endpoints) = (policies.get(client), port.endpoints.inputs.policy_of(client));
            let Some((policy, endpoints)) = policy.as_ref().zip(endpoints) else { continue };
            if !counted.contains(&&*policy.from) {
                counted.push(&policy.from);
                self.count(view, port, &policy.from, endpoints, wanted);
            }
        }
    }
    /// Returns the namespaces whose clients get a service, of these and of those that its host concerns, `None` for most others.
    fn clients_of<'a>(
        &mut self,
        view: &ServiceView,
        ruled: impl Iterator<Item = &'a Namespace>,
    ) -> BTreeSet<Option<&'a Namespace>>
    where
        'c: 'a,
    {
        let claimants = self.resolved.claimants(view.key.host.as_str());
        let mut all: BTreeSet<Option<&Namespace>> = ruled.map(Some).chain([None]).collect();
        if claimants.len() < 2 {
            return all;
        }
        all.extend(claimants.iter().flat_map(|one| concerned_by(one)).map(Some));
        self.looks += claimants.len() * all.len();
        all.retain(|client| self.looks <= MAX_LOOKS && self.resolved.has(view, *client));
        all
    }
    fn rule(&self, key: &PolicyKey) -> Option<&'c DestinationRule> {
        self.catalog.policies.get(key)?.destination_rule()
    }
    /// Returns the first rule of a merge that declares a subset.
    fn declaring(&self, from: &'c [PolicyKey], name: &Subset) -> Option<&'c PolicyKey> {
        let declares = |rule: &DestinationRule| rule.subsets.iter().any(|of| of.name == *name);
        from.iter().find(|key| self.rule(key).is_some_and(declares))
    }
    /// Records which parts of each rule of a merge are those of rules before it.
    fn compare(&mut self, from: &'c [PolicyKey], wanted: &dyn Fn(&PolicyKey) -> bool) {
        for (at, key) in from.iter().enumerate().skip(1).filter(|(_, key)| wanted(key)) {
            let Some(rule) = self.rule(key) else { continue };
            let before = &from[..at];
            let names = rule.subsets.iter().map(|subset| &subset.name);
            let taken: Vec<_> =
                names.filter_map(|name| Some((name, self.declaring(before, name)?))).collect();
            let sets = |key: &&PolicyKey| self.rule(key).is_some_and(|of| !of.policies.is_empty());
            let settings_of = before.iter().find(sets).filter(|_| !rule.policies.is_empty());
            let used = self.used.entry(key).or_default();
            used.taken.extend(taken);
            used.settings_of = used.settings_of.or(settings_of);
        }
    }
    /// Records which subsets of a port have endpoints. Without any endpoint the service is at fault, not the rule, and
    /// where clients keep the destination of a connection, labels select nothing.
    fn count(
        &mut self,
        view: &'c ServiceView,
        port: &'c PortView,
        from: &'c [PolicyKey],
        policy: &'c EndpointPolicy,
        wanted: &dyn Fn(&PolicyKey) -> bool,
    ) {
        let inputs = &port.endpoints.inputs;
        let is_unread = self.catalog.unread_endpoints(view).next().is_some();
        let has_any = inputs.sources.iter().any(|source| !source.group.addresses.is_empty());
        if !selects(&inputs.resolution) || is_unread || !has_any || self.looks > MAX_LOOKS {
            return;
        }
        self.count_shares((view, port), from, policy, wanted);
        for (name, labels, _) in policy.subsets.iter() {
            let Some(key) = self.declaring(from, name).filter(|key| wanted(key)) else { continue };
            let is_matched = any_has_labels(inputs, labels, &mut self.looks);
            let used = self.used.entry(key).or_default();
            let list = if is_matched { &mut used.matched } else { &mut used.unmatched };
            list.entry(name).or_default().insert(format!("{}:{}", view.key.host, port.number));
        }
    }
    /// Returns the condition of a rule that only clients of namespaces without clients would use.
    fn unused(&self, used: &Use<'c>) -> Option<Found<'c>> {
        let inhabited = self.inhabited.as_ref()?;
        let has_clients = used.by_most || used.by.iter().any(|namespace| inhabited.contains(namespace));
        let names = named(used.by.iter().map(|namespace| namespace.as_str()));
        let message =
            format!("no known workload and no connected client is in a namespace that uses it: {names}");
        (!has_clients).then(|| Found(Code::RULE_WITHOUT_CLIENTS, Vec::new(), message))
    }
    /// Returns why a rule applies to no client.
    fn without_effect(&mut self, key: &'c PolicyKey, rule: &DestinationRule) -> Option<Found<'c>> {
        let domain = self.catalog.settings.domain();
        let host = rule.host.completed(key.namespace.as_str(), domain);
        let services = self.services.of(&host);
        if services.is_empty() {
            if self.services.are_elsewhere(&host) {
                return None;
            }
            let message = self.services.no_such_host(host.as_str());
            return Some(Found(Code::RULE_HOST_UNMATCHED, Vec::new(), message));
        }
        let aliases = services.iter().map(|view| Some((&view.key.host, view.alias_target()?)));
        if let Some((alias, target)) =
            aliases.collect::<Option<Vec<_>>>().and_then(|all| all.first().copied())
        {
            let message = format!(
                "{alias} is an alias of {target}: clients have the settings and subsets of rules for {target}"
            );
            return Some(Found(Code::RULE_HOST_UNMATCHED, Vec::new(), message));
        }
        let mut by: BTreeMap<&PolicyKey, BTreeSet<&str>> = BTreeMap::new();
        for view in &services {
            if let Some(other) = self.preceding(key, rule, view) {
                by.entry(other).or_default().insert(view.key.host.as_str());
            }
        }
        if !by.is_empty() {
            let others = by.keys().take(MAX_OTHERS).copied().collect();
            return Some(Found(Code::RULE_SHADOWED, others, in_its_place(&host, &by)));
        }
        let owners: BTreeSet<&str> = services.iter().map(|view| view.key.namespace.as_str()).collect();
        let message = format!(
            "it is not exported to clients of its own namespace, and its namespace is neither the root namespace nor one with \
             a service of the host {host}, which are: {}",
            named(owners.into_iter())
        );
        Some(Found(Code::RULE_WITHOUT_CLIENTS, Vec::new(), message))
    }
    /// Returns the rule that applies to those clients of a service that a rule is exported to.
    fn preceding(
        &self,
        key: &PolicyKey,
        rule: &DestinationRule,
        view: &ServiceView,
    ) -> Option<&'c PolicyKey> {
        let own = &key.namespace;
        let is_of_all =
            view.key.namespace == *own || self.catalog.settings.root_namespace().as_ref() == Some(own);
        let listed: Vec<Option<&Namespace>> = match &rule.export {
            ExportTo::Set(Visibility::Namespaces(list)) => list.iter().map(Some).collect(),
            _ => vec![Some(own), None],
        };
        let reached = listed.into_iter().filter(|client| is_of_all || *client == Some(own));
        let applied = reached.flat_map(|client| {
            let view = self.catalog.service(&view.key)?;
            let policy = view.ports.first()?.cluster.inputs.policy_of(client)?;
            policy.from.first()
        });
        applied.filter(|_| rule.selector.is_empty()).find(|other| *other != key)
    }
}

/// Returns which rules apply in the place of one to its host; of a wildcard, to which of the hosts that it matches.
fn in_its_place(host: &HostPattern, by: &BTreeMap<&PolicyKey, BTreeSet<&str>>) -> String {
    if let (None, Some((other, _))) = (host.suffix(), by.first_key_value()) {
        return format!("{other} applies in its place to clients of {host}");
    }
    let of = |(other, hosts): (&&PolicyKey, &BTreeSet<&str>)| {
        format!("{other} ({})", named(hosts.iter().copied()))
    };
    let parts: Vec<String> = by.iter().map(of).collect();
    let rules = named(parts.iter().map(String::as_str));
    format!("other rules apply in its place to clients of the hosts that {host} matches: {rules}")
}

/// Returns the condition of a rule of which parts are those of other rules.
fn shadowed<'c>(used: &Use<'c>) -> Option<Found<'c>> {
    let subsets = used.taken.iter().map(|(name, of)| format!("subset {} (that of {of})", name.as_str()));
    let settings = used.settings_of.map(|of| format!("trafficPolicy (that of {of})"));
    let parts: Vec<String> = settings.into_iter().chain(subsets).collect();
    let others: BTreeSet<&PolicyKey> = used.taken.values().copied().chain(used.settings_of).collect();
    let message = || {
        format!("another rule of the host precedes these parts: {}", named(parts.iter().map(String::as_str)))
    };
    (!parts.is_empty()).then(|| Found(Code::RULE_SHADOWED, others.into_iter().collect(), message()))
}

/// Names the ports that lack something which none of these ports has, of a wildcard no other port; `None` without one.
fn lost(ports: &BTreeSet<String>, having: Option<&BTreeSet<String>>, is_wild: bool) -> Option<String> {
    let has = |port: &&String| having.is_some_and(|having| having.contains(*port));
    let lost: Vec<&str> = ports.iter().filter(|port| !has(port)).map(String::as_str).collect();
    let is_had = is_wild && having.is_some();
    (!lost.is_empty() && !is_had).then(|| named(lost))
}

/// Returns the condition of a rule with subsets that no endpoint is in; of a wildcard, in no service.
fn unmatched<'c>(used: &Use<'c>, rule: &DestinationRule) -> Option<Found<'c>> {
    let is_wild = rule.host.suffix().is_some();
    let part = |(name, ports): (&&Subset, &BTreeSet<String>)| {
        Some(format!("{} of {}", name.as_str(), lost(ports, used.matched.get(*name), is_wild)?))
    };
    let parts: Vec<String> = used.unmatched.iter().filter_map(part).collect();
    let message = || {
        format!("no endpoint has the labels of these subsets: {}", named(parts.iter().map(String::as_str)))
    };
    (!parts.is_empty()).then(|| Found(Code::SUBSET_UNMATCHED, Vec::new(), message()))
}

/// Returns the condition of a rule with settings of ports that no service of its host has.
fn portless<'c>(used: &Use<'c>, rule: &DestinationRule) -> Option<Found<'c>> {
    let subsets = rule.subsets.iter().map(|subset| &subset.policies);
    let numbers = subsets.chain([&rule.policies]).flat_map(|policies| policies.ports.keys());
    let lost: BTreeSet<&PortNumber> = numbers.filter(|number| !used.ports.contains(number)).collect();
    let lost: Vec<String> = lost.into_iter().map(ToString::to_string).collect();
    let message = || {
        let known: Vec<String> = used.ports.iter().map(ToString::to_string).collect();
        let (lost, known) = (named(lost.iter().map(String::as_str)), named(known.iter().map(String::as_str)));
        format!("no service of the host has these ports: {lost}; they have {known}")
    };
    (!lost.is_empty()).then(|| Found(Code::RULE_PORT_UNMATCHED, Vec::new(), message()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::Policy;

    use super::*;
    use crate::fixtures::*;
    use crate::policy_conditions::policy_conditions;

    /// Returns a service whose clients have a rule.
    fn mk_ruled(host: &str, rule: &str) -> Arc<ServiceView> {
        let (key, _) = mk_policy("shop", rule, Policy::DestinationRule(mk_rule(host, &[])));
        mk_ruled_view(host, key, Protocol::Http)
    }

    #[test]
    fn all_rules_that_precede_a_wildcard_are_named() {
        let found = |of: &str| {
            let rules = [("pay", "pay.shop.svc"), ("img", "img.shop.svc"), ("wide", of)];
            let rules = rules
                .map(|(name, host)| mk_policy("shop", name, Policy::DestinationRule(mk_rule(host, &[]))));
            let services = vec![
                mk_ruled("pay.shop.svc", "pay"),
                mk_ruled("old.shop.svc", "pay"),
                mk_ruled("img.shop.svc", "img"),
            ];
            let catalog =
                Catalog { complete: true, policies: rules.into_iter().collect(), ..mk_catalog(services) };
            let wide = |key: &PolicyKey| &*key.name == "wide";
            let all = policy_conditions(&catalog, Beside::default(), &wide);
            all.values().flatten().map(|one| (one.objects.len(), one.message.to_string())).collect::<Vec<_>>()
        };
        let wide = "other rules apply in its place to clients of the hosts that *.shop.svc matches: DestinationRule shop/img \
                    (img.shop.svc), DestinationRule shop/pay (old.shop.svc, pay.shop.svc)";
        assert_eq!(found("*.shop.svc"), [(3, wide.to_owned())]);
        let exact = "DestinationRule shop/pay applies in its place to clients of old.shop.svc";
        assert_eq!(found("old.shop.svc"), [(2, exact.to_owned())]);
    }
}
