//! What the index must know that no object of the cluster says: flags and the configuration file.

use std::sync::Arc;

use tributary_model::{ClusterId, InvalidName, Namespace, Scope};

use crate::input::{Feed, Kind};

/// Fixed for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The cluster that the registry speaks for.
    pub cluster: ClusterId,
    /// The scope of all facts: one credential and one server fail as one.
    pub scope: Scope,
    /// The domain of service names, the config cluster's for every cluster.
    pub domain: Arc<str>,
    /// The domain of identities, where the configuration file names one; it goes before the cluster's.
    pub trust_domain: Option<Arc<str>>,
    /// Where the network's label and the mesh configuration are looked for.
    pub system_namespace: Namespace,
    /// Objects of another revision are left out.
    pub revision: Option<Arc<str>>,
    /// Only these namespaces are read; all where there are none.
    pub namespaces: Vec<Namespace>,
    /// The kinds that are watched. A kind that is not watched counts as empty.
    pub kinds: Vec<Kind>,
}

impl Options {
    /// A cluster with what is usual: every kind, every namespace.
    pub fn new(cluster: ClusterId) -> Result<Self, InvalidName> {
        Ok(Self {
            cluster,
            scope: Scope::new("cluster")?,
            domain: "cluster.local".into(),
            trust_domain: None,
            system_namespace: Namespace::new("tributary-system")?,
            revision: None,
            namespaces: Vec::new(),
            kinds: Kind::ALL.to_vec(),
        })
    }
    /// The watches that a run needs, in the order in which to start them.
    #[must_use]
    pub fn feeds(&self) -> Vec<Feed> {
        self.kinds.iter().flat_map(|&kind| self.feeds_of(kind)).collect()
    }
    fn feeds_of(&self, kind: Kind) -> Vec<Feed> {
        if self.namespaces.is_empty() || !kind.is_namespaced() {
            return vec![Feed::all(kind)];
        }
        if kind == Kind::MeshConfig {
            return vec![Feed { kind, namespace: Some(self.system_namespace.clone()) }];
        }
        self.namespaces.iter().map(|n| Feed { kind, namespace: Some(n.clone()) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_namespaces_are_watched_one_by_one_and_cluster_kinds_whole() {
        let mut options = Options::new(ClusterId::new("c").unwrap()).unwrap();
        options.kinds = vec![Kind::Node, Kind::Pod];
        assert_eq!(options.feeds(), [Feed::all(Kind::Node), Feed::all(Kind::Pod)]);
        let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
        options.namespaces = vec![a.clone(), b.clone()];
        let pod = |namespace| Feed { kind: Kind::Pod, namespace: Some(namespace) };
        assert_eq!(options.feeds(), [Feed::all(Kind::Node), pod(a), pod(b)]);
    }
}
