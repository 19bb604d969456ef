//! Cluster with the kinds that the registry reads, and a run over it with its updates.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tributary_kube_client::Connection;
use tributary_kubernetes::{KubernetesFactory, Mcs, Options};
use tributary_model::{
    ClusterId, Collection, Completeness, Fact, FactId, FactKey, Generation, ObjectRef, Problem, RegistryName,
    RegistryUpdate, Scope, SourceState, SourceStatus, Withheld,
};
use tributary_registry_api::{
    CancellationToken, ConfirmSender, ProcessClock, RegistryError, RegistryFactory, RegistryIo, Run,
    UpdateReceiver, confirm_channel, update_channel,
};
use tributary_scripted_api::{ApiServer, Kind};

const fn core(plural: &'static str, kind: &'static str, namespaced: bool) -> Kind {
    Kind { group: "", version: "v1", plural, kind, namespaced }
}
const fn of(group: &'static str, plural: &'static str, kind: &'static str) -> Kind {
    Kind { group, version: "v1", plural, kind, namespaced: true }
}

/// Kinds of every cluster.
pub(crate) const KINDS: [Kind; 6] = [
    core("namespaces", "Namespace", false),
    core("services", "Service", true),
    core("pods", "Pod", true),
    core("nodes", "Node", false),
    core("configmaps", "ConfigMap", true),
    of("discovery.k8s.io", "endpointslices", "EndpointSlice"),
];
/// Optional kind.
pub(crate) const GATEWAYS: Kind = of("gateway.networking.k8s.io", "gateways", "Gateway");

/// Serves the namespace `shop`.
pub(crate) fn serve() -> ApiServer {
    let server = ApiServer::new(&KINDS);
    server.put("namespaces", json!({"metadata": {"name": "shop"}}));
    server
}

pub(crate) fn service(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"clusterIP": "10.96.0.1", "type": "ClusterIP", "ports": [{"name": "tcp", "port": 80, "protocol": "TCP"}]},
    })
}

pub(crate) fn slice(name: &str, service: &str, ips: &[String]) -> Value {
    let endpoint = |ip: &String| json!({"addresses": [ip], "conditions": {"ready": true}});
    json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "ports": [{"name": "tcp", "port": 8080, "protocol": "TCP"}],
        "endpoints": ips.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

pub(crate) fn meta(namespace: &str, name: &str) -> Value {
    json!({"name": name, "namespace": namespace})
}

const fn mcs(plural: &'static str, kind: &'static str) -> Kind {
    Kind { group: Mcs::GROUP, version: "v1beta1", plural, kind, namespaced: true }
}

/// Serves the namespace `shop` and an object of every kind: a service with two endpoints, one of them a pod on a node,
/// which is exported and imported; a gateway; and mesh configuration.
pub(crate) fn serve_every_kind(name: &str, ips: [&str; 2]) -> ApiServer {
    let server = serve();
    let kinds = [GATEWAYS, mcs("serviceexports", "ServiceExport"), mcs("serviceimports", "ServiceImport")];
    kinds.into_iter().for_each(|kind| server.install(kind));
    server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": "uid-1"}}));
    server.put("services", service(name));
    let mut slice = slice(name, name, &ips.map(str::to_owned));
    slice["endpoints"][0]["targetRef"] = json!({"kind": "Pod", "name": "p1", "namespace": "shop"});
    server.put("endpointslices", slice);
    let mut pod = json!({"metadata": meta("shop", "p1"), "spec": {"nodeName": "n1"}});
    pod["status"] = json!({"phase": "Running", "podIP": ips[0], "podIPs": [{"ip": ips[0]}]});
    server.put("pods", pod);
    let labels = json!({"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "a"});
    server.put("nodes", json!({"metadata": {"name": "n1", "labels": labels}}));
    server.put("serviceexports", json!({"metadata": meta("shop", name)}));
    server.put("serviceimports", json!({"metadata": meta("shop", name), "spec": {"ips": ["10.9.0.1"]}}));
    server.put("gateways", gateway());
    let mesh = "defaultServiceExportTo: [\".\"]\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}";
    server.put("configmaps", json!({"metadata": meta("tributary-system", "istio"), "data": {"mesh": mesh}}));
    server
}

/// Builds a gateway into another network.
pub(crate) fn gateway() -> Value {
    let mut gateway = json!({"metadata": meta("shop", "gw")});
    gateway["metadata"]["labels"] = json!({"topology.istio.io/network": "n2"});
    let listeners = json!([{"port": 15443, "protocol": "TLS", "tls": {}}]);
    gateway["spec"] =
        json!({"gatewayClassName": "istio", "addresses": [{"value": "192.0.2.9"}], "listeners": listeners});
    gateway
}

/// Returns options with multi-cluster services, so that every kind is read.
pub(crate) fn options_for_every_kind() -> Options {
    let options = Options::new(ClusterId::new("Kubernetes").unwrap()).unwrap();
    Options { mcs: Mcs { discovery: true, host: true, ..Mcs::default() }, ..options }
}

pub(crate) fn factory(server: &ApiServer) -> KubernetesFactory {
    factory_with(server, Options::new(ClusterId::new("Kubernetes").unwrap()).unwrap())
}

pub(crate) fn factory_with(server: &ApiServer, options: Options) -> KubernetesFactory {
    let connection = Connection::over(server.client(), "a script", "https://scripted");
    KubernetesFactory::new(RegistryName::new("kubernetes").unwrap(), connection, options).seed(7)
}

/// Formats a collection as `scope/Kind`.
fn named(collection: &Collection) -> String {
    format!("{}/{:?}", collection.scope, collection.kind)
}

/// Run with its published updates.
pub(crate) struct RunOf {
    pub(crate) server: ApiServer,
    receiver: UpdateReceiver,
    _confirms: ConfirmSender,
    stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), RegistryError>>,
    pub(crate) facts: BTreeMap<FactKey, Fact>,
    /// Results by `scope/Kind`.
    pub(crate) synced: BTreeMap<String, Completeness>,
    pub(crate) withheld: BTreeMap<String, Withheld>,
    required: Vec<Collection>,
    /// Removed facts, as `scope item`.
    pub(crate) dropped: Vec<String>,
    /// Confirmations by `scope/Kind`.
    pub(crate) confirmed: BTreeMap<String, usize>,
    pub(crate) identities: Vec<(String, usize)>,
    pub(crate) problems: BTreeMap<ObjectRef, Problem>,
    pub(crate) statuses: Vec<SourceStatus>,
    /// Number of statuses before the end of the last list.
    pub(crate) statuses_before_end: usize,
    /// Statuses of the scopes of optional kinds.
    pub(crate) beside: BTreeMap<String, SourceStatus>,
    pub(crate) progress: usize,
    pub(crate) updates: usize,
}

impl RunOf {
    pub(crate) fn start(server: &ApiServer) -> Self {
        Self::of(server, &factory(server))
    }
    /// Starts a run of this factory.
    pub(crate) fn of(server: &ApiServer, factory: &KubernetesFactory) -> Self {
        Self::holding(server, factory, &[])
    }
    /// Starts a run of this factory, with facts of these scopes held from an earlier run.
    pub(crate) fn holding(server: &ApiServer, factory: &KubernetesFactory, held: &[&str]) -> Self {
        let held = held.iter().map(|scope| Scope::new(scope).unwrap()).collect();
        let run = Run { registry: RegistryName::new("kubernetes").unwrap(), generation: Generation(1) };
        let clock = Arc::new(ProcessClock::starting_now());
        let (out, receiver) = update_channel(run, clock, Arc::new(Notify::new()));
        let (sender, confirms) = confirm_channel();
        let registry = factory.build().unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(registry.run(RegistryIo { out, confirms, held }, stop.clone()));
        Self {
            server: server.clone(),
            receiver,
            _confirms: sender,
            stop,
            task,
            facts: BTreeMap::new(),
            synced: BTreeMap::new(),
            withheld: BTreeMap::new(),
            dropped: Vec::new(),
            confirmed: BTreeMap::new(),
            identities: Vec::new(),
            required: Vec::new(),
            problems: BTreeMap::new(),
            statuses: Vec::new(),
            statuses_before_end: 0,
            beside: BTreeMap::new(),
            progress: 0,
            updates: 0,
        }
    }
    /// Waits for this long, then applies the published updates.
    pub(crate) async fn pass(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
        for update in self.receiver.take() {
            self.updates += 1;
            self.apply(update.value);
        }
    }
    pub(crate) async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..36_000 {
            if holds(self) {
                return;
            }
            self.pass(Duration::from_millis(100)).await;
        }
        panic!("never {what}; statuses {:?}", self.statuses);
    }
    pub(crate) async fn live(&mut self) {
        self.until("live", |run| run.state() == SourceState::Live).await;
    }
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
    pub(crate) fn status(&self) -> SourceStatus {
        self.statuses.last().cloned().unwrap_or_default()
    }
    pub(crate) fn state(&self) -> SourceState {
        self.status().state
    }
    pub(crate) fn part(&self, name: &str) -> SourceState {
        let status = self.status();
        status.parts.iter().find(|part| &*part.name == name).expect("a part of that name").state
    }
    /// Whether every required collection is synced.
    pub(crate) fn is_synced(&self) -> bool {
        !self.required.is_empty() && self.required.iter().map(named).all(|one| self.synced.contains_key(&one))
    }
    /// Returns the names of the objects that declare services.
    pub(crate) fn services(&self) -> Vec<String> {
        let name = |key: &FactKey| match &key.item {
            FactId::Service(key) => Some(key.object.name.to_string()),
            _ => None,
        };
        self.facts.keys().filter_map(name).collect()
    }
    /// Returns the number of addresses in all groups.
    pub(crate) fn addresses(&self) -> usize {
        let count = |fact: &Fact| match fact {
            Fact::Group(_, group) => group.addresses.len(),
            _ => 0,
        };
        self.facts.values().map(count).sum()
    }
    fn apply(&mut self, update: RegistryUpdate) {
        match update {
            RegistryUpdate::Follows { required: all, .. } => self.required = all,
            RegistryUpdate::Put(scope, fact, _) => {
                drop(self.facts.insert(FactKey { scope, item: fact.item() }, fact));
            }
            RegistryUpdate::Remove(key, _) => {
                self.dropped.push(format!("{} {:?}", key.scope, key.item));
                self.facts.remove(&key);
            }
            RegistryUpdate::ListEnded(collection, completeness) => {
                self.withheld.remove(&named(&collection));
                self.statuses_before_end = self.statuses.len();
                self.synced.insert(named(&collection), completeness);
            }
            RegistryUpdate::Withheld(collection, why) => drop(self.withheld.insert(named(&collection), why)),
            RegistryUpdate::Identity(identity) => {
                self.identities.push((identity.to_string(), self.facts.len()))
            }
            RegistryUpdate::Problem(_, object, Some(problem)) => drop(self.problems.insert(object, problem)),
            RegistryUpdate::Problem(_, object, None) => drop(self.problems.remove(&object)),
            RegistryUpdate::Status(scope, status) if scope.as_str() == "cluster" => {
                self.statuses.push(status)
            }
            RegistryUpdate::Status(scope, status) => drop(self.beside.insert(scope.to_string(), status)),
            RegistryUpdate::Progress(collection) => {
                self.progress += 1;
                *self.confirmed.entry(named(&collection)).or_default() += 1;
            }
            RegistryUpdate::ListStarted(_) | RegistryUpdate::Excluded(..) | RegistryUpdate::End(..) => {}
        }
    }
}
