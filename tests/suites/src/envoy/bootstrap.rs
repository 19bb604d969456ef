//! The bootstrap of an Envoy under test, built from a test's description.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use super::workload::Workload;
use crate::Variant;
use crate::tls::{Authority, Identity};

/// Description of the Envoy to start.
#[derive(Debug, Clone)]
pub struct EnvoyConfig {
    ads: SocketAddr,
    variant: Variant,
    node_id: String,
    metadata: Value,
    locality: (String, String, String),
    discovers: (bool, bool),
    statics: Vec<(String, String)>,
    listens: Vec<String>,
    captures: bool,
    tls: Option<Value>,
    token: Option<String>,
    secrets: Option<(String, SocketAddr)>,
    workloads: Vec<Workload>,
    tracer: Option<SocketAddr>,
}

impl EnvoyConfig {
    /// Returns an Envoy that requests clusters from `ads`, and endpoints for them.
    pub fn new(ads: SocketAddr, variant: Variant) -> Self {
        Self {
            ads,
            variant,
            node_id: "envoy-under-test".to_owned(),
            metadata: json!({}),
            locality: <_>::default(),
            discovers: (true, false),
            statics: Vec::new(),
            listens: Vec::new(),
            captures: false,
            tls: None,
            token: None,
            secrets: None,
            workloads: Vec::new(),
            tracer: None,
        }
    }

    /// Sets the node id, such as `sidecar~10.0.0.1~web.default~default.svc.cluster.local`.
    pub fn node_id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.node_id);
        self
    }

    /// Sets the node metadata.
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the locality.
    pub fn locality(mut self, region: &str, zone: &str, sub_zone: &str) -> Self {
        self.locality = (region.to_owned(), zone.to_owned(), sub_zone.to_owned());
        self
    }

    /// Requests listeners, and routes for them, as well.
    pub fn with_listeners(mut self) -> Self {
        self.discovers.1 = true;
        self
    }

    /// Adds a static cluster of that name that requests its endpoints over ADS; Envoy then requests no
    /// clusters.
    pub fn static_cluster(mut self, name: &str) -> Self {
        self.discovers.0 = false;
        self.statics.push((name.to_owned(), name.to_owned()));
        self
    }

    /// Adds a static cluster beside the discovered ones that requests the endpoints of `service` over ADS.
    pub fn static_alias(mut self, name: &str, service: &str) -> Self {
        self.statics.push((name.to_owned(), service.to_owned()));
        self
    }

    /// Makes it a sidecar of namespace `default` whose listeners bind, as without traffic interception; it
    /// requests listeners and routes as well.
    pub fn sidecar(self, name: &str) -> Self {
        self.node_id(&sidecar_id(name)).metadata(sidecar_metadata()).with_listeners()
    }

    /// Makes it a sidecar of namespace `default` to which connections are redirected ([`Envoy::redirected`]); it requests
    /// listeners and routes as well.
    ///
    /// [`Envoy::redirected`]: super::Envoy::redirected
    pub fn captured_sidecar(mut self, name: &str) -> Self {
        self.captures = true;
        let metadata = json!({"NAMESPACE": "default", "CLUSTER_ID": "Kubernetes"});
        self.node_id(&sidecar_id(name)).metadata(metadata).with_listeners()
    }

    /// Makes it a router of namespace `istio-system` with a label `gateway` of its name, in this network; it requests listeners
    /// as well.
    pub fn router(self, name: &str, network: &str) -> Self {
        let id = format!("router~127.0.0.1~{name}.istio-system~istio-system.svc.cluster.local");
        let metadata = json!({
            "NAMESPACE": "istio-system",
            "CLUSTER_ID": "Kubernetes",
            "NETWORK": network,
            "LABELS": {"gateway": name},
        });
        self.node_id(&id).metadata(metadata).with_listeners()
    }

    /// Adds a static listener on a free port that sends every request to `cluster`, without retries.
    pub fn listen_for(mut self, cluster: &str) -> Self {
        self.listens.push(cluster.to_owned());
        self
    }

    /// Sends spans to a collector with Zipkin's API.
    pub fn tracer(mut self, collector: SocketAddr) -> Self {
        self.tracer = Some(collector);
        self
    }

    /// Connects over TLS: trusts that authority, and presents `identity` if there is one.
    pub fn tls(mut self, authority: &Authority, identity: Option<&Identity>) -> Self {
        self.tls = Some(upstream_tls(authority, identity));
        self
    }

    /// Presents a bearer token with the stream.
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Adds the static cluster of a server of secrets, such as the agent beside a proxy.
    pub fn secrets_at(mut self, cluster: &str, addr: SocketAddr) -> Self {
        self.secrets = Some((cluster.to_owned(), addr));
        self
    }

    /// Returns an Envoy without a control plane that has the listeners of these workloads.
    pub fn of_workloads(workloads: Vec<Workload>) -> Self {
        let none = SocketAddr::from(([127, 0, 0, 1], 9));
        Self { discovers: (false, false), workloads, ..Self::new(none, Variant::Sotw) }
    }

    pub(super) fn clusters_with_listener(&self) -> &[String] {
        &self.listens
    }

    pub(super) fn bootstrap(&self, admin: SocketAddr, listeners: &[SocketAddr], capture: &Path) -> Value {
        let (region, zone, sub_zone) = &self.locality;
        let listeners = self.listens.iter().zip(listeners).map(|(cluster, addr)| listener(cluster, *addr));
        let listeners = listeners.chain(self.captures.then(|| capture_listener(capture)));
        let listeners = listeners.chain(self.workloads.iter().map(Workload::listener));
        let mut clusters: Vec<Value> =
            self.statics.iter().map(|(name, service)| eds_cluster(name, service)).collect();
        let mut control_plane = control_plane(self.ads);
        if let Some(tls) = &self.tls {
            control_plane["transport_socket"] = json!({"name": "tls", "typed_config": tls});
        }
        clusters.push(control_plane);
        clusters.extend(self.captures.then(elsewhere));
        clusters.extend(self.secrets.as_ref().map(|(name, addr)| http2(cluster_at(name, *addr))));
        clusters.extend(self.workloads.iter().flat_map(Workload::clusters));
        clusters.extend(self.tracer.map(|at| cluster_at("collector", at)));
        let mut bootstrap = json!({
            "node": {
                "id": self.node_id,
                "cluster": "tests",
                "metadata": self.metadata,
                "locality": {"region": region, "zone": zone, "sub_zone": sub_zone},
            },
            "admin": {"address": socket(admin)},
            "dynamic_resources": self.dynamic(),
            "static_resources": {"listeners": listeners.collect::<Vec<_>>(), "clusters": clusters},
        });
        if self.tracer.is_some() {
            bootstrap["tracing"] = zipkin();
        }
        if !self.workloads.is_empty() {
            bootstrap["dynamic_resources"] = json!({});
        }
        bootstrap
    }

    fn dynamic(&self) -> Value {
        let api_type = match self.variant {
            Variant::Sotw => "GRPC",
            Variant::Delta => "DELTA_GRPC",
        };
        let mut service = json!({"envoy_grpc": {"cluster_name": "control-plane"}});
        if let Some(token) = &self.token {
            service["initial_metadata"] =
                json!([{"key": "authorization", "value": format!("Bearer {token}")}]);
        }
        let mut dynamic = json!({"ads_config": {
            "api_type": api_type,
            "transport_api_version": "V3",
            "set_node_on_first_message_only": true,
            "grpc_services": [service],
        }});
        if self.discovers.0 {
            dynamic["cds_config"] = ads();
        }
        if self.discovers.1 {
            dynamic["lds_config"] = ads();
        }
        dynamic
    }
}

fn ads() -> Value {
    json!({"ads": {}, "resource_api_version": "V3"})
}

pub(super) fn socket(addr: SocketAddr) -> Value {
    json!({"socket_address": {"address": addr.ip().to_string(), "port_value": addr.port()}})
}

fn eds_cluster(name: &str, service: &str) -> Value {
    let confirms = json!({"eds_config": ads(), "service_name": service});
    json!({"name": name, "type": "EDS", "connect_timeout": "1s", "eds_cluster_config": confirms})
}

/// Returns the node id of a sidecar of namespace `default`.
pub fn sidecar_id(name: &str) -> String {
    format!("sidecar~10.0.0.1~{name}.default~default.svc.cluster.local")
}

/// Returns the metadata of a sidecar whose listeners bind.
pub fn sidecar_metadata() -> Value {
    json!({"NAMESPACE": "default", "CLUSTER_ID": "Kubernetes", "INTERCEPTION_MODE": "NONE"})
}

fn control_plane(addr: SocketAddr) -> Value {
    http2(cluster_at("control-plane", addr))
}

pub(super) fn http2(mut cluster: Value) -> Value {
    cluster["typed_extension_protocol_options"] = json!({
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        },
    });
    cluster
}

pub(super) fn cluster_at(name: &str, addr: SocketAddr) -> Value {
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": [
            {"lb_endpoints": [{"endpoint": {"address": socket(addr)}}]},
        ]},
    })
}

fn zipkin() -> Value {
    json!({"http": {"name": "envoy.tracers.zipkin", "typed_config": {
        "@type": "type.googleapis.com/envoy.config.trace.v3.ZipkinConfig",
        "collector_cluster": "collector",
        "collector_endpoint": "/api/v2/spans",
        "collector_endpoint_version": "HTTP_JSON",
    }}})
}

fn upstream_tls(authority: &Authority, identity: Option<&Identity>) -> Value {
    let mut common = json!({
        "alpn_protocols": ["h2"],
        "validation_context": {"trusted_ca": {"filename": authority.file()}},
    });
    if let Some(identity) = identity {
        let chain = json!({"filename": identity.certificate_file});
        let key = json!({"filename": identity.key_file});
        common["tls_certificates"] = json!([{"certificate_chain": chain, "private_key": key}]);
    }
    json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": "localhost",
        "common_tls_context": common,
    })
}

/// Accepts redirected connections on a unix socket. The PROXY protocol states their original destination, as NAT would,
/// and the listener of that destination takes them over. Connections that no listener takes keep their destination.
fn capture_listener(path: &Path) -> Value {
    let proxy = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol",
    });
    let tcp = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": "elsewhere",
        "cluster": "elsewhere",
    });
    json!({
        "name": "capture",
        "address": {"pipe": {"path": path}},
        "use_original_dst": true,
        "listener_filters": [{"name": "proxy", "typed_config": proxy}],
        "filter_chains": [{"filters": [{"name": "tcp", "typed_config": tcp}]}],
    })
}

fn elsewhere() -> Value {
    json!({
        "name": "elsewhere",
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "1s",
    })
}

/// Returns the filter that sends every request to `cluster`, without retries.
pub(super) fn manager(stat_prefix: &str, cluster: &str) -> Value {
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": stat_prefix,
        "route_config": {"validate_clusters": false, "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "route": {"cluster": cluster}},
        ]}]},
        "http_filters": [{"name": "router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
        }}],
    });
    json!({"name": "http", "typed_config": manager})
}

fn listener(cluster: &str, addr: SocketAddr) -> Value {
    json!({
        "name": format!("to-{cluster}"),
        "address": socket(addr),
        "filter_chains": [{"filters": [manager("tests", cluster)]}],
    })
}
