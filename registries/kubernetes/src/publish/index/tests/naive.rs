//! Naive computation of a cluster's facts from the raw objects, which shares no join, reference or derivation with the
//! product. Facts are compared as texts.

use std::collections::BTreeMap;

use serde_json::Value;
use tributary_model::{Fact, Health};

/// All objects by kind and name, as JSON.
pub(super) type World = BTreeMap<(&'static str, String), Value>;
/// Facts by key, as texts.
pub(super) type Texts = BTreeMap<String, String>;

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
fn label<'v>(value: &'v Value, key: &str) -> &'v str {
    value
        .pointer("/metadata/labels")
        .and_then(|labels| labels.get(key))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(super) fn expected(world: &World) -> Texts {
    let mut out = Texts::new();
    for ((kind, name), object) in world {
        match *kind {
            "Service" => drop(out.insert(format!("service {name}"), service(world, object))),
            "EndpointSlice"
                if text(object, "/addressType") != "FQDN"
                    && !label(object, "kubernetes.io/service-name").is_empty() =>
            {
                let key = format!("group {name} of {}", label(object, "kubernetes.io/service-name"));
                out.insert(key, group(world, object));
                let waiting = waiting(world, object);
                if !waiting.is_empty() {
                    let service = label(object, "kubernetes.io/service-name");
                    out.insert(format!("waiting {name} of {service}"), waiting);
                }
            }
            "Pod" if alive(object) => drop(out.insert(format!("workload {name}"), workload(world, object))),
            _ => {}
        }
    }
    out
}

fn service(world: &World, object: &Value) -> String {
    let annotation = |object: &Value| {
        let key = "networking.istio.io/traffic-distribution";
        object
            .pointer("/metadata/annotations")
            .and_then(|a| a.get(key))
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let own = annotation(object);
    let traffic = own.or_else(|| annotation(world.get(&("Namespace", "shop".to_owned()))?));
    let traffic = match traffic.as_deref() {
        Some("PreferClose") => "SameZone",
        _ => "Any",
    };
    format!("{traffic} sessions {}", sessions(object))
}
fn sessions(service: &Value) -> bool {
    !label(service, "istio.io/persistent-session").is_empty()
}

fn group(world: &World, slice: &Value) -> String {
    let owner = world.get(&("Service", label(slice, "kubernetes.io/service-name").to_owned()));
    let drains = owner.is_some_and(sessions);
    let mut out = Vec::new();
    for endpoint in slice["endpoints"].as_array().unwrap() {
        let ip = text(endpoint, "/addresses/0");
        let target = text(endpoint, "/targetRef/name");
        let pod = if target.is_empty() {
            let mut at = pods(world).filter(|pod| {
                alive(pod) && pod["spec"]["hostNetwork"] != true && text(pod, "/status/podIP") == ip
            });
            let first = at.next();
            if at.next().is_some() { None } else { first }
        } else {
            match world.get(&("Pod", target.to_owned())) {
                Some(pod) => Some(pod),
                None => continue,
            }
        };
        let condition = |name: &str| endpoint["conditions"].get(name).and_then(Value::as_bool);
        let health = match (condition("ready"), condition("terminating"), condition("serving")) {
            (None | Some(true), ..) => Health::Healthy,
            (_, Some(true), serving) if drains && serving != Some(false) => Health::Draining,
            (_, Some(true), _) => Health::Terminating,
            _ => Health::Unhealthy,
        };
        let node = pod.map_or_else(|| text(endpoint, "/nodeName"), |pod| text(pod, "/spec/nodeName"));
        let mut zone = zone_of(world, node);
        if zone.is_empty() {
            zone = text(endpoint, "/zone").to_owned();
        }
        let (who, app) =
            pod.map_or(("", ""), |pod| (text(pod, "/spec/serviceAccountName"), label(pod, "app")));
        let origin = pod.map_or("", |pod| text(pod, "/metadata/name"));
        out.push(format!("{ip} {} {node}/{zone} {who} {app} {origin}", health.as_str()));
    }
    out.join("; ")
}
/// Returns the addresses whose pod does not exist.
fn waiting(world: &World, slice: &Value) -> String {
    let endpoints = slice["endpoints"].as_array().unwrap().iter();
    let unseen = endpoints.filter_map(|endpoint| {
        let target = text(endpoint, "/targetRef/name");
        let is_seen = target.is_empty() || world.contains_key(&("Pod", target.to_owned()));
        (!is_seen).then(|| format!("{} {target}", text(endpoint, "/addresses/0")))
    });
    unseen.collect::<Vec<_>>().join("; ")
}
fn pods(world: &World) -> impl Iterator<Item = &Value> {
    world.iter().filter(|((kind, _), _)| *kind == "Pod").map(|(_, object)| object)
}
fn zone_of(world: &World, node: &str) -> String {
    world
        .get(&("Node", node.to_owned()))
        .map_or(String::new(), |node| label(node, "topology.kubernetes.io/zone").to_owned())
}

fn alive(pod: &Value) -> bool {
    text(pod, "/status/phase") != "Failed" && !text(pod, "/status/podIP").is_empty()
}
fn workload(world: &World, pod: &Value) -> String {
    let health = if !text(pod, "/metadata/deletionTimestamp").is_empty() {
        Health::Terminating
    } else if text(pod, "/status/conditions/0/status") == "True" {
        Health::Healthy
    } else {
        Health::Unhealthy
    };
    let (name, ip, node) =
        (text(pod, "/metadata/name"), text(pod, "/status/podIP"), text(pod, "/spec/nodeName"));
    let claims = pods(world)
        .filter(|p| alive(p) && p["spec"]["hostNetwork"] != true && text(p, "/status/podIP") == ip)
        .count();
    let alone = claims == 1 && pod["spec"]["hostNetwork"] != true;
    let mut listing: Vec<&str> = Vec::new();
    for ((kind, _), slice) in world {
        let service = label(slice, "kubernetes.io/service-name");
        let endpoints = slice.pointer("/endpoints").and_then(Value::as_array).into_iter().flatten();
        let fits = |endpoint: &Value| {
            let target = text(endpoint, "/targetRef/name");
            target == name || (target.is_empty() && alone && text(endpoint, "/addresses/0") == ip)
        };
        let names = text(slice, "/addressType") == "FQDN";
        if *kind == "EndpointSlice" && !service.is_empty() && !names && endpoints.into_iter().any(fits) {
            listing.push(service);
        }
    }
    listing.sort_unstable();
    listing.dedup();
    let zone = zone_of(world, node);
    format!(
        "{ip} {} {node}/{zone} {} {} [{}]",
        health.as_str(),
        text(pod, "/spec/serviceAccountName"),
        label(pod, "app"),
        listing.join(" ")
    )
}

/// Formats a published fact in the same way.
pub(super) fn shown(fact: &Fact) -> (String, String) {
    let account = |identity: Option<&tributary_model::Identity>| {
        identity.map(|i| i.as_str().rsplit('/').next().unwrap_or_default().to_owned()).unwrap_or_default()
    };
    let topology = |topology: &tributary_model::Topology| {
        let node = topology.node.as_ref().map_or("", |node| node.as_str());
        format!("{node}/{}", topology.locality.zone)
    };
    match fact {
        Fact::Service(key, declaration) => {
            let attributes = &declaration.attributes;
            (
                format!("service {}", key.object.name),
                format!("{:?} sessions {}", attributes.traffic, attributes.persistent_sessions),
            )
        }
        Fact::Group(key, group) => {
            let one = |address: &tributary_model::Address| {
                let origin = address.origin.as_ref().map_or("", |origin| &*origin.object.name);
                let app = address.labels.get("app").unwrap_or_default();
                format!(
                    "{} {} {} {} {app} {origin}",
                    address.ip().unwrap(),
                    address.health.as_str(),
                    topology(&address.topology),
                    account(address.identity.as_ref())
                )
            };
            let addresses: Vec<String> = group.addresses.iter().map(one).collect();
            (format!("group {} of {}", key.object.name, key.declaration.name), addresses.join("; "))
        }
        Fact::Waiting(key, all) => {
            let all: Vec<String> =
                all.iter().map(|one| format!("{} {}", one.ip, one.waits_for.name)).collect();
            (format!("waiting {} of {}", key.object.name, key.declaration.name), all.join("; "))
        }
        Fact::Workload(key, w) => {
            let tributary_model::WorkloadAddress::Ip(ip) = w.addresses[0] else { panic!("{w:?}") };
            let listed: Vec<&str> =
                w.listed.iter().map(|key| key.host.as_str().split('.').next().unwrap_or_default()).collect();
            let text = format!(
                "{ip} {} {} {} {} [{}]",
                w.health.as_str(),
                topology(&w.topology),
                account(w.identity.as_ref()),
                w.labels.get("app").unwrap_or_default(),
                listed.join(" ")
            );
            (format!("workload {}", key.name), text)
        }
        other => panic!("{other:?}"),
    }
}
