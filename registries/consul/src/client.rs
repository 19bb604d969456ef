//! Requests to Consul: bounded in time and size, to the given address and no other, with the token in a header and
//! nowhere else.
//!
//! Owned by the rim of one registry; clones share connections. [`Client::get`] gives what came back with its headers,
//! or how it failed with a reason that may be shown.

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
use crate::config::{Address, ConsulConfig, Tls};
use crate::wire::MAX_BODY;
use pool::Pool;
pub use tls::TlsError;

/// How a request came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind of failure it is.
    pub failure: RequestFailure,
    /// Why, for people.
    pub reason: Reason,
}

/// What to ask for.
#[derive(Debug, Clone)]
pub struct Get<'a> {
    /// The path below `/v1`, a segment each.
    pub path: &'a [&'a str],
    /// The query.
    pub query: Vec<(&'static str, String)>,
    /// How long it may take, to the last byte.
    pub timeout: Duration,
    /// With this index in the answer its body need not be kept.
    pub skip: Option<u64>,
}

/// A 200 and what came with it.
#[derive(Debug, Clone)]
pub struct Raw {
    /// The headers that decide what it is worth.
    pub headers: Headers,
    /// What kind of content it says it is.
    pub content_type: Option<String>,
    /// The content; `None` where the index says that it is known.
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
    pool: Mutex<Arc<Pool>>,
}

impl Client {
    /// To these addresses. Reads the files that the configuration names; makes no connection yet.
    pub fn new(config: &ConsulConfig, addresses: &[Address]) -> Result<Self, TlsError> {
        let files = tls::Files::read(&config.tls)?;
        let server = |address: &Address| {
            let pool = Arc::new(Pool::new(address, &config.tls, &files, config, false)?);
            Ok(Server { address: address.clone(), pool: Mutex::new(pool) })
        };
        let servers = addresses.iter().map(server).collect::<Result<_, TlsError>>()?;
        let basic = config.auth.basic.as_ref();
        let basic = basic.and_then(|basic| pool::basic(&basic.user, &basic.password));
        let (tls, files) = (config.tls.clone(), Mutex::new(files));
        Ok(Self(Arc::new(Inner { servers, tls, files, basic, token: Mutex::default(), longest: MAX_BODY })))
    }
    /// From now on with this token.
    pub fn set_token(&self, token: Option<&SecretString>) {
        *self.0.token.lock() = token.and_then(|token| secret(token.expose_secret()));
    }
    /// Reads the files again and, where they have changed, connects anew with what they hold. Requests that are under
    /// way end on their old connections.
    pub fn reload(&self, config: &ConsulConfig) -> Result<bool, TlsError> {
        let files = tls::Files::read(&self.0.tls)?;
        if *self.0.files.lock() == files {
            return Ok(false);
        }
        for server in &self.0.servers {
            let proven = server.pool.lock().is_proven();
            let pool = Pool::new(&server.address, &self.0.tls, &files, config, proven)?;
            *server.pool.lock() = Arc::new(pool);
        }
        *self.0.files.lock() = files;
        Ok(true)
    }
    /// From now on with the token of another client.
    pub fn take_token(&self, other: &Self) {
        let token = other.0.token.lock().clone();
        *self.0.token.lock() = token;
    }
    /// Whether both are one.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// How many addresses there are.
    #[must_use]
    pub fn addresses(&self) -> usize {
        self.0.servers.len()
    }
    /// Whether requests to this address share connections.
    #[must_use]
    pub fn shares(&self, server: usize) -> bool {
        self.0.servers.get(server).is_some_and(|server| server.pool.lock().shares())
    }
    /// An address, for people.
    #[must_use]
    pub fn address(&self, server: usize) -> String {
        self.0.servers.get(server).map(|server| server.address.to_string()).unwrap_or_default()
    }
    /// Asks one of the addresses.
    pub async fn get(&self, server: usize, get: &Get<'_>) -> Result<Raw, Fault> {
        self.send(server, Method::GET, get, None).await
    }
    /// Sends a document to one of the addresses.
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
            return Err(fault(RequestFailure::Config, "no such address"));
        };
        let pool = Arc::clone(&server.pool.lock());
        let url = pool.url(&server.address, std::iter::once("v1").chain(get.path.iter().copied()));
        let headers = self.headers();
        let exchange = exchange(&pool, method, url, headers, get, body, self.0.longest);
        match timeout(get.timeout, exchange).await {
            Ok(done) => done.map_err(|fault| at(&server.address, fault)),
            Err(_) => {
                let late = format!("no answer within {} s", get.timeout.as_secs());
                Err(at(&server.address, fault(RequestFailure::Transient, late)))
            }
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(token) = &*self.0.token.lock() {
            headers.insert("x-consul-token", token.clone());
        }
        if let Some(basic) = &self.0.basic {
            headers.insert(AUTHORIZATION, basic.clone());
        }
        headers
    }
}

/// A header that no log shows.
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
    pool: &Pool,
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
        let said = read(response, 512, true).await.unwrap_or_default();
        return Err(fault(failure, format!("{status} {}", String::from_utf8_lossy(&said).trim())));
    }
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let content_type = header("content-type").map(str::to_owned);
    let headers = Headers::read(header);
    let known = get.skip.is_some() && headers.index == get.skip;
    let body = read(response, longest, known).await?;
    Ok(Raw { headers, content_type, body: (!known).then_some(body) })
}

/// The whole body, uncompressed. Where it is not wanted, it is read to its end all the same, so that the connection can
/// be used again, and only its beginning is kept.
async fn read(mut response: reqwest::Response, longest: usize, cut: bool) -> Result<Bytes, Fault> {
    let mut body = BytesMut::new();
    let mut seen = 0;
    while let Some(chunk) = response.chunk().await.map_err(|error| broken(&error))? {
        seen += chunk.len();
        if seen > MAX_BODY || (!cut && seen > longest) {
            return Err(fault(
                RequestFailure::Broken,
                format!("an answer of more than {longest} bytes is refused"),
            ));
        }
        let room = longest.saturating_sub(body.len()).min(chunk.len());
        body.extend_from_slice(chunk.get(..room).unwrap_or_default());
    }
    Ok(body.freeze())
}

/// Nothing came back.
fn unsent(error: &reqwest::Error) -> Fault {
    fault(RequestFailure::Transient, chain(error))
}

/// The answer broke off, or is not what its headers say.
fn broken(error: &reqwest::Error) -> Fault {
    fault(RequestFailure::Broken, chain(error))
}

/// An error with its causes, without the URL, which a proxy may have filled with more than we asked for, and without
/// what only says in which part of the client it happened. Of a certificate it says what to do.
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
