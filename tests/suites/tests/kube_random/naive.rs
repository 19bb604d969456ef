//! An independent implementation: computes from all objects of a cluster, read at once, what a client in
//! namespace `watch` must receive. It computes everything again each time, has no index, and shares no code
//! with the product.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;
use tributary_suites::kube::KubeApi;
use tributary_suites::kube::marks::NAMESPACE;

/// By xDS cluster: its endpoints as `address:port wN locality HEALTH`.
pub(crate) type Answers = BTreeMap<String, BTreeSet<String>>;

/// All relevant objects of a cluster, by kind.
pub(crate) struct Cluster {
    selected: BTreeSet<String>,
    services: Vec<Value>,
    slices: Vec<Value>,
    pods: Vec<Value>,
    nodes: Vec<Value>,
    workloads: Vec<Value>,
    entries: Vec<Value>,
}

/// An endpoint before it is formatted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    target: String,
    health: &'static str,
    /// Decides between two rows of one target and health.
    source: String,
    weight: u64,
    locality: String,
}

impl Cluster {
    /// Reads all objects from the API server.
    pub(crate) async fn read(api: &KubeApi) -> Result<Self> {
        let namespaces = api.list("v1", "Namespace").await?;
        let on = |namespace: &&Value| namespace["metadata"]["labels"]["discovery"] == "enabled";
        let pods = api.list("v1", "Pod").await?;
        Ok(Self {
            selected: namespaces.iter().filter(on).map(|one| text(&one["metadata"]["name"])).collect(),
            services: api.list("v1", "Service").await?,
            slices: api.list("discovery.k8s.io/v1", "EndpointSlice").await?,
            // Ended pods do not count.
            pods: pods.into_iter().filter(has_not_ended).collect(),
            nodes: api.list("v1", "Node").await?,
            workloads: api.list("networking.istio.io/v1", "WorkloadEntry").await?,
            entries: api.list("networking.istio.io/v1", "ServiceEntry").await?,
        })
    }

    /// Returns what the client must receive.
    pub(crate) fn answers(&self) -> Result<Answers> {
        let mut answers = Answers::new();
        let ours = |object: &&Value| self.is_selected(object) && namespace(object) != NAMESPACE;
        for service in self.services.iter().filter(ours).filter(|service| is_seen(service)) {
            let host = format!("{}.{}.svc.cluster.local", name(service), namespace(service));
            let ports = list(&service["spec"]["ports"]);
            for port in ports {
                let rows = self.rows_of_service(service, port, ports.len() == 1)?;
                answers.insert(format!("outbound|{}||{host}", port["port"]), best(rows));
            }
        }
        for entry in self.entries.iter().filter(ours) {
            let spec = &entry["spec"];
            let rows = self.rows_of_entry(entry);
            for host in list(&spec["hosts"]) {
                answers.insert(format!("outbound|90||{}", text(host)), best(rows.clone()));
            }
        }
        Ok(answers)
    }

    /// Returns the objects that determine an xDS cluster, for the message of a failed test.
    pub(crate) fn about(&self, cluster: &str) -> String {
        let host = cluster.rsplit_once("||").map_or("", |(_, host)| host);
        let mut parts = host.split('.');
        let (service, of) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let label = "kubernetes.io/service-name";
        let service = self.services.iter().filter(|one| name(one) == service && namespace(one) == of);
        let slices = self.slices.iter().filter(|one| {
            namespace(one) == of && host.starts_with(&format!("{}.", text(&one["metadata"]["labels"][label])))
        });
        let pods = self.pods.iter().filter(|one| namespace(one) == of);
        let parts = |one: &Value| {
            let labels = &one["metadata"]["labels"];
            let status = (&one["status"]["phase"], &one["status"]["podIP"]);
            format!(
                "{} {} {labels} {:?} {} {} {}",
                one["kind"],
                one["metadata"]["name"],
                status,
                one["spec"]["ports"],
                one["ports"],
                one["endpoints"]
            )
        };
        service.chain(slices).chain(pods).map(parts).collect::<Vec<_>>().join("\n    ")
    }

    fn is_selected(&self, object: &Value) -> bool {
        self.selected.contains(&namespace(object))
    }

    fn rows_of_service(&self, service: &Value, port: &Value, only: bool) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let label = "kubernetes.io/service-name";
        let own = |slice: &&Value| {
            slice["metadata"]["labels"][label] == name(service) && namespace(slice) == namespace(service)
        };
        for slice in self.slices.iter().filter(own) {
            let ports = list(&slice["ports"]);
            // If both sides have one port, they match whatever their names.
            let alone = only && ports.len() == 1;
            for number in ports.iter().filter(|one| alone || one["name"] == port["name"]) {
                for endpoint in list(&slice["endpoints"]) {
                    rows.extend(self.row(service, slice, endpoint, &number["port"])?);
                }
            }
        }
        let Some(selector) = service["spec"]["selector"].as_object() else { return Ok(rows) };
        let target = if port["targetPort"].is_null() { &port["port"] } else { &port["targetPort"] };
        for workload in self.workloads_with(&namespace(service), selector) {
            let own = &workload["spec"]["ports"][text(&port["name"])];
            rows.push(row_of_workload(workload, if own.is_null() { target } else { own }));
        }
        Ok(rows)
    }

    fn row(&self, service: &Value, slice: &Value, endpoint: &Value, port: &Value) -> Result<Option<Row>> {
        let address = text(&endpoint["addresses"][0]);
        let pod = if endpoint["targetRef"]["kind"] == "Pod" {
            let wanted = &endpoint["targetRef"]["name"];
            let own = |pod: &&Value| namespace(pod) == namespace(slice) && pod["metadata"]["name"] == *wanted;
            let Some(found) = self.pods.iter().find(own) else { return Ok(None) };
            Some(found)
        } else {
            self.pod_at(&namespace(slice), &address)
        };
        let conditions = &endpoint["conditions"];
        let sessions = !service["metadata"]["labels"]["istio.io/persistent-session"].is_null();
        let health = match (&conditions["ready"], &conditions["terminating"], &conditions["serving"]) {
            (Value::Bool(false), Value::Bool(true), Value::Bool(false)) => return Ok(None),
            (Value::Bool(false), Value::Bool(true), _) if sessions => "DRAINING",
            (Value::Bool(false), Value::Bool(true), _) => return Ok(None),
            (Value::Bool(false), _, _) => "UNHEALTHY",
            _ => "",
        };
        let node = match pod {
            Some(pod) => &pod["spec"]["nodeName"],
            None => &endpoint["nodeName"],
        };
        let labelled =
            pod.map(|pod| text(&pod["metadata"]["labels"]["topology.istio.io/locality"]).replace('.', "/"));
        let zone =
            Some(text(&endpoint["zone"])).filter(|zone| !zone.is_empty()).map(|zone| format!("/{zone}"));
        let labelled =
            [labelled, Some(self.place_of(node)), zone].into_iter().flatten().find(|one| !one.is_empty());
        let port = port.as_u64().context("a slice's port has a number")?;
        Ok(Some(Row {
            target: format!("{address}:{port}"),
            health,
            source: name(slice),
            weight: 1,
            locality: labelled.unwrap_or_default(),
        }))
    }

    /// Returns the only pod of the namespace with this address.
    fn pod_at(&self, of: &str, address: &str) -> Option<&Value> {
        let own = |pod: &&Value| namespace(pod) == of && is_alive(pod) && pod["status"]["podIP"] == address;
        let mut found = self.pods.iter().filter(own).filter(|pod| pod["spec"]["hostNetwork"] != true);
        let first = found.next()?;
        if found.next().is_some() { None } else { Some(first) }
    }

    fn place_of(&self, node: &Value) -> String {
        let Some(node) = self.nodes.iter().find(|one| one["metadata"]["name"] == *node) else {
            return String::new();
        };
        let part = |name: &str| text(&node["metadata"]["labels"][name]);
        let place =
            format!("{}/{}", part("topology.kubernetes.io/region"), part("topology.kubernetes.io/zone"));
        if place == "/" { String::new() } else { place }
    }

    fn rows_of_entry(&self, entry: &Value) -> Vec<Row> {
        let spec = &entry["spec"];
        let port = &spec["ports"][0];
        let target = if port["targetPort"].is_null() { &port["number"] } else { &port["targetPort"] };
        let empty = serde_json::Map::new();
        let selector = spec["workloadSelector"]["labels"].as_object().unwrap_or(&empty);
        let mut rows = Vec::new();
        for workload in self.workloads_with(&namespace(entry), selector) {
            let own = &workload["spec"]["ports"][text(&port["name"])];
            rows.push(row_of_workload(workload, if own.is_null() { target } else { own }));
        }
        let own = |pod: &&Value| namespace(pod) == namespace(entry) && is_alive(pod);
        for pod in self.pods.iter().filter(own).filter(|pod| has(&pod["metadata"]["labels"], selector)) {
            let ready = list(&pod["status"]["conditions"])
                .iter()
                .any(|c| c["type"] == "Ready" && c["status"] == "True");
            let labelled = text(&pod["metadata"]["labels"]["topology.istio.io/locality"]).replace('.', "/");
            let place = self.place_of(&pod["spec"]["nodeName"]);
            rows.push(Row {
                target: format!("{}:{target}", text(&pod["status"]["podIP"])),
                health: if ready { "" } else { "UNHEALTHY" },
                source: name(pod),
                weight: 1,
                locality: if labelled.is_empty() { place } else { labelled },
            });
        }
        rows
    }

    fn workloads_with<'a>(
        &'a self,
        of: &str,
        selector: &'a serde_json::Map<String, Value>,
    ) -> impl Iterator<Item = &'a Value> {
        let all = self.workloads.iter().filter(|one| self.is_selected(one));
        let of = of.to_owned();
        all.filter(move |one| namespace(one) == of && has(&one["spec"]["labels"], selector))
    }
}

fn row_of_workload(workload: &Value, port: &Value) -> Row {
    let spec = &workload["spec"];
    Row {
        target: format!("{}:{port}", text(&spec["address"])),
        health: "",
        source: name(workload),
        weight: spec["weight"].as_u64().unwrap_or(1),
        locality: text(&spec["locality"]),
    }
}

/// Returns one row for each target: the healthiest.
fn best(mut rows: Vec<Row>) -> BTreeSet<String> {
    let rank = |row: &Row| ["", "DRAINING", "UNHEALTHY"].iter().position(|one| *one == row.health);
    rows.sort_by(|a, b| (&a.target, rank(a), &a.source).cmp(&(&b.target, rank(b), &b.source)));
    rows.dedup_by(|later, kept| later.target == kept.target);
    let written = |row: &Row| {
        let parts =
            [row.target.clone(), format!("w{}", row.weight), row.locality.clone(), row.health.to_owned()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    };
    rows.iter().map(written).collect()
}

/// Returns true if a client in namespace `watch` sees it.
fn is_seen(service: &Value) -> bool {
    let export = text(&service["metadata"]["annotations"]["networking.istio.io/exportTo"]);
    matches!(export.as_str(), "" | "*" | "watch")
}

fn has_not_ended(pod: &Value) -> bool {
    pod["status"]["phase"] != "Succeeded" && pod["status"]["phase"] != "Failed"
}

fn is_alive(pod: &Value) -> bool {
    !text(&pod["status"]["podIP"]).is_empty() && has_not_ended(pod)
}

fn has(labels: &Value, selector: &serde_json::Map<String, Value>) -> bool {
    !selector.is_empty() && selector.iter().all(|(key, value)| labels[key] == *value)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn name(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

fn namespace(object: &Value) -> String {
    text(&object["metadata"]["namespace"])
}
