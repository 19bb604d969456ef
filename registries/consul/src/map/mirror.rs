//! Which instances are copies of a cluster's own, written by a synchronisation from Kubernetes.

use tributary_model::ClusterId;

use super::config::Direct;
use crate::wire::HealthEntry;

/// Whether an instance is a copy of one that is watched directly, so that it is left out.
pub(super) fn is_mirror(entry: &HealthEntry, direct: &Direct) -> bool {
    let copied = entry.service.meta.get("external-source").is_some_and(|source| source == "kubernetes");
    copied && (direct.all || cluster(entry, direct).is_some_and(|cluster| direct.clusters.contains(cluster)))
}

/// The cluster that it is a copy from, where the table of nodes tells.
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
    fn only_copies_of_clusters_that_are_watched_are_left_out() {
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
