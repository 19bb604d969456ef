//! Mesh-wide settings from the cluster's mesh configuration, and its faults.

use std::sync::Arc;

use tributary_model::settings::Cidrs;
use tributary_model::{Code, Fact, HostPattern, Namespace, NetworkId, Problem, Settings};

use super::derived::Derived;
use crate::mesh::{self, Mesh, MeshNetworks};
use crate::state::ClusterObjects;

/// Derives the settings, which include the default cluster-local hosts even without a configuration. Only the config
/// cluster publishes them.
#[must_use]
pub fn derive(objects: &ClusterObjects) -> Derived {
    if !objects.options.is_config {
        return Derived::default();
    }
    let mesh = objects.mesh();
    let problem = mesh.complaint().map(|complaint| Problem {
        code: Code::MESH_CONFIG_INVALID,
        message: format!("{complaint}; the last valid value stays in force").into(),
    });
    Derived { problem, ..Derived::one(Fact::Settings(Arc::new(settings(objects, mesh)))) }
}

fn settings(objects: &ClusterObjects, mesh: &Mesh) -> Settings {
    let namespaces = objects.namespaces.values();
    let namespaces =
        namespaces.filter_map(|ns| Some((Namespace::new(&ns.meta.name.name).ok()?, &ns.meta.labels)));
    Settings {
        default_export: mesh.default_export.clone(),
        trust_domain: mesh.trust_domain.clone(),
        trust_domain_aliases: mesh.trust_domain_aliases.clone(),
        root_namespace: mesh.root_namespace.clone(),
        connect_timeout: mesh.connect_timeout,
        block_unknown: mesh.block_unknown,
        http_retries: mesh.http_retries.clone(),
        access_log: mesh.access_log().map(Arc::new),
        tracing: Some(Arc::new(mesh.tracing())),
        auto_mtls: mesh.auto_mtls,
        path_normalization: mesh.path_normalization,
        locality: mesh.locality.clone(),
        cluster_local: Some(cluster_local(mesh, &objects.options.domain).into()),
        entry_visibility: mesh.entries.as_ref().map(|policy| Arc::new(policy.caps(namespaces))),
        networks: networks(&mesh.networks),
        mesh_text: Some(objects.mesh_config().map(|config| Arc::clone(&config.text)).unwrap_or_default()),
        ..Settings::default()
    }
}

/// Returns the cluster-local hosts of this cluster and of the configuration file.
#[must_use]
pub fn local_hosts(objects: &ClusterObjects) -> Settings {
    let own = cluster_local(objects.mesh(), &objects.options.domain);
    let file = Settings { cluster_local: objects.options.cluster_local.clone(), ..Settings::default() };
    file.over(&Settings { cluster_local: Some(own.into()), ..Settings::default() })
}

fn cluster_local(mesh: &Mesh, domain: &str) -> Vec<(HostPattern, bool)> {
    let is_set = |pattern: &HostPattern| mesh.cluster_local.iter().any(|(known, _)| known == pattern);
    let usual = mesh::usually_local(domain).into_iter().filter(|(pattern, _)| !is_set(pattern));
    let mut all: Vec<(HostPattern, bool)> = mesh.cluster_local.iter().cloned().chain(usual).collect();
    all.sort();
    all
}

fn networks(networks: &MeshNetworks) -> Option<Arc<[(NetworkId, Cidrs)]>> {
    let with_ranges = networks.iter().filter(|network| !network.ranges.is_empty());
    let all: Vec<_> = with_ranges.map(|network| (network.id.clone(), Arc::clone(&network.ranges))).collect();
    (!all.is_empty()).then(|| all.into())
}

/// Derives the problem of contested network claims, without facts. The other values of the object are valid, so the
/// problem belongs to a part of the object and withholds nothing.
#[must_use]
pub fn contested(objects: &ClusterObjects) -> Derived {
    let claims = objects.mesh().networks.contested();
    let problem = (!claims.is_empty())
        .then(|| Problem { code: Code::NETWORK_CLAIMED_TWICE, message: claims.join("; ").into() });
    Derived { problem, ..Derived::default() }
}
