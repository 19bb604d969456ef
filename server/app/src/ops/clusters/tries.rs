//! Connects to every declared cluster on request, from where the server runs, and reports what each answers.
//!
//! `/debug/clusters/check` calls it. The driver of the remote clusters sends the kubeconfigs that it keeps, which are vetted, and each is
//! dialled as the server dials it; clusters of the configuration are opened as their registries do. Nothing is written and no state
//! changes. One request at a time, eight connections at once, and at most a minute in all.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tributary_kube_client::{ConnectError, Connection};
use tributary_remote::{Allowed, VettedKubeconfig};

use super::findings::{check, unconnected};
use crate::config::Config;
use crate::document::TriedCluster;

/// Most connections at once.
const AT_ONCE: usize = 8;
/// Longest time of one cluster.
const EACH: Duration = Duration::from_secs(20);
/// Longest time of a request.
pub const ALL: Duration = Duration::from_secs(60);

/// Opens a connection; may run a credential plugin, so it is called on a blocking thread.
pub type Open = Box<dyn FnOnce() -> Result<Connection, ConnectError> + Send>;

/// Cluster of the configuration, and how it is reached.
pub struct ConfiguredTry {
    /// Cluster ID.
    pub cluster: String,
    /// Opens its connection.
    pub open: Open,
}

/// Kubeconfig that the server keeps. Its `Debug` shows no credential.
#[derive(Debug, Clone)]
pub struct KeptKubeconfig {
    /// Cluster ID.
    pub cluster: String,
    /// Object that declares it, as operators read it.
    pub object: String,
    /// Kubeconfig.
    pub kubeconfig: VettedKubeconfig,
}

/// Requests for the kubeconfigs that the driver keeps.
pub type KubeconfigRequests = mpsc::Receiver<oneshot::Sender<Vec<KeptKubeconfig>>>;

type Configured = Arc<dyn Fn(&Config) -> Vec<ConfiguredTry> + Send + Sync>;

/// Tries clusters. Clones share their bounds.
#[derive(Clone)]
pub struct Tries {
    declared: mpsc::Sender<oneshot::Sender<Vec<KeptKubeconfig>>>,
    configured: Configured,
    turn: Arc<Semaphore>,
}

impl Tries {
    /// Creates it with the receiver of its requests; `configured` returns the clusters of a configuration.
    #[must_use]
    pub fn new(
        configured: impl Fn(&Config) -> Vec<ConfiguredTry> + Send + Sync + 'static,
    ) -> (Self, KubeconfigRequests) {
        let (declared, requests) = mpsc::channel(1);
        let turn = Arc::new(Semaphore::new(1));
        (Self { declared, configured: Arc::new(configured), turn }, requests)
    }
    /// Tries every cluster, or the one of this ID; `None` while another request is in progress.
    pub async fn all(&self, config: &Config, name: Option<&str>) -> Option<Vec<TriedCluster>> {
        let _turn = self.turn.try_acquire().ok()?;
        let end = Instant::now() + ALL;
        let mut all: Vec<Try> = (self.configured)(config).into_iter().map(Try::of_configuration).collect();
        let allowed = config.remotes.allowed();
        all.extend(self.declared().await.into_iter().map(|kept| Try::of_declaration(kept, &allowed)));
        all.retain(|one| name.is_none_or(|name| name == one.cluster));
        let tries: Vec<_> = all.into_iter().map(|one| one.run(end).boxed()).collect();
        let mut tried: Vec<TriedCluster> = futures::stream::iter(tries).buffered(AT_ONCE).collect().await;
        tried.sort_by(|a, b| (&a.cluster, &a.source).cmp(&(&b.cluster, &b.source)));
        Some(tried)
    }
    /// Returns the kubeconfigs that the driver keeps; none if no source is read.
    async fn declared(&self) -> Vec<KeptKubeconfig> {
        let (reply, answer) = oneshot::channel();
        match self.declared.send(reply).await {
            Ok(()) => answer.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }
}

/// Cluster to try.
struct Try {
    cluster: String,
    source: String,
    server: Option<String>,
    open: Open,
}

impl Try {
    fn of_configuration(one: ConfiguredTry) -> Self {
        Self { cluster: one.cluster, source: "configuration".to_owned(), server: None, open: one.open }
    }
    fn of_declaration(kept: KeptKubeconfig, allowed: &Allowed) -> Self {
        let KeptKubeconfig { cluster, object, kubeconfig } = kept;
        let (server, allowed) = (Some(kubeconfig.server().to_owned()), allowed.clone());
        Self { cluster, source: object, server, open: Box::new(move || kubeconfig.connect(&allowed)) }
    }
    /// Tries it until `end` at the latest.
    async fn run(self, end: Instant) -> TriedCluster {
        let Self { cluster, source, server, open } = self;
        let limit = end.min(Instant::now() + EACH);
        let late = "no answer came in time; check address and network";
        let tried = timeout_at(limit, connected(open)).await;
        let (opened, findings) = tried.unwrap_or_else(|_| (None, unconnected(late)));
        TriedCluster { cluster, source, server: server.or(opened), findings }
    }
}

/// Connects, and returns the address with the findings.
async fn connected(open: Open) -> (Option<String>, crate::document::Findings) {
    let opened = match tokio::task::spawn_blocking(open).await {
        Ok(opened) => opened.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match opened {
        Ok(connection) => {
            let server = connection.server().trim_end_matches('/').to_owned();
            let findings = check(&connection, &server, Duration::ZERO).await;
            (Some(server), findings)
        }
        Err(why) => (None, unconnected(&why)),
    }
}

#[cfg(test)]
mod tests {
    use tributary_registry_api::Reason;

    use super::*;

    fn mk_configured(names: &[&'static str]) -> impl Fn(&Config) -> Vec<ConfiguredTry> + use<> {
        let names = names.to_vec();
        move |_| {
            let one = |name: &&str| ConfiguredTry {
                cluster: (*name).to_owned(),
                open: Box::new(|| Err(ConnectError::Unusable("it".into(), Reason::new("no")))),
            };
            names.iter().map(one).collect()
        }
    }

    #[tokio::test]
    async fn each_cluster_is_tried_or_the_named_one() {
        let (tries, requests) = Tries::new(mk_configured(&["west", "east"]));
        drop(requests);
        let config = Config::default();
        let all = tries.all(&config, None).await.unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.cluster.as_str()).collect();
        assert_eq!(names, ["east", "west"], "without a source of declarations those of the configuration");
        assert_eq!((all[0].source.as_str(), all[0].findings.are_good()), ("configuration", false));
        assert_eq!(all[0].findings.checks[0].detail, "it cannot be used: no");
        let one = tries.all(&config, Some("west")).await.unwrap();
        assert_eq!((one.len(), one[0].cluster.as_str()), (1, "west"));
    }

    #[tokio::test]
    async fn second_request_is_refused_while_one_is_in_progress() {
        let (tries, mut requests) = Tries::new(mk_configured(&[]));
        let config = Config::default();
        let first = tokio::spawn({
            let (tries, config) = (tries.clone(), config.clone());
            async move { tries.all(&config, None).await }
        });
        let reply = requests.recv().await.unwrap();
        assert_eq!(tries.all(&config, None).await, None);
        reply.send(Vec::new()).unwrap();
        assert_eq!(first.await.unwrap(), Some(Vec::new()));
        drop(requests);
        assert_eq!(tries.all(&config, None).await, Some(Vec::new()), "its turn is over");
    }
}
