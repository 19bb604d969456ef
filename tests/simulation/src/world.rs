//! What is true: the clusters, their services and endpoints, and when each of them came and went.
//!
//! The plan changes it, and it passes each change on to the API server of the cluster. Every address exists once and is never used
//! again, so that an address in a catalog names the cluster, its incarnation and the endpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;
use tributary_scripted_api::{ApiServer, Kind};

use crate::bugs::Bug;
use crate::dice::Dice;
use crate::site::{FrozenSites, Grant, Site};

/// Name of the config cluster.
pub const HOME: &str = "home";
/// Credential of the config cluster.
pub const HOME_TOKEN: &str = "home-0";
/// Namespace of the control plane.
pub const SYSTEM: &str = "tributary-system";
/// Namespace that the mesh configuration selects.
pub const SHOP: &str = "shop";
/// Namespace that it does not select: none of its objects may ever be served.
pub const HIDDEN: &str = "hidden";

const fn core(plural: &'static str, kind: &'static str, namespaced: bool) -> Kind {
    Kind { group: "", version: "v1", plural, kind, namespaced }
}

/// Kinds of every cluster.
pub const KINDS: [Kind; 8] = [
    core("namespaces", "Namespace", false),
    core("services", "Service", true),
    core("pods", "Pod", true),
    core("nodes", "Node", false),
    core("configmaps", "ConfigMap", true),
    core("secrets", "Secret", true),
    Kind {
        group: "discovery.k8s.io",
        version: "v1",
        plural: "endpointslices",
        kind: "EndpointSlice",
        namespaced: true,
    },
    Kind { group: "coordination.k8s.io", version: "v1", plural: "leases", kind: "Lease", namespaced: true },
];

/// Kinds whose answers prove that an endpoint came or went.
pub const ENDPOINT_KINDS: [&str; 3] = ["services", "endpointslices", "pods"];

/// Life of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    /// Host of its service.
    pub host: String,
    /// Number of the cluster's incarnation that it belongs to.
    pub incarnation: u32,
    /// When it was created.
    pub created: Instant,
    /// When it was deleted.
    pub deleted: Option<Instant>,
}

/// One cluster.
#[derive(Debug)]
pub struct ClusterTruth {
    /// Name.
    pub name: String,
    /// API server.
    pub site: Arc<Site>,
    number: u8,
    /// Number of the incarnation that answers.
    pub incarnation: u32,
    /// Incarnation that the operator accepts; another one must not be served.
    pub accepted: u32,
    /// Endpoints by service, of the incarnation that answers.
    pub services: BTreeMap<String, BTreeSet<IpAddr>>,
    /// All addresses ever, by address.
    pub lives: BTreeMap<IpAddr, Life>,
    next: u16,
    /// Endpoints with a pod.
    pods: BTreeSet<IpAddr>,
    /// Incarnation that does not answer.
    other: Option<Incarnation>,
    /// Whether a credential may not read every kind.
    pub is_restricted: bool,
    /// Since when every credential may.
    pub unrestricted: Instant,
    /// Since when the server has refused the credential in use, without another change.
    pub refused_since: Option<Instant>,
}

/// Content of a cluster that answers at the same address as another one.
#[derive(Debug)]
struct Incarnation {
    number: u32,
    server: ApiServer,
    services: BTreeMap<String, BTreeSet<IpAddr>>,
    pods: BTreeSet<IpAddr>,
}

impl ClusterTruth {
    /// Creates a cluster with a namespace of each kind and without services.
    #[must_use]
    pub fn new(name: &str, number: u8, dice: Dice, shared: (FrozenSites, Option<Bug>)) -> Self {
        let site = Site::new(name, &KINDS, dice, shared);
        let mut truth = Self {
            name: name.to_owned(),
            site,
            number,
            incarnation: 0,
            accepted: 0,
            services: BTreeMap::new(),
            lives: BTreeMap::new(),
            next: 1,
            pods: BTreeSet::new(),
            other: None,
            is_restricted: false,
            unrestricted: Instant::now(),
            refused_since: None,
        };
        truth.found();
        truth
    }
    /// Writes the objects that every incarnation has.
    fn found(&mut self) {
        let uid = self.uid();
        let server = &self.site.server;
        server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": uid}}));
        server.put("namespaces", json!({"metadata": {"name": SHOP, "labels": {"mesh": "on"}}}));
        server.put("namespaces", json!({"metadata": {"name": HIDDEN}}));
        server.put("namespaces", json!({"metadata": {"name": SYSTEM, "labels": {"mesh": "on"}}}));
        let labels = json!({"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "a"});
        server.put("nodes", json!({"metadata": {"name": "node-0", "labels": labels}}));
        if self.name == HOME {
            let mesh = "discoverySelectors: [{matchLabels: {mesh: 'on'}}]";
            let metadata = json!({"namespace": SYSTEM, "name": "istio"});
            server.put("configmaps", json!({"metadata": metadata, "data": {"mesh": mesh}}));
        }
        self.put_service(HIDDEN, "secret");
        let ip = self.new_ip("secret", HIDDEN);
        self.put_slice(HIDDEN, "secret", &[ip].into());
    }
    /// Returns the UID of the incarnation that answers.
    #[must_use]
    pub fn uid(&self) -> String {
        format!("uid-{}-{}", self.name, self.incarnation)
    }
    fn new_ip(&mut self, service: &str, namespace: &str) -> IpAddr {
        let [high, low] = self.next.to_be_bytes();
        self.next += 1;
        let ip = IpAddr::V4(Ipv4Addr::new(10, self.number, high, low));
        let (incarnation, created) = (self.incarnation, Instant::now());
        let host = host(service, namespace);
        self.lives.insert(ip, Life { host, incarnation, created, deleted: None });
        ip
    }
    fn put_service(&self, namespace: &str, service: &str) {
        let metadata = json!({
            "name": service, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z",
        });
        let port = json!({"name": "tcp", "port": 80, "protocol": "TCP"});
        let spec = json!({"clusterIP": "10.96.0.1", "type": "ClusterIP", "ports": [port]});
        self.site.server.put("services", json!({"metadata": metadata, "spec": spec}));
    }
    fn put_slice(&self, namespace: &str, service: &str, ips: &BTreeSet<IpAddr>) {
        self.site.server.put("endpointslices", self.slice(namespace, service, ips));
    }
    fn slice(&self, namespace: &str, service: &str, ips: &BTreeSet<IpAddr>) -> Value {
        let endpoint = |ip: &IpAddr| {
            let mut endpoint = json!({"addresses": [ip.to_string()], "conditions": {"ready": true}});
            if self.pods.contains(ip) {
                let target = json!({"kind": "Pod", "name": pod(*ip), "namespace": namespace});
                endpoint["targetRef"] = target;
            }
            endpoint
        };
        json!({
            "metadata": {
                "name": service, "namespace": namespace, "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "ports": [{"name": "tcp", "port": 8080, "protocol": "TCP"}],
            "endpoints": ips.iter().map(endpoint).collect::<Vec<_>>(),
        })
    }
    /// Adds a service without endpoints, unless it exists.
    pub fn add_service(&mut self, service: &str) {
        if !self.services.contains_key(service) {
            self.services.insert(service.to_owned(), BTreeSet::new());
            self.put_service(SHOP, service);
        }
    }
    /// Adds an endpoint to a service, perhaps with a pod.
    pub fn add_endpoint(&mut self, service: &str, has_pod: bool, silently: bool) {
        self.add_service(service);
        let ip = self.new_ip(service, SHOP);
        if has_pod {
            self.pods.insert(ip);
            let mut object = json!({"metadata": {"name": pod(ip), "namespace": SHOP}});
            object["spec"] = json!({"nodeName": "node-0"});
            let ips = json!([{"ip": ip.to_string()}]);
            object["status"] = json!({"phase": "Running", "podIP": ip.to_string(), "podIPs": ips});
            self.site.server.put("pods", object);
        }
        self.services.get_mut(service).expect("it was added").insert(ip);
        self.write(service, silently);
    }
    /// Removes an endpoint.
    pub fn remove_endpoint(&mut self, service: &str, ip: IpAddr, silently: bool) {
        self.services.get_mut(service).expect("a service of this cluster").remove(&ip);
        self.forget(ip);
        self.write(service, silently);
        if self.pods.remove(&ip) {
            self.site.server.delete("pods", SHOP, &pod(ip));
        }
    }
    /// Removes a service with its endpoints.
    pub fn remove_service(&mut self, service: &str) {
        let ips = self.services.remove(service).unwrap_or_default();
        self.site.server.delete("services", SHOP, service);
        self.site.server.delete("endpointslices", SHOP, service);
        for ip in ips {
            self.forget(ip);
            if self.pods.remove(&ip) {
                self.site.server.delete("pods", SHOP, &pod(ip));
            }
        }
    }
    /// Lets another cluster answer at this address, with objects of its own; a second call brings the first one back.
    pub fn swap(&mut self) {
        let is_new = self.other.is_none();
        let mut other = self.other.take().unwrap_or_else(|| Incarnation {
            number: 1,
            server: ApiServer::new(&KINDS),
            services: BTreeMap::new(),
            pods: BTreeSet::new(),
        });
        self.site.server.swap(&other.server);
        std::mem::swap(&mut self.incarnation, &mut other.number);
        std::mem::swap(&mut self.services, &mut other.services);
        std::mem::swap(&mut self.pods, &mut other.pods);
        self.other = Some(other);
        if is_new {
            self.found();
            self.add_endpoint("cart", false, false);
            self.add_endpoint("other", true, false);
        }
        self.site.disconnect();
    }
    fn forget(&mut self, ip: IpAddr) {
        self.lives.get_mut(&ip).expect("an address of this cluster").deleted = Some(Instant::now());
    }
    /// Writes the slice of a service, perhaps without a watch event.
    fn write(&self, service: &str, silently: bool) {
        let slice = self.slice(SHOP, service, &self.services[service]);
        if silently {
            self.site.server.put_silently("endpointslices", slice);
        } else {
            self.site.server.put("endpointslices", slice);
        }
    }
    /// Notes that a credential may not read every kind.
    pub const fn restrict(&mut self, is_restricted: bool) {
        self.is_restricted |= is_restricted;
    }
    /// Notes that every credential in use may read every kind.
    pub fn lift(&mut self) {
        if std::mem::take(&mut self.is_restricted) {
            self.unrestricted = Instant::now();
        }
    }
    /// Grants a credential everything.
    pub fn allow(&self, token: &str) {
        self.site.grant(token, Grant::default());
    }
    /// Returns all endpoints.
    pub fn endpoints(&self) -> impl Iterator<Item = (&String, IpAddr)> {
        self.services.iter().flat_map(|(service, ips)| ips.iter().map(move |ip| (service, *ip)))
    }
    /// Returns what the incarnation that answers declares, by host.
    #[must_use]
    pub fn truth(&self) -> BTreeSet<(String, IpAddr)> {
        self.endpoints().map(|(service, ip)| (host(service, SHOP), ip)).collect()
    }
}

/// Returns the host of a service.
#[must_use]
pub fn host(service: &str, namespace: &str) -> String {
    format!("{service}.{namespace}.svc.cluster.local")
}

fn pod(ip: IpAddr) -> String {
    format!("pod-{}", ip.to_string().replace('.', "-"))
}
