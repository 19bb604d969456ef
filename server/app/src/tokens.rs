//! Reviews of tokens: one request for each token, kept for a short time.
//!
//! The xDS server calls [`Tokens`] for each stream that presents a token, the remote admin listener for each request. [`cache`] and [`verdict`] are pure; [`ClusterReviews`] is the
//! only I/O, which `wiring::tokens` implements. Tokens are remembered by hash, never by content. Guarantees that equal tokens of
//! one cluster share one request, that a cluster has at most [`AT_ONCE`] requests in flight, and that a cluster that does not answer is
//! asked again only after a pause; a token that was granted before stays granted meanwhile, until its entry ends.

mod cache;
mod verdict;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use tributary_model::{ClusterId, Mono};
use tributary_registry_api::{Backoff, BackoffPolicy, Clock, Credential, SplitMix};
use tributary_xds::token::{BearerToken, ServiceAccount, TokenRefused, TokenReviewer};

use cache::{Key, TokenCache};
pub use verdict::Verdict;
use verdict::lasting;
pub(crate) use verdict::{account_of, user_of};

/// Most requests in flight in one cluster.
const AT_ONCE: usize = 32;
/// Most tokens under review, over all clusters: more streams than this are refused and try again.
const MAX_FLIGHTS: usize = 20_000;
/// Pauses after failed requests, shorter than those of watches: a client waits for the end of one.
const PAUSES: BackoffPolicy = BackoffPolicy {
    first: Duration::from_secs(1),
    cap: Duration::from_secs(5),
    reset_after: Duration::from_secs(120),
    jitter: 0.5,
};

/// Result of a request: what the token grants by the cluster's review, or why there was none.
pub type Reviewed<G> = Result<Verdict<G>, String>;

/// Requests reviews from clusters.
pub trait ClusterReviews<G>: Send + Sync + 'static {
    /// Whether a registry reads this cluster.
    fn knows(&self, cluster: &ClusterId) -> bool;
    /// Requests one review. Ends in bounded time.
    fn review(
        &self,
        cluster: ClusterId,
        token: Credential,
        audiences: Arc<[String]>,
    ) -> BoxFuture<'static, Reviewed<G>>;
}

/// Counts of reviews.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Requests after which a token was granted.
    pub granted: u64,
    /// Requests after which a token was refused.
    pub refused: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Tokens that were known.
    pub cached: u64,
}

#[derive(Default)]
struct Counts {
    granted: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    cached: AtomicU64,
}

/// Reviews tokens, each of which grants a `G`. Clones share the cache.
pub struct Tokens<G>(Arc<Inner<G>>);

impl<G> Clone for Tokens<G> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// What a token grants, or why nothing.
pub type Decided<G> = Result<G, TokenRefused>;
type Flight<G> = Shared<BoxFuture<'static, Decided<G>>>;

struct Inner<G> {
    clusters: Arc<dyn ClusterReviews<G>>,
    audiences: Arc<[String]>,
    clock: Arc<dyn Clock>,
    wall: fn() -> Timestamp,
    state: Mutex<State<G>>,
    counts: Counts,
}

struct State<G> {
    cache: TokenCache<G>,
    flights: HashMap<Key, Flight<G>>,
    requests: BTreeMap<ClusterId, ClusterRequests>,
    random: SplitMix,
}

/// Requests to one cluster.
struct ClusterRequests {
    permits: Arc<Semaphore>,
    backoff: Backoff,
    /// Time before which nothing is requested, and why.
    paused: Option<(Mono, String)>,
}

impl ClusterRequests {
    fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(AT_ONCE)), backoff: Backoff::new(PAUSES), paused: None }
    }
}

impl<G: Clone + Send + Sync + 'static> Tokens<G> {
    /// Creates it for tokens of one of these audiences. `wall` returns the time of day, in which tokens state when they expire.
    #[must_use]
    pub fn new(
        clusters: Arc<dyn ClusterReviews<G>>,
        audiences: &[String],
        (clock, wall): (Arc<dyn Clock>, fn() -> Timestamp),
        seed: u64,
    ) -> Self {
        let state = State {
            cache: TokenCache::default(),
            flights: HashMap::new(),
            requests: BTreeMap::new(),
            random: SplitMix::seeded(seed),
        };
        let (state, counts) = (Mutex::new(state), Counts::default());
        Self(Arc::new(Inner { clusters, audiences: audiences.into(), clock, wall, state, counts }))
    }
    /// Returns the counts.
    #[must_use]
    pub fn counts(&self) -> TokenCounts {
        let Counts { granted, refused, failed, cached } = &self.0.counts;
        TokenCounts {
            granted: granted.load(Relaxed),
            refused: refused.load(Relaxed),
            failed: failed.load(Relaxed),
            cached: cached.load(Relaxed),
        }
    }
    /// Returns what a token grants in a cluster.
    pub fn decide(&self, cluster: ClusterId, token: BearerToken) -> BoxFuture<'static, Decided<G>> {
        let inner = Arc::clone(&self.0);
        async move { inner.decide(cluster, &token).await }.boxed()
    }
}

impl TokenReviewer for Tokens<ServiceAccount> {
    fn review(&self, cluster: ClusterId, token: BearerToken) -> BoxFuture<'static, Decided<ServiceAccount>> {
        self.decide(cluster, token)
    }
    fn audiences(&self) -> String {
        self.0.audiences.join(" or ")
    }
}

impl<G: Clone + Send + Sync + 'static> Inner<G> {
    async fn decide(self: Arc<Self>, cluster: ClusterId, token: &BearerToken) -> Decided<G> {
        if !self.clusters.knows(&cluster) {
            self.state.lock().requests.remove(&cluster);
            return Err(TokenRefused::NoCluster);
        }
        let flight = self.join(Key::of(cluster, token.expose()), token);
        match flight {
            Ok(flight) => flight.await,
            Err(decided) => decided,
        }
    }
    /// Returns the review of a token, which begins if none is in flight; or what is known of the token.
    fn join(self: &Arc<Self>, key: Key, token: &BearerToken) -> Result<Flight<G>, Decided<G>> {
        let mut state = self.state.lock();
        if let Some(known) = state.cache.get(self.clock.now(), &key) {
            self.counts.cached.fetch_add(1, Relaxed);
            return Err(known.map_err(TokenRefused::Invalid));
        }
        if let Some(flight) = state.flights.get(&key) {
            return Ok(flight.clone());
        }
        if state.flights.len() >= MAX_FLIGHTS {
            return Err(Err(TokenRefused::Unavailable("too many tokens are under review".to_owned())));
        }
        let permits = state.permits(key.cluster(), self.clock.now()).map_err(Err)?;
        let token = Credential::new(token.expose().to_vec());
        let flight = self.begin(key.clone(), token, permits);
        state.flights.insert(key, flight.clone());
        Ok(flight)
    }
    /// Begins a review in a task of its own: it ends even if the stream that began it does.
    fn begin(self: &Arc<Self>, key: Key, token: Credential, permits: Arc<Semaphore>) -> Flight<G> {
        let (done, result) = oneshot::channel();
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let until = lasting::ends(&token);
            let permit = permits.acquire_owned().await;
            let paused = inner.state.lock().paused(key.cluster(), inner.clock.now());
            let reviewed = match paused {
                Some(why) => Err(why),
                None => inner.request(&key, token).await,
            };
            drop(permit);
            let decided = inner.end(&key, reviewed, until);
            // every stream that waited may have ended
            let _ = done.send(decided);
        });
        let ended = || Err(TokenRefused::Unavailable("its review ended".to_owned()));
        result.map(move |result| result.unwrap_or_else(|_| ended())).boxed().shared()
    }
    async fn request(&self, key: &Key, token: Credential) -> Reviewed<G> {
        let audiences = Arc::clone(&self.audiences);
        let reviewed = self.clusters.review(key.cluster().clone(), token, audiences).await;
        if reviewed.is_err() {
            self.counts.failed.fetch_add(1, Relaxed);
        }
        reviewed
    }
    /// Records the result of a review.
    fn end(&self, key: &Key, reviewed: Reviewed<G>, until: Option<Timestamp>) -> Decided<G> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.flights.remove(key);
        let verdict = match reviewed {
            Ok(verdict) => verdict,
            Err(why) => {
                state.pause(key.cluster(), now, &why);
                return Err(TokenRefused::Unavailable(why));
            }
        };
        state.succeeded(key.cluster());
        let count = if verdict.is_ok() { &self.counts.granted } else { &self.counts.refused };
        count.fetch_add(1, Relaxed);
        state.cache.put(now, key.clone(), verdict.clone(), lasting::of(&verdict, until, (self.wall)()));
        verdict.map_err(TokenRefused::Invalid)
    }
}

impl<G> State<G> {
    /// Returns the permits of a cluster's requests, or why none is made now.
    fn permits(&mut self, cluster: &ClusterId, now: Mono) -> Result<Arc<Semaphore>, TokenRefused> {
        if let Some(why) = self.paused(cluster, now) {
            return Err(TokenRefused::Unavailable(why));
        }
        Ok(Arc::clone(&self.requests.entry(cluster.clone()).or_insert_with(ClusterRequests::new).permits))
    }
    fn paused(&self, cluster: &ClusterId, now: Mono) -> Option<String> {
        let (until, why) = self.requests.get(cluster)?.paused.as_ref()?;
        (now < *until).then(|| why.clone())
    }
    /// Requests nothing for a while. Requests that were in flight together count as one failure.
    fn pause(&mut self, cluster: &ClusterId, now: Mono, why: &str) {
        let Some(cluster_requests) = self.requests.get_mut(cluster) else { return };
        if cluster_requests.paused.as_ref().is_none_or(|(until, _)| *until <= now) {
            let pause = cluster_requests.backoff.next(&mut self.random);
            cluster_requests.paused = Some((now.plus(pause), why.to_owned()));
        }
    }
    fn succeeded(&mut self, cluster: &ClusterId) {
        if let Some(cluster_requests) = self.requests.get_mut(cluster) {
            cluster_requests.backoff.reset();
            cluster_requests.paused = None;
        }
    }
}

#[cfg(test)]
mod tests;
