//! Random operations on a small cluster: objects of every kind that endpoints are joined from are created,
//! changed and removed. The same seed produces the same operations.

use serde_json::{Value, json};
use tributary_suites::kube::{Named, With, mk_namespace, mk_node, mk_pod, mk_service};

pub(crate) const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const SERVICES: u64 = 4;
const PODS: u64 = 8;
const NODES: u64 = 4;

/// A small generator (xorshift); its seed reproduces a failure.
pub(crate) struct RandomMoves(u64);

/// An operation on the cluster.
#[derive(Debug, Clone)]
pub(crate) enum Move {
    /// Creates or replaces this object.
    Apply(Value),
    /// Removes this object.
    Remove(Named),
}

impl RandomMoves {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }
    /// Returns a number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
    /// Returns true once in `many` calls on average.
    fn once_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn next(&mut self) -> Move {
        let namespace = self.one_of(&NAMESPACES);
        let object = match self.below(20) {
            0 => self.namespace(namespace),
            1 | 2 => self.node(),
            3..=5 => self.service(namespace),
            6..=9 => self.slice(namespace),
            10..=14 => self.pod(namespace),
            15..=17 => self.workload(namespace),
            _ => self.entry(namespace),
        };
        let lasting = object["kind"] == "Namespace";
        match Named::of(&object) {
            Ok(named) if !lasting && self.once_in(4) => Move::Remove(named),
            _ => Move::Apply(object),
        }
    }

    /// Returns a namespace; one in three is not selected.
    fn namespace(&mut self, name: &str) -> Value {
        let value = if self.once_in(3) { "off" } else { "enabled" };
        mk_namespace(name).with(json!({"metadata": {"labels": {"discovery": value}}}))
    }
    fn node(&mut self) -> Value {
        let name = format!("n{}", self.below(NODES));
        let (region, zone) = (self.one_of(&["eu", "us"]), self.one_of(&["1a", "1b", "1c"]));
        let node = mk_node(&name, region, zone);
        if self.once_in(4) { node.with(json!({"metadata": {"labels": null}})) } else { node }
    }
    fn service(&mut self, namespace: &str) -> Value {
        let name = format!("s{}", self.below(SERVICES));
        let target = self.one_of(&[8080, 9090]);
        let all: [&[(&str, u16, u16)]; 4] = [
            &[("http", 80, target)],
            &[("rpc", 81, target)],
            &[("http", 80, target), ("rpc", 81, 7070)],
            &[("rpc", 80, target), ("http", 82, 7070)],
        ];
        let ports = self.one_of(&all);
        let mut service = mk_service(namespace, &name, ports);
        if self.once_in(5) {
            service = service.with(json!({"spec": {"selector": null}}));
        }
        if self.once_in(6) {
            let label = json!({"istio.io/persistent-session": "cookie"});
            service = service.with(json!({"metadata": {"labels": label}}));
        }
        if self.once_in(6) {
            let export = self.one_of(&["~", "*", ".", "watch"]);
            let annotation = json!({"networking.istio.io/exportTo": export});
            service = service.with(json!({"metadata": {"annotations": annotation}}));
        }
        service
    }
    fn slice(&mut self, namespace: &str) -> Value {
        let (service, number) = (self.below(SERVICES), self.below(2));
        let name = format!("s{service}-{number}");
        let endpoints: Vec<Value> = (0..self.below(5)).map(|_| self.endpoint(namespace)).collect();
        let ports: [Value; 3] = [
            json!([{"name": "http", "port": 8080, "protocol": "TCP"}]),
            json!([{"name": "rpc", "port": 9090, "protocol": "TCP"}]),
            json!([{"name": "http", "port": 8081, "protocol": "TCP"}, {"name": "rpc", "port": 9091, "protocol": "TCP"}]),
        ];
        let ports = ports[self.below(3) as usize].clone();
        // Sometimes it belongs to the next Service, or to none.
        let owner = if self.once_in(8) { (service + 1) % SERVICES } else { service };
        let mut labels = json!({"kubernetes.io/service-name": format!("s{owner}")});
        if self.once_in(10) {
            labels = json!({});
        }
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"namespace": namespace, "name": name, "labels": labels},
            "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
        })
    }
    fn endpoint(&mut self, namespace: &str) -> Value {
        let pod = self.below(PODS);
        let address = self.address(namespace, pod);
        let conditions = self.one_of(&[
            "{}",
            "{\"ready\": true}",
            "{\"ready\": true}",
            "{\"ready\": true}",
            "{\"ready\": false}",
            "{\"ready\": false, \"serving\": true, \"terminating\": true}",
            "{\"ready\": false, \"serving\": false, \"terminating\": true}",
        ]);
        let mut endpoint = json!({"addresses": [address]});
        endpoint["conditions"] = serde_json::from_str(conditions).unwrap_or_default();
        if self.once_in(3) {
            endpoint["zone"] = self.one_of(&["z1", "z2"]).into();
        }
        if self.once_in(3) {
            endpoint["nodeName"] = format!("n{}", self.below(NODES)).into();
        }
        if !self.once_in(4) {
            endpoint["targetRef"] = json!({"kind": "Pod", "namespace": namespace, "name": format!("p{pod}")});
        }
        endpoint
    }
    /// Returns the address of a pod: one of two at a time; pods 0 and 1 share theirs.
    fn address(&mut self, namespace: &str, pod: u64) -> String {
        let own = if pod == 1 { 0 } else { pod };
        let namespace = namespace.as_bytes().first().copied().unwrap_or_default();
        format!("10.{namespace}.{}.{own}", self.below(2))
    }
    fn pod(&mut self, namespace: &str) -> Value {
        let pod = self.below(PODS);
        let address = self.address(namespace, pod);
        let app = if pod < 2 { "twin".to_owned() } else { format!("s{}", self.below(SERVICES)) };
        let mut object =
            mk_pod(namespace, &format!("p{pod}"), &address, &format!("n{}", pod % NODES), &[("app", &app)]);
        if self.once_in(6) {
            let label = json!({"topology.istio.io/locality": self.one_of(&["ap.3x", "ap/3y"])});
            // A label value cannot contain a slash.
            let label = if label.to_string().contains('/') { json!({}) } else { label };
            object = object.with(json!({"metadata": {"labels": label}}));
        }
        match self.below(8) {
            0 => object["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]),
            1 => object["status"]["phase"] = "Succeeded".into(),
            2 => object["status"] = json!({"phase": "Failed", "reason": "Evicted"}),
            3 => object["status"] = json!({"phase": "Pending"}),
            _ => {}
        }
        if pod == 7 {
            object["spec"]["hostNetwork"] = true.into();
        }
        object
    }
    fn workload(&mut self, namespace: &str) -> Value {
        let number = self.below(4);
        let first = namespace.as_bytes().first().copied().unwrap_or_default();
        let mut spec = json!({
            "address": format!("10.{first}.9.{number}"),
            "labels": {"app": format!("s{}", self.below(SERVICES))},
        });
        if self.once_in(2) {
            spec["ports"] = json!({"http": 6060});
        }
        if self.once_in(2) {
            spec["locality"] = self.one_of(&["eu/1a", "us/1c/rack1"]).into();
        }
        if self.once_in(3) {
            spec["weight"] = self.one_of(&[2, 7]).into();
        }
        json!({
            "apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry",
            "metadata": {"namespace": namespace, "name": format!("w{number}")}, "spec": spec,
        })
    }
    fn entry(&mut self, namespace: &str) -> Value {
        let number = self.below(2);
        let mut port = json!({"number": 90, "name": "http", "protocol": "HTTP"});
        if self.once_in(2) {
            port["targetPort"] = 8888.into();
        }
        json!({
            "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"namespace": namespace, "name": format!("e{number}")},
            "spec": {
                "hosts": [format!("e{number}.{namespace}.example.com")],
                "ports": [port], "resolution": "STATIC",
                "workloadSelector": {"labels": {"app": format!("s{}", self.below(SERVICES))}},
            },
        })
    }
}
