//! Which route leads a host's requests to its endpoints, read from the route tables that a sidecar was sent.
//!
//! `explain` calls it for a connected client. What was sent is the only record of which of several services owns a
//! domain for this client, so nothing is computed again here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tributary_answer::ClusterName;
use tributary_descriptors::Decoder;
use tributary_model::{Catalog, Code, Hostname, PortNumber, TraceStep, Verdict};
use tributary_xds::answers::ResourceType;
use tributary_xds::session::{SentResource, SentView};

use super::explain::deliver_step;
use super::resources::{MAX_DECODED, sent};
use super::sessions::Found;

/// The route tables of one client; each is decoded once, when it is first looked at.
pub(super) struct RouteTables {
    sent: Vec<(SentView, Vec<SentResource>)>,
    decoder: Option<Decoder>,
    decoded: BTreeMap<String, Vec<VirtualHost>>,
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

impl RouteTables {
    /// Reads the names of the tables that a client was sent.
    pub(super) fn new(catalog: &Arc<Catalog>, found: &Found) -> Self {
        let sent = sent(catalog, found, Some(ResourceType::Route));
        Self { sent, decoder: Decoder::new().ok(), decoded: BTreeMap::new(), left: MAX_DECODED }
    }
    /// Returns the virtual host that takes requests for a host on a port; none if no table has the host.
    pub(super) fn step(&mut self, host: &Hostname, port: PortNumber) -> Option<TraceStep> {
        let table = port.to_string();
        let hosts = self.table(&table)?;
        let of = hosts.iter().find(|of| of.domains.iter().any(|domain| domain == host.as_str()))?;
        Some(step_of(of, &table, host, &ClusterName::new(port, host).to_string()))
    }
    fn table(&mut self, name: &str) -> Option<&[VirtualHost]> {
        if !self.decoded.contains_key(name) {
            let decoded = self.decode(name)?;
            self.decoded.insert(name.to_owned(), decoded);
        }
        self.decoded.get(name).map(Vec::as_slice)
    }
    fn decode(&mut self, name: &str) -> Option<Vec<VirtualHost>> {
        let mut all = self.sent.iter().flat_map(|(view, all)| all.iter().map(move |one| (view, one)));
        let (view, resource) = all.find(|(_, resource)| &*resource.name == name)?;
        let body = view.body(resource).filter(|body| body.len() <= self.left)?;
        self.left -= body.len();
        let table = self.decoder.as_ref()?.decode(ResourceType::Route.type_url(), &body);
        Some(virtual_hosts(&table))
    }
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
}
