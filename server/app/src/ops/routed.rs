//! Which route or listener leads to the endpoints of a host, read from what a sidecar was sent.
//!
//! `explain` and `why-not` call it for a connected client. What was sent is the only record of which of several services
//! owns a domain or an address for this client, so nothing is composed again here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tributary_answer::{ClientClass, ClusterName, leading_listeners};
use tributary_descriptors::Decoder;
use tributary_model::{Catalog, Code, Hostname, PortView, TraceStep, Verdict};
use tributary_xds::answers::ResourceType;
use tributary_xds::session::{SentResource, SentView};

use super::explain::deliver_step;
use super::resources::{MAX_DECODED, sent};
use super::sessions::Found;

/// Most listeners of a port that are decoded.
const MAX_LISTENERS: usize = 8;

/// The route tables and listeners of one client; a table is decoded once, when it is first looked at.
pub(super) struct SentTables {
    sent: Vec<(SentView, Vec<SentResource>)>,
    decoder: Option<Decoder>,
    tables: BTreeMap<String, Vec<VirtualHost>>,
    left: usize,
}

/// The domains of a virtual host and where its first route leads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct VirtualHost {
    name: String,
    domains: Vec<String>,
    /// The xDS cluster of its first route, if it names one.
    cluster: Option<String>,
}

impl SentTables {
    /// Reads the names of the tables and listeners that a client was sent.
    pub(super) fn new(catalog: &Arc<Catalog>, found: &Found) -> Self {
        let kinds = [ResourceType::Route, ResourceType::Listener];
        let sent = kinds.into_iter().flat_map(|kind| sent(catalog, found, Some(kind))).collect();
        Self { sent, decoder: Decoder::new().ok(), tables: BTreeMap::new(), left: MAX_DECODED }
    }
    /// Returns the virtual host that takes requests for `host` on a port of the service `served_by`, if a table has the
    /// host, and the listeners that should lead connections there and do not.
    pub(super) fn steps(
        &mut self,
        host: &Hostname,
        served_by: &Hostname,
        port: &PortView,
        class: &ClientClass,
    ) -> Vec<TraceStep> {
        let cluster = ClusterName::new(port.number, served_by).to_string();
        let listeners = leading_listeners(port, class);
        let lost = listeners.iter().take(MAX_LISTENERS).filter_map(|name| self.listener(name, &cluster));
        let lost: Vec<TraceStep> = lost.collect();
        self.route(host, port, &cluster).into_iter().chain(lost).collect()
    }
    fn route(&mut self, host: &Hostname, port: &PortView, cluster: &str) -> Option<TraceStep> {
        let table = port.number.to_string();
        let hosts = self.table(&table)?;
        let of = hosts.iter().find(|of| of.domains.iter().any(|domain| domain == host.as_str()))?;
        Some(step_of(of, &table, host, cluster))
    }
    /// Returns why a listener does not lead connections to an xDS cluster; `None` if it does, or if it is not known.
    fn listener(&mut self, name: &str, cluster: &str) -> Option<TraceStep> {
        let kind = ResourceType::Listener;
        if !self.sent.iter().any(|(_, all)| all.iter().any(|one| one.kind == kind)) {
            return None;
        }
        if !self.sent.iter().any(|(_, all)| all.iter().any(|one| one.kind == kind && &*one.name == name)) {
            let detail = format!("the client was not sent the listener {name}, which leads to {cluster}");
            return Some(deliver_step((Verdict::Warn, Code::NOT_DELIVERED, detail)));
        }
        let decoded = self.decode(kind, name)?;
        lost_step(name, cluster, &clusters(&decoded))
    }
    fn table(&mut self, name: &str) -> Option<&[VirtualHost]> {
        if !self.tables.contains_key(name) {
            let decoded = virtual_hosts(&self.decode(ResourceType::Route, name)?);
            self.tables.insert(name.to_owned(), decoded);
        }
        self.tables.get(name).map(Vec::as_slice)
    }
    fn decode(&mut self, kind: ResourceType, name: &str) -> Option<Value> {
        let mut all = self.sent.iter().flat_map(|(view, all)| all.iter().map(move |one| (view, one)));
        let (view, resource) = all.find(|(_, one)| one.kind == kind && &*one.name == name)?;
        let body = view.body(resource).filter(|body| body.len() <= self.left)?;
        self.left -= body.len();
        Some(self.decoder.as_ref()?.decode(kind.type_url(), &body))
    }
}

/// Returns the xDS clusters that a decoded listener names, each once.
fn clusters(listener: &Value) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut left = vec![listener];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("cluster").and_then(Value::as_str));
                left.extend(fields.values());
            }
            Value::Array(all) => left.extend(all),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

fn lost_step(name: &str, cluster: &str, found: &BTreeSet<&str>) -> Option<TraceStep> {
    if found.contains(cluster) {
        return None;
    }
    let others: Vec<&str> = found.iter().filter(|of| of.starts_with("outbound|")).copied().collect();
    let to = if others.is_empty() { "no service".to_owned() } else { others.join(", ") };
    let detail = format!("LDS {name}: connections go to {to}, not to {cluster}");
    Some(deliver_step((Verdict::Warn, Code::ROUTED_ELSEWHERE, detail)))
}

fn virtual_hosts(table: &Value) -> Vec<VirtualHost> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let host = |of: &Value| VirtualHost {
        name: text(&of["name"]),
        domains: of["domains"].as_array().into_iter().flatten().map(text).collect(),
        cluster: of["routes"][0]["route"]["cluster"].as_str().map(str::to_owned),
    };
    table["virtual_hosts"].as_array().into_iter().flatten().map(host).collect()
}

fn step_of(of: &VirtualHost, table: &str, host: &Hostname, expected: &str) -> TraceStep {
    let leads_here = of.cluster.as_deref().is_none_or(|cluster| cluster == expected);
    let (verdict, code) =
        if leads_here { (Verdict::Pass, Code::ROUTED) } else { (Verdict::Warn, Code::ROUTED_ELSEWHERE) };
    let to = of.cluster.as_deref().unwrap_or("the address that each request names");
    let detail = format!("RDS {table}, virtual host {}: requests for {host} go to {to}", of.name);
    deliver_step((verdict, code, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_host_of_another_service_is_a_warning() {
        let table = serde_json::json!({"name": "80", "virtual_hosts": [
            {"name": "pay.shop:80", "domains": ["pay.shop", "pay"],
             "routes": [{"route": {"cluster": "outbound|80||pay.shop"}}]},
            {"name": "any:80", "domains": ["*.shop"], "routes": [{"route": {"cluster_header": ":authority"}}]},
        ]});
        let hosts = virtual_hosts(&table);
        let host = Hostname::new("pay.shop").unwrap();
        let step = step_of(&hosts[0], "80", &host, "outbound|80||pay.shop");
        assert_eq!((step.verdict, step.code), (Verdict::Pass, Code::ROUTED));
        assert!(step.detail.contains("RDS 80, virtual host pay.shop:80"), "{}", step.detail);
        let other = step_of(&hosts[0], "80", &host, "outbound|80||old.shop");
        assert_eq!((other.verdict, other.code), (Verdict::Warn, Code::ROUTED_ELSEWHERE));
        assert_eq!((hosts[1].cluster.as_ref(), hosts[1].domains.len()), (None, 1));
        assert_eq!(step_of(&hosts[1], "80", &host, "x").verdict, Verdict::Pass, "it names no cluster");
    }

    #[test]
    fn listener_of_another_service_is_a_warning() {
        let listener = serde_json::json!({"name": "10.0.0.1_80", "filter_chains": [
            {"filters": [{"typed_config": {"cluster": "outbound|80||old.shop", "stat_prefix": "x"}}]},
            {"filters": [{"typed_config": {"cluster": "PassthroughCluster"}}]},
        ]});
        let found = clusters(&listener);
        assert!(lost_step("10.0.0.1_80", "outbound|80||old.shop", &found).is_none());
        let lost = lost_step("10.0.0.1_80", "outbound|80||pay.shop", &found).unwrap();
        assert_eq!((lost.verdict, lost.code), (Verdict::Warn, Code::ROUTED_ELSEWHERE));
        assert_eq!(
            lost.detail,
            "LDS 10.0.0.1_80: connections go to outbound|80||old.shop, not to outbound|80||pay.shop"
        );
    }
}
