//! Naive choice of DestinationRules: each client of each service looks at every rule.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{
    Catalog, ClusterPolicy, DeclaredPolicy, DestinationRule, ExportTo, Fact, Labels, Namespace, Policy,
    PolicyKey, PortNumber, RegistrySpec, ServiceKey, Settings, Subset, TrafficPolicy, Visibility,
};

use super::Facts;
use super::policies::rank;

/// Rules that apply, the settings of all endpoints, and each subset with its labels and settings.
pub(crate) type Chosen = (Vec<PolicyKey>, TrafficPolicy, Vec<(Subset, Labels, TrafficPolicy)>);

/// What applies to the clients of a namespace for a port of a service.
pub(crate) type Choices = BTreeMap<(ServiceKey, PortNumber, Option<Namespace>), Chosen>;

/// Returns the choices that a catalog has for clients of these namespaces.
pub(crate) fn read(catalog: &Catalog, clients: &[Option<Namespace>]) -> Choices {
    let mut out = Choices::new();
    for (view, client) in catalog.services().flat_map(|view| clients.iter().map(move |client| (view, client)))
    {
        for port in view.seen_by(client.as_ref()).ports.iter() {
            let Some(policy) = port.cluster.inputs.policy_of(client.as_ref()) else { continue };
            let ClusterPolicy { whole, subsets, from } = policy.clone();
            let inputs = &port.endpoints.inputs;
            let labels = inputs.policy_of(client.as_ref()).map(|of| of.subsets.to_vec()).unwrap_or_default();
            assert_eq!(labels.len(), subsets.len(), "each subset has labels");
            let subsets = subsets.iter().zip(labels).map(|((name, policy), (same, labels, _))| {
                assert_eq!(*name, same);
                (name.clone(), labels, policy.clone())
            });
            let chosen = (from.to_vec(), whole, subsets.collect());
            out.insert((view.key.clone(), port.number, client.clone()), chosen);
        }
    }
    out
}

/// Returns the choices from facts, for the services and ports of a catalog.
pub(crate) fn answer(
    specs: &[RegistrySpec],
    facts: &Facts,
    catalog: &Catalog,
    clients: &[Option<Namespace>],
) -> Choices {
    let settings = facts.values().find_map(|fact| match fact {
        Fact::Settings(settings) => Some(Settings::clone(settings)),
        _ => None,
    });
    let mesh = Mesh { rules: ordered(specs, facts), settings: settings.unwrap_or_default() };
    let mut out = Choices::new();
    for (view, client) in catalog.services().flat_map(|view| clients.iter().map(move |client| (view, client)))
    {
        let Some(found) = mesh.choose(&view.key, client.as_ref()) else { continue };
        for port in view.seen_by(client.as_ref()).ports.iter() {
            out.insert((view.key.clone(), port.number, client.clone()), found.of(port.number));
        }
    }
    out
}

/// Every rule once, from its first registry, the first in precedence first.
fn ordered(specs: &[RegistrySpec], facts: &Facts) -> Vec<(PolicyKey, DestinationRule)> {
    let mut all: Vec<(usize, &PolicyKey, &DeclaredPolicy)> = Vec::new();
    for ((registry, _), fact) in facts {
        if let Fact::Policy(key, value) = fact {
            all.push((*registry, key, value));
        }
    }
    all.sort_by_key(|(registry, key, value)| (rank(specs, *registry, value.created), (*key).clone()));
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for (_, key, value) in all {
        if let (true, Policy::DestinationRule(rule)) = (seen.insert(key), &value.policy) {
            out.push((key.clone(), rule.clone()));
        }
    }
    out
}

struct Mesh {
    rules: Vec<(PolicyKey, DestinationRule)>,
    settings: Settings,
}

/// Rules that are used as one.
#[derive(Default)]
struct Entry {
    export: Option<ExportTo>,
    rules: Vec<(PolicyKey, DestinationRule)>,
}

impl Mesh {
    fn choose(&self, service: &ServiceKey, client: Option<&Namespace>) -> Option<Entry> {
        let root = self.settings.root_namespace();
        let (own, is_root) = (&service.namespace, client.is_some() && client == root.as_ref());
        let local = client.and_then(|client| {
            let counts = |rule: &DestinationRule| match is_root {
                true => exported_to_itself_alone(rule, client),
                false => admits(&rule.export, Some(client)),
            };
            self.entries(service, client, &counts).pop()
        });
        let public = |owner: &Namespace| {
            let entries = self.entries(service, owner, &|rule| !exported_to_itself_alone(rule, owner));
            entries.into_iter().rev().find(|entry| admits(entry.export.as_ref().unwrap(), client))
        };
        local.or_else(|| public(own)).or_else(|| public(&root?))
    }
    /// Returns the entries of the most specific host that counted rules of a namespace have for a service.
    fn entries(
        &self,
        service: &ServiceKey,
        owner: &Namespace,
        counts: &dyn Fn(&DestinationRule) -> bool,
    ) -> Vec<Entry> {
        let domain = self.settings.domain.as_deref().unwrap_or("cluster.local");
        let host = |key: &PolicyKey, rule: &DestinationRule| {
            let text = rule.host.to_string();
            if text.contains(['.', '*']) { text } else { format!("{text}.{}.svc.{domain}", key.namespace) }
        };
        let matches = |pattern: &str| match pattern.strip_prefix('*') {
            Some(end) => service.host.as_str().ends_with(end),
            None => service.host.as_str() == pattern,
        };
        let of_owner = self.rules.iter().filter(|(key, rule)| {
            key.namespace == *owner && rule.selector.is_empty() && counts(rule) && matches(&host(key, rule))
        });
        let of_owner: Vec<_> = of_owner.collect();
        let specific = |pattern: &String| (!pattern.starts_with('*'), pattern.len());
        let best = of_owner.iter().map(|(key, rule)| host(key, rule)).max_by_key(specific);
        let best = of_owner.into_iter().filter(|(key, rule)| Some(host(key, rule)) == best);
        let mut out: Vec<Entry> = Vec::new();
        for (key, rule) in best {
            // each entry whose namespaces the rule covers has it; the last comparison decides on an entry of its own
            let covered: Vec<bool> =
                out.iter().map(|of| covers(&rule.export, of.export.as_ref().unwrap())).collect();
            for (entry, _) in out.iter_mut().zip(&covered).filter(|(_, covered)| **covered) {
                entry.rules.push((key.clone(), rule.clone()));
            }
            if covered.last() != Some(&true) {
                let rules = vec![(key.clone(), rule.clone())];
                out.push(Entry { export: Some(rule.export.clone()), rules });
            }
        }
        out
    }
}

impl Entry {
    fn of(&self, port: PortNumber) -> Chosen {
        let sets = |rule: &DestinationRule| {
            rule.policies.all != TrafficPolicy::default() || !rule.policies.ports.is_empty()
        };
        let settings =
            self.rules.iter().find(|(_, rule)| sets(rule)).map(|(key, rule)| (key, &rule.policies));
        let whole = settings.map(|(_, policies)| policies.ports.get(&port).unwrap_or(&policies.all).clone());
        let whole = whole.unwrap_or_default();
        let (mut subsets, mut from): (Vec<(Subset, Labels, TrafficPolicy)>, Vec<PolicyKey>) =
            Default::default();
        for (key, rule) in &self.rules {
            let mut adds = from.is_empty() || settings.is_some_and(|(of, _)| of == key);
            for subset in rule.subsets.iter() {
                if subsets.iter().all(|(name, ..)| *name != subset.name) {
                    let policy = subset.policies.ports.get(&port).cloned();
                    let policy = policy.unwrap_or_else(|| subset.policies.all.over(&whole));
                    subsets.push((subset.name.clone(), subset.labels.clone(), policy));
                    adds = true;
                }
            }
            from.extend(adds.then(|| key.clone()));
        }
        (from, whole, subsets)
    }
}

fn admits(export: &ExportTo, client: Option<&Namespace>) -> bool {
    match export {
        ExportTo::Default | ExportTo::Set(Visibility::Public) => true,
        ExportTo::Set(Visibility::Namespaces(list)) => client.is_some_and(|client| list.contains(client)),
        ExportTo::Set(_) => false,
    }
}

fn exported_to_itself_alone(rule: &DestinationRule, own: &Namespace) -> bool {
    matches!(&rule.export, ExportTo::Set(Visibility::Namespaces(list)) if **list == [own.clone()])
}

fn covers(export: &ExportTo, other: &ExportTo) -> bool {
    match (export, other) {
        (ExportTo::Set(Visibility::Namespaces(all)), ExportTo::Set(Visibility::Namespaces(some))) => {
            some.iter().all(|one| all.contains(one))
        }
        (one, other) => one == other,
    }
}
