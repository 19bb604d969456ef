//! Backend of the admin surface: reads the catalog, queries the core and the sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;
use tributary_core::{ProblemView, RegistryStatus};
use tributary_model::{Catalog, Mono, ObjectId, RegistryName, ServiceKey, Trace};
use tributary_registry_api::Clock;
use tributary_runtime::{Handle, ReadyBecause};
use tributary_xds::answers::ResourceType;

use super::change_feed::ChangeFeed;
use super::clusters::board::Board;
use super::clusters::objects::ClusterObjects;
use super::clusters::tries::Tries;
use super::clusters::{self, ClusterReport};
use super::counts::RegistryCounts;
use super::diff::{self, Differences};
use super::explain::{self, ExplainRequest, History, Listing, PartOfService};
use super::invalid;
use super::notices::Withdrawn;
use super::receipts::Receipts;
use super::rejected_patches::rejected_patches;
use super::removals;
use super::removed::Removed;
use super::report::{self, CoreReport, Report};
use super::resources::{self, ResourceRequest, Resources};
use super::routes::{self, Routes};
use super::timeline::Timeline;
use super::{metrics, notices, sessions::Sessions, state};
use crate::admin::backend::{Answer, Explained, NotThere, Summary, Versions};
use crate::admin::metrics::Sample;
use crate::admin::{AdminBackend, Check, Readiness};
use crate::config::RegistryKind;
use crate::document::policies::{self, PolicyFacts, is_of_unserved_kind, of_problem};
use crate::document::state::{EndItem, Part, StateDocument};
use crate::document::{
    CertificateItem, ClientItem, ClusterItem, ClusterSourceItem, Filter, HeldItem, Page, PolicyItem,
    ReceiptItem, RegistryItem, TriedCluster,
};
use crate::reload::Running;
use crate::tokens::Tokens;
use crate::wiring::journal::State;

/// Time that the core may take for a batch before the server counts as dead.
const TURN: Duration = Duration::from_secs(10);

/// Maximum number of policies in conditions of readiness.
const MOST_POLICIES: usize = 16;
/// Maximum number of characters of a reason in a condition of readiness.
const LONGEST_REASON: usize = 200;

/// Running server.
pub struct LiveBackend {
    /// Name of the server.
    pub name: String,
    /// Handle of the core.
    pub handle: Handle,
    /// Configuration.
    pub running: Arc<Running>,
    /// Connected clients.
    pub sessions: Arc<Sessions>,
    /// Clock of the core's times.
    pub clock: Arc<dyn Clock>,
    /// Journal.
    pub state: State,
    /// Removed clusters.
    pub receipts: Receipts,
    /// What the task of the remote clusters publishes.
    pub remotes: Board,
    /// Connects to clusters on request.
    pub tries: Tries,
    /// Objects of each cluster.
    pub objects: ClusterObjects,
    /// Versions for event streams.
    pub changes: ChangeFeed,
    /// The last changes.
    pub timeline: Timeline,
    /// What the catalog has no longer.
    pub removed: Removed,
}

impl LiveBackend {
    /// Returns the core's report, taken between two batches; empty once the server stops.
    async fn core_report(&self) -> CoreReport {
        let look = |core: &tributary_core::Core| CoreReport {
            registries: core.status(),
            held: core.held().collect(),
            problems: core.problems().collect(),
        };
        self.handle.inspect(look).await.unwrap_or_default()
    }
    /// Returns problems that a condition selects, at most as many as a list has items; none once the server stops.
    async fn problems(&self, takes: impl Fn(&ProblemView) -> bool + Send + 'static) -> Vec<ProblemView> {
        let look =
            move |core: &tributary_core::Core| core.problems().filter(takes).take(Filter::MAX).collect();
        self.handle.inspect(look).await.unwrap_or_default()
    }
    /// Returns the core's facts about what lists an endpoint. The core looks for the problems of these objects alone.
    async fn history(&self, listing: Listing) -> History {
        let Listing { services: keys, workloads } = listing;
        let look = move |core: &tributary_core::Core| {
            let trace = |key: ServiceKey| {
                let mut trace = Trace::default();
                core.trace(&key, &mut trace);
                (key, trace.steps)
            };
            let services: BTreeMap<_, _> = keys.into_iter().map(trace).collect();
            let objects = services.values().flatten().filter_map(|step| step.object.as_ref());
            let objects: BTreeSet<&ObjectId> = objects.map(|object| &object.id).collect();
            let is_workload = |id: &ObjectId| workloads.iter().any(|workload| workload.is(id));
            let is_one = |view: &ProblemView| {
                let id = &view.object.id;
                objects.contains(id) || is_workload(id)
            };
            let problems = core.problems().filter(is_one).take(Filter::MAX).collect();
            History { services, workloads, problems }
        };
        self.handle.inspect(look).await.unwrap_or_default()
    }
    async fn withdrawn(&self) -> Withdrawn {
        self.handle.inspect(|core| notices::withdrawn(&core.status())).await.unwrap_or_default()
    }
    /// Returns the registries without their held removals and problems, which metrics only count.
    fn summaries(&self, registries: Vec<RegistryStatus>, counts: &RegistryCounts) -> Vec<RegistryItem> {
        let core = CoreReport { registries, ..CoreReport::default() };
        let (runs, kinds, catalog) = (self.handle.runs(), self.kinds(), self.handle.catalog());
        let now = self.clock.now();
        Report { core: &core, runs: &runs, catalog: &catalog, counts, kinds: &kinds, now }.items()
    }
    /// Returns every cluster, and the sources that declare some.
    pub(crate) fn clusters_of(
        &self,
        registries: &[RegistryStatus],
    ) -> (Vec<ClusterItem>, Vec<ClusterSourceItem>) {
        let config = self.running.config();
        let report = ClusterReport {
            view: &self.remotes.view(),
            configured: &clusters::configured(&config),
            registries,
            runs: &self.handle.runs(),
            counts: &self.sessions.served.sums(),
            objects: &self.objects.all(),
            bound: clusters::bound(&config),
            now: self.clock.now(),
            wall: Timestamp::now(),
        };
        (report.items(), report.sources(config.finds_remotes()))
    }
    /// Returns the kinds of the registries, by name; those that are not configured are of remote clusters.
    pub(crate) fn kinds(&self) -> BTreeMap<String, RegistryKind> {
        let config = self.running.config();
        let remotes = self.handle.runs().into_keys().map(|name| (name.to_string(), RegistryKind::Kubernetes));
        let registries = config.registries.iter();
        let configured = registries.flat_map(|r| r.names().into_iter().map(|name| (name, r.kind())));
        remotes.chain(configured).collect()
    }
    /// Returns the readiness, with the given reasons of registries that have not synced.
    fn judge(&self, reasons: &BTreeMap<RegistryName, String>) -> Readiness {
        let start = self.handle.readiness().borrow().clone();
        let because = match start.ready {
            None => "registries have not synced",
            Some(ReadyBecause::Synced) => "every registry has synced",
            Some(ReadyBecause::Restored) => "the last known catalog was restored",
            Some(ReadyBecause::TimedOut) => "the timeout of the first sync has passed",
        };
        let ready = start.is_ready() && !self.sessions.is_draining();
        let mut checks = vec![Check::new("start", start.is_ready(), because)];
        checks.push(Check::new("not-draining", !self.sessions.is_draining(), ""));
        for name in &start.unknown {
            let why = not_synced(reasons.get(name).map_or("", String::as_str));
            checks.push(Check::new(format!("registry {name}"), false, why));
        }
        if let Some(trouble) = self.state.trouble() {
            checks.push(Check::new("state", false, trouble));
        }
        let complaint = self.running.complaint();
        checks.push(Check::new("config", complaint.is_none(), complaint.unwrap_or_default()));
        Readiness { ready, checks }
    }
}

#[async_trait]
impl AdminBackend for LiveBackend {
    fn now(&self) -> Mono {
        self.clock.now()
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn catalog(&self) -> Arc<Catalog> {
        self.handle.catalog()
    }
    fn generations(&self) -> watch::Receiver<u64> {
        self.handle.generation()
    }
    fn readiness(&self) -> Readiness {
        self.judge(&BTreeMap::new())
    }
    async fn explained_readiness(&self) -> Readiness {
        let all = tokio::time::timeout(TURN, self.handle.inspect(tributary_core::Core::status)).await;
        let (all, runs) = (all.ok().and_then(Result::ok).unwrap_or_default(), self.handle.runs());
        let reason = |status: &RegistryStatus| {
            let overall = report::state(status, runs.get(&status.id.name));
            (status.id.name.clone(), overall.reason.to_string())
        };
        let waiting = |status: &RegistryStatus| {
            let why = notices::waiting(status).or_else(|| notices::failing(status))?;
            Some(Check::new(format!("run {}", status.id.name), false, why))
        };
        // a registry counts as synced without a collection that cannot be read
        let unread = |status: &RegistryStatus| {
            let why = notices::unread(status)?;
            Some(Check::new(format!("registry {}", status.id.name), false, bounded(&why)))
        };
        let mut readiness = self.judge(&all.iter().map(reason).collect());
        let is_named = |check: &Check| readiness.checks.iter().any(|other| other.name == check.name);
        let unread: Vec<_> = all.iter().filter_map(unread).filter(|check| !is_named(check)).collect();
        readiness.checks.extend(unread);
        readiness.checks.extend(all.iter().filter_map(waiting));
        let view = self.remotes.view();
        let unread = clusters::sources::not_read(&view).into_iter();
        let unread = unread.chain(clusters::sources::clusters_not_read(&view));
        readiness.checks.extend(unread.map(|(name, why)| Check::new(name, false, bounded(&why))));
        let problems = self.problems(|problem| of_problem(problem).is_some()).await;
        let missing =
            invalid::policies_not_served(&self.handle.catalog(), &problems).into_iter().take(MOST_POLICIES);
        readiness.checks.extend(
            missing.map(|(policy, why)| Check::new(format!("policy {policy}"), false, bounded(&why))),
        );
        readiness
    }
    async fn is_alive(&self) -> bool {
        tokio::time::timeout(TURN, self.handle.inspect(|_| ())).await.is_ok_and(|answer| answer.is_ok())
    }
    fn changes(&self) -> watch::Receiver<Versions> {
        self.changes.subscribe()
    }
    async fn summary(&self) -> Summary {
        let look = |core: &tributary_core::Core| (core.status(), core.held_count());
        let (statuses, held) = self.handle.inspect(look).await.unwrap_or_default();
        let counts = self.sessions.served.sums();
        Summary {
            registries: self.summaries(statuses, &counts),
            counts,
            clients: self.sessions.states(),
            held: held as u64,
        }
    }
    fn timeline(&self) -> Timeline {
        self.timeline.clone()
    }
    async fn clients(&self, filter: Filter) -> Page<ClientItem> {
        let sessions = Arc::clone(&self.sessions);
        run_blocking(move || sessions.page(&filter)).await
    }
    fn has_binding_client(&self) -> bool {
        self.sessions.table.all().iter().any(|client| client.binds())
    }
    async fn policies(&self, filter: Filter) -> Page<PolicyItem> {
        let problems = self.problems(|one| of_problem(one).is_some() || is_of_unserved_kind(one)).await;
        let (catalog, sessions) = (self.handle.catalog(), Arc::clone(&self.sessions));
        let make = move || {
            let connected = sessions.table.all();
            let clients = connected.iter().filter_map(|client| client.selectable(&catalog)).collect();
            let used_patches = sessions.answers.used(&catalog);
            let refused_patches = sessions.answers.refused_patches(&catalog);
            let rejected_patches = rejected_patches(&catalog, &connected);
            let facts = PolicyFacts { problems, clients, used_patches, refused_patches, rejected_patches };
            policies::list(&catalog, &facts, &filter)
        };
        run_blocking(make).await
    }
    async fn registries(&self) -> Vec<RegistryItem> {
        let (core, runs, kinds) = (self.core_report().await, self.handle.runs(), self.kinds());
        let (catalog, now) = (self.handle.catalog(), self.clock.now());
        let served = Arc::clone(&self.sessions.served);
        let make = move || {
            let counts = served.sums();
            Report { core: &core, runs: &runs, catalog: &catalog, counts: &counts, kinds: &kinds, now }
                .items()
        };
        run_blocking(make).await
    }
    fn receipts(&self) -> Vec<ReceiptItem> {
        self.receipts.all()
    }
    async fn clusters(&self) -> (Vec<ClusterItem>, Vec<ClusterSourceItem>) {
        self.clusters_of(&self.handle.inspect(tributary_core::Core::status).await.unwrap_or_default())
    }
    async fn try_clusters(&self, name: Option<&str>) -> Option<Vec<TriedCluster>> {
        self.tries.all(&self.running.config(), name).await
    }
    async fn held(&self) -> Vec<HeldItem> {
        let (all, now) = (removals::held(&self.handle).await, self.clock.now());
        run_blocking(move || all.iter().map(|held| removals::item(held, now)).collect()).await
    }
    async fn release(&self, id: &str) -> Option<HeldItem> {
        let released = removals::release(&self.handle, id, self.clock.now()).await?;
        self.timeline.add(Timestamp::now(), removals::entry(&released));
        Some(released)
    }
    async fn state(&self) -> StateDocument {
        state::document(&self.state, &self.handle, self.clock.now()).await
    }
    async fn end(&self, part: Part, really: bool) -> Result<Vec<EndItem>, NotThere> {
        state::end(&self.handle, part, really).await
    }
    async fn accept(&self, registry: RegistryName) -> Result<(), NotThere> {
        state::is_accepted_here(&self.remotes.view(), &registry)?;
        state::accept(&self.handle, registry).await
    }
    async fn explain(
        &self,
        endpoint: &str,
        (host, subset): (Option<&str>, Option<&str>),
        client: Option<&str>,
    ) -> Explained {
        let catalog = self.handle.catalog();
        let query: tributary_answer::Query = match endpoint.parse() {
            Ok(query) => query,
            Err(never) => match never {},
        };
        let of = PartOfService::read(&catalog, host, subset)?;
        let request = ExplainRequest {
            removed: self.removed.of_endpoint(&query, of.named()),
            of,
            catalog,
            endpoint: endpoint.to_owned(),
            sessions: Arc::clone(&self.sessions),
            client: client.map(ToOwned::to_owned),
            withdrawn: self.withdrawn().await,
            now: self.clock.now(),
        };
        let (request, listing) = run_blocking(move || {
            let listing = request.listing();
            (Some(request), listing)
        })
        .await;
        let Some(request) = request else { return Err("the explanation failed".to_owned()) };
        let history = self.history(listing).await;
        run_blocking(move || Some(explain::explain(&request, &history)))
            .await
            .unwrap_or_else(|| Ok(Answer::default()))
    }
    async fn why_not(&self, host: &str, subset: Option<&str>, client: &str) -> Explained {
        let (catalog, sessions, now) = (self.handle.catalog(), Arc::clone(&self.sessions), self.clock.now());
        let (host, client, removed) = (host.to_owned(), client.to_owned(), self.removed.clone());
        let subset = explain::subset(subset)?;
        let problems = self.problems(invalid::may_declare).await;
        let withdrawn = self.withdrawn().await;
        let of = move || {
            let of = (&*host, subset.as_ref());
            Some(explain::why_not(&catalog, &sessions, of, &client, (&problems, &removed, &withdrawn), now))
        };
        run_blocking(of).await.unwrap_or_else(|| Err("the explanation failed".to_owned()))
    }
    async fn resources(&self, request: ResourceRequest) -> Resources {
        let (catalog, sessions) = (self.handle.catalog(), Arc::clone(&self.sessions));
        run_blocking(move || Some(resources::list(&catalog, &sessions, &request)))
            .await
            .unwrap_or_else(|| Err("the resources could not be listed".to_owned()))
    }
    async fn routes(&self, host: &str, client: &str) -> Routes {
        let (catalog, sessions) = (self.handle.catalog(), Arc::clone(&self.sessions));
        let (host, client) = (host.to_owned(), client.to_owned());
        run_blocking(move || Some(routes::list(&catalog, &sessions, &host, &client)))
            .await
            .unwrap_or_else(|| Err("the routes could not be listed".to_owned()))
    }
    async fn diff(&self, a: &str, b: &str, kind: Option<ResourceType>) -> Differences {
        let (catalog, sessions) = (self.handle.catalog(), Arc::clone(&self.sessions));
        let (a, b) = (a.to_owned(), b.to_owned());
        run_blocking(move || Some(diff::list(&catalog, &sessions, (&a, &b), kind)))
            .await
            .unwrap_or_else(|| Err("the clients could not be compared".to_owned()))
    }
    fn certificates(&self) -> Vec<CertificateItem> {
        self.running.certificates()
    }
    fn config(&self) -> Value {
        self.running.document()
    }
    async fn samples(&self) -> Vec<Sample> {
        let look = |core: &tributary_core::Core| (core.status(), core.counters());
        let looked = self.handle.inspect(look).await.ok();
        let (statuses, core) = looked.map_or((Vec::new(), None), |(all, counters)| (all, Some(counters)));
        let (counts, sessions) = (self.sessions.served.sums(), &self.sessions);
        let clusters = self.clusters_of(&statuses).0;
        let config = self.running.config();
        metrics::all(&metrics::State {
            ready: self.readiness().ready,
            catalog: &self.handle.catalog(),
            registries: &self.summaries(statuses, &counts),
            clusters: &clusters,
            counts: &counts,
            clients: &sessions.counters.clients,
            reloads: self.running.reloads(),
            core,
            runtime: self.handle.stats(),
            xds: sessions.counters(),
            pushes: &sessions.counters.pushes,
            cached: sessions.answers.plain().held_bytes(),
            inbound: sessions.server.inbound_bytes(),
            keeps_state: self.state.directory.is_some(),
            journal: self.state.stats(),
            tokens: sessions.tokens.as_ref().map(Tokens::counts),
            spans: sessions.traces.as_ref().map(|traces| traces.results()).unwrap_or_default(),
            now: self.clock.now(),
            istio_names: config.metrics.istio_names.then_some(config.cluster_id.as_str()),
        })
    }
}

/// Describes a registry that has not synced.
fn not_synced(reason: &str) -> String {
    if reason.is_empty() {
        return "has not synced".to_owned();
    }
    format!("has not synced: {}", bounded(reason))
}

/// Returns at most [`LONGEST_REASON`] characters of a text.
fn bounded(text: &str) -> String {
    let shown: String = text.chars().take(LONGEST_REASON).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{more}")
}

/// Walks over the whole catalog run on a blocking thread, so that no stream stalls.
async fn run_blocking<T: Default + Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(make).await.unwrap_or_default()
}
