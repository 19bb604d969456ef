//! Naive computation of the identities of a service, and of whether all endpoints of a port accept mesh TLS.

use std::collections::BTreeSet;

use tributary_model::{Address, EndpointGroup, Identity, Resolution, Workload, WorkloadKey};

use super::{All, Declared, reach};

/// Returns the identities of all endpoints of the declarations, and those of accounts under each alias.
pub(super) fn identities(all: &All<'_>, declared: &[&Declared<'_>]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for declared in declared.iter().filter(|of| serves(of)) {
        for (_, group) in groups(all, declared) {
            out.extend(group.addresses.iter().filter_map(|address| text(address.identity.as_ref())));
        }
        for (key, workload) in all.selected(declared) {
            let reached = declared.value.ports.iter().any(|port| reach(port, key.kind, workload).is_some());
            out.extend(text(workload.identity.as_ref()).filter(|_| reached));
        }
    }
    let accounts: Vec<String> = out.iter().cloned().collect();
    for alias in all.settings.trust_domain_aliases.iter().flat_map(|aliases| aliases.iter()) {
        out.extend(accounts.iter().map(|own| own.replace("spiffe://mesh/", &format!("spiffe://{alias}/"))));
    }
    out
}

/// Whether a port has endpoints, and all of them accept mesh TLS.
pub(super) fn all_meshed(all: &All<'_>, declared: &[&Declared<'_>], port: u16) -> bool {
    let mut accept: Vec<bool> = Vec::new();
    for declared in declared.iter().filter(|of| serves(of)) {
        for own in declared.value.ports.iter().filter(|own| own.number.get() == port) {
            for (_, group) in groups(all, declared) {
                let serves = |address: &&Address| {
                    let set = group.ports(address);
                    let only = set.len() == 1 && declared.value.ports.len() == 1;
                    only || set.iter().any(|from| from.name == own.name)
                };
                accept.extend(group.addresses.iter().filter(serves).map(|address| address.mtls));
            }
            let selected: Vec<(&WorkloadKey, &Workload)> = all.selected(declared);
            let reached = selected.iter().filter(|(key, workload)| reach(own, key.kind, workload).is_some());
            accept.extend(reached.map(|(_, workload)| workload.mtls));
        }
    }
    !accept.is_empty() && accept.iter().all(|accepts| *accepts)
}

fn serves(declared: &&&Declared<'_>) -> bool {
    !matches!(declared.value.resolution, Resolution::Alias(_))
}

fn groups<'a>(all: &All<'a>, declared: &Declared<'_>) -> Vec<(usize, &'a EndpointGroup)> {
    let own = all.groups.iter().filter(|(registry, key, _)| {
        *registry == declared.registry
            && key.service == declared.key.service
            && key.declaration == declared.key.object
    });
    own.map(|(registry, _, group)| (*registry, *group)).collect()
}

fn text(identity: Option<&Identity>) -> Option<String> {
    identity.map(ToString::to_string)
}
