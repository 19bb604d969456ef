//! Known objects of the cluster: one table per kind, by name, and the answers that combine several tables.
//!
//! Owned and changed only by the index; derivations read it. It answers what affects many outputs (namespace selection,
//! networks, mesh values), each in one function.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use tributary_model::{Hostname, Labels, NetworkId, TrafficDistribution, labels};

use super::links::Links;
use super::mesh_context::MeshContext;
use super::namespace_selector;
use crate::kind::{Kind, Name, WatchScope};
use crate::options::Options;
use crate::project::{Export, Gateway, Import, MeshConfig, Namespace, Node, Object, Pod, Service, Slice};

/// Table of one kind.
pub type Table<T> = BTreeMap<Name, Arc<T>>;

macro_rules! tables {
    ($($(#[$doc:meta])* $field:ident: $variant:ident($type:ty);)*) => {
        /// Tables of all kinds.
        #[derive(Debug, Clone)]
        pub struct ClusterObjects {
            /// Flags and the configuration file.
            pub options: Options,
            $($(#[$doc])* pub $field: Table<$type>,)*
            /// Reverse references between objects.
            pub links: Links,
            pub(super) mesh_context: MeshContext,
        }
        impl ClusterObjects {
            /// Creates empty tables.
            #[must_use]
            pub fn new(options: Options) -> Self {
                let mesh_context = MeshContext::new(&options);
                let mut new = Self { options, $($field: Table::new(),)* links: Links::default(), mesh_context };
                new.settle(Kind::MeshConfig);
                new
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
                }
            }
            /// Returns an object.
            #[must_use]
            pub fn get(&self, kind: Kind, name: &Name) -> Option<Object> {
                match kind {
                    $(Kind::$variant => self.$field.get(name).cloned().map(Object::$variant),)*
                }
            }
            /// Returns the objects of a watch.
            #[must_use]
            pub fn of_scope(&self, scope: &WatchScope) -> Vec<Object> {
                self.names(scope).iter().filter_map(|name| self.get(scope.kind, name)).collect()
            }
            /// Returns the names that a watch covers.
            #[must_use]
            pub fn names(&self, scope: &WatchScope) -> Vec<Name> {
                match scope.kind {
                    $(Kind::$variant => self.$field.keys().filter(|name| scope.covers(name)).cloned().collect(),)*
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
    /// ServiceExports.
    exports: Export(Export);
    /// ServiceImports.
    imports: Import(Import);
    /// Gateways of gateway-api.
    gateways: Gateway(Gateway);
    /// ConfigMaps of mesh configuration.
    mesh_configs: MeshConfig(MeshConfig);
}

impl ClusterObjects {
    /// Adds or replaces an object; returns the previous one.
    pub(crate) fn put(&mut self, object: Object) -> Option<Object> {
        let object = self.with_last_good(object);
        let old = self.insert(object.clone());
        self.links.change(old.as_ref(), Some(&object));
        self.settle(object.kind());
        old
    }
    /// Removes an object and returns it.
    pub(crate) fn remove(&mut self, kind: Kind, name: &Name) -> Option<Object> {
        let old = self.take(kind, name);
        self.links.change(old.as_ref(), None);
        self.settle(kind);
        old
    }

    /// Returns the only pod of a namespace that currently has this address; `None` if several claim it. Excludes pods that
    /// share the address of their node.
    #[must_use]
    pub fn pod_at(&self, namespace: &str, ip: IpAddr) -> Option<&Arc<Pod>> {
        let mut own = self.links.pods_at(namespace, ip);
        let name = own.next()?;
        if own.next().is_some() { None } else { self.pods.get(name) }
    }
    /// Returns the Services whose slices list a pod, by its name or by an address of its own; sorted.
    #[must_use]
    pub fn listing(&self, pod: &Pod) -> BTreeSet<Name> {
        let namespace = &pod.meta.name.namespace;
        let naming = self.links.slices_naming(&pod.meta.name).filter_map(|slice| self.slices.get(slice));
        let naming =
            naming.filter(|s| s.entries.iter().any(|e| e.is_of(&s.meta.name.namespace, &pod.meta.name)));
        let own = pod
            .ips
            .iter()
            .filter(|ip| self.pod_at(namespace, **ip).is_some_and(|own| own.meta.name == pod.meta.name));
        let at = own.flat_map(|ip| self.links.slices_at(namespace, *ip).map(move |slice| (ip, slice)));
        let at = at.filter_map(|(ip, slice)| Some((ip, self.slices.get(slice)?)));
        let at = at.filter(|(ip, s)| s.entries.iter().any(|e| e.pod.is_none() && e.ip == **ip));
        naming.chain(at.map(|(_, slice)| slice)).filter_map(|slice| slice.service_name()).collect()
    }
    /// Returns a node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get(&Name::new("", name))
    }
    /// Returns a namespace.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.namespaces.get(&Name::new("", name))
    }
    /// Returns the traffic distribution that a namespace sets for Services without their own.
    #[must_use]
    pub fn namespace_traffic(&self, namespace: &str) -> Option<TrafficDistribution> {
        self.namespace(namespace)?.traffic
    }

    /// Whether a namespace is selected.
    #[must_use]
    pub fn selected(&self, namespace: &str) -> bool {
        namespace_selector::unselected(self, namespace).is_none()
    }
    /// Returns the network of an endpoint with these labels at this address.
    #[must_use]
    pub fn network(&self, labels: &Labels, ip: Option<IpAddr>) -> Option<NetworkId> {
        self.mesh_context.networks.of(labels, ip)
    }
    /// Whether a Service can be a gateway, so that its output has to be derived.
    #[must_use]
    pub fn may_be_gateway(&self, service: &Service) -> bool {
        service.meta.labels.get(labels::NETWORK).is_some() || self.mesh().networks.names_services()
    }
    /// Returns the host of a Service.
    pub fn host(&self, service: &Name) -> Result<Hostname, String> {
        let host = format!("{}.{}.svc.{}", service.name, service.namespace, self.options.domain);
        Hostname::new(host).map_err(|error| error.to_string())
    }
}

/// Iterates over the objects of one namespace in a table.
pub(crate) fn within<'t, T>(
    table: &'t Table<T>,
    namespace: &'t str,
) -> impl Iterator<Item = (&'t Name, &'t Arc<T>)> {
    let first = Name::new(namespace, "");
    table
        .range((Bound::Included(first), Bound::Unbounded))
        .take_while(move |(name, _)| &*name.namespace == namespace)
}
