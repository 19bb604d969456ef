//! EnvoyFilters that changed resources which connected clients rejected, and DestinationRules with files that they rejected.
//!
//! The list of policies calls it. A resource names every filter that changed it, so a filter may be named beside the one at
//! fault. A secret of files concerns every rule that names the files. The clients that are looked at are bounded.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{Catalog, PolicyKey};
use tributary_xds::answers::ResourceType;
use tributary_xds::encode::tls::SecretName;
use tributary_xds::session::SentResource;
use tributary_xds::table::Connected;

use crate::document::policies::{RejectedPatch, RejectedPatches};

/// Most clients with rejections that are looked at.
const MOST_CLIENTS: usize = 64;

/// Returns the EnvoyFilters whose changes are in resources that clients reject, and the DestinationRules with secrets that they
/// reject, each with these resources.
pub(super) fn rejected_patches(catalog: &Arc<Catalog>, clients: &[Arc<Connected>]) -> RejectedPatches {
    let mut out = RejectedPatches::new();
    let by_secret = rules_by_secret(catalog);
    if by_secret.is_empty() && !catalog.policies.values().any(|view| view.envoy_filter().is_some()) {
        return out;
    }
    for client in clients.iter().filter(|client| rejects(client)).take(MOST_CLIENTS) {
        let mut of_client = RejectedPatches::new();
        ResourceType::ALL
            .into_iter()
            .for_each(|kind| add(catalog, client, (kind, &by_secret), &mut of_client));
        for (key, found) in of_client {
            match out.entry(key) {
                Entry::Vacant(entry) => _ = entry.insert(found),
                Entry::Occupied(mut known) => {
                    known.get_mut().clients += 1;
                    known.get_mut().add(found);
                }
            }
        }
    }
    out
}

/// Returns the DestinationRules that name the files of a secret, by its name.
fn rules_by_secret(catalog: &Catalog) -> BTreeMap<String, Vec<PolicyKey>> {
    let mut out: BTreeMap<String, Vec<PolicyKey>> = BTreeMap::new();
    let rules = catalog.policies.iter().filter_map(|(key, view)| Some((key, view.destination_rule()?)));
    for (key, rule) in rules {
        let all = rule.subsets.iter().map(|subset| &subset.policies).chain([&rule.policies]);
        let policies = all.flat_map(|of| of.ports.values().chain([&of.all]));
        let secrets = policies.filter_map(|policy| policy.tls.as_deref()).flat_map(SecretName::of);
        let names: BTreeSet<String> = secrets.map(|secret| secret.to_string()).collect();
        names.into_iter().for_each(|name| out.entry(name).or_default().push(key.clone()));
    }
    out
}

fn rejects(client: &Connected) -> bool {
    ResourceType::ALL.into_iter().any(|kind| client.sent(kind).is_some_and(|view| view.has_rejection()))
}

fn add(
    catalog: &Arc<Catalog>,
    client: &Connected,
    (kind, by_secret): (ResourceType, &BTreeMap<String, Vec<PolicyKey>>),
    out: &mut RejectedPatches,
) {
    let Some(view) = client.sent(kind).filter(|view| view.has_rejection()) else { return };
    let all = view.resources(catalog);
    for (resource, text) in all.iter().filter_map(|one| Some((one, one.error.clone()?))) {
        let rules = by_secret.get(&*resource.name).filter(|_| kind == ResourceType::Secret);
        let by = rules.cloned().unwrap_or_else(|| view.patched_by(resource));
        let is_suspected = client.delivery(kind, &resource.name).is_suspected;
        for key in &by {
            let one = found(resource, &text, (&by, is_suspected));
            match out.entry(key.clone()) {
                Entry::Vacant(entry) => _ = entry.insert(one),
                Entry::Occupied(mut known) => known.get_mut().add(one),
            }
        }
    }
}

fn found(
    resource: &SentResource,
    text: &Arc<str>,
    (by, is_suspected): (&[PolicyKey], bool),
) -> RejectedPatch {
    let name = format!("{} {}", resource.kind.as_str().to_uppercase(), resource.name);
    RejectedPatch {
        clients: 1,
        resources: [(name, Arc::clone(text))].into(),
        filters: by.len(),
        is_suspected,
    }
}
