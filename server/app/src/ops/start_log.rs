//! Log lines of the start: listeners, registries, disabled writes and, once the server is ready, missing
//! registries and networks.

use std::collections::{BTreeMap, BTreeSet};

use tokio_util::sync::CancellationToken;
use tributary_model::{Catalog, NetworkId, RegistryName};
use tributary_runtime::{Handle, ReadyBecause};

use crate::config::istio::IstioVariable;
use crate::config::model::{RegistryConfig, Source, Write};
use crate::config::{Config, RegistryKind};
use crate::wiring::Addresses;

/// Logs the start, once every task runs.
pub fn at_start(config: &Config, addresses: &Addresses, istio: &[IstioVariable]) {
    let tls = match &config.xds.tls {
        None => "plaintext",
        Some(tls) if tls.client_ca_file.is_some() => "mutual TLS",
        Some(_) => "TLS",
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        xds = %addresses.xds,
        tls,
        tokens = config.xds.tokens.as_ref().map(|tokens| tokens.audiences.join(", ")),
        admin = %addresses.admin,
        remote_admin = addresses.remote_admin.map(tracing::field::display),
        health = addresses.health.map(tracing::field::display),
        cluster = config.cluster_id,
        "tributary is serving"
    );
    for registry in &config.registries {
        tracing::info!(
            registry = registry.name.as_deref(),
            kind = registry.kind().as_str(),
            from = from(registry),
            "registry is configured"
        );
    }
    if config.registries.iter().any(|registry| registry.kind() == RegistryKind::Kubernetes) {
        for (write, without) in unwritten(config) {
            tracing::info!(write, "not written, because `writes` does not list it: {without}");
        }
    }
    for IstioVariable { name, honoured, how } in istio {
        if *honoured {
            tracing::info!(variable = name, "istiod variable is honoured: {how}");
        } else {
            tracing::warn!(variable = name, "istiod variable is ignored: {how}");
        }
    }
}

/// Describes where a registry reads, as far as the configuration names it.
fn from(registry: &RegistryConfig) -> Option<String> {
    match &registry.source {
        Source::File(fields) => fields.path.as_ref().map(|path| path.display().to_string()),
        Source::Kubernetes(fields) => fields.context.as_ref().map(|context| format!("context {context}")),
        Source::Consul(fields) => Some(match &fields.addresses {
            Some(all) => all.join(","),
            None => "CONSUL_HTTP_ADDR or http://127.0.0.1:8500".to_owned(),
        }),
        Source::Registered(_) => None,
    }
}

/// Returns the disabled writes, each with its effect.
fn unwritten(config: &Config) -> impl Iterator<Item = (&'static str, &'static str)> {
    let off = Write::ALL.into_iter().filter(|write| !config.writes.contains(write));
    off.map(|write| (write.as_str(), write.without()))
}

/// Logs readiness. Earlier counts would be incomplete.
pub async fn when_ready(handle: Handle, stop: CancellationToken) {
    let mut readiness = handle.readiness();
    let ready = tokio::select! {
        () = stop.cancelled() => return,
        ready = readiness.wait_for(|start| start.is_ready()) => ready.is_ok(),
    };
    if !ready {
        return;
    }
    let start = readiness.borrow().clone();
    let catalog = handle.catalog();
    let services = catalog.services().count();
    match (names(&start.unknown), start.ready) {
        (None, _) => tracing::info!(services, "ready; answering xDS"),
        (Some(not_synced), Some(ReadyBecause::Restored)) => tracing::info!(
            services,
            not_synced,
            "ready; answering xDS with the restored catalog until these registries have synced"
        ),
        (Some(not_synced), _) => tracing::warn!(
            services,
            not_synced,
            "ready; answering xDS, although registries have not synced: clients may lose what only these know, or reach more \
             than their policies allow; see `tributary get registries -o wide`"
        ),
    }
    let counts = tokio::task::spawn_blocking(move || behind_gateways(&handle.catalog()));
    for (network, count) in counts.await.unwrap_or_default() {
        tracing::info!(
            network = network.as_str(),
            endpoints = count,
            "gateways of the network cannot stand in for these endpoints, which clients of other networks do not receive \
             (OtherNetwork): they accept no mesh TLS, or no gateway has an IP address and a port for it; \
             `crossNetwork: direct` serves them if networks are flat"
        );
    }
}

/// Returns the names, with commas; `None` if there are none.
fn names(registries: &BTreeSet<RegistryName>) -> Option<String> {
    let names: Vec<&str> = registries.iter().map(RegistryName::as_str).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// Counts the endpoints that clients of other networks do not receive, by network: gateways cannot stand in for them.
#[must_use]
pub fn behind_gateways(catalog: &Catalog) -> BTreeMap<NetworkId, usize> {
    let mut out: BTreeMap<NetworkId, usize> = BTreeMap::new();
    for port in catalog.services().flat_map(|view| view.ports.iter()) {
        let facts = &port.endpoints.inputs;
        if facts.gated.is_empty() {
            continue;
        }
        for source in facts.sources.iter() {
            let is_served = |set: u16| source.ports.get(usize::from(set)).is_some_and(Option::is_some);
            for address in source.group.addresses.iter().filter(|address| is_served(address.port_set)) {
                let gated = address.topology.network.as_ref().and_then(|network| facts.gated(network));
                if let Some(network) = gated.filter(|of| of.gateways.is_empty() || !address.mtls) {
                    *out.entry(network.id.clone()).or_default() += 1;
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disabled_write_is_logged_with_its_effect() {
        let config = Config { writes: [Write::Addresses].into(), ..Config::default() };
        let off: Vec<&str> = unwritten(&config).map(|(write, _)| write).collect();
        assert_eq!(off, ["workloadEntries", "serviceExports", "credentials", "status"]);
        assert_eq!(unwritten(&Config::default()).count(), Write::ALL.len(), "by default nothing is written");
    }

    #[test]
    fn registry_source_is_described() {
        let read = |text: &str| from(&serde_saphyr::from_str(text).unwrap());
        assert_eq!(read("{kind: file, path: a}").as_deref(), Some("a"));
        assert_eq!(read("{kind: kubernetes, context: b}").as_deref(), Some("context b"));
        assert_eq!(read("{kind: kubernetes}"), None, "the run logs the server that it reads");
        assert_eq!(read("{kind: consul, addresses: ['c:1', 'd:2']}").as_deref(), Some("c:1,d:2"));
    }
}
