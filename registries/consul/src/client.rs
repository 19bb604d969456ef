//! HTTP requests to Consul: limited in time and size, sent to configured addresses only, with the token in a header
//! only.
//!
//! The run loop of one registry owns it; clones share connections. [`Client::get`] returns the answer with its
//! headers, or a [`Fault`] whose reason contains no secret.

mod pool;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use parking_lot::Mutex;
use reqwest::{Method, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;
use tributary_registry_api::Reason;

use crate::answer::{Headers, RequestFailure, failure};
use crate::config::{Address, Auth, ConsulConfig, Tls};
use crate::wire::MAX_BODY;
use pool::ConnectionPool;
pub use tls::TlsError;

/// Failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Kind of failure.
    pub failure: RequestFailure,
    /// Reason, fit for logs and status.
    pub reason: Reason,
}

/// Request parameters.
#[derive(Debug, Clone)]
pub struct Get<'a> {
    /// Path segments below `/v1`.
    pub path: &'a [&'a str],
    /// Query parameters.
    pub query: Vec<(&'static str, String)>,
    /// Time limit up to the last byte of the body.
    pub timeout: Duration,
    /// Index whose body need not be kept.
    pub skip: Option<u64>,
}

/// Answer with status 200.
#[derive(Debug, Clone)]
pub struct Raw {
    /// Headers that decide how far the answer is trusted.
    pub headers: Headers,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// Body; `None` if the index equals [`Get::skip`].
    pub body: Option<Bytes>,
}

/// Connections to the addresses of one registry.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    servers: Vec<Server>,
    tls: Tls,
    files: Mutex<tls::Files>,
    basic: Option<HeaderValue>,
    token: Mutex<Option<HeaderValue>>,
    longest: usize,
}

struct Server {
    address: Address,
    /// Credentials that it gets.
    credentials: AllowedCredentials,
    pool: Mutex<Arc<ConnectionPool>>,
}

/// Whether an address gets the token, and the header of basic authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AllowedCredentials {
    token: bool,
    basic: bool,
}

impl AllowedCredentials {
    fn of(address: &Address, auth: &Auth) -> Self {
        let is_for = |addresses: &Option<Vec<Address>>| {
            addresses.as_ref().is_none_or(|addresses| addresses.contains(address))
        };
        Self { token: is_for(&auth.token_addresses), basic: is_for(&auth.basic_addresses) }
    }
}

impl Client {
    /// Creates a client for these addresses. Reads the files that the configuration names; opens no connection.
    pub fn new(config: &ConsulConfig, addresses: &[Address]) -> Result<Self, TlsError> {
        let files = tls::Files::read(&config.tls)?;
        let server = |address: &Address| {
            let pool = Arc::new(ConnectionPool::new(address, &config.tls, &files, config, false)?);
            let credentials = AllowedCredentials::of(address, &config.auth);
            Ok(Server { address: address.clone(), credentials, pool: Mutex::new(pool) })
        };
        let servers = addresses.iter().map(server).collect::<Result<_, TlsError>>()?;
        let basic = config.auth.basic.as_ref();
        let basic = basic.and_then(|basic| pool::basic(&basic.user, &basic.password));
        let (tls, files) = (config.tls.clone(), Mutex::new(files));
        Ok(Self(Arc::new(Inner { servers, tls, files, basic, token: Mutex::default(), longest: MAX_BODY })))
    }
    /// Replaces the token of all later requests.
    pub fn set_token(&self, token: Option<&SecretString>) {
        *self.0.token.lock() = token.and_then(|token| secret(token.expose_secret()));
    }
    /// Reads the certificate files again and replaces the connections if the files changed. Requests under way finish
    /// on their old connections. Returns whether anything changed.
    pub fn reload(&self, config: &ConsulConfig) -> Result<bool, TlsError> {
        let files = tls::Files::read(&self.0.tls)?;
        if *self.0.files.lock() == files {
            return Ok(false);
        }
        for server in &self.0.servers {
            let proven = server.pool.lock().is_proven();
            let pool = ConnectionPool::new(&server.address, &self.0.tls, &files, config, proven)?;
            *server.pool.lock() = Arc::new(pool);
        }
        *self.0.files.lock() = files;
        Ok(true)
    }
    /// Uses the token of another client from now on.
    pub fn take_token(&self, other: &Self) {
        let token = other.0.token.lock().clone();
        *self.0.token.lock() = token;
    }
    /// Returns whether both are clones of one client.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// Returns the number of addresses.
    #[must_use]
    pub fn addresses(&self) -> usize {
        self.0.servers.len()
    }
    /// Returns whether every address gets the token.
    #[must_use]
    pub fn gives_token(&self) -> bool {
        self.0.servers.iter().all(|server| server.credentials.token)
    }
    /// Returns whether requests to this address share connections.
    #[must_use]
    pub fn shares(&self, server: usize) -> bool {
        self.0.servers.get(server).is_some_and(|server| server.pool.lock().shares())
    }
    /// Returns an address for display.
    #[must_use]
    pub fn address(&self, server: usize) -> String {
        self.0.servers.get(server).map(|server| server.address.to_string()).unwrap_or_default()
    }
    /// Sends a GET to the address with this number.
    pub async fn get(&self, server: usize, get: &Get<'_>) -> Result<Raw, Fault> {
        self.send(server, Method::GET, get, None).await
    }
    /// Sends a POST with a JSON document to the address with this number.
    pub async fn post(&self, server: usize, get: &Get<'_>, body: Vec<u8>) -> Result<Raw, Fault> {
        self.send(server, Method::POST, get, Some(body)).await
    }

    async fn send(
        &self,
        server: usize,
        method: Method,
        get: &Get<'_>,
        body: Option<Vec<u8>>,
    ) -> Result<Raw, Fault> {
        let Some(server) = self.0.servers.get(server) else {
            return Err(fault(RequestFailure::Config, "address not configured"));
        };
        let pool = Arc::clone(&server.pool.lock());
        let url = pool.url(&server.address, std::iter::once("v1").chain(get.path.iter().copied()));
        let headers = self.headers(server.credentials);
        let exchange = exchange(&pool, method, url, headers, get, body, self.0.longest);
        match timeout(get.timeout, exchange).await {
            Ok(done) => done.map_err(|fault| at(&server.address, fault)),
            Err(_) => {
                let late = format!("no answer within {} s", get.timeout.as_secs());
                Err(at(&server.address, fault(RequestFailure::Transient, late)))
            }
        }
    }

    fn headers(&self, credentials: AllowedCredentials) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(token) = self.0.token.lock().as_ref().filter(|_| credentials.token) {
            headers.insert("x-consul-token", token.clone());
        }
        if let Some(basic) = self.0.basic.as_ref().filter(|_| credentials.basic) {
            headers.insert(AUTHORIZATION, basic.clone());
        }
        headers
    }
}

/// Returns a header value that logs do not show.
fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn fault(failure: RequestFailure, reason: impl std::fmt::Display) -> Fault {
    Fault { failure, reason: Reason::new(reason) }
}

fn at(address: &Address, fault: Fault) -> Fault {
    Fault { reason: Reason::new(format!("{address}: {}", fault.reason)), ..fault }
}

async fn exchange(
    pool: &ConnectionPool,
    method: Method,
    url: Url,
    headers: HeaderMap,
    get: &Get<'_>,
    body: Option<Vec<u8>>,
    longest: usize,
) -> Result<Raw, Fault> {
    let lease = pool.lease().await.map_err(|error| fault(RequestFailure::Transient, error))?;
    let mut request = lease.client().request(method, url).query(&get.query).headers(headers);
    if let Some(body) = body {
        request = request.header(CONTENT_TYPE, "application/json").body(body);
    }
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => {
            if error.is_connect() {
                pool.note_unconnected(&lease);
            }
            return Err(unsent(&error));
        }
    };
    pool.note(&lease, response.version());
    let status = response.status().as_u16();
    if let Some(failure) = failure(status) {
        let text = read(response, 512, true).await.unwrap_or_default();
        return Err(fault(failure, format!("{status} {}", String::from_utf8_lossy(&text).trim())));
    }
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let content_type = header("content-type").map(str::to_owned);
    let headers = Headers::read(header);
    let known = get.skip.is_some() && headers.index == get.skip;
    let body = read(response, longest, known).await?;
    Ok(Raw { headers, content_type, body: (!known).then_some(body) })
}

/// Reads the whole body, decompressed. With `cut`, keeps only the first `longest` bytes but still reads to the end,
/// so that the connection can be reused.
async fn read(mut response: reqwest::Response, longest: usize, cut: bool) -> Result<Bytes, Fault> {
    let too_large = || fault(RequestFailure::TooLarge, format!("the answer exceeds {longest} bytes"));
    let most = if cut { MAX_BODY } else { longest };
    if response.content_length().is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let mut body = BytesMut::new();
    let mut seen = 0;
    while let Some(chunk) = response.chunk().await.map_err(|error| broken(&error))? {
        seen += chunk.len();
        if seen > most.min(MAX_BODY) {
            return Err(too_large());
        }
        let room = longest.saturating_sub(body.len()).min(chunk.len());
        body.extend_from_slice(chunk.get(..room).unwrap_or_default());
    }
    Ok(body.freeze())
}

/// Fault of a request that got no answer.
fn unsent(error: &reqwest::Error) -> Fault {
    fault(RequestFailure::Transient, chain(error))
}

/// Fault of an answer that ended early or contradicts its headers.
fn broken(error: &reqwest::Error) -> Fault {
    fault(RequestFailure::Broken, chain(error))
}

/// Formats an error with its causes. Omits the URL, which a proxy may have extended, and the client's internal
/// stages. Adds advice to certificate errors.
fn chain(error: &reqwest::Error) -> String {
    let mut text = if error.is_connect() { "cannot connect".to_owned() } else { "request failed".to_owned() };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let own = error.to_string();
        if !own.starts_with("client error (") && !text.ends_with(&own) {
            text = format!("{text}: {own}");
        }
        cause = error.source();
    }
    format!("{text}{}", advice(&text))
}

fn advice(text: &str) -> &'static str {
    if text.contains("UnknownIssuer") {
        "; name the authority of its certificate in tls.caFile or CONSUL_CACERT"
    } else if text.contains("not valid for name") {
        "; name what the certificate is for in tls.serverName or CONSUL_TLS_SERVER_NAME"
    } else {
        ""
    }
}
