//! What an istiod does beside discovery, and whether it is in use: by its variables, its mesh configuration, and the objects of its cluster.

use serde_json::Value;

use super::deployment::Istiod;
use super::mesh::{MeshTexts, tree};
use super::{Counted, Item, Outcome, plain};

/// Something that an istiod does and Tributary does not.
#[derive(Clone, Copy)]
pub struct Task {
    /// Short name.
    pub name: &'static str,
    /// When an istiod does it.
    pub when: &'static str,
    /// What follows.
    pub here: &'static str,
    /// Whether this istiod does it.
    used: fn(&Uses<'_>) -> bool,
}

/// Declares the tasks: name, when an istiod does it, what follows, whether it does.
macro_rules! tasks {
    ($($name:literal, $when:literal, $here:literal, $used:expr;)*) => {
        /// Every task.
        pub const TASKS: &[Task] = &[$(Task { name: $name, when: $when, here: $here, used: $used }),*];
    };
}

tasks! {
    "injection", "unless `INJECT_ENABLED` is `false`",
        "no sidecar is injected into pods: keep an istiod for its webhook, or write the sidecars into the pods",
        |uses| !uses.is("INJECT_ENABLED", "false");
    "validation", "unless `VALIDATION_WEBHOOK_CONFIG_NAME` is empty",
        "no webhook refuses invalid objects: `tributary analyze -f DIR` checks them in CI, and an invalid object keeps its last valid version",
        |uses| !uses.is("VALIDATION_WEBHOOK_CONFIG_NAME", "");
    "ca", "unless `ENABLE_CA_SERVER` is `false` or `EXTERNAL_CA` is set",
        "no certificates are signed, and the root is not written to namespaces: keep an istiod as CA, or use cert-manager with istio-csr, or SPIRE",
        |uses| !uses.is("ENABLE_CA_SERVER", "false") && uses.is_empty("EXTERNAL_CA");
    "gateways", "unless `PILOT_ENABLE_GATEWAY_API` and `ingressControllerMode` are off and no Gateway is there",
        "ingress and egress gateways, gateway-api and Ingresses are not served, and no gateway is deployed: leave their proxies at an istiod. East-west gateways are served",
        |uses| uses.gateways();
    "dns", "if `ISTIO_META_DNS_CAPTURE` is set in `defaultConfig.proxyMetadata`",
        "agents receive no name table: hosts that only ServiceEntries declare need another DNS",
        |uses| uses.mesh["defaultConfig"]["proxyMetadata"]["ISTIO_META_DNS_CAPTURE"] == "true";
    "telemetry", "if `defaultProviders` of the mesh configuration is set, or a Telemetry is there",
        "Envoy's own statistics and access logs are served; metrics with labels of source and destination, and metadata of peers, are not",
        |uses| uses.mesh.get("defaultProviders").is_some() || uses.has("Telemetry") == Some(true);
    "ambient", "if `PILOT_ENABLE_AMBIENT` is `true`",
        "ztunnels and waypoints are not served: leave them at an istiod",
        |uses| uses.is("PILOT_ENABLE_AMBIENT", "true");
    "registration", "if WorkloadGroups are there, unless `PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION` is `false`",
        "no WorkloadEntry is written when a machine connects, and its health is not followed: write WorkloadEntries",
        |uses| !uses.is("PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION", "false") && uses.has("WorkloadGroup") == Some(true);
    "cni", "if `PILOT_ENABLE_NODE_UNTAINT_CONTROLLERS` is `true`",
        "no node is untainted when its CNI is ready: keep an istiod, or use init containers",
        |uses| uses.is("PILOT_ENABLE_NODE_UNTAINT_CONTROLLERS", "true");
    "status", "if `PILOT_ENABLE_ANALYSIS`, or a gateway-api Gateway is there",
        "no status is written to objects; `tributary get policies -o wide` and `tributary analyze` show it",
        |uses| uses.is("PILOT_ENABLE_ANALYSIS", "true") || uses.has("Gateway.gateway.networking.k8s.io") == Some(true);
}

/// Kind that Tributary does not serve, or not in full.
#[derive(Debug, PartialEq, Eq)]
pub struct UnservedKind {
    /// Kind with its group.
    pub name: &'static str,
    /// API group, version, plural and kind.
    pub api: (&'static str, &'static str, &'static str, &'static str),
    /// What follows.
    pub here: &'static str,
}

const fn kind(
    name: &'static str,
    api: (&'static str, &'static str, &'static str, &'static str),
    here: &'static str,
) -> UnservedKind {
    UnservedKind { name, api, here }
}

const GATEWAY_API: &str = "not served; Gateways with the label of a network are read as its gateways";

/// Every such kind.
pub const KINDS: &[UnservedKind] = &[
    kind(
        "WasmPlugin",
        ("extensions.istio.io", "v1alpha1", "wasmplugins", "WasmPlugin"),
        "not served: proxies run without these filters, which may protect them",
    ),
    kind(
        "Telemetry",
        ("telemetry.istio.io", "v1", "telemetries", "Telemetry"),
        "not served: see the task `telemetry`, and `settings.tracing` and `settings.accessLog`",
    ),
    kind(
        "ProxyConfig",
        ("networking.istio.io", "v1beta1", "proxyconfigs", "ProxyConfig"),
        "not served; the injector and the agent read what concerns the bootstrap",
    ),
    kind(
        "Gateway.networking.istio.io",
        ("networking.istio.io", "v1", "gateways", "Gateway"),
        "servers of mode AUTO_PASSTHROUGH are served, all others are not",
    ),
    kind(
        "WorkloadGroup",
        ("networking.istio.io", "v1", "workloadgroups", "WorkloadGroup"),
        "read, without registration: see the task `registration`",
    ),
    kind(
        "Gateway.gateway.networking.k8s.io",
        ("gateway.networking.k8s.io", "v1", "gateways", "Gateway"),
        GATEWAY_API,
    ),
    kind(
        "HTTPRoute",
        ("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute"),
        "not served; use VirtualServices for the mesh",
    ),
    kind(
        "GRPCRoute",
        ("gateway.networking.k8s.io", "v1", "grpcroutes", "GRPCRoute"),
        "not served; use VirtualServices for the mesh",
    ),
    kind("TLSRoute", ("gateway.networking.k8s.io", "v1", "tlsroutes", "TLSRoute"), "not served"),
    kind(
        "Ingress",
        ("networking.k8s.io", "v1", "ingresses", "Ingress"),
        "not served; those of other controllers are not concerned",
    ),
];

/// Returns a line for each task and each kind with objects.
#[must_use]
pub fn check(istiod: &Istiod, texts: &MeshTexts, counts: &[Counted]) -> Vec<Item> {
    let uses = Uses { istiod, mesh: tree(texts.mesh.as_deref()), counts };
    TASKS.iter().map(|task| of_task(task, &uses)).chain(counts.iter().map(of_kind)).collect()
}

fn of_task(task: &Task, uses: &Uses<'_>) -> Item {
    let (value, outcome, here) = match (task.used)(uses) {
        true => ("in use", Outcome::Refused, task.here.to_owned()),
        false => ("not in use", Outcome::NoEffectNeeded, format!("an istiod does it {}", task.when)),
    };
    Item::new("task", task.name, value.to_owned(), outcome, here)
}

fn of_kind((kind, count): &Counted) -> Item {
    let (value, outcome, here) = match count {
        Ok(Some(number @ 1..)) => (number.to_string(), Outcome::Refused, kind.here.to_owned()),
        Ok(Some(0)) => ("0".to_owned(), Outcome::NoEffectNeeded, "no object is there".to_owned()),
        Ok(None) => ("not installed".to_owned(), Outcome::NoEffectNeeded, "no object is there".to_owned()),
        Err(why) => {
            let here = format!("cannot be counted: {why}; grant `list`, or look for them yourself");
            (String::new(), Outcome::Unknown, here)
        }
    };
    Item::new("kind", kind.name, value, outcome, here)
}

/// What decides whether a task is in use.
struct Uses<'a> {
    istiod: &'a Istiod,
    mesh: Value,
    counts: &'a [Counted],
}

impl Uses<'_> {
    /// Without a cluster to look at, gateways count as in use unless they are turned off.
    fn gateways(&self) -> bool {
        let names =
            ["Gateway.networking.istio.io", "Gateway.gateway.networking.k8s.io", "HTTPRoute", "Ingress"];
        let found: Vec<bool> = names.into_iter().filter_map(|name| self.has(name)).collect();
        if !found.is_empty() {
            return found.contains(&true);
        }
        let ingress = self.mesh.get("ingressControllerMode").is_none_or(|mode| mode != "OFF");
        ingress || !self.is("PILOT_ENABLE_GATEWAY_API", "false")
    }
    /// Whether objects of a kind are there; `None` if that is not known.
    fn has(&self, name: &str) -> Option<bool> {
        let (_, count) = self.counts.iter().find(|(kind, _)| kind.name == name)?;
        count.as_ref().ok().map(|count| count.unwrap_or(0) > 0)
    }
    fn is(&self, variable: &str, value: &str) -> bool {
        self.istiod.value(variable).is_some_and(|own| plain(own) == value)
    }
    fn is_empty(&self, variable: &str) -> bool {
        self.istiod.value(variable).is_none_or(str::is_empty)
    }
}
