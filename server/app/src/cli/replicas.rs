//! Replicas of a server in a cluster: `pods://NAMESPACE[/POD]`, each reached by a port-forward to its admin port.
//!
//! `server` sends each request to all of them at once. A replica that does not run or does not answer is reported with its
//! reason; the others still answer.

use bytes::Bytes;
use futures::future::join_all;
use http::header;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use reqwest::{Method, StatusCode, Url};
use tokio::sync::OnceCell;
use tributary_kube_client::{ApiFailure, ConnectOptions, Connection, Env, Forwarded, PodFound, Pods};
use tributary_model::Code;

use super::http::{self as client, MAX_BYTES, Request, judge, of_server, silent};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::serve::install_crypto;

/// Scheme of the URL.
const SCHEME: &str = "pods://";
/// Labels of the pods of the chart and the manifests.
const SELECTOR: &str = "app.kubernetes.io/name=tributary";
/// Name of the admin port in the pods.
const PORT_NAME: &str = "admin";
/// Admin port of pods that name none.
const PORT: u16 = 15014;

/// Answer of one replica.
pub struct ReplicaAnswer {
    /// Name of the pod, or address of the server.
    pub replica: String,
    /// Body, or the reason of its absence.
    pub body: Result<Bytes, CommandError>,
}

/// Returns an error unless there is exactly one replica, with an example of one.
pub(super) fn one_of(count: usize, example: &str) -> Result<(), CommandError> {
    if count == 1 {
        return Ok(());
    }
    let message = format!("{count} replicas were found, and this command follows one");
    let error = CommandError::new(Exit::Usage, Code::FLAG_INVALID, message);
    Err(error.next(format!("name it: --server {example}")))
}

/// Parsed URL of replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodsUrl {
    /// Namespace of the pods.
    pub namespace: String,
    /// Only this pod.
    pub pod: Option<String>,
    /// Labels of the pods.
    pub selector: String,
    /// Context of the kubeconfig; the current one without it.
    pub context: Option<String>,
}

impl PodsUrl {
    /// Parses `pods://NAMESPACE[/POD][?selector=LABELS&context=NAME]`; `None` for a URL of another scheme.
    pub fn parse(text: &str) -> Result<Option<Self>, CommandError> {
        let wrong = |why: &str| {
            CommandError::new(Exit::Usage, Code::FLAG_INVALID, format!("`{text}` {why}"))
                .next("use pods://NAMESPACE or pods://NAMESPACE/POD, with ?selector=LABELS and &context=NAME")
        };
        let Some(rest) = text.strip_prefix(SCHEME) else { return Ok(None) };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (namespace, pod) = match path.trim_end_matches('/').split_once('/') {
            Some((namespace, pod)) => (namespace, Some(pod)),
            None => (path.trim_end_matches('/'), None),
        };
        let is_name = |name: &str| {
            let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
            !name.is_empty() && name.len() <= 253 && name.bytes().all(allowed)
        };
        if !is_name(namespace) || !pod.is_none_or(is_name) {
            return Err(wrong("has no valid namespace or pod"));
        }
        let mut out = Self {
            namespace: namespace.to_owned(),
            pod: pod.map(str::to_owned),
            selector: SELECTOR.to_owned(),
            context: None,
        };
        let query =
            Url::parse(&format!("pods://x/?{query}")).map_err(|_| wrong("has no valid parameters"))?;
        for (name, value) in query.query_pairs() {
            match &*name {
                "selector" => out.selector = value.into_owned(),
                "context" => out.context = Some(value.into_owned()),
                _ => return Err(wrong("has a parameter other than selector and context")),
            }
        }
        Ok(Some(out))
    }
}

/// Replicas of a server in the pods of a namespace.
pub struct PodServers {
    url: PodsUrl,
    env: Environment,
    found: OnceCell<(Pods, Vec<PodFound>)>,
}

impl PodServers {
    /// Creates it; nothing is requested yet.
    #[must_use]
    pub fn new(url: PodsUrl, env: Environment) -> Self {
        Self { url, env, found: OnceCell::new() }
    }
    /// Sends a request to every replica.
    pub async fn each(&self, request: &Request<'_>) -> Result<Vec<ReplicaAnswer>, CommandError> {
        let (pods, found) = self.found().await?;
        let answers = found.iter().map(|pod| async move {
            ReplicaAnswer { replica: pod.name.clone(), body: exchange_in_time(pods, pod, request).await }
        });
        Ok(join_all(answers).await)
    }
    /// Sends a request to one replica, by its name, and returns the body.
    pub async fn one(&self, name: &str, request: &Request<'_>) -> Result<Bytes, CommandError> {
        let (pods, pod) = self.named(name).await?;
        exchange_in_time(pods, pod, request).await.map_err(|failure| of_server(failure, name))
    }
    /// Fails unless there is exactly one replica.
    pub async fn require_one(&self) -> Result<(), CommandError> {
        let (_, found) = self.found().await?;
        let one = found.first().map(|pod| pod.name.as_str()).unwrap_or("POD");
        one_of(found.len(), &format!("{SCHEME}{}/{one}", self.url.namespace))
    }
    /// Returns each replica by itself, over the same connection.
    pub async fn split(&self) -> Result<Vec<Self>, CommandError> {
        let (pods, found) = self.found().await?;
        let one = |pod: &PodFound| {
            let url = PodsUrl { pod: Some(pod.name.clone()), ..self.url.clone() };
            let found = OnceCell::new_with(Some((pods.clone(), vec![pod.clone()])));
            Self { url, env: self.env.clone(), found }
        };
        Ok(found.iter().map(one).collect())
    }
    /// Returns the URL, as `--server` takes it, without labels and context.
    #[must_use]
    pub fn url(&self) -> String {
        let pod = self.url.pod.as_ref().map(|pod| format!("/{pod}")).unwrap_or_default();
        format!("{SCHEME}{}{pod}", self.url.namespace)
    }
    /// Returns the first replica that is ready, else the first that runs.
    pub async fn best(&self) -> Result<&str, CommandError> {
        let (_, found) = self.found().await?;
        let running = || found.iter().filter(|pod| pod.running);
        let best = running().find(|pod| pod.ready).or_else(|| running().next());
        best.map(|pod| pod.name.as_str()).ok_or_else(|| self.nothing("none of its pods runs"))
    }
    /// Opens a connection to the admin port of a replica.
    pub async fn open(&self, name: &str) -> Result<Forwarded, CommandError> {
        let (pods, pod) = self.named(name).await?;
        forward(pods, pod).await.map_err(|failure| of_server(failure, name))
    }
    async fn named(&self, name: &str) -> Result<(&Pods, &PodFound), CommandError> {
        let (pods, found) = self.found().await?;
        let pod = found.iter().find(|pod| pod.name == name);
        Ok((pods, pod.ok_or_else(|| self.nothing(&format!("pod `{name}` is gone")))?))
    }
    /// Returns the pods, which are listed once.
    async fn found(&self) -> Result<&(Pods, Vec<PodFound>), CommandError> {
        self.found.get_or_try_init(|| self.find()).await
    }
    async fn find(&self) -> Result<(Pods, Vec<PodFound>), CommandError> {
        install_crypto();
        let options = ConnectOptions { kubeconfig: None, context: self.url.context.clone() };
        let get = |name: &str| self.env.get(name).map(str::to_owned);
        let connection = Connection::open_for_upgrades(&options, Env::new(&get));
        let connection = connection.map_err(|e| CommandError::plain(e.to_string()))?;
        let pods = Pods::of(&connection, &self.url.namespace);
        let found = pods.find(&self.url.selector, PORT_NAME).await;
        let mut found = found.map_err(|e| self.failed("list pods", &e))?;
        if let Some(name) = &self.url.pod {
            found.retain(|pod| pod.name == *name);
        }
        if found.is_empty() {
            return Err(self.nothing("no such pod exists"));
        }
        Ok((pods, found))
    }
    fn failed(&self, what: &str, failure: &ApiFailure) -> CommandError {
        let exit = match failure {
            ApiFailure::Unauthorized(_) | ApiFailure::Forbidden(_) => Exit::NotAuthorised,
            _ => Exit::Failed,
        };
        let message = format!("cannot {what} of namespace `{}`: {failure}", self.url.namespace);
        CommandError::new(exit, Code::SERVER_UNREACHABLE, message).next(
            "check the context of the kubeconfig and the rights to list pods and to create pods/portforward",
        )
    }
    fn nothing(&self, why: &str) -> CommandError {
        let PodsUrl { namespace, pod, selector, .. } = &self.url;
        let which = pod.as_ref().map_or_else(|| format!("labels {selector}"), |pod| format!("pod {pod}"));
        let message = format!("no server found in namespace `{namespace}` ({which}): {why}");
        CommandError::new(Exit::NotFound, Code::NOT_FOUND, message)
            .next("check the namespace; ?selector=LABELS names other labels")
    }
}

async fn forward(pods: &Pods, pod: &PodFound) -> Result<Forwarded, CommandError> {
    let port = pod.port.unwrap_or(PORT);
    pods.forward(&pod.name, port).await.map_err(|e| unreachable(port, &e.to_string()))
}

fn unreachable(port: u16, why: &str) -> CommandError {
    let message = client::unreachable(&format!("port {port}: {why}"));
    CommandError::new(Exit::Failed, Code::SERVER_UNREACHABLE, message)
}

async fn exchange_in_time(pods: &Pods, pod: &PodFound, request: &Request<'_>) -> Result<Bytes, CommandError> {
    let answer = tokio::time::timeout(request.limit, exchange(pods, pod, request)).await;
    answer.unwrap_or_else(|_| Err(silent(request.limit)))
}

/// Sends one request over a connection of its own.
async fn exchange(pods: &Pods, pod: &PodFound, request: &Request<'_>) -> Result<Bytes, CommandError> {
    let port = pod.port.unwrap_or(PORT);
    if !pod.running {
        return Err(unreachable(port, "it does not run"));
    }
    let target = target(request)?;
    let (stream, reason) = forward(pods, pod).await?.parts();
    match over(stream, request.method.clone(), &target).await {
        Ok((status, body)) => judge(status, body),
        Err(why) => Err(unreachable(port, &reason.await.unwrap_or(why))),
    }
}

/// Returns path and parameters as a request line has them.
fn target(request: &Request<'_>) -> Result<String, CommandError> {
    let url = Url::parse_with_params(&format!("http://localhost{}", request.path), request.pairs());
    let url = url.map_err(|e| CommandError::plain(format!("`{}` is no path: {e}", request.path)))?;
    Ok(match url.query().filter(|query| !query.is_empty()) {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    })
}

/// Sends a request over a stream.
async fn over(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    method: Method,
    target: &str,
) -> Result<(StatusCode, Bytes), String> {
    let connected = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.map_err(|e| e.to_string())?;
    let request = http::Request::builder().method(method).uri(target).header(header::HOST, "localhost");
    let request = request.body(Empty::<Bytes>::new()).map_err(|e| e.to_string())?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
        Ok((status, body.map_err(|e| e.to_string())?.to_bytes()))
    };
    tokio::pin!(connection);
    tokio::pin!(exchange);
    tokio::select! {
        done = &mut exchange => done,
        ended = &mut connection => match ended {
            // the answer may be complete although the connection ended first
            Ok(()) => exchange.await,
            Err(e) => Err(e.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_names_namespace_pod_labels_and_context() {
        let of = |text: &str| PodsUrl::parse(text).unwrap();
        let plain = of("pods://tributary-system").unwrap();
        assert_eq!(
            (plain.namespace.as_str(), plain.pod.as_deref(), plain.context.as_deref()),
            ("tributary-system", None, None)
        );
        assert_eq!(plain.selector, SELECTOR);
        let full = of("pods://a/tributary-0?selector=app%3Dx,b=c&context=arn:aws:eks/east").unwrap();
        assert_eq!((full.pod.as_deref(), full.selector.as_str()), (Some("tributary-0"), "app=x,b=c"));
        assert_eq!(full.context.as_deref(), Some("arn:aws:eks/east"));
        assert_eq!(of("http://127.0.0.1:15014"), None);
    }

    #[test]
    fn invalid_url_is_a_usage_error() {
        for url in ["pods://", "pods:///x", "pods://a/b/c", "pods://a?x=y", "pods://A", "pods://a/..%2f"] {
            assert_eq!(PodsUrl::parse(url).unwrap_err().exit, Exit::Usage, "{url}");
        }
    }
}
