//! What pilot-discovery 1.30.3 made of its own resources, for each EnvoyFilter of the recorded worlds: the same patches over the
//! same resources give the same. `tests/suites/facts/ef_*.json` has the resources without filters, the filters, and for each
//! client the changes; `ef_differences.tsv` has each difference with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct World {
    base: BTreeMap<String, BTreeMap<String, Json>>,
    filters: Vec<Json>,
    cases: BTreeMap<String, Case>,
}

#[derive(Deserialize)]
struct Case {
    base: String,
    client: Client,
    changes: BTreeMap<String, Option<Change>>,
}

#[derive(Deserialize)]
struct Client {
    namespace: String,
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    version: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, Json>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    Added(Json),
    /// A path, and the value there, or none if it is gone.
    Changed(Vec<Vec<Json>>),
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/suites/facts")
}

fn kind_of(resource: &str) -> (ApplyTo, &str) {
    let (kind, name) = resource.split_once(' ').unwrap();
    let kind = match kind {
        "cds" => ApplyTo::Cluster,
        "lds" => ApplyTo::Listener,
        _ => ApplyTo::RouteConfiguration,
    };
    (kind, name)
}

/// Returns a message in the form in which results are compared.
fn normal(of: ApplyTo, value: &Json) -> Json {
    decoded(of, &encoded(of, value))
}

fn apply(value: &mut Json, change: &[Json]) {
    let [path, now @ ..] = change else { panic!("an empty change") };
    let (last, path) = path.as_array().unwrap().split_last().unwrap();
    let mut at = value;
    for step in path {
        at = match step {
            Json::String(name) => &mut at[name.as_str()],
            index => &mut at[index.as_u64().unwrap() as usize],
        };
    }
    match (last, now) {
        (Json::String(name), []) => drop(at.as_object_mut().unwrap().remove(name)),
        (Json::String(name), [now, ..]) => at[name.as_str()] = now.clone(),
        (index, [now, ..]) => at[index.as_u64().unwrap() as usize] = now.clone(),
        _ => panic!("an item that is gone"),
    }
}

impl Case {
    fn proxy(&self) -> ProxyFacts {
        let version = self.client.version.as_deref().unwrap_or("1.30.3");
        let text = |(key, value): (&String, &Json)| Some((key.as_str().into(), value.as_str()?.into()));
        let mut metadata: Vec<(Box<str>, Box<str>)> = self.client.metadata.iter().filter_map(text).collect();
        metadata
            .extend([("ISTIO_VERSION".into(), version.into()), ("CLUSTER_ID".into(), "Kubernetes".into())]);
        metadata.push(("NAMESPACE".into(), self.client.namespace.as_str().into()));
        metadata.sort();
        ProxyFacts { version: (!version.is_empty()).then(|| version.into()), metadata: metadata.into() }
    }
    fn side(&self, name: &str) -> Side {
        let own = self.client.addresses.first().map_or("none", String::as_str);
        // the recording replaces the client's own address
        let is_own = name.starts_with("SELF_") || name.starts_with(&format!("{own}_"));
        match name == "virtualInbound" || is_own {
            true => Side::Inbound,
            false => Side::Outbound,
        }
    }
    /// Returns the resources that pilot-discovery made.
    fn expected(&self, base: &BTreeMap<String, Json>) -> BTreeMap<String, Json> {
        let mut out = base.clone();
        for (name, change) in &self.changes {
            match change {
                None => drop(out.remove(name)),
                Some(Change::Added(value)) => drop(out.insert(name.clone(), value.clone())),
                Some(Change::Changed(all)) => {
                    let value = out.get_mut(name).unwrap();
                    all.iter().for_each(|change| apply(value, change));
                }
            }
        }
        out.iter().map(|(name, value)| (name.clone(), normal(kind_of(name).0, value))).collect()
    }
    /// Returns the resources that the patches make.
    fn made(&self, base: &BTreeMap<String, Json>, patches: Option<&Patches>) -> BTreeMap<String, Json> {
        let mut out = BTreeMap::new();
        for (key, value) in base {
            let (of, name) = kind_of(key);
            let body = encoded(of, value);
            let outcome = patches.map_or(Outcome::Same, |patches| match of {
                ApplyTo::Cluster => patches.cluster(name, &body),
                ApplyTo::Listener => patches.listener(name, self.side(name), &body),
                _ => patches.table(name, Side::Outbound, &body),
            });
            match outcome {
                Outcome::Same => drop(out.insert(key.clone(), decoded(of, &body))),
                Outcome::Changed(body) => drop(out.insert(key.clone(), decoded(of, &body))),
                Outcome::Removed => {}
            }
        }
        for (of, kind, added) in patches.into_iter().flat_map(|patches| {
            [
                (ApplyTo::Cluster, "cds", patches.added_clusters()),
                (ApplyTo::Listener, "lds", patches.added_listeners()),
            ]
        }) {
            for one in added {
                out.entry(format!("{kind} {}", one.name)).or_insert_with(|| decoded(of, &one.body));
            }
        }
        out
    }
}

/// Returns the cases whose resources differ, with the names of these.
fn differing(world: &str) -> BTreeSet<(String, String)> {
    let text = std::fs::read_to_string(folder().join(format!("{world}.json"))).unwrap();
    let world: World = serde_json::from_str(&text).unwrap();
    let documents: Vec<String> = world.filters.iter().map(|filter| format!("---\n{filter}\n")).collect();
    let catalog = mk_catalog(&documents.concat());
    let mut out = BTreeSet::new();
    for (name, case) in &world.cases {
        let namespace = Namespace::new(&case.client.namespace).unwrap();
        let labels: Labels = case.client.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let of = filters_of(&catalog, ClientKind::Sidecar, Some(&namespace), &labels).patches(&case.proxy());
        let patches = of.map(|of| Patches::new(&of).unwrap());
        let base = &world.base[&case.base];
        let (expected, made) = (case.expected(base), case.made(base, patches.as_ref()));
        let names: BTreeSet<&String> = expected.keys().chain(made.keys()).collect();
        for resource in names.into_iter().filter(|name| expected.get(*name) != made.get(*name)) {
            if std::env::var_os("SHOW").is_some() {
                println!(
                    "== {name} {resource}\n  want {:?}\n  have {:?}",
                    expected.get(resource),
                    made.get(resource)
                );
            }
            out.insert((name.clone(), resource.clone()));
        }
    }
    out
}

/// Compares a world with its listed differences, each with a reason.
fn same_but_for_listed_differences(world: &str) {
    let text = std::fs::read_to_string(folder().join("ef_differences.tsv")).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [of, case, resource, reason] = cells[..] else { panic!("four cells: {line:?}") };
        assert!(!reason.is_empty(), "no reason: {line:?}");
        (of, (case.to_owned(), resource.to_owned()))
    });
    let listed: BTreeSet<_> = rows.filter(|(of, _)| *of == world).map(|(_, row)| row).collect();
    let found = differing(world);
    let (more, less): (Vec<_>, Vec<_>) =
        (found.difference(&listed).collect(), listed.difference(&found).collect());
    assert!(more.is_empty() && less.is_empty(), "not listed: {more:#?}\nnot there: {less:#?}");
}

#[test]
fn clusters_are_patched_as_recorded() {
    same_but_for_listed_differences("ef_cluster");
}

#[test]
fn tables_are_patched_as_recorded() {
    same_but_for_listed_differences("ef_route");
}

#[test]
fn filters_are_patched_as_recorded() {
    same_but_for_listed_differences("ef_filter");
}

#[test]
fn listeners_are_patched_as_recorded() {
    same_but_for_listed_differences("ef_listener");
}

#[test]
fn matches_are_as_recorded() {
    same_but_for_listed_differences("ef_match");
}

#[test]
fn filters_are_chosen_as_recorded() {
    same_but_for_listed_differences("ef_choice");
}

#[test]
fn listeners_with_own_ports_are_patched_as_recorded() {
    same_but_for_listed_differences("ef_none");
}

#[test]
fn blocking_tables_are_patched_as_recorded() {
    same_but_for_listed_differences("ef_registry_only");
}

#[test]
fn resources_that_envoy_accepts_break_no_rule() {
    let mut checked = 0;
    for world in ["ef_cluster", "ef_route", "ef_filter", "ef_listener", "ef_none", "ef_registry_only"] {
        let text = std::fs::read_to_string(folder().join(format!("{world}.json"))).unwrap();
        let world: World = serde_json::from_str(&text).unwrap();
        for (name, value) in world.base.values().flatten() {
            let (of, _) = kind_of(name);
            let broken = Types::shared().unwrap().check(of.message(), &encoded(of, value), true);
            assert_eq!(broken, Ok(()), "{name}");
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}
