//! Builders for the tests of this crate: objects from JSON, the objects of a cluster, a synced index.

use serde_json::{Value, json};
use tributary_kube_client::Event;
use tributary_model::*;

use crate::kind::{Kind, Name, WatchScope};
use crate::options::Options;
use crate::project::{Namespace as Ns, Node, Object, Pod, Service, Slice};
use crate::{ClusterObjects, Index, Interner};

pub(crate) fn mk_options() -> Options {
    Options::new(ClusterId::new("c1").unwrap()).unwrap()
}

fn mk_meta(namespace: &str, name: &str) -> Value {
    let mut meta = json!({"name": name, "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"});
    if !namespace.is_empty() {
        meta["namespace"] = json!(namespace);
    }
    meta
}

/// Merges `over` into `base`, key by key.
pub(crate) fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

fn mk_object(namespace: &str, name: &str, over: &Value) -> String {
    let mut object = json!({"metadata": mk_meta(namespace, name)});
    merge(&mut object, over);
    object.to_string()
}

pub(crate) fn mk_service(name: &str, over: Value) -> Object {
    let mut base = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.1.0.1", "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]}});
    merge(&mut base, &over);
    Service::parse(&mk_object("shop", name, &base)).unwrap().into()
}

/// Builds a slice of a Service with these endpoints.
pub(crate) fn mk_slice(name: &str, service: &str, endpoints: Value, over: Value) -> Object {
    let mut base = json!({
        "metadata": {"labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints,
    });
    merge(&mut base, &over);
    Slice::parse(&mk_object("shop", name, &base)).unwrap().into()
}

pub(crate) fn mk_pod(name: &str, ip: &str, over: Value) -> Object {
    let mut base = json!({
        "spec": {"nodeName": "n1", "serviceAccountName": "pay"},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": "True"}]},
    });
    if ip.is_empty() {
        base["status"]["podIPs"] = json!([]);
    }
    merge(&mut base, &over);
    Pod::parse(&mk_object("shop", name, &base)).unwrap().into()
}

pub(crate) fn mk_node(name: &str, zone: &str) -> Object {
    let labels = json!({"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": zone});
    Node::parse(&mk_object("", name, &json!({"metadata": {"labels": labels}}))).unwrap().into()
}

pub(crate) fn mk_namespace(name: &str, over: Value) -> Object {
    Ns::parse(&mk_object("", name, &over)).unwrap().into()
}

pub(crate) fn at(ip: &str) -> Value {
    json!({"addresses": [ip]})
}
pub(crate) fn of(ip: &str, pod: &str) -> Value {
    json!({"addresses": [ip], "targetRef": {"kind": "Pod", "name": pod}, "nodeName": "n1"})
}

pub(crate) fn shop(name: &str) -> Name {
    Name::new("shop", name)
}

/// Events of watches over all namespaces.
impl Index {
    pub(crate) fn apply_put(&mut self, object: Object) {
        self.apply(&WatchScope::all(object.kind()), Event::Apply(object));
    }
    pub(crate) fn apply_delete(&mut self, kind: Kind, name: Name) {
        self.apply(&WatchScope::all(kind), Event::Delete(name));
    }
}

/// Builds an index with these objects, in which all kinds have listed.
pub(crate) fn mk_synced(objects: Vec<Object>) -> Index {
    let mut index = Index::new(mk_options());
    objects.into_iter().for_each(|object| index.apply_put(object));
    list_all(&mut index);
    index.flush();
    index
}
pub(crate) fn list_all(index: &mut Index) {
    let scopes = index.objects().options.watch_scopes();
    scopes.into_iter().for_each(|scope| index.apply(&scope, Event::InitDone));
}

pub(crate) fn mk_objects(all: Vec<Object>) -> ClusterObjects {
    let mut objects = ClusterObjects::new(mk_options());
    all.into_iter().for_each(|object| drop(objects.put(object)));
    objects
}

/// Derives the declaration of a single Service.
pub(crate) fn declared(object: Object) -> Declaration {
    declared_among(object, Vec::new())
}
pub(crate) fn declared_among(object: Object, others: Vec<Object>) -> Declaration {
    let name = object.name().clone();
    let mut objects = mk_objects(others);
    objects.put(object);
    let derived = crate::derive::service::derive(&objects, &mut Interner::default(), &name);
    match derived.facts.as_slice() {
        [Fact::Service(_, declaration)] => Declaration::clone(declaration),
        other => panic!("{other:?}, {:?}", derived.problem),
    }
}

/// Derives the group of a slice among these objects.
pub(crate) fn grouped(slice: &str, objects: Vec<Object>) -> EndpointGroup {
    let objects = mk_objects(objects);
    let derived = crate::derive::group::derive(&objects, &mut Interner::default(), &shop(slice));
    match derived.facts.as_slice() {
        [Fact::Group(_, group)] | [Fact::Group(_, group), Fact::Waiting(..)] => EndpointGroup::clone(group),
        other => panic!("{other:?}, {:?}", derived.problem),
    }
}
