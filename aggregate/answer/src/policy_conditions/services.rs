//! Looks up the services that a host of a DestinationRule or VirtualService means.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{Catalog, EndpointInputs, HostPattern, Hostname, Labels, Resolution, ServiceView};

use super::Index;
use crate::endpoints::has_labels;
use crate::resolve::MAX_ALIASES;

/// Most services of a wildcard that are compared.
const MAX_SERVICES: usize = 1_000;

/// Services by host.
pub(super) struct Services<'c> {
    catalog: &'c Catalog,
    /// Hosts of services that are declared elsewhere.
    elsewhere: Option<&'c [HostPattern]>,
    /// Built when a wildcard is first looked up.
    index: Option<Index<'c>>,
}

impl<'c> Services<'c> {
    /// Returns the look-up of a catalog.
    pub(super) const fn new(catalog: &'c Catalog, elsewhere: Option<&'c [HostPattern]>) -> Self {
        Self { catalog, elsewhere, index: None }
    }
    /// Returns the services of a complete host, of a wildcard at most [`MAX_SERVICES`].
    pub(super) fn of(&mut self, host: &HostPattern) -> Vec<&'c Arc<ServiceView>> {
        let catalog = self.catalog;
        let Some(suffix) = host.suffix() else { return self.named(host.as_str()) };
        let index = self.index.get_or_insert_with(|| Index::of(catalog));
        index.ending(None, suffix).take(MAX_SERVICES).collect()
    }
    /// Returns the services of a complete host.
    pub(super) fn named(&self, host: &str) -> Vec<&'c Arc<ServiceView>> {
        let entry = self.catalog.hosts.get(host);
        entry.into_iter().flat_map(|entry| entry.claimants.iter()).collect()
    }
    /// Returns the services of a complete host, and for an alias those at its end, unless no service has that host.
    pub(super) fn ends(&self, host: &str) -> Vec<&'c Arc<ServiceView>> {
        ends(self.named(host), |target| self.named(target))
    }
    /// Whether services of a complete host may be declared elsewhere; those of a short wildcard may always be.
    pub(super) fn are_elsewhere(&self, host: &HostPattern) -> bool {
        self.elsewhere.is_some_and(|all| all.iter().any(|one| overlap(one, host)))
    }
    /// Returns what is wrong with a complete host that no service has.
    pub(super) fn no_such_host(&self, host: &str) -> String {
        let longer = format!("{host}.svc.{}", self.catalog.settings.domain());
        let hint = if self.catalog.has_service(&longer) {
            format!("; a name with a dot is taken as it stands, so write {longer}")
        } else {
            String::new()
        };
        format!("no service has the host {host}{hint}")
    }
}

/// Returns services, and for an alias those at its end, unless no service has that host.
pub(super) fn ends<'c>(
    mut views: Vec<&'c Arc<ServiceView>>,
    of_host: impl Fn(&str) -> Vec<&'c Arc<ServiceView>>,
) -> Vec<&'c Arc<ServiceView>> {
    for _ in 0..MAX_ALIASES {
        let targets: BTreeSet<&Hostname> = views.iter().filter_map(|view| view.alias_target()).collect();
        let ends: Vec<_> = targets.into_iter().flat_map(|target| of_host(target.as_str())).collect();
        if ends.is_empty() {
            break;
        }
        views.retain(|view| view.alias_target().is_none());
        views.extend(ends);
    }
    views
}

/// Whether one host may be of both patterns.
fn overlap(one: &HostPattern, other: &HostPattern) -> bool {
    match (one.suffix(), other.suffix()) {
        (Some(one), Some(other)) => one.ends_with(other) || other.ends_with(one),
        (Some(suffix), None) => other.as_str().ends_with(suffix),
        (None, Some(suffix)) => one.as_str().ends_with(suffix),
        (None, None) => one == other,
    }
}

/// Whether clients choose among the endpoints of a service.
pub(super) fn selects(resolution: &Resolution) -> bool {
    *resolution == Resolution::ClientSide || resolution.is_dns()
}

/// Whether any endpoint has labels; counts the endpoints that are compared.
pub(super) fn any_has_labels(inputs: &EndpointInputs, labels: &Labels, compared: &mut usize) -> bool {
    inputs.sources.iter().any(|source| {
        *compared += source.group.addresses.len();
        source.group.addresses.iter().any(|address| has_labels(source, address, labels))
    })
}
