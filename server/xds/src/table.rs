//! Connected clients, for `get clients` and `explain --for-client`.
//!
//! A row is made from the session when it is asked for, so that it is never stale and costs
//! nothing until then.

use std::net::SocketAddr;
use std::sync::Arc;

use dashmap::DashMap;
use parking_lot::Mutex;
use tributary_model::{Catalog, ClientKind, Code, Identity, Locality, Mono};

use crate::answers::{ClientClass, ResourceType};
use crate::session::{Delivery, KindStatus, Session, SyncStatus};

/// A client with an open stream.
#[derive(Debug)]
pub struct Connected {
    /// Unique while the server runs.
    pub id: u64,
    /// Where it connects from.
    pub peer: SocketAddr,
    /// Who it has proved to be.
    pub identity: Option<Identity>,
    /// Since when.
    pub since: Mono,
    pub(crate) session: Mutex<Session>,
}

/// Something to know about a client.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// What it is.
    pub code: Code,
    /// It, in words.
    pub text: String,
}

/// One client, as shown.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ClientRow {
    /// `<node id>-<number>`, unique while the server runs.
    pub connection: String,
    /// The node id as the client said it.
    pub node: Arc<str>,
    /// What kind of client it is.
    pub kind: ClientKind,
    /// `sotw` or `delta`.
    pub variant: &'static str,
    /// The program.
    pub agent: Arc<str>,
    /// Where it connects from.
    pub peer: SocketAddr,
    /// Who it has proved to be.
    pub identity: Option<Identity>,
    /// Its namespace.
    pub namespace: Option<Arc<str>>,
    /// Its cluster.
    pub cluster: Option<Arc<str>>,
    /// Its network.
    pub network: Option<Arc<str>>,
    /// Where it runs.
    pub locality: Locality,
    /// How long it has been connected, in milliseconds.
    pub age_ms: u64,
    /// `follower` or `picker`.
    pub mode: &'static str,
    /// The generation that a follower has been told all of.
    pub generation: Option<u64>,
    /// How many names it subscribes to.
    pub names: usize,
    /// The worst of its types.
    pub status: SyncStatus,
    /// What is to be known about it: `partial: mtls`, refused resources, …
    pub notes: Vec<Note>,
    /// Its types.
    pub types: Vec<KindStatus>,
}

impl Connected {
    /// What the client has been told of one resource.
    #[must_use]
    pub fn delivery(&self, kind: ResourceType, name: &str) -> Delivery {
        self.session.lock().delivery(kind, name)
    }
    /// The node id as the client said it.
    #[must_use]
    pub fn node(&self) -> Arc<str> {
        Arc::clone(&self.session.lock().client().id)
    }
    /// `<node id>-<number>`.
    #[must_use]
    pub fn connection(&self) -> String {
        format!("{}-{}", self.node(), self.id)
    }
    /// What answers to it depend on, in this generation.
    #[must_use]
    pub fn class(&self, catalog: &Catalog) -> ClientClass {
        self.session.lock().client().at(catalog).0
    }
    /// The client as shown.
    #[must_use]
    pub fn row(&self, catalog: &Catalog, now: Mono) -> ClientRow {
        let class = self.class(catalog);
        let session = self.session.lock();
        let types = session.statuses(now);
        let text = |name: Option<&str>| name.map(Arc::from);
        ClientRow {
            connection: format!("{}-{}", session.client().id, self.id),
            node: Arc::clone(&session.client().id),
            kind: class.kind,
            variant: session.variant_name(),
            agent: Arc::clone(&session.client().agent),
            peer: self.peer,
            identity: self.identity.clone(),
            namespace: text(class.namespace.as_ref().map(|n| n.as_str())),
            cluster: text(class.cluster.as_ref().map(|n| n.as_str())),
            network: text(class.network.as_ref().map(|n| n.as_str())),
            age_ms: u64::try_from(now.since(self.since).as_millis()).unwrap_or(u64::MAX),
            mode: if session.follows() { "follower" } else { "picker" },
            generation: session.base_generation(),
            names: session.names(),
            status: worst(&types),
            notes: notes(&session, &class, catalog, &types),
            locality: class.locality,
            types,
        }
    }
}

fn worst(types: &[KindStatus]) -> SyncStatus {
    let has = |status| types.iter().any(|t| t.status == status);
    [SyncStatus::Error, SyncStatus::Stale, SyncStatus::Synced]
        .into_iter()
        .find(|status| has(*status))
        .unwrap_or(SyncStatus::NotSent)
}

fn notes(session: &Session, class: &ClientClass, catalog: &Catalog, types: &[KindStatus]) -> Vec<Note> {
    let mut out = Vec::new();
    let mut note = |code, text: String| out.push(Note { code, text });
    match session.client().remark(session.wants_listeners()) {
        Some(Code::CLIENT_PARTIAL_MTLS) => note(Code::CLIENT_PARTIAL_MTLS, "partial: mtls".into()),
        Some(code) => note(code, code.info().title.into()),
        None => {}
    }
    let speaks = |cluster: &_| catalog.registries.values().any(|registry| registry.id.cluster == *cluster);
    if let Some(cluster) = class.cluster.as_ref().filter(|cluster| !speaks(cluster)) {
        note(Code::CLIENT_UNKNOWN_CLUSTER, format!("no registry speaks for cluster {cluster}"));
    }
    if let Some(type_url) = session.unknown_type() {
        note(Code::CLIENT_TYPE, format!("type {type_url} is not served"));
    }
    for nack in types.iter().filter_map(|t| t.nack.as_ref()) {
        note(Code::CLIENT_NACK, nack.text.to_string());
    }
    out
}

/// All clients with an open stream; bounded by the transport's limits.
#[derive(Debug, Default)]
pub struct ClientTable {
    clients: DashMap<u64, Arc<Connected>>,
}

impl ClientTable {
    /// All rows, by node and connection.
    #[must_use]
    pub fn rows(&self, catalog: &Catalog, now: Mono) -> Vec<ClientRow> {
        let mut rows: Vec<ClientRow> = self.all().iter().map(|client| client.row(catalog, now)).collect();
        rows.sort_by(|a, b| (&a.node, &a.connection).cmp(&(&b.node, &b.connection)));
        rows
    }
    /// The clients of this node or connection id, the newest first.
    #[must_use]
    pub fn find(&self, id: &str) -> Vec<Arc<Connected>> {
        let mut found = self.all();
        found.retain(|client| *client.node() == *id || client.connection() == id);
        found.sort_by_key(|client| std::cmp::Reverse(client.id));
        found
    }
    /// All clients, in no order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Connected>> {
        self.clients.iter().map(|entry| Arc::clone(entry.value())).collect()
    }
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.len()
    }
    /// Whether there are none.
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

/// A client's place in the table; leaves it when dropped.
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
