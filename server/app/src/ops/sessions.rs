//! Connected clients as documents and for explanations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tributary_answer::{Client, ClientClass, Takes};
use tributary_model::{Catalog, PolicyKey, Version};
use tributary_registry_api::Clock;
use tributary_runtime::Handle;
use tributary_xds::answers::{PatchedAnswers, RefusedPatch, ResourceType};
use tributary_xds::client::ClientNode;
use tributary_xds::counters::Counters;
use tributary_xds::session::{Delivery, ResourceState, SentResource, SentView, TypeStatus};
use tributary_xds::table::{ClientRow, ClientTable, Connected};
use tributary_xds::token::ServiceAccount;
use tributary_xds::transport::XdsServer;

use super::counts::ServedCounts;
use crate::document::clients::ClientTypeItem;
use crate::document::{ClientItem, Filter, Page, short_name};
use crate::tokens::Tokens;
use crate::traces::Traces;

/// Most bytes of sent resources that one answer decodes.
pub const MAX_DECODED: usize = 64 << 20;

/// Clients of this server.
pub struct Sessions {
    /// Connected streams.
    pub table: Arc<ClientTable>,
    /// Counters.
    pub counters: Arc<Counters>,
    /// Services and endpoints that they are served.
    pub served: Arc<ServedCounts>,
    /// Source of their answers.
    pub answers: Arc<PatchedAnswers>,
    /// Server of the streams.
    pub server: XdsServer,
    /// Handle of the runtime.
    pub handle: Handle,
    /// Clock of the session times.
    pub clock: Arc<dyn Clock>,
    /// Whether the server is draining.
    pub draining: AtomicBool,
    /// Reviews of their tokens, if the server takes tokens.
    pub tokens: Option<Tokens<ServiceAccount>>,
    /// Traces of changes, if they are on.
    pub traces: Option<Arc<Traces>>,
}

/// Client that a request names.
pub struct Found {
    connected: Arc<Connected>,
    /// The client as answers see it.
    pub client: Client,
    /// Other streams that the name may mean.
    pub note: Option<String>,
}

/// Most streams of one name that are compared; more are different clients.
const MAX_COMPARED: usize = 32;

impl Sessions {
    /// Whether streams are being ended.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
    /// Returns the counters by name.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.all()
    }
    /// Returns the clients that match the filter, ordered by id and connection. Describes those of its page only.
    #[must_use]
    pub fn page(&self, filter: &Filter) -> Page<ClientItem> {
        let (catalog, now) = (self.handle.catalog(), self.clock.now());
        let all = self.table.all().into_iter().map(|connected| (connected.client(), connected));
        let mut found: Vec<_> =
            all.filter(|(node, connected)| takes(filter, &catalog, node, connected)).collect();
        found.sort_by_cached_key(|(node, connected)| (Arc::clone(&node.id), connected.id.to_string()));
        Page::of(found, filter, |(_, connected)| item(connected.row(&catalog, now)))
    }
    /// Returns the number of clients in each state, without zeros.
    #[must_use]
    pub fn states(&self) -> BTreeMap<&'static str, u64> {
        let mut out = BTreeMap::new();
        for client in self.table.all() {
            *out.entry(client.status().as_str()).or_default() += 1;
        }
        out
    }
    /// Returns the client of this node id, connection, `pod.namespace` or pod. Of several streams it returns the newest if
    /// all were sent the same.
    pub fn find(&self, catalog: &Arc<Catalog>, id: &str) -> Result<Found, String> {
        let (connected, note) = self.stream(catalog, id)?;
        let class = connected.class(catalog);
        let client = Client {
            class: class.clone(),
            takes: taken(&connected),
            ..Client::new(&connected.node(), class.kind)
        };
        Ok(Found { connected, client, note })
    }
    /// Returns the stream that a name means, and a note if others share the name.
    fn stream(&self, catalog: &Arc<Catalog>, id: &str) -> Result<(Arc<Connected>, Option<String>), String> {
        let (mut exact, of_node): (Vec<_>, Vec<_>) =
            self.table.find(id).into_iter().partition(|stream| stream.connection() == id);
        if let Some(exact) = exact.pop() {
            let count = of_node.len();
            let note =
                || format!("`{id}` is also the node id of {count} other streams; see `get clients -o wide`");
            return Ok((exact, (count > 0).then(note)));
        }
        let streams = if of_node.is_empty() { self.of_pod(id)? } else { of_node };
        only(catalog, id, streams)
    }
    /// Returns the streams of the only client with this `pod.namespace` or pod, the newest first.
    fn of_pod(&self, pod: &str) -> Result<Vec<Arc<Connected>>, String> {
        let mut all = self.table.all();
        all.retain(|client| short_name::is_pod(&client.node(), pod));
        let nodes: BTreeSet<Arc<str>> = all.iter().map(|client| client.node()).collect();
        short_name::choose(pod, "clients", nodes.iter().map(|node| &**node))?;
        all.sort_by_key(|client| std::cmp::Reverse(client.id));
        Ok(all)
    }
}

/// Whether the filter matches a client: by its id, connection or pod, its namespace, and the searched text.
fn takes(filter: &Filter, catalog: &Catalog, node: &ClientNode, connected: &Connected) -> bool {
    let is_named = |name: &str| {
        *node.id == *name
            || short_name::is_pod(&node.id, name)
            || format!("{}-{}", node.id, connected.id) == name
    };
    let is_of = |wanted: &str| {
        let namespace = connected.class(catalog).namespace;
        namespace.map_or(wanted.is_empty(), |namespace| namespace.as_str() == wanted)
    };
    let is_found = || {
        let identity = connected.verified.as_ref().map(|verified| verified.identity.to_string());
        let namespace = node.class.namespace.as_ref().map(|namespace| namespace.as_str());
        let texts = [&*node.id, &*node.agent, &connected.peer.to_string()];
        filter.finds(texts.into_iter().chain(identity.as_deref()).chain(namespace))
    };
    filter.name.as_deref().is_none_or(is_named)
        && filter.namespace.as_deref().is_none_or(is_of)
        && (filter.search.is_none() || is_found())
}

/// Returns what a client takes from this server to lead its traffic.
fn taken(connected: &Connected) -> Takes {
    let is_sent = |kind| connected.sent(kind).is_some();
    match (is_sent(ResourceType::Listener), is_sent(ResourceType::Route)) {
        (true, _) => Takes::Listeners,
        (false, true) => Takes::Routes,
        (false, false) => Takes::Clusters,
    }
}

/// Returns the first of some streams if the answers about all of them are the same; else an error that lists them.
fn only(
    catalog: &Arc<Catalog>,
    id: &str,
    mut streams: Vec<Arc<Connected>>,
) -> Result<(Arc<Connected>, Option<String>), String> {
    if streams.len() > 1 && !are_alike(catalog, &streams) {
        let names: Vec<String> = streams.iter().map(|stream| described(catalog, stream)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        return Err(short_name::ambiguous(id, "streams that were not sent the same", &names));
    }
    if streams.is_empty() {
        return Err(format!("no client `{id}` is connected"));
    }
    let (count, first) = (streams.len(), streams.swap_remove(0));
    let note = || {
        format!(
            "{count} streams share the node id and were sent the same; the answer is about {}",
            first.connection()
        )
    };
    let note = (count > 1).then(note);
    Ok((first, note))
}

/// Describes a stream by its connection and a resource that it names, the listener of a gRPC target if it is one.
fn described(catalog: &Arc<Catalog>, stream: &Connected) -> String {
    let kinds = [ResourceType::Listener].into_iter().chain(ResourceType::ALL);
    let mut views = kinds.filter_map(|kind| stream.sent(kind));
    let named = views.find_map(|view| view.resources(catalog).into_iter().next());
    let named = named.map(|one| format!(" with {} {}", one.kind.as_str().to_uppercase(), one.name));
    format!("{} from {}{}", stream.connection(), stream.peer, named.unwrap_or_default())
}

/// Whether streams have the same class, and the same resources in the same state.
fn are_alike(catalog: &Arc<Catalog>, streams: &[Arc<Connected>]) -> bool {
    let mut rest = streams.iter();
    let first = rest.next().map(|stream| held(catalog, stream));
    streams.len() <= MAX_COMPARED && rest.all(|stream| Some(held(catalog, stream)) == first)
}

/// What answers about a stream depend on: its class, and each resource with its version, its state and the client's error.
type Held = (ClientClass, Vec<(ResourceType, Arc<str>, Option<Version>, ResourceState, Option<Arc<str>>)>);

fn held(catalog: &Arc<Catalog>, stream: &Connected) -> Held {
    let sent = ResourceType::ALL.into_iter().filter_map(|kind| stream.sent(kind));
    let all = sent.flat_map(|view| view.resources(catalog));
    let one = |of: SentResource| (of.kind, of.name, of.version, of.state, of.error);
    (stream.class(catalog), all.map(one).collect())
}

impl Found {
    /// Returns what the client was sent of a type; `None` if it does not subscribe to it.
    #[must_use]
    pub fn sent(&self, kind: ResourceType) -> Option<SentView> {
        self.connected.sent(kind)
    }
    /// Returns the resources that the client was sent of each type that it subscribes to, or of one.
    #[must_use]
    pub fn sent_resources(
        &self,
        catalog: &Arc<Catalog>,
        kind: Option<ResourceType>,
    ) -> Vec<(SentView, Vec<SentResource>)> {
        let kinds = ResourceType::ALL.into_iter().filter(|of| kind.is_none_or(|kind| kind == *of));
        let views = kinds.filter_map(|kind| self.sent(kind));
        views.map(|view| (view.resources(catalog), view)).map(|(all, view)| (view, all)).collect()
    }
    /// Returns the EnvoyFilter that removed a resource from what the client is sent.
    #[must_use]
    pub fn removed_by(&self, kind: ResourceType, name: &str) -> Option<PolicyKey> {
        self.sent(kind)?.removed_by(name)
    }
    /// Returns the patches that were left out of a resource which the client was sent; of a route table those that concern the
    /// virtual host with a domain.
    #[must_use]
    pub fn left_out(
        &self,
        catalog: &Arc<Catalog>,
        (kind, name): (ResourceType, &str),
        domain: &str,
    ) -> Vec<RefusedPatch> {
        let sent = self.sent(kind).zip(self.delivery(kind, name).version);
        sent.map(|(view, version)| view.left_out(catalog, (name, version), domain)).unwrap_or_default()
    }
    /// Returns the delivery state of one resource.
    #[must_use]
    pub fn delivery(&self, kind: ResourceType, name: &str) -> Delivery {
        self.connected.delivery(kind, name)
    }
}

fn item(row: ClientRow) -> ClientItem {
    let text = |value: Option<Arc<str>>| value.map(|v| v.to_string()).unwrap_or_default();
    ClientItem {
        id: row.node.to_string(),
        connection: row.connection,
        kind: format!("{:?}", row.kind).to_lowercase(),
        agent: row.agent.to_string(),
        peer: row.peer.to_string(),
        protocol: row.variant.to_owned(),
        identity: row.identity.map(|identity| identity.to_string()).unwrap_or_default(),
        proof: row.proof.map(|proof| proof.as_str().to_owned()).unwrap_or_default(),
        namespace: text(row.namespace),
        cluster: text(row.cluster),
        network: text(row.network),
        locality: row.locality.to_string(),
        connected_millis: row.age_ms,
        state: row.status.as_str().to_owned(),
        types: row.types.into_iter().map(of_type).collect(),
        notes: row.notes.into_iter().map(|note| format!("{} {}", note.code, note.text)).collect(),
    }
}

fn of_type(status: TypeStatus) -> ClientTypeItem {
    let text = |value: Option<Arc<str>>| value.map(|v| v.to_string()).unwrap_or_default();
    let (nack, names) = match status.nack {
        Some(nack) => (nack.text.to_string(), nack.names.iter().map(ToString::to_string).collect()),
        None => (String::new(), Vec::new()),
    };
    ClientTypeItem {
        kind: status.kind.to_uppercase(),
        wildcard: status.wildcard,
        names: status.names,
        held: status.held,
        sent: text(status.sent_version),
        acked: text(status.acked_version),
        state: status.status.as_str().to_owned(),
        nack,
        nacked_names: names,
        sent_generation: status.sent_generation,
        acked_generation: status.acked_generation,
        acked_millis_ago: status.acked_age_ms,
        sent_millis_ago: status.sent_age_ms,
    }
}
