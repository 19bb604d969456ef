//! Mesh-wide values from the cluster's mesh configuration, and what is wrong with it.

use std::sync::Arc;

use tributary_model::settings::Cidrs;
use tributary_model::{Code, Fact, HostPattern, Namespace, NetworkId, Problem, Settings};

use super::Derived;
use crate::mesh::{self, Mesh, MeshNetworks};
use crate::objects::ClusterObjects;

/// The values. The hosts that are usually served within their cluster only are among them, whether or not there
/// is a configuration. Only the cluster of the configuration speaks for the mesh.
#[must_use]
pub fn derive(inputs: &ClusterObjects) -> Derived {
    if !inputs.options.is_config {
        return Derived::default();
    }
    let mesh = inputs.mesh();
    let problem = mesh.complaint().map(|words| Problem {
        code: Code::MESH_CONFIG_INVALID,
        message: format!("{words}; what was last good stays").into(),
    });
    Derived { problem, ..Derived::one(Fact::Settings(Arc::new(settings(inputs, mesh)))) }
}

fn settings(inputs: &ClusterObjects, mesh: &Mesh) -> Settings {
    let namespaces = inputs.namespaces.values();
    let namespaces =
        namespaces.filter_map(|ns| Some((Namespace::new(&ns.meta.name.name).ok()?, &ns.meta.labels)));
    Settings {
        default_export: mesh.default_export.clone(),
        trust_domain: mesh.trust_domain.clone(),
        connect_timeout: mesh.connect_timeout,
        block_unknown: mesh.block_unknown,
        cluster_local: Some(cluster_local(mesh, &inputs.options.domain).into()),
        entry_visibility: mesh.entries.as_ref().map(|policy| Arc::new(policy.caps(namespaces))),
        networks: networks(&mesh.networks),
        ..Settings::default()
    }
}

/// Which hosts stay within their cluster, as this cluster and the configuration file say it.
#[must_use]
pub fn local_hosts(inputs: &ClusterObjects) -> Settings {
    let own = cluster_local(inputs.mesh(), &inputs.options.domain);
    let said = Settings { cluster_local: inputs.options.cluster_local.clone(), ..Settings::default() };
    said.over(&Settings { cluster_local: Some(own.into()), ..Settings::default() })
}

fn cluster_local(mesh: &Mesh, domain: &str) -> Vec<(HostPattern, bool)> {
    let said = |pattern: &HostPattern| mesh.cluster_local.iter().any(|(known, _)| known == pattern);
    let usual = mesh::usually_local(domain).into_iter().filter(|(pattern, _)| !said(pattern));
    let mut all: Vec<(HostPattern, bool)> = mesh.cluster_local.iter().cloned().chain(usual).collect();
    all.sort();
    all
}

fn networks(networks: &MeshNetworks) -> Option<Arc<[(NetworkId, Cidrs)]>> {
    let with_ranges = networks.iter().filter(|network| !network.ranges.is_empty());
    let all: Vec<_> = with_ranges.map(|network| (network.id.clone(), Arc::clone(&network.ranges))).collect();
    (!all.is_empty()).then(|| all.into())
}

/// What several networks claim; no fact, only a problem. It is no fault of what else the object says, so it is
/// told of a part of the object, and holds nothing back.
#[must_use]
pub fn contested(inputs: &ClusterObjects) -> Derived {
    let words = inputs.mesh().networks.contested();
    let problem = (!words.is_empty())
        .then(|| Problem { code: Code::NETWORK_CLAIMED_TWICE, message: words.join("; ").into() });
    Derived { problem, ..Derived::default() }
}
