//! Detection of instances that a catalog sync copied from a Kubernetes cluster.

use tributary_model::ClusterId;

use super::config::Direct;
use crate::wire::HealthEntry;

/// Returns whether an instance is a copy of one that is watched directly, and is therefore excluded.
pub(super) fn is_mirror(entry: &HealthEntry, direct: &Direct) -> bool {
    let copied = entry.service.meta.get("external-source").is_some_and(|source| source == "kubernetes");
    copied && (direct.all || cluster(entry, direct).is_some_and(|cluster| direct.clusters.contains(cluster)))
}

/// Returns the cluster that it is a copy from, if the node table names it.
fn cluster<'a>(entry: &HealthEntry, direct: &'a Direct) -> Option<&'a ClusterId> {
    direct.nodes.get(&entry.node.node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Node, Service};

    fn mk_entry(node: &str, source: &str) -> HealthEntry {
        let node = Node { node: node.into(), ..Node::default() };
        let meta = [("external-source".to_owned(), source.to_owned())].into();
        HealthEntry { node, service: Service { meta, ..Service::default() }, checks: vec![] }
    }

    #[test]
    fn only_copies_of_watched_clusters_are_excluded() {
        let cluster = |name: &str| ClusterId::new(name).unwrap();
        let nodes = [("k8s-sync", "east"), ("west-sync", "west")].map(|(n, c)| (n.to_owned(), cluster(c)));
        let direct = Direct { clusters: [cluster("east")].into(), nodes: nodes.into(), all: false };
        let cases = [
            ("k8s-sync", "kubernetes", true),
            ("k8s-sync", "nomad", false),
            ("west-sync", "kubernetes", false),
            ("another", "kubernetes", false),
        ];
        for (node, source, want) in cases {
            assert_eq!(is_mirror(&mk_entry(node, source), &direct), want, "{node} {source}");
        }
        let all = Direct { all: true, ..direct };
        assert!(is_mirror(&mk_entry("another", "kubernetes"), &all));
        assert!(!is_mirror(&mk_entry("another", "nomad"), &all));
    }
}
