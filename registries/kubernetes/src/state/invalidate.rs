//! Outputs that a change touches: the reverse of what the derivations read.
//!
//! The index calls it for every created, changed or deleted object after updating its tables; it marks the outputs that
//! read the object. A superfluous mark costs one derivation without a change; a missing mark is a bug that the property
//! tests look for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tributary_model::Evidence;

use super::derived_key::DerivedKey;
use super::objects::{ClusterObjects, within};
use crate::kind::Name;
use crate::mesh::Mesh;
use crate::project::slice::Entry;
use crate::project::{Export, MeshConfig, Namespace, Node, Object, Pod, Service, Slice};

/// Change of one object. Both sides have the same kind and name; one of them may be missing.
#[derive(Debug, Clone)]
pub struct Change {
    /// Object before the change.
    pub old: Option<Object>,
    /// Object after the change.
    pub new: Option<Object>,
    /// Evidence for facts that the change removes.
    pub evidence: Evidence,
}

/// Outputs to derive again, each with the evidence for the facts that it may lose.
pub type DirtyOutputs = BTreeMap<DerivedKey, Evidence>;

/// Marks the outputs that a change touches. `objects` is the state after the change.
pub fn change(objects: &ClusterObjects, change: &Change, dirty: &mut DirtyOutputs) {
    let Change { old, new, evidence } = change;
    let mut mark = Marking { objects, dirty, evidence };
    let Some(kind) = old.as_ref().or(new.as_ref()) else { return };
    match kind {
        Object::Namespace(_) => mark.namespace(namespace(old.as_ref()), namespace(new.as_ref())),
        Object::Service(_) => mark.service(service(old.as_ref()), service(new.as_ref())),
        Object::Slice(_) => mark.slice(slice(old.as_ref()), slice(new.as_ref())),
        Object::Pod(_) => {
            [pod(old.as_ref()), pod(new.as_ref())].into_iter().flatten().for_each(|pod| mark.pod(pod))
        }
        Object::Export(_) => {
            [export(old.as_ref()), export(new.as_ref())]
                .into_iter()
                .flatten()
                .take(1)
                .for_each(|one| mark.export(one));
        }
        Object::Import(import) => mark.output(DerivedKey::Import(import.meta.name.clone())),
        Object::Gateway(gateway) => mark.output(DerivedKey::Gateways(gateway.meta.name.clone())),
        // where the config cluster's is followed, only the trust domain of this one counts, which is part of the shared context
        Object::MeshConfig(_) if objects.options.follows_mesh => {
            mesh_outputs(objects).for_each(|output| mark.output(output));
        }
        Object::MeshConfig(_) => {
            let nothing = Mesh::default();
            let [old, new] = [old, new].map(|side| mesh_config(side.as_ref()).map(|config| &config.mesh));
            mark.mesh(old.unwrap_or(&nothing), new.unwrap_or(&nothing));
        }
        Object::Node(_) => {
            [node(old.as_ref()), node(new.as_ref())].into_iter().flatten().for_each(|node| mark.node(node))
        }
    }
}

/// Marks the outputs that a change of the followed mesh configuration touches. `objects` is the state after the change.
pub fn followed_mesh(
    objects: &ClusterObjects,
    (old, new): (&Mesh, &Mesh),
    evidence: &Evidence,
    dirty: &mut DirtyOutputs,
) {
    Marking { objects, dirty, evidence }.mesh(old, new);
}

macro_rules! sides {
    ($($name:ident: $variant:ident($type:ty);)*) => {$(
        fn $name(object: Option<&Object>) -> Option<&$type> {
            match object {
                Some(Object::$variant(object)) => Some(object),
                _ => None,
            }
        }
    )*};
}
sides! {
    namespace: Namespace(Namespace);
    service: Service(Service);
    slice: Slice(Slice);
    pod: Pod(Pod);
    node: Node(Node);
    export: Export(Export);
    mesh_config: MeshConfig(MeshConfig);
}

/// Marking of one change.
struct Marking<'a> {
    objects: &'a ClusterObjects,
    dirty: &'a mut DirtyOutputs,
    evidence: &'a Evidence,
}

impl Marking<'_> {
    fn output(&mut self, output: DerivedKey) {
        self.dirty.insert(output, self.evidence.clone());
    }
    fn groups<'n>(&mut self, slices: impl Iterator<Item = &'n Name>) {
        slices.for_each(|slice| self.output(DerivedKey::Group(slice.clone())));
    }
    fn workloads<'n>(&mut self, pods: impl Iterator<Item = &'n Name>) {
        pods.for_each(|pod| self.output(DerivedKey::Workload(pod.clone())));
    }

    /// Labels affect the selection of a namespace's objects, the annotation its Services. The network label of a system
    /// namespace affects every object ([`ClusterObjects::changes`]).
    fn namespace(&mut self, old: Option<&Namespace>, new: Option<&Namespace>) {
        let Some(name) = old.or(new).map(|namespace| namespace.meta.name.name.clone()) else { return };
        let objects = self.objects;
        if old.and_then(|old| old.traffic) != new.and_then(|new| new.traffic) {
            for (service, _) in within(&objects.services, &name) {
                self.output(DerivedKey::Service(service.clone()));
            }
        }
        if objects.mesh().entries.is_some() {
            self.output(DerivedKey::Settings(objects.mesh_name().clone()));
        }
        let selectors = &objects.mesh().discovery;
        let admits = |side: Option<&Namespace>| side.is_some_and(|side| selectors.admit(&side.meta.labels));
        if !selectors.is_empty() && admits(old) != admits(new) {
            self.of_namespace(&name);
        }
    }
    /// Marks every object of a namespace, after its scope may have changed.
    fn of_namespace(&mut self, namespace: &str) {
        let objects = self.objects;
        for (name, service) in within(&objects.services, namespace) {
            self.output(DerivedKey::Service(name.clone()));
            if objects.may_be_gateway(service) {
                self.output(DerivedKey::ServiceGateways(name.clone()));
            }
        }
        self.groups(within(&objects.slices, namespace).map(|(name, _)| name));
        self.workloads(within(&objects.pods, namespace).map(|(name, _)| name));
        within(&objects.gateways, namespace)
            .for_each(|(name, _)| self.output(DerivedKey::Gateways(name.clone())));
        within(&objects.imports, namespace)
            .for_each(|(name, _)| self.output(DerivedKey::Import(name.clone())));
    }
    /// An export affects the declarations of a Service and the groups of its slices.
    fn export(&mut self, export: &Export) {
        let name = &export.meta.name;
        self.output(DerivedKey::Service(name.clone()));
        self.groups(self.objects.links.slices_of(name));
    }
    /// Marks what a mesh configuration affects beside the shared context ([`ClusterObjects::changes`]).
    fn mesh(&mut self, old: &Mesh, new: &Mesh) {
        let objects = self.objects;
        mesh_outputs(objects).for_each(|output| self.output(output));
        if old.networks != new.networks {
            objects.services.keys().for_each(|name| self.output(DerivedKey::ServiceGateways(name.clone())));
        }
        if old.discovery.is_empty() != new.discovery.is_empty() {
            return all(objects, self.evidence, self.dirty);
        }
        for (name, namespace) in &objects.namespaces {
            let labels = &namespace.meta.labels;
            if old.discovery.admit(labels) != new.discovery.admit(labels) {
                self.of_namespace(&name.name);
            }
        }
    }
    /// Slices read one property of their Service: whether its endpoints drain. A Gateway reads whether the Service implements it.
    fn service(&mut self, old: Option<&Service>, new: Option<&Service>) {
        let Some(name) = old.or(new).map(|service| service.meta.name.clone()) else { return };
        self.output(DerivedKey::Service(name.clone()));
        if old.into_iter().chain(new).any(|service| self.objects.may_be_gateway(service)) {
            self.output(DerivedKey::ServiceGateways(name.clone()));
        }
        for gateway in [old, new].into_iter().flatten().filter_map(Service::gateway) {
            self.output(DerivedKey::Gateways(gateway));
        }
        if old.is_some_and(Service::keeps_sessions) != new.is_some_and(Service::keeps_sessions) {
            self.groups(self.objects.links.slices_of(&name));
        }
    }
    /// Pods read from slices which Services list them.
    fn slice(&mut self, old: Option<&Slice>, new: Option<&Slice>) {
        let Some(name) = old.or(new).map(|slice| slice.meta.name.clone()) else { return };
        self.output(DerivedKey::Group(name.clone()));
        let same = old.map(|old| &old.service) == new.map(|new| &new.service);
        let (was, is) = (listed(old), listed(new));
        let others = was.union(&is).filter(|one| !same || !was.contains(one) || !is.contains(one));
        for listed in others {
            match listed {
                Listed::Pod(namespace, pod) => {
                    let pod = Name::new(namespace, pod);
                    if self.objects.pods.contains_key(&pod) {
                        self.output(DerivedKey::Workload(pod));
                    }
                }
                Listed::Address(ip) => self.workloads(self.objects.links.pods_at(&name.namespace, *ip)),
            }
        }
    }
    /// A pod at an address affects whether another pod can be identified by that address.
    fn pod(&mut self, pod: &Pod) {
        let name = &pod.meta.name;
        let links = &self.objects.links;
        self.output(DerivedKey::Workload(name.clone()));
        self.groups(links.slices_naming(name));
        for ip in &pod.ips {
            self.groups(links.slices_at(&name.namespace, *ip));
            self.workloads(links.pods_at(&name.namespace, *ip));
        }
    }
    fn node(&mut self, node: &Node) {
        let name = &node.meta.name.name;
        let objects = self.objects;
        for service in objects.links.services_on_nodes() {
            self.output(DerivedKey::ServiceGateways(service.clone()));
        }
        for pod in objects.links.pods_on(name).filter_map(|pod| objects.pods.get(pod)) {
            self.pod(pod);
        }
        self.groups(objects.links.slices_on(name));
    }
}

/// Reference of a slice's entry.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Listed<'a> {
    Pod(&'a str, &'a str),
    Address(IpAddr),
}

impl<'a> Listed<'a> {
    fn by(entry: &'a Entry, namespace: &'a str) -> Self {
        let pod = entry.pod_parts(namespace);
        pod.map_or(Self::Address(entry.ip), |(namespace, pod)| Self::Pod(namespace, pod))
    }
}

fn listed(slice: Option<&Slice>) -> BTreeSet<Listed<'_>> {
    let Some(slice) = slice else { return BTreeSet::new() };
    slice.entries.iter().map(|entry| Listed::by(entry, &slice.meta.name.namespace)).collect()
}

/// Marks every output, after a change that all of them may read.
pub fn all(objects: &ClusterObjects, evidence: &Evidence, dirty: &mut DirtyOutputs) {
    dirty.extend(outputs(objects).map(|output| (output, evidence.clone())));
}

/// Returns every output of every object, workloads before the groups that read them.
pub fn outputs(objects: &ClusterObjects) -> impl Iterator<Item = DerivedKey> {
    let services = objects.services.keys().cloned().map(DerivedKey::Service);
    let groups = objects.slices.keys().cloned().map(DerivedKey::Group);
    let workloads = objects.pods.keys().cloned().map(DerivedKey::Workload);
    let imports = objects.imports.keys().cloned().map(DerivedKey::Import);
    let gateways = objects.gateways.keys().cloned().map(DerivedKey::Gateways);
    let of_services = objects.services.keys().cloned().map(DerivedKey::ServiceGateways);
    let outputs = services.chain(workloads).chain(groups).chain(imports).chain(gateways).chain(of_services);
    outputs.chain(mesh_outputs(objects))
}

/// Returns the outputs of the mesh configuration; they exist whether or not the object does.
pub fn mesh_outputs(objects: &ClusterObjects) -> impl Iterator<Item = DerivedKey> {
    let name = objects.mesh_name();
    let outputs: [fn(Name) -> DerivedKey; 3] =
        [DerivedKey::MeshGateways, DerivedKey::Settings, DerivedKey::Contested];
    outputs.into_iter().map(|output| output(name.clone()))
}
