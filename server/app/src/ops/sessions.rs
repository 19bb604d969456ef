//! Connected clients as documents and for explanations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tributary_answer::Client;
use tributary_model::Catalog;
use tributary_registry_api::Clock;
use tributary_runtime::Handle;
use tributary_xds::answers::{CatalogAnswers, ResourceType};
use tributary_xds::counters::Counters;
use tributary_xds::session::{Delivery, SyncStatus, TypeStatus};
use tributary_xds::table::{ClientRow, ClientTable, Connected};
use tributary_xds::transport::XdsServer;

use super::counts::ServedCounts;
use crate::document::ClientItem;
use crate::document::clients::ClientTypeItem;

/// Clients of this server.
pub struct Sessions {
    /// Connected streams.
    pub table: Arc<ClientTable>,
    /// Counters.
    pub counters: Arc<Counters>,
    /// Services and endpoints that they are served.
    pub served: Arc<ServedCounts>,
    /// Source of their answers.
    pub answers: Arc<CatalogAnswers>,
    /// Server of the streams.
    pub server: XdsServer,
    /// Handle of the runtime.
    pub handle: Handle,
    /// Clock of the session times.
    pub clock: Arc<dyn Clock>,
    /// Whether the server is draining.
    pub draining: AtomicBool,
}

/// Client that a request names.
pub struct Found {
    connected: Arc<Connected>,
    /// The client as answers see it.
    pub client: Client,
}

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
    /// Returns every client.
    #[must_use]
    pub fn items(&self) -> Vec<ClientItem> {
        let (catalog, now) = (self.handle.catalog(), self.clock.now());
        self.table.rows(&catalog, now).into_iter().map(item).collect()
    }
    /// Returns the client of this node id or connection; the newest if several match.
    pub fn find(&self, catalog: &Catalog, id: &str) -> Result<Found, String> {
        let connected = self.table.find(id).into_iter().next();
        let connected = connected.ok_or_else(|| format!("no client `{id}` is connected"))?;
        let class = connected.class(catalog);
        let client = Client { class: class.clone(), ..Client::new(&connected.node(), class.kind) };
        Ok(Found { connected, client })
    }
}

impl Found {
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
        namespace: text(row.namespace),
        cluster: text(row.cluster),
        network: text(row.network),
        locality: row.locality.to_string(),
        connected_millis: row.age_ms,
        state: status_name(row.status).to_owned(),
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
        state: status_name(status.status).to_owned(),
        nack,
        nacked_names: names,
        sent_generation: status.sent_generation,
        acked_generation: status.acked_generation,
        acked_millis_ago: status.acked_age_ms,
        sent_millis_ago: status.sent_age_ms,
    }
}

const fn status_name(status: SyncStatus) -> &'static str {
    match status {
        SyncStatus::NotSent => "NOT SENT",
        SyncStatus::Synced => "SYNCED",
        SyncStatus::Stale => "STALE",
        SyncStatus::Error => "ERROR",
    }
}
