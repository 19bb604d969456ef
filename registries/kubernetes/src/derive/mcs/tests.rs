//! Exports, imports and the two hosts of a Service, on an index that applies changes.

use std::collections::BTreeMap;

use serde_json::json;
use tributary_kube_client::Event;
use tributary_model::*;

use crate::Index;
use crate::fixtures::*;
use crate::kind::{Kind, WatchScope};
use crate::options::{Mcs, Options};
use crate::project::{Export, Import, Object};

fn mk_export(name: &str) -> Object {
    let object = json!({"metadata": {"name": name, "namespace": "shop"}});
    Export::parse(&object.to_string()).unwrap().into()
}
fn mk_import(name: &str, ips: &[&str]) -> Object {
    let object = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"type": "ClusterSetIP", "ips": ips, "ports": [{"port": 80}]}});
    Import::parse(&object.to_string()).unwrap().into()
}

/// Index, and the facts of a core that applies its updates.
struct Stage {
    index: Index,
    facts: BTreeMap<FactId, Fact>,
}

impl Stage {
    fn new(mcs: Mcs, objects: Vec<Object>) -> Self {
        let mut index = Index::new(Options { mcs, ..mk_options() });
        objects.into_iter().for_each(|object| index.apply_put(object));
        list_all(&mut index);
        let mut stage = Self { index, facts: BTreeMap::new() };
        stage.flush();
        stage
    }
    fn put(&mut self, object: Object) {
        self.index.apply_put(object);
        self.flush();
    }
    fn gone(&mut self, kind: Kind, name: &str) {
        self.index.apply_delete(kind, shop(name));
        self.flush();
    }
    fn flush(&mut self) {
        for update in self.index.flush() {
            match update {
                RegistryUpdate::Put(_, fact, _) => drop(self.facts.insert(fact.item(), fact)),
                RegistryUpdate::Remove(key, _) => drop(self.facts.remove(&key.item)),
                _ => {}
            }
        }
    }
    /// Formats declarations and groups as `host role[ own cluster] addresses`.
    fn texts(&self) -> Vec<String> {
        let host = |host: &Hostname| host.as_str().replace("pay.shop.svc.", "");
        let text = |fact: &Fact| match fact {
            Fact::Service(key, declaration) => {
                let attributes = &declaration.attributes;
                let own = if attributes.own_cluster_only { " own cluster" } else { "" };
                let ips: Vec<String> = declaration.addresses.iter().map(|a| a.ip.to_string()).collect();
                Some(format!("{} {:?}{own} {}", host(&key.service.host), attributes.role, ips.join(",")))
            }
            Fact::Group(key, group) => {
                Some(format!("{} group {}", host(&key.service.host), group.addresses.len()))
            }
            _ => None,
        };
        let mut texts: Vec<String> =
            self.facts.values().filter_map(text).map(|w| w.trim_end().to_owned()).collect();
        texts.sort();
        texts
    }
}

fn mk_objects() -> Vec<Object> {
    vec![mk_service("pay", json!({})), mk_slice("s1", "pay", json!([at("10.0.0.1")]), json!({}))]
}
fn discovery() -> Mcs {
    Mcs { discovery: true, ..Mcs::default() }
}

#[test]
fn nothing_changes_without_an_option() {
    let mut stage = Stage::new(Mcs::default(), mk_objects());
    let plain = ["cluster.local Whole 10.1.0.1", "cluster.local group 1"];
    assert_eq!(stage.texts(), plain);
    stage.put(mk_export("pay"));
    stage.put(mk_import("pay", &["10.9.0.1"]));
    assert_eq!(stage.texts(), plain);
}

#[test]
fn export_decides_visibility_in_other_clusters() {
    let mut stage = Stage::new(discovery(), mk_objects());
    assert_eq!(stage.texts()[0], "cluster.local Whole own cluster 10.1.0.1");
    stage.put(mk_export("pay"));
    assert_eq!(stage.texts()[0], "cluster.local Whole 10.1.0.1");
    stage.put(mk_export("other"));
    stage.gone(Kind::Export, "pay");
    assert_eq!(
        stage.texts()[0],
        "cluster.local Whole own cluster 10.1.0.1",
        "the export of another Service does not count"
    );
}

#[test]
fn own_host_can_be_cluster_local_although_exported() {
    let local = Mcs { host: true, cluster_local: true, ..discovery() };
    let stage = Stage::new(local, mk_objects().into_iter().chain([mk_export("pay")]).collect());
    assert_eq!(stage.texts()[0], "cluster.local Whole own cluster 10.1.0.1");
}

#[test]
fn exported_service_is_offered_with_its_endpoints() {
    let mcs = Mcs { host: true, cluster_local: true, ..discovery() };
    let mut stage = Stage::new(mcs, mk_objects());
    let own = ["cluster.local Whole own cluster 10.1.0.1", "cluster.local group 1"];
    assert_eq!(stage.texts(), own, "not exported");
    stage.put(mk_export("pay"));
    let offered = [own[0], own[1], "clusterset.local Offer", "clusterset.local group 1"];
    assert_eq!(stage.texts(), offered, "visible in every cluster, without an address so far");
    stage.gone(Kind::Slice, "s1");
    stage.gone(Kind::Service, "pay");
    assert_eq!(stage.texts(), [""; 0]);
    stage.put(mk_service("pay", json!({"spec": {"type": "ExternalName", "externalName": "pay.test"}})));
    assert_eq!(stage.texts(), ["cluster.local Whole own cluster"], "an alias is not offered");
}

#[test]
fn inner_switches_need_the_outer_ones() {
    let plain = ["cluster.local Whole 10.1.0.1", "cluster.local group 1"];
    let import = || mk_import("pay", &["10.9.0.1"]);
    let all = |mcs: Mcs, more: Object| {
        Stage::new(mcs, mk_objects().into_iter().chain([more, import()]).collect()).texts()
    };
    assert_eq!(all(Mcs { host: true, ..Mcs::default() }, mk_export("pay")), plain, "host needs discovery");
    assert_eq!(all(Mcs { host: true, cluster_local: true, ..Mcs::default() }, mk_export("pay")), plain);
    let local = Mcs { cluster_local: true, ..discovery() };
    assert_eq!(all(local, mk_export("pay")), plain, "clusterLocal needs host");
}

#[test]
fn import_declares_the_addresses_of_its_own_cluster() {
    let mcs = || Mcs { host: true, ..discovery() };
    let mut stage = Stage::new(mcs(), vec![mk_import("pay", &["10.9.0.2", "10.9.0.1"])]);
    assert_eq!(stage.texts(), ["clusterset.local Import 10.9.0.1,10.9.0.2"]);
    let Some(Fact::Service(_, import)) = stage.facts.values().find(|f| matches!(f, Fact::Service(..))) else {
        panic!()
    };
    assert!(import.addresses.iter().all(|a| a.cluster == ClusterId::new("c1").ok()));
    stage.put(mk_import("pay", &[]));
    assert_eq!(stage.texts(), [""; 0], "a headless import declares nothing");
    stage.put(mk_import("pay", &["10.9.0.3"]));
    assert_eq!(stage.texts(), ["clusterset.local Import 10.9.0.3"]);
    stage.gone(Kind::Import, "pay");
    assert_eq!(stage.texts(), [""; 0]);
}

#[test]
fn absent_mcs_kinds_delay_nothing_and_export_nothing() {
    let mut index = Index::new(Options { mcs: Mcs { host: true, ..discovery() }, ..mk_options() });
    index.apply_put(mk_service("pay", json!({})));
    for scope in index.objects().options.watch_scopes() {
        let absent = matches!(scope.kind, Kind::Export | Kind::Import);
        index.apply(&scope, if absent { Event::NotServed } else { Event::InitDone });
    }
    let mut stage = Stage { index, facts: BTreeMap::new() };
    stage.flush();
    assert_eq!(stage.texts(), ["cluster.local Whole own cluster 10.1.0.1"]);
    // the kinds are installed while the run continues
    stage.index.apply(&WatchScope::all(Kind::Export), Event::Init);
    stage.index.apply_put(mk_export("pay"));
    stage.index.apply(&WatchScope::all(Kind::Export), Event::InitDone);
    stage.flush();
    assert_eq!(stage.texts(), ["cluster.local Whole 10.1.0.1", "clusterset.local Offer"]);
}
