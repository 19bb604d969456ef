//! Any order of events ends in the facts of a fresh build, which equal those of a naive computation.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use tributary_kube_client::{Event, Projection};
use tributary_model::{Basis, Fact, FactId, RegistryUpdate, Withheld};

use super::naive::{Texts, World, expected, shown};
use crate::fixtures::mk_options;
use crate::kind::{Kind, Name, WatchScope};
use crate::project::{Namespace, Node, Object, Pod, Service, Slice};
use crate::publish::Index;

const IPS: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
const KINDS: [Kind; 5] = [Kind::Namespace, Kind::Service, Kind::Slice, Kind::Pod, Kind::Node];

#[derive(Debug, Clone)]
enum Op {
    Put(Kind, &'static str, Value),
    Gone(Kind, &'static str),
    Bad(Kind, &'static str),
    /// A list of a kind, after changes that the watch missed.
    Relist(Kind, Vec<(&'static str, Option<Value>)>),
    Interrupted(Kind),
    /// The kind becomes unreadable, whether or not its watch continues.
    Withhold(Kind),
    Resume(Kind),
    Flush,
}

fn names(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Namespace => &["shop"],
        Kind::Service => &["pay", "cart"],
        Kind::Slice => &["s0", "s1", "s2"],
        Kind::Pod => &["p0", "p1", "p2"],
        _ => &["n0", "n1"],
    }
}

/// Slices and pods occur more often, because they are joined.
fn any_kind() -> impl Strategy<Value = Kind> {
    let joined = [Kind::Slice, Kind::Slice, Kind::Pod, Kind::Pod];
    prop::sample::select([&KINDS[..], &joined[..]].concat())
}
fn any_name(kind: Kind) -> impl Strategy<Value = &'static str> {
    prop::sample::select(names(kind).to_vec())
}
fn any_text(texts: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(texts.to_vec())
}

fn any_body(kind: Kind) -> BoxedStrategy<Value> {
    let annotation = |text: &str| {
        if text.is_empty() { json!({}) } else { json!({"networking.istio.io/traffic-distribution": text}) }
    };
    match kind {
        Kind::Namespace => any_text(&["", "PreferClose"])
            .prop_map(move |text| json!({"metadata": {"annotations": annotation(text)}}))
            .boxed(),
        Kind::Service => (any_text(&["", "PreferClose", "odd"]), any_text(&["", "c"]))
            .prop_map(move |(text, session)| {
                json!({"metadata": {"annotations": annotation(text), "labels": {"istio.io/persistent-session": session}}, "spec": {"clusterIP": "10.1.0.1"}})
            })
            .boxed(),
        Kind::Slice => any_slice().boxed(),
        Kind::Pod => any_pod().boxed(),
        _ => any_text(&["a", "b"]).prop_map(|zone| json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}})).boxed(),
    }
}

fn any_slice() -> impl Strategy<Value = Value> {
    let service = any_text(&["pay", "pay", "cart", ""]);
    let kind = any_text(&["IPv4", "IPv4", "IPv4", "FQDN"]);
    (service, kind, prop::collection::vec(any_endpoint(), 0..3)).prop_map(|(service, kind, endpoints)| {
        let endpoints = if kind == "FQDN" { Vec::new() } else { endpoints };
        json!({
            "metadata": {"labels": {"kubernetes.io/service-name": service}},
            "addressType": kind, "ports": [{"name": "http", "port": 80}], "endpoints": endpoints,
        })
    })
}
fn any_endpoint() -> impl Strategy<Value = Value> {
    let condition = || prop::option::of(any::<bool>());
    let target = any_text(&["", "p0", "p1", "p2"]);
    let entry_topology = (any_text(&["", "n0", "n1"]), any_text(&["", "z"]));
    (prop::sample::select(IPS.to_vec()), target, entry_topology, (condition(), condition(), condition()))
        .prop_map(|(ip, target, (node, zone), (ready, serving, terminating))| {
            let mut endpoint = json!({
                "addresses": [ip], "nodeName": node, "zone": zone,
                "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            });
            if !target.is_empty() {
                endpoint["targetRef"] = json!({"kind": "Pod", "name": target});
            }
            endpoint
        })
}
fn any_pod() -> impl Strategy<Value = Value> {
    let ip = any_text(&["10.0.0.1", "10.0.0.2", "10.0.0.3", ""]);
    let life = (
        any_text(&["Running", "Running", "Failed"]),
        any_text(&["True", "False"]),
        prop::option::weighted(0.2, Just("2026-01-01T00:00:00Z")),
    );
    (
        ip,
        life,
        any_text(&["n0", "n1", ""]),
        any_text(&["a", "b"]),
        any_text(&["x", "y"]),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(ip, (phase, ready, deleted), node, account, app, host)| {
            json!({
                "metadata": {"labels": {"app": app}, "deletionTimestamp": deleted},
                "spec": {"nodeName": node, "serviceAccountName": account, "hostNetwork": host},
                "status": {"phase": phase, "podIP": ip, "conditions": [{"type": "Ready", "status": ready}]},
            })
        })
}

fn any_op() -> impl Strategy<Value = Op> {
    let put = any_kind()
        .prop_flat_map(|kind| (Just(kind), any_name(kind), any_body(kind)))
        .prop_map(|(k, n, b)| Op::Put(k, n, b));
    let gone =
        any_kind().prop_flat_map(|kind| (Just(kind), any_name(kind))).prop_map(|(k, n)| Op::Gone(k, n));
    let bad = any_kind().prop_flat_map(|kind| (Just(kind), any_name(kind))).prop_map(|(k, n)| Op::Bad(k, n));
    let relist = any_kind().prop_flat_map(|kind| {
        let item = (any_name(kind), prop::option::of(any_body(kind)));
        (Just(kind), prop::collection::vec(item, 0..3))
    });
    prop_oneof![
        8 => put,
        3 => gone,
        1 => bad,
        2 => relist.prop_map(|(kind, lost)| Op::Relist(kind, lost)),
        1 => any_kind().prop_map(Op::Interrupted),
        2 => any_kind().prop_map(Op::Withhold),
        1 => any_kind().prop_map(Op::Resume),
        2 => Just(Op::Flush),
    ]
}

fn full(kind: Kind, name: &str, body: &Value) -> Value {
    let mut object = body.clone();
    object["metadata"]["name"] = json!(name);
    if kind.is_namespaced() {
        object["metadata"]["namespace"] = json!("shop");
    }
    object
}
fn read(kind: Kind, object: &Value) -> Object {
    let raw = serde_json::value::to_raw_value(object).unwrap();
    match kind {
        Kind::Namespace => Namespace::decode(&raw).unwrap().into(),
        Kind::Service => Service::decode(&raw).unwrap().into(),
        Kind::Slice => Slice::decode(&raw).unwrap().into(),
        Kind::Pod => Pod::decode(&raw).unwrap().into(),
        _ => Node::decode(&raw).unwrap().into(),
    }
}
fn name_of(kind: Kind, name: &str) -> Name {
    Name::new(if kind.is_namespaced() { "shop" } else { "" }, name)
}

/// Index, the cluster that it follows, and the facts of a core that applies its updates.
struct Stage {
    index: Index,
    world: World,
    facts: BTreeMap<FactId, Fact>,
    /// Facts that were published in doubt.
    doubted: BTreeSet<FactId>,
}

impl Stage {
    fn new() -> Self {
        Self {
            index: Index::new(mk_options()),
            world: World::new(),
            facts: BTreeMap::new(),
            doubted: BTreeSet::new(),
        }
    }
    fn run(&mut self, op: &Op) {
        match op {
            Op::Put(kind, name, body) => {
                let object = full(*kind, name, body);
                self.index.apply_put(read(*kind, &object));
                self.world.insert((kind.as_str(), (*name).to_owned()), object);
            }
            Op::Gone(kind, name) => {
                self.index.apply_delete(*kind, name_of(*kind, name));
                self.world.remove(&(kind.as_str(), (*name).to_owned()));
            }
            Op::Bad(kind, name) => {
                self.index.apply(&WatchScope::all(*kind), Event::Invalid(name_of(*kind, name), "no".into()))
            }
            Op::Relist(kind, lost) => self.relist(*kind, lost),
            Op::Interrupted(kind) => {
                self.index.apply(&WatchScope::all(*kind), Event::Init);
                self.relist(*kind, &[]);
            }
            Op::Withhold(kind) => {
                self.index.apply(&WatchScope::all(*kind), Event::Unavailable(Withheld::forbidden("403")));
            }
            Op::Resume(kind) => self.index.apply(&WatchScope::all(*kind), Event::Resumed),
            Op::Flush => self.flush(),
        }
    }
    /// Applies changes that the watch missed, then a list with them.
    fn relist(&mut self, kind: Kind, lost: &[(&'static str, Option<Value>)]) {
        for (name, body) in lost {
            let key = (kind.as_str(), (*name).to_owned());
            match body {
                Some(body) => drop(self.world.insert(key, full(kind, name, body))),
                None => drop(self.world.remove(&key)),
            }
        }
        self.list(kind);
    }
    fn list(&mut self, kind: Kind) {
        self.index.apply(&WatchScope::all(kind), Event::Init);
        for ((_, _), object) in self.world.iter().filter(|((k, _), _)| *k == kind.as_str()) {
            self.index.apply_put(read(kind, object));
        }
        self.index.apply(&WatchScope::all(kind), Event::InitDone);
    }
    /// Marks the other kinds as not served by this cluster.
    fn finish(&mut self) {
        let others = self
            .index
            .objects()
            .options
            .watch_scopes()
            .into_iter()
            .filter(|scope| !KINDS.contains(&scope.kind));
        others.for_each(|scope| self.index.apply(&scope, Event::NotServed));
    }
    fn flush(&mut self) {
        for update in self.index.flush() {
            match update {
                RegistryUpdate::Put(_, fact, basis) => {
                    let item = fact.item();
                    let was_doubted = self.doubted.remove(&item);
                    let is_doubted = basis != Basis::Authoritative;
                    if is_doubted {
                        self.doubted.insert(item.clone());
                    }
                    let known = self.facts.insert(item, fact.clone());
                    let is_news = was_doubted != is_doubted;
                    assert!(known.as_ref() != Some(&fact) || is_news, "published again: {fact:?}");
                }
                RegistryUpdate::Remove(key, _) => {
                    self.doubted.remove(&key.item);
                    assert!(self.facts.remove(&key.item).is_some(), "never published: {key:?}");
                }
                _ => {}
            }
        }
    }
    fn texts(&self) -> Texts {
        // settings have their own property test
        let facts = self.facts.values().filter(|fact| !matches!(fact, Fact::Settings(_)));
        facts.map(shown).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn any_event_order_gives_the_facts_of_a_fresh_build(before in prop::collection::vec(any_op(), 0..12), after in prop::collection::vec(any_op(), 0..25)) {
        let mut stage = Stage::new();
        before.iter().for_each(|op| stage.run(op));
        KINDS.into_iter().for_each(|kind| stage.list(kind));
        stage.finish();
        after.iter().for_each(|op| stage.run(op));
        KINDS.into_iter().for_each(|kind| stage.run(&Op::Resume(kind)));
        stage.flush();
        prop_assert_eq!(&stage.doubted, &BTreeSet::new());
        prop_assert_eq!(stage.texts(), expected(&stage.world));

        let mut fresh = Stage::new();
        fresh.world = stage.world.clone();
        KINDS.into_iter().rev().for_each(|kind| fresh.list(kind));
        fresh.finish();
        fresh.flush();
        prop_assert_eq!(&fresh.facts, &stage.facts);
    }
}
