//! `istio.io/debug/syncz` and `istio.io/debug/config_dump`: what istioctl's proxy-status reads over xDS.
//!
//! A stream passes such a request here before its session sees it. Answers show what every client was sent, so only a
//! client that proves an identity of the system namespace, with a certificate or a token of the server's cluster, gets one; any
//! other is refused. Secrets are
//! redacted. A dump holds clusters, listeners and routes, as istiod's, and is bounded.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use envoy_types::pb::envoy::admin::v3 as dump;
use envoy_types::pb::envoy::config::core::v3::{ControlPlane, Node};
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse, Resource};
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::envoy::service::status::v3::{ClientConfig, ConfigStatus};
use envoy_types::pb::google::protobuf::{Any, Struct, Timestamp, Value, value::Kind};
use prost::{Message, Name};
use tonic::Code as GrpcCode;
use tributary_descriptors::Decoder;
use tributary_model::{Catalog, Code, Mono, Namespace};
use tributary_proto::{Request, Rope, Variant};

use crate::answers::ResourceType;
use crate::client::{ClientNode, Proof, pod_of};
use crate::session::{Nonce, Refusal, SyncStatus, TypeStatus};
use crate::table::{ClientRow, ClientTable, Connected};

/// Start of the type URLs of these requests.
const PREFIX: &str = "istio.io/debug";
const SYNCZ: &str = "istio.io/debug/syncz";
const CONFIG_DUMP: &str = "istio.io/debug/config_dump";
/// Most bytes of resources in one dump.
const MAX_DUMP: usize = 64 << 20;
/// Most answers at once, over all streams, from the beginning of the work until the client has read the answer.
pub(crate) const MAX_PAGES: usize = 2;
/// Time between two answers on one stream.
pub(crate) const PACE: Duration = Duration::from_secs(1);

/// Who may ask, and the name of this server in answers.
#[derive(Debug, Clone)]
pub struct DebugAccess {
    /// Namespace whose identities may ask.
    pub system_namespace: Namespace,
    /// Name of this server among its replicas.
    pub name: Arc<str>,
}

/// An admitted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DebugRequest {
    /// State of every client.
    Syncz,
    /// Resources of one client.
    ConfigDump(String),
}

/// Whether a request is for the pages about clients.
pub(crate) fn is_debug(type_url: &str) -> bool {
    type_url.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Checks who asks, then what for.
pub(crate) fn admit(
    access: Option<&DebugAccess>,
    client: &ClientNode,
    request: &Request,
) -> Result<DebugRequest, Refusal> {
    let refuse = |status, message| Err(Refusal::new(status, Code::CLIENT_IDENTITY, message));
    let type_url = request.type_url();
    let Some(access) = access else {
        return refuse(GrpcCode::Unimplemented, format!("{type_url} is not served"));
    };
    let system = &access.system_namespace;
    let Some(verified) = &client.verified else {
        let message = format!(
            "{type_url} is answered only to a proved identity of namespace {system}, and this client proves none; \
             connect with a client certificate"
        );
        return refuse(GrpcCode::Unauthenticated, message);
    };
    // who may issue tokens of another cluster is not trusted with all clients
    if verified.proof == Proof::Token && client.class.cluster != client.default_cluster {
        let own = client.default_cluster.as_ref().map_or("none", |cluster| cluster.as_str());
        let message = format!(
            "{type_url} is answered only to tokens of cluster {own}; use one, or a client certificate"
        );
        return refuse(GrpcCode::PermissionDenied, message);
    }
    if client.class.namespace.as_ref() != Some(system) {
        let own = client.class.namespace.as_ref().map_or("none", |namespace| namespace.as_str());
        let message =
            format!("{type_url} is answered only to identities of namespace {system}, not of {own}");
        return refuse(GrpcCode::PermissionDenied, message);
    }
    let invalid = |message| Err(Refusal::new(GrpcCode::InvalidArgument, Code::CLIENT_TYPE, message));
    match (type_url, &names(request)[..]) {
        (SYNCZ, _) => Ok(DebugRequest::Syncz),
        (CONFIG_DUMP, [one]) => Ok(DebugRequest::ConfigDump(one.clone())),
        (CONFIG_DUMP, _) => invalid(format!("{CONFIG_DUMP} takes one resource name: pod.namespace")),
        _ => invalid(format!("{type_url} is not served; request {SYNCZ} or {CONFIG_DUMP}")),
    }
}

fn names(request: &Request) -> Vec<String> {
    let names = match request {
        Request::Sotw(request) => &request.names,
        Request::Delta(request) => &request.subscribe,
    };
    names.iter().take(2).map(ToOwned::to_owned).collect()
}

/// What an answer is built from.
pub(crate) struct Page {
    pub(crate) clients: Arc<ClientTable>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) now: Mono,
    pub(crate) nonce: Nonce,
    /// Name of this server.
    pub(crate) server: Arc<str>,
}

impl Page {
    /// Builds the response. May encode resources, so call it on a thread for heavy work.
    pub(crate) fn build(&self, request: &DebugRequest, variant: Variant) -> Result<Rope, Refusal> {
        let (type_url, resources) = match request {
            DebugRequest::Syncz => (SYNCZ, self.syncz()),
            DebugRequest::ConfigDump(client) => (CONFIG_DUMP, self.config_dump(client)?),
        };
        Ok(response(variant, type_url, self, resources))
    }
    /// Returns the state of every client that subscribes to resources.
    fn syncz(&self) -> Vec<Resource> {
        let rows = self.clients.rows(&self.catalog, self.now);
        let now = SystemTime::now();
        rows.iter().filter(|row| !row.types.is_empty()).map(|row| client_config(row, now)).collect()
    }
    /// Returns the dump of a client; nothing if it is not connected here, so that istioctl asks another replica.
    fn config_dump(&self, client: &str) -> Result<Vec<Resource>, Refusal> {
        let (named, of_pod) = (self.clients.find(client), self.clients.find_pod(client));
        named
            .first()
            .or_else(|| of_pod.first())
            .map_or_else(|| Ok(Vec::new()), |client| dump_of(&self.catalog, client))
    }
}

fn response(variant: Variant, type_url: &str, page: &Page, resources: Vec<Resource>) -> Rope {
    let (version, nonce) = (page.catalog.generation.to_string(), page.nonce.to_string());
    let type_url = type_url.to_owned();
    let control_plane = Some(ControlPlane { identifier: identifier(&page.server) });
    let message = match variant {
        Variant::Sotw => DiscoveryResponse {
            version_info: version,
            resources: resources.into_iter().filter_map(|resource| resource.resource).collect(),
            type_url,
            nonce,
            control_plane,
            ..DiscoveryResponse::default()
        }
        .encode_to_vec(),
        Variant::Delta => DeltaDiscoveryResponse {
            system_version_info: version,
            resources,
            type_url,
            nonce,
            control_plane,
            ..DeltaDiscoveryResponse::default()
        }
        .encode_to_vec(),
    };
    Rope::framed(&message, &[])
}

/// The JSON document that istioctl reads from a response.
fn identifier(server: &str) -> String {
    let name: String = server.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '\\')).collect();
    let version = env!("CARGO_PKG_VERSION");
    format!(r#"{{"Component":"tributary","ID":"{name}","Info":{{"version":"{version}"}}}}"#)
}

fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

fn client_config(row: &ClientRow, now: SystemTime) -> Resource {
    let config = ClientConfig {
        node: Some(node(row)),
        generic_xds_configs: row.types.iter().map(|of| generic(of, now)).collect(),
        ..ClientConfig::default()
    };
    let resource = Some(any(&config));
    Resource { name: row.node.to_string(), resource, ..Resource::default() }
}

/// The id is `pod.namespace`, which istioctl shows and takes; the whole node id of a client that names no pod.
fn node(row: &ClientRow) -> Node {
    let pairs = [("CLUSTER_ID", &row.cluster), ("NAMESPACE", &row.namespace)];
    let text = |text: &Arc<str>| Value { kind: Some(Kind::StringValue(text.to_string())) };
    let fields = pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), text(value.as_ref()?))));
    let id = pod_of(&row.node).unwrap_or(&row.node).to_owned();
    Node { id, metadata: Some(Struct { fields: fields.collect() }), ..Node::default() }
}

fn generic(of: &TypeStatus, now: SystemTime) -> GenericXdsConfig {
    let kind = ResourceType::ALL.into_iter().find(|kind| kind.as_str() == of.kind);
    let at = |age: Option<u64>| timestamp(now.checked_sub(Duration::from_millis(age?))?);
    let error_state = of.nack.as_ref().map(|nack| dump::UpdateFailureState {
        last_update_attempt: at(Some(nack.age_ms)),
        details: nack.text.to_string(),
        ..dump::UpdateFailureState::default()
    });
    GenericXdsConfig {
        type_url: kind.map(ResourceType::type_url).unwrap_or_default().to_owned(),
        version_info: of.sent_version.as_deref().unwrap_or_default().to_owned(),
        last_updated: at(of.sent_age_ms),
        config_status: status(of.status).into(),
        error_state,
        ..GenericXdsConfig::default()
    }
}

const fn status(status: SyncStatus) -> ConfigStatus {
    match status {
        SyncStatus::NotSent => ConfigStatus::NotSent,
        SyncStatus::Synced => ConfigStatus::Synced,
        SyncStatus::Stale => ConfigStatus::Stale,
        SyncStatus::Error => ConfigStatus::Error,
    }
}

fn timestamp(at: SystemTime) -> Option<Timestamp> {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp {
        seconds: i64::try_from(since.as_secs()).ok()?,
        nanos: since.subsec_nanos().cast_signed(),
    })
}

fn dump_of(catalog: &Arc<Catalog>, client: &Connected) -> Result<Vec<Resource>, Refusal> {
    let decoder = Decoder::new().map_err(|error| {
        let message = format!("the descriptors cannot be read: {error}");
        Refusal::new(GrpcCode::Internal, Code::CLIENT_TYPE, message)
    })?;
    let mut dumper = Dumper { catalog, client, decoder, left: MAX_DUMP };
    let clusters = dump::ClustersConfigDump {
        dynamic_active_clusters: dumper.of(ResourceType::Cluster, cluster)?,
        ..dump::ClustersConfigDump::default()
    };
    let listeners = dump::ListenersConfigDump {
        dynamic_listeners: dumper.of(ResourceType::Listener, listener)?,
        ..dump::ListenersConfigDump::default()
    };
    let routes = dump::RoutesConfigDump {
        dynamic_route_configs: dumper.of(ResourceType::Route, route)?,
        ..dump::RoutesConfigDump::default()
    };
    let parts = [
        any(&dump::BootstrapConfigDump::default()),
        any(&clusters),
        any(&listeners),
        any(&dump::ScopedRoutesConfigDump::default()),
        any(&routes),
        any(&dump::SecretsConfigDump::default()),
        any(&dump::EcdsConfigDump::default()),
    ];
    let named =
        |part: Any| Resource { name: part.type_url.clone(), resource: Some(part), ..Resource::default() };
    Ok(parts.into_iter().map(named).collect())
}

/// Collects a client's resources within a bound.
struct Dumper<'s> {
    catalog: &'s Arc<Catalog>,
    client: &'s Connected,
    decoder: Decoder,
    left: usize,
}

impl Dumper<'_> {
    /// Returns the resources of a type, without those whose version is no longer held.
    fn of<T>(&mut self, kind: ResourceType, make: fn(String, String, Any) -> T) -> Result<Vec<T>, Refusal> {
        let Some(view) = self.client.sent(kind) else { return Ok(Vec::new()) };
        let mut out = Vec::new();
        for resource in view.resources(self.catalog) {
            let (Some(version), Some(body)) = (resource.version, view.body(&resource)) else { continue };
            self.left = self.left.checked_sub(body.len()).ok_or_else(|| {
                let message = format!(
                    "the dump is larger than {} MiB; use `tributary get resources` with --type",
                    MAX_DUMP >> 20
                );
                Refusal::new(GrpcCode::ResourceExhausted, Code::CLIENT_LIMIT, message)
            })?;
            let type_url = kind.type_url();
            let Some(value) = self.decoder.redact(type_url, &body) else { continue };
            let any = Any { type_url: type_url.to_owned(), value };
            out.push(make(resource.name.to_string(), version.to_string(), any));
        }
        Ok(out)
    }
}

fn cluster(_: String, version: String, body: Any) -> dump::clusters_config_dump::DynamicCluster {
    let cluster = Some(body);
    dump::clusters_config_dump::DynamicCluster { version_info: version, cluster, ..Default::default() }
}

fn listener(name: String, version: String, body: Any) -> dump::listeners_config_dump::DynamicListener {
    use dump::listeners_config_dump::{DynamicListener, DynamicListenerState};
    let listener = Some(body);
    let active = DynamicListenerState { version_info: version, listener, ..DynamicListenerState::default() };
    DynamicListener { name, active_state: Some(active), ..DynamicListener::default() }
}

fn route(_: String, version: String, body: Any) -> dump::routes_config_dump::DynamicRouteConfig {
    let route_config = Some(body);
    dump::routes_config_dump::DynamicRouteConfig { version_info: version, route_config, ..Default::default() }
}
