//! Host names of gateways as a source of facts: which names the catalog has, and the registry of their addresses.
//!
//! The names enter the source from the published catalog, and their addresses the core like the facts of a registry, so that the journal
//! keeps them. The start adds the registry; the server runs the lookups, and a command that reads files runs none.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tributary_core::Core;
use tributary_dns::{Lookup, Names, Wanted};
use tributary_model::{Catalog, ClusterId, ProviderId, RegistryId, RegistryName, RegistrySpec, Scope};
use tributary_registry_api::{Clock, SplitMix};
use tributary_runtime::{Handle, Source};

use crate::config::Config;
use crate::config::registry::DNS_REGISTRY;
use crate::exit::CommandError;

/// Registry of the host names; its lookups do not run yet.
pub struct GatewayNames {
    source: Source,
    names: Names,
}

impl GatewayNames {
    /// Adds the registry, which lists the names that the journal kept.
    pub async fn start(
        handle: &Handle,
        clock: &Arc<dyn Clock>,
        config: &Config,
    ) -> Result<Self, CommandError> {
        let (spec, scope) = Self::spec(config)?;
        let source = handle.source(spec).await.map_err(|e| refused(&e))?;
        let random = SplitMix::seeded(u64::from(std::process::id()));
        let mut names = Names::new(scope, Box::new(random));
        // what was restored may not be published yet
        let known = handle.inspect(Core::gateway_names).await.map_err(|e| refused(&e))?;
        source.updates.send_all(names.begin(clock.now(), known));
        Ok(Self { source, names })
    }
    /// Returns the registry's specification and its scope.
    pub fn spec(config: &Config) -> Result<(RegistrySpec, Scope), CommandError> {
        let id = RegistryId {
            name: RegistryName::new(DNS_REGISTRY).map_err(|e| refused(&e))?,
            provider: ProviderId::DNS,
            cluster: ClusterId::new(&config.cluster_id).map_err(|e| refused(&e))?,
        };
        let scope = Scope::new("gateways").map_err(|e| refused(&e))?;
        Ok((RegistrySpec::new(Arc::new(id), 0).configured([scope.clone()]), scope))
    }
    /// Resolves the names of the catalog's gateways until the server stops.
    pub async fn run(
        self,
        (handle, clock): (Handle, Arc<dyn Clock>),
        lookup: Arc<dyn Lookup>,
        stop: CancellationToken,
    ) {
        let Self { source, names } = self;
        let (sender, wanted) = watch::channel(Wanted::default());
        let report = |updates: Vec<_>| {
            if !updates.is_empty() {
                source.updates.send_all(updates);
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow(&handle, sender) => {}
            () = tributary_dns::run(names, wanted, (lookup, clock), report) => {}
        }
    }
}

/// Passes on the names of each catalog whose gateways changed.
async fn follow(handle: &Handle, sender: watch::Sender<Wanted>) {
    let mut generations = handle.generation();
    let (mut gateways, mut complete) = (handle.catalog().gateways.clone(), None);
    loop {
        generations.mark_unchanged();
        let catalog = handle.catalog();
        if complete != Some(catalog.complete) || !gateways.ptr_eq(&catalog.gateways) {
            (gateways, complete) = (catalog.gateways.clone(), Some(catalog.complete));
            let now = wanted(&catalog);
            sender.send_if_modified(|known| std::mem::replace(known, now.clone()) != now);
        }
        if generations.changed().await.is_err() {
            return;
        }
    }
}

/// Returns the host names of a catalog's gateways, with the objects that have each.
#[must_use]
pub fn wanted(catalog: &Catalog) -> Wanted {
    let mut names: BTreeMap<_, std::collections::BTreeSet<_>> = BTreeMap::new();
    for gateway in catalog.gateways.values() {
        if let Some(name) = gateway.wanted_name() {
            names.entry(Arc::clone(name)).or_default().insert(gateway.source.reference());
        }
    }
    Wanted { names, complete: catalog.complete }
}

fn refused(why: &dyn std::fmt::Display) -> CommandError {
    CommandError::plain(format!("cannot add host names of gateways as a source: {why}"))
}
