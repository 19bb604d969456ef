//! All that is known of the cluster: one table per kind, by name, and what the tables say together.
//!
//! Owned by the index, which alone changes it; derive functions read it. What other parts of the cluster
//! decide for many outputs (scope, networks, revisions, mesh values) is asked here, in one place each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use tributary_model::{Hostname, Labels, NetworkId, TrafficDistribution};

use crate::input::{Feed, Kind, Name, Object};
use crate::options::Options;
use crate::project::{Namespace, Node, Pod, Service, Slice};

/// One table.
pub type Table<T> = BTreeMap<Name, Arc<T>>;

macro_rules! tables {
    ($($(#[$doc:meta])* $field:ident: $variant:ident($type:ty);)*) => {
        /// The tables.
        #[derive(Debug, Clone)]
        pub struct Inputs {
            /// Flags and the configuration file.
            pub options: Options,
            $($(#[$doc])* pub $field: Table<$type>,)*
            pods_at: BTreeSet<(IpAddr, Name)>,
        }
        impl Inputs {
            /// Nothing is known yet.
            #[must_use]
            pub fn new(options: Options) -> Self {
                Self { options, $($field: Table::new(),)* pods_at: BTreeSet::new() }
            }
            fn insert(&mut self, object: Object) -> Option<Object> {
                match object {
                    $(Object::$variant(object) => {
                        self.$field.insert(object.meta.name.clone(), object).map(Object::$variant)
                    })*
                }
            }
            fn take(&mut self, kind: Kind, name: &Name) -> Option<Object> {
                match kind {
                    $(Kind::$variant => self.$field.remove(name).map(Object::$variant),)*
                    _ => None,
                }
            }
            /// An object.
            #[must_use]
            pub fn get(&self, kind: Kind, name: &Name) -> Option<Object> {
                match kind {
                    $(Kind::$variant => self.$field.get(name).cloned().map(Object::$variant),)*
                    _ => None,
                }
            }
            /// The names that a feed's kind has now, as far as the feed covers them.
            #[must_use]
            pub fn names(&self, feed: &Feed) -> Vec<Name> {
                match feed.kind {
                    $(Kind::$variant => self.$field.keys().filter(|name| feed.covers(name)).cloned().collect(),)*
                    _ => Vec::new(),
                }
            }
        }
    };
}

tables! {
    /// Namespaces.
    namespaces: Namespace(Namespace);
    /// Services.
    services: Service(Service);
    /// EndpointSlices.
    slices: Slice(Slice);
    /// Pods.
    pods: Pod(Pod);
    /// Nodes.
    nodes: Node(Node);
}

impl Inputs {
    /// Takes an object in; returns what it was before.
    pub(crate) fn put(&mut self, object: Object) -> Option<Object> {
        if let Object::Pod(pod) = &object {
            let addresses = pod_addresses(pod).map(|ip| (ip, pod.meta.name.clone()));
            let addresses: Vec<_> = addresses.collect();
            let old = self.insert(object);
            self.forget_addresses(old.as_ref());
            self.pods_at.extend(addresses);
            return old;
        }
        self.insert(object)
    }
    /// Takes an object out.
    pub(crate) fn remove(&mut self, kind: Kind, name: &Name) -> Option<Object> {
        let old = self.take(kind, name);
        self.forget_addresses(old.as_ref());
        old
    }
    fn forget_addresses(&mut self, old: Option<&Object>) {
        let Some(Object::Pod(pod)) = old else { return };
        for ip in pod_addresses(pod) {
            self.pods_at.remove(&(ip, pod.meta.name.clone()));
        }
    }

    /// The one pod of a namespace to which an address belongs now; `None` where several claim it. Pods that
    /// share their node's address are not guessed.
    #[must_use]
    pub fn pod_at(&self, namespace: &str, ip: IpAddr) -> Option<&Arc<Pod>> {
        let first = (ip, Name::new("", ""));
        let at = self.pods_at.range((Bound::Included(first), Bound::Unbounded));
        let mut own = at.take_while(|(at, _)| *at == ip).filter(|(_, name)| &*name.namespace == namespace);
        let (_, name) = own.next()?;
        if own.next().is_some() { None } else { self.pods.get(name) }
    }
    /// A node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get(&Name::new("", name))
    }
    /// A namespace.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.namespaces.get(&Name::new("", name))
    }
    /// What is near first for a namespace's services that do not say.
    #[must_use]
    pub fn namespace_traffic(&self, namespace: &str) -> Option<TrafficDistribution> {
        self.namespace(namespace)?.traffic
    }

    /// Whether objects of a namespace are in scope (discovery selectors).
    #[must_use]
    pub fn selected(&self, _namespace: &str) -> bool {
        true
    }
    /// Whether objects of these labels are for this revision.
    #[must_use]
    pub fn visible_revision(&self, _labels: &Labels) -> bool {
        true
    }
    /// The network of an endpoint with these labels at this address.
    #[must_use]
    pub fn network(&self, labels: &Labels, _ip: Option<IpAddr>) -> Option<NetworkId> {
        labels.get(tributary_model::labels::NETWORK).and_then(|network| NetworkId::new(network).ok())
    }
    /// The domain of identities.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        self.options.trust_domain.as_deref().unwrap_or("cluster.local")
    }
    /// Whether endpoints of other clusters are left out for a host.
    #[must_use]
    pub fn cluster_local(&self, _host: &Hostname) -> bool {
        false
    }
    /// Whether a Service's endpoints are for its own cluster only (MCS without export).
    #[must_use]
    pub fn own_cluster_only(&self, _service: &Name) -> bool {
        false
    }
    /// The host of a Service.
    pub fn host(&self, service: &Name) -> Result<Hostname, String> {
        let host = format!("{}.{}.svc.{}", service.name, service.namespace, self.options.domain);
        Hostname::new(host).map_err(|error| error.to_string())
    }
}

/// The objects of one namespace in a table.
pub(crate) fn within<'t, T>(
    table: &'t Table<T>,
    namespace: &'t str,
) -> impl Iterator<Item = (&'t Name, &'t Arc<T>)> {
    let first = Name::new(namespace, "");
    table
        .range((Bound::Included(first), Bound::Unbounded))
        .take_while(move |(name, _)| &*name.namespace == namespace)
}

/// The addresses by which a pod may be found: those that are its own now.
fn pod_addresses(pod: &Pod) -> impl Iterator<Item = IpAddr> + '_ {
    let own = pod.is_alive() && !pod.host_network;
    pod.ips.iter().copied().filter(move |_| own)
}
