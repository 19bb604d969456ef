//! The complete server under test without the command line: runtime, core, answers, sessions, port.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tributary_model::{Catalog, CatalogChanges, ObservedSince, RegistryUpdate};
use tributary_registry_api::ProcessClock;
use tributary_runtime::{Fanout, Handle, NoJournal, Runtime, RuntimeConfig, Source};
use tributary_suites::tls::Authority;
use tributary_xds::answers::{CatalogAnswers, ResourceType};
use tributary_xds::source::CatalogSource;
use tributary_xds::transport::tls::{Tls, TlsMaterial};
use tributary_xds::transport::{DeferredServer, XdsServer};

use crate::intake::spec;
use crate::naive::Content;
use crate::world::{Size, World};

/// A running server that serves a world; ends when dropped.
pub(crate) struct Rig {
    pub(crate) addr: String,
    /// Address for TLS with a certificate of the authority.
    pub(crate) tls_addr: String,
    pub(crate) authority: Authority,
    pub(crate) world: World,
    answers: Arc<CatalogAnswers>,
    server: XdsServer,
    source: Source,
    _runtime: Runtime,
    handle: Handle,
}

struct Woken(DeferredServer);

impl Fanout for Woken {
    fn published(&self, catalog: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince) {
        self.0.published(catalog, changed, observed);
    }
    fn is_writing(&self) -> bool {
        self.0.is_writing()
    }
}

struct Current(Handle);

impl CatalogSource for Current {
    fn current(&self) -> Arc<Catalog> {
        self.0.catalog()
    }
    fn ready(&self) -> bool {
        true
    }
}

impl Rig {
    /// Starts the server on a free port and waits until the world is published.
    pub(crate) async fn start(size: Size) -> Result<Self> {
        Self::serve(World::new(size)?).await
    }

    /// Starts the server with a world on a free port and waits until it is published.
    pub(crate) async fn serve(world: World) -> Result<Self> {
        let later = DeferredServer::default();
        let clock = Arc::new(ProcessClock::starting_now());
        let runtime = Runtime::start(
            RuntimeConfig::default(),
            clock,
            Arc::new(Woken(later.clone())),
            Box::new(NoJournal),
        );
        let handle = runtime.handle();
        let answers = Arc::new(CatalogAnswers::default());
        let server =
            XdsServer::builder(Arc::<CatalogAnswers>::clone(&answers), Arc::new(Current(handle.clone())))
                .build();
        later.set(&server);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?.to_string();
        server.listen(listener, None);
        let authority = Authority::new()?;
        let identity = authority.server("bench")?;
        let (certificates, key) = (identity.certificate.into_bytes(), identity.key.into_bytes());
        let tls = Tls::new(&TlsMaterial {
            certificates,
            key,
            client_ca: None,
            is_certificate_optional: false,
            protocols: TlsMaterial::GRPC,
        })?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let tls_addr = listener.local_addr()?.to_string();
        server.listen(listener, Some(Arc::new(tls)));
        let source = handle.source(spec()?).await?;
        let rig =
            Self { addr, tls_addr, authority, world, answers, server, source, _runtime: runtime, handle };
        rig.relist().await?;
        Ok(rig)
    }

    /// Reports everything again as a complete list and waits until it is taken.
    pub(crate) async fn relist(&self) -> Result<()> {
        let deltas = self.handle.inspect(|core| core.counters().updates).await?;
        let listing = self.world.listing()?;
        let expected = deltas + listing.len() as u64;
        self.source.updates.send_all(listing);
        while self.handle.inspect(|core| core.counters().updates).await? < expected {
            tokio::task::yield_now().await;
        }
        while self.handle.catalog().hosts.len() < self.world.services() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Replaces the first `moved` addresses of a service.
    pub(crate) fn replace(&self, service: usize, moved: usize) -> Result<()> {
        self.update(self.world.group(service, moved)?)
    }

    /// Sets the number of connections that the DestinationRule of a service allows.
    pub(crate) fn change_rule(&self, service: usize, connections: u32) -> Result<()> {
        self.update(self.world.rule(service, connections)?)
    }

    /// Sets the weight of a service in its VirtualService.
    pub(crate) fn change_route(&self, service: usize, weight: u32) -> Result<()> {
        self.update(self.world.route(service, weight)?)
    }

    fn update(&self, update: RegistryUpdate) -> Result<()> {
        if self.source.updates.send(update) { Ok(()) } else { Err(anyhow!("the updates is closed")) }
    }

    /// Returns the number of resources encoded so far, of every kind.
    pub(crate) fn encodes(&self) -> u64 {
        ResourceType::ALL.iter().map(|&kind| self.answers.counters().encodes(kind)).sum()
    }

    /// Returns the number of bytes of encoded resources in memory.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.answers.held_bytes()
    }

    /// Returns a counter of the sessions by name.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.server.counters().all().into_iter().find(|(n, _)| *n == name).map_or(0, |(_, v)| v)
    }

    /// Returns the number of views that the core has built so far.
    pub(crate) async fn views(&self) -> Result<u64> {
        Ok(self.handle.inspect(|core| core.counters().views).await?)
    }

    /// Returns when nothing is being sent any more.
    pub(crate) async fn quiet(&self) -> Result<()> {
        let mut sends = self.count("sends");
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = self.count("sends");
            if std::mem::replace(&mut sends, now) == now {
                return Ok(());
            }
        }
    }

    /// Whether an xDS cluster that was encoded has the transport sockets of mesh TLS.
    pub(crate) fn has_mesh_tls(&self) -> bool {
        let catalog = self.handle.catalog();
        let ports = catalog.services().flat_map(|view| view.ports.iter());
        let encoded =
            ports.flat_map(|port| port.cluster.encoded.made().into_iter().flat_map(|all| all.to_vec()));
        let bodies = encoded.filter_map(|resource| resource.body());
        bodies.into_iter().any(|body| body.windows(13).any(|text| text == b"tlsMode-istio"))
    }

    /// Returns everything that it serves to the bench's clients, decoded, for the plain server.
    pub(crate) fn content(&self) -> Result<Content> {
        let catalog = self.handle.catalog();
        let mut clusters = Vec::new();
        let mut assignments = Vec::new();
        for view in catalog.services() {
            for port in view.ports.iter() {
                clusters.extend(port.cluster.encoded.made().into_iter().flat_map(|a| a.to_vec()));
                assignments.extend(port.endpoints.encoded.made().into_iter().flat_map(|a| a.to_vec()));
            }
        }
        let bodies = |all: Vec<Arc<tributary_model::EncodedResource>>| -> Vec<bytes::Bytes> {
            all.iter().filter_map(|e| e.body()).collect()
        };
        Content::from_encoded(&bodies(clusters), &bodies(assignments))
    }
}
