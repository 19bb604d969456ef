//! Connected clients, for `get clients` and `explain --for-client`.
//!
//! A row is built on request from a copy of the session's state, which a reader takes in a short time.

use std::net::SocketAddr;
use std::sync::Arc;

use dashmap::DashMap;
use tributary_answer::{Selectable, unread_policies};
use tributary_model::{Catalog, ClientKind, Code, Identity, Locality, Mono};

use crate::answers::{ClientClass, ResourceType};
use crate::client::{ClientNode, Proof, Verified, pod_of};
use crate::session::{Delivery, SentView, SessionStatus, SyncStatus, TypeStatus};
use crate::session_cell::SessionCell;

/// A client with an open stream.
#[derive(Debug)]
pub struct Connected {
    /// Unique while the server runs.
    pub id: u64,
    /// Remote address.
    pub peer: SocketAddr,
    /// Identity that it proved.
    pub verified: Option<Verified>,
    /// Time of connection.
    pub since: Mono,
    /// Its session.
    pub(crate) session: SessionCell,
}

/// Note about a client.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// Code of the note.
    pub code: Code,
    /// Text of the note.
    pub text: String,
}

/// One client, as `get clients` shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ClientRow {
    /// `<node id>-<number>`, unique while the server runs.
    pub connection: String,
    /// Node id that the client sent.
    pub node: Arc<str>,
    /// Client kind.
    pub kind: ClientKind,
    /// `sotw` or `delta`.
    pub variant: &'static str,
    /// Program and version.
    pub agent: Arc<str>,
    /// Remote address.
    pub peer: SocketAddr,
    /// Identity that it proved.
    pub identity: Option<Identity>,
    /// What proved it.
    pub proof: Option<Proof>,
    /// Namespace.
    pub namespace: Option<Arc<str>>,
    /// Cluster.
    pub cluster: Option<Arc<str>>,
    /// Network.
    pub network: Option<Arc<str>>,
    /// Locality.
    pub locality: Locality,
    /// Time since connection, in milliseconds.
    pub age_ms: u64,
    /// `bulk` (wildcard or many names) or `named`.
    pub mode: &'static str,
    /// Generation that a bulk client has received in full.
    pub generation: Option<u64>,
    /// Number of subscribed names.
    pub names: usize,
    /// The worst state of its types.
    pub status: SyncStatus,
    /// Notes: xDS clusters without mesh TLS, rejected resources, …
    pub notes: Vec<Note>,
    /// State of its types.
    pub types: Vec<TypeStatus>,
}

impl Connected {
    /// Returns what the client was sent of one resource.
    #[must_use]
    pub fn delivery(&self, kind: ResourceType, name: &str) -> Delivery {
        self.session.status().delivery(kind, name)
    }
    /// Returns what the client was sent of a type; `None` if it does not subscribe to it.
    #[must_use]
    pub fn sent(&self, kind: ResourceType) -> Option<SentView> {
        self.session.status().sent(kind)
    }
    /// Returns the node id that the client sent.
    #[must_use]
    pub fn node(&self) -> Arc<str> {
        Arc::clone(&self.session.client().id)
    }
    /// Returns `<node id>-<number>`.
    #[must_use]
    pub fn connection(&self) -> String {
        format!("{}-{}", self.node(), self.id)
    }
    /// Returns the client as its node describes it.
    #[must_use]
    pub fn client(&self) -> Arc<ClientNode> {
        self.session.client()
    }
    /// Returns the worst state of the client's types.
    #[must_use]
    pub fn status(&self) -> SyncStatus {
        self.session.worst()
    }
    /// Returns the client's class in this generation.
    #[must_use]
    pub fn class(&self, catalog: &Catalog) -> ClientClass {
        self.session.client().at(catalog).0
    }
    /// Whether its listeners bind their ports.
    #[must_use]
    pub fn binds(&self) -> bool {
        self.session.client().class.binds
    }
    /// Returns what policies select the client by in this generation; `None` if none can.
    #[must_use]
    pub fn selectable(&self, catalog: &Catalog) -> Option<Selectable> {
        let session = self.session.status();
        session.client.selectable(catalog, session.listeners_wanted())
    }
    /// Returns the client's row.
    #[must_use]
    pub fn row(&self, catalog: &Catalog, now: Mono) -> ClientRow {
        let class = self.class(catalog);
        let session = self.session.status();
        let types = session.statuses(now);
        let text = |name: Option<&str>| name.map(Arc::from);
        ClientRow {
            connection: format!("{}-{}", session.client.id, self.id),
            node: Arc::clone(&session.client.id),
            kind: class.kind,
            variant: session.variant_name(),
            agent: Arc::clone(&session.client.agent),
            peer: self.peer,
            identity: self.verified.as_ref().map(|verified| verified.identity.clone()),
            proof: self.verified.as_ref().map(|verified| verified.proof),
            namespace: text(class.namespace.as_ref().map(|n| n.as_str())),
            cluster: text(class.cluster.as_ref().map(|n| n.as_str())),
            network: text(class.network.as_ref().map(|n| n.as_str())),
            age_ms: u64::try_from(now.since(self.since).as_millis()).unwrap_or(u64::MAX),
            mode: if session.is_bulk { "bulk" } else { "named" },
            generation: session.base_generation(),
            names: session.names,
            status: session.worst(),
            notes: notes(&session, catalog, &types),
            locality: class.locality,
            types,
        }
    }
}

fn notes(session: &SessionStatus, catalog: &Catalog, types: &[TypeStatus]) -> Vec<Note> {
    let mut out = Vec::new();
    let mut note = |code, text: String| out.push(Note { code, text });
    match session.client.remark(session.listeners_wanted(), catalog) {
        Some(Code::CLIENT_PARTIAL_MTLS) => {
            note(Code::CLIENT_PARTIAL_MTLS, without_mesh_tls(&session.client, catalog))
        }
        Some(Code::CLIENT_REFUSES_PLAIN) => note(
            Code::CLIENT_REFUSES_PLAIN,
            "refuses connections: STRICT without certificates of the mesh".into(),
        ),
        Some(Code::CLIENT_INBOUND_WITHHELD) => {
            let why = unread_policies(catalog).next().map(|unread| unread.text()).unwrap_or_default();
            note(Code::CLIENT_INBOUND_WITHHELD, format!("inbound listeners are withheld: {why}"));
        }
        Some(code) => note(code, code.info().title.into()),
        None => {}
    }
    let speaks = |cluster: &_| catalog.registries.values().any(|registry| registry.id.cluster == *cluster);
    // only a cluster that the client names can be its mistake
    if let Some(cluster) = session.client.class.cluster.as_ref().filter(|cluster| !speaks(cluster)) {
        note(Code::CLIENT_UNKNOWN_CLUSTER, format!("no registry has cluster {cluster}"));
    }
    if let Some(type_url) = &session.unknown_type {
        note(Code::CLIENT_TYPE, format!("type {type_url} is not served"));
    }
    for (name, text) in session.refusing_listeners() {
        note(
            Code::CLIENT_SERVER_REFUSES,
            format!("{name} refuses every call, because the server rejected it: {text}"),
        );
    }
    for name in session.too_large(catalog) {
        let text = "its AuthorizationPolicies are larger together than a gRPC client takes";
        note(Code::CLIENT_SERVER_REFUSES, format!("{name} refuses every call: {text}"));
    }
    for nack in types.iter().filter_map(|t| t.nack.as_ref()) {
        note(Code::CLIENT_NACK, nack.text.to_string());
    }
    out
}

/// Returns why a sidecar has no mesh TLS: it is not automatic, its node names no certificates, or an xDS cluster that the settings do
/// not list.
fn without_mesh_tls(client: &ClientNode, catalog: &Catalog) -> String {
    let text = "xDS clusters without mesh TLS";
    if !catalog.settings.auto_mtls() {
        return format!("{text} where no rule sets it: settings.autoMtls is off");
    }
    let named = client.sds_cluster.as_ref();
    named.map_or_else(|| text.to_owned(), |name| format!("{text}: settings.sdsClusters does not list {name}"))
}

/// All clients with an open stream; the transport's limits bound it.
#[derive(Debug, Default)]
pub struct ClientTable {
    clients: DashMap<u64, Arc<Connected>>,
}

impl ClientTable {
    /// Returns all rows, by node and connection.
    #[must_use]
    pub fn rows(&self, catalog: &Catalog, now: Mono) -> Vec<ClientRow> {
        let mut rows: Vec<ClientRow> = self.all().iter().map(|client| client.row(catalog, now)).collect();
        rows.sort_by(|a, b| (&a.node, &a.connection).cmp(&(&b.node, &b.connection)));
        rows
    }
    /// Returns the clients of this node or connection id, the newest first.
    #[must_use]
    pub fn find(&self, id: &str) -> Vec<Arc<Connected>> {
        let mut found = self.all();
        found.retain(|client| *client.node() == *id || client.connection() == id);
        found.sort_by_key(|client| std::cmp::Reverse(client.id));
        found
    }
    /// Returns the clients of this `pod.namespace`, the newest first.
    #[must_use]
    pub fn find_pod(&self, pod: &str) -> Vec<Arc<Connected>> {
        let mut found = self.all();
        found.retain(|client| pod_of(&client.node()) == Some(pod));
        found.sort_by_key(|client| std::cmp::Reverse(client.id));
        found
    }
    /// Returns all clients, in no particular order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Connected>> {
        self.clients.iter().map(|entry| Arc::clone(entry.value())).collect()
    }
    /// Returns the number of clients.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.len()
    }
    /// Whether no client is connected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }
    pub(crate) fn insert(self: &Arc<Self>, client: Arc<Connected>) -> ClientEntryGuard {
        let id = client.id;
        self.clients.insert(id, client);
        ClientEntryGuard { table: Arc::clone(self), id }
    }
}

/// Entry of a client in the table; removes it when dropped.
#[derive(Debug)]
pub(crate) struct ClientEntryGuard {
    table: Arc<ClientTable>,
    id: u64,
}

impl Drop for ClientEntryGuard {
    fn drop(&mut self) {
        self.table.clients.remove(&self.id);
    }
}
