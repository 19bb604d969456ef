//! One request for each token, pauses, and what counts without a request.

use tokio::sync::Notify;
use tributary_kube_client::ReviewedToken;
use tributary_registry_api::ManualClock;

use super::*;

/// Cluster `east`, which grants tokens that begin with `good`.
#[derive(Default)]
struct East {
    asked: AtomicU64,
    open: Notify,
    waits: std::sync::atomic::AtomicBool,
    is_stopped: std::sync::atomic::AtomicBool,
}

struct Reviews(Arc<East>);

impl ClusterReviews<ServiceAccount> for Reviews {
    fn knows(&self, cluster: &ClusterId) -> bool {
        cluster.as_str() == "east"
    }
    fn review(
        &self,
        _: ClusterId,
        token: Credential,
        audiences: Arc<[String]>,
    ) -> BoxFuture<'static, Reviewed<ServiceAccount>> {
        let east = Arc::clone(&self.0);
        async move {
            east.asked.fetch_add(1, Relaxed);
            if east.waits.load(Relaxed) {
                east.open.notified().await;
            }
            if east.is_stopped.load(Relaxed) {
                return Err("no answer".to_owned());
            }
            let authenticated = token.expose().starts_with(b"good");
            let mut out = ReviewedToken { authenticated, ..ReviewedToken::default() };
            out.user.username = "system:serviceaccount:shop:pay".to_owned();
            out.audiences = audiences.to_vec();
            Ok(account_of(&out, &audiences))
        }
        .boxed()
    }
}

fn mk() -> (Tokens<ServiceAccount>, Arc<East>, Arc<ManualClock>) {
    let (east, clock) = (Arc::<East>::default(), Arc::<ManualClock>::default());
    let wall = || Timestamp::from_second(1_000).unwrap_or_default();
    let shared = Arc::<ManualClock>::clone(&clock);
    let tokens = Tokens::new(Arc::new(Reviews(Arc::clone(&east))), &["test".to_owned()], (shared, wall), 1);
    (tokens, east, clock)
}

/// {"exp":1060}
const GOOD: &str = "good.eyJleHAiOjEwNjB9.c2ln";

async fn decide(tokens: &Tokens<ServiceAccount>, cluster: &str, token: &str) -> Decided<ServiceAccount> {
    let token = BearerToken::new(token.as_bytes()).unwrap();
    tokens.review(ClusterId::new(cluster).unwrap(), token).await
}

#[tokio::test]
async fn granted_token_costs_one_request_until_it_expires() {
    let (tokens, east, clock) = mk();
    for _ in 0..3 {
        assert_eq!(&*decide(&tokens, "east", GOOD).await.unwrap().name, "pay");
    }
    assert_eq!(east.asked.load(Relaxed), 1);
    clock.advance(Duration::from_secs(59));
    decide(&tokens, "east", GOOD).await.unwrap();
    assert_eq!(east.asked.load(Relaxed), 1);
    clock.advance(Duration::from_secs(1));
    decide(&tokens, "east", GOOD).await.unwrap();
    assert_eq!(east.asked.load(Relaxed), 2, "it has expired, and the cluster decides again");
    assert_eq!(tokens.counts(), TokenCounts { granted: 2, cached: 3, ..TokenCounts::default() });
}

#[tokio::test]
async fn refused_token_is_reviewed_again_soon() {
    let (tokens, east, clock) = mk();
    for _ in 0..3 {
        assert!(matches!(decide(&tokens, "east", "bad.b.c").await, Err(TokenRefused::Invalid(_))));
    }
    assert_eq!(east.asked.load(Relaxed), 1);
    clock.advance(Duration::from_secs(10));
    decide(&tokens, "east", "bad.b.c").await.unwrap_err();
    assert_eq!(tokens.counts(), TokenCounts { refused: 2, cached: 2, ..TokenCounts::default() });
}

#[tokio::test]
async fn equal_tokens_share_a_request_and_a_cluster_has_few() {
    let (tokens, east, _) = mk();
    east.waits.store(true, Relaxed);
    let mut streams = Vec::new();
    for i in 0..200 {
        let (tokens, token) = (tokens.clone(), format!("good.b.{}", i % 50));
        streams.push(tokio::spawn(async move { decide(&tokens, "east", &token).await }));
    }
    // a stream that ends takes nothing from the others
    streams.swap_remove(0).abort();
    while east.asked.load(Relaxed) < AT_ONCE as u64 {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(east.asked.load(Relaxed), AT_ONCE as u64, "the others wait");
    east.waits.store(false, Relaxed);
    while tokens.counts().granted < 50 {
        east.open.notify_waiters();
        tokio::task::yield_now().await;
    }
    for stream in streams {
        if let Ok(decided) = stream.await {
            decided.unwrap();
        }
    }
    assert_eq!(east.asked.load(Relaxed), 50);
    assert!(tokens.0.state.lock().flights.is_empty());
}

#[tokio::test]
async fn cluster_that_does_not_answer_is_asked_again_after_a_pause() {
    let (tokens, east, clock) = mk();
    decide(&tokens, "east", GOOD).await.unwrap();
    east.is_stopped.store(true, Relaxed);
    for i in 0..20 {
        let refused = decide(&tokens, "east", &format!("good.b.{i}")).await.unwrap_err();
        assert_eq!(refused, TokenRefused::Unavailable("no answer".to_owned()));
    }
    assert_eq!(east.asked.load(Relaxed), 2, "one request found it");
    decide(&tokens, "east", GOOD).await.unwrap();
    clock.advance(Duration::from_secs(1));
    decide(&tokens, "east", "good.b.c").await.unwrap_err();
    assert_eq!(east.asked.load(Relaxed), 3);
    east.is_stopped.store(false, Relaxed);
    clock.advance(Duration::from_secs(5));
    decide(&tokens, "east", "good.b.c").await.unwrap();
    decide(&tokens, "east", "good.b.d").await.unwrap();
    assert_eq!(tokens.counts().failed, 2);
}

#[tokio::test]
async fn unknown_cluster_costs_nothing() {
    let (tokens, east, _) = mk();
    for name in ["west", "north"] {
        assert_eq!(decide(&tokens, name, GOOD).await, Err(TokenRefused::NoCluster));
    }
    let state = tokens.0.state.lock();
    assert_eq!((east.asked.load(Relaxed), state.requests.len(), state.flights.len()), (0, 0, 0));
}
