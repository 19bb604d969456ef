//! Connections to one address: one per request if they cannot be shared, otherwise as few as carry the requests.
//!
//! One reqwest client holds one shared connection, so a pool holds several clients and creates them on demand. A
//! client that negotiates the protocol opens a connection for each request until it knows the server speaks h2. The
//! pool then replaces it with one that assumes h2 and opens a single connection.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderValue, Version};
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Url, redirect};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::tls::{Files, TlsError};
use crate::config::{Address, ConsulConfig, Timing, Tls};

/// Connections to one address.
pub(super) struct ConnectionPool {
    builder: Builder,
    clients: Mutex<Vec<PooledClient>>,
    streams: usize,
    max_clients: usize,
    /// Limits the connections that cannot be shared.
    unshared: Arc<Semaphore>,
    /// Whether connections are shared: assumed over TLS until an answer shows otherwise.
    shared: AtomicBool,
    /// Whether an answer has confirmed `shared`.
    proven: AtomicBool,
    made: AtomicUsize,
    server_name: Option<String>,
}

#[derive(Clone)]
struct PooledClient {
    number: usize,
    client: reqwest::Client,
    /// Whether this client assumes h2.
    assumes_h2: bool,
    busy: Arc<AtomicUsize>,
}

/// Slot on a connection; returned when dropped.
pub(super) struct Lease {
    pooled: PooledClient,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Lease {
    pub(super) const fn client(&self) -> &reqwest::Client {
        &self.pooled.client
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pooled.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionPool {
    pub(super) fn new(
        address: &Address,
        tls: &Tls,
        files: &Files,
        config: &ConsulConfig,
        proven: bool,
    ) -> Result<Self, TlsError> {
        let secure = address.is_secure();
        let server_name = tls.server_name.clone().filter(|_| secure);
        let builder = Builder {
            authorities: if secure { files.authorities()? } else { Vec::new() },
            identity: if secure { files.identity()? } else { None },
            verify: tls.verify,
            timing: config.timing,
            resolver: server_name.as_ref().map(|_| Arc::new(FixedResolver(address.dialled()))),
            socket: address.socket().map(Path::to_owned),
        };
        let proven = proven && secure;
        let first = builder.build(0, proven)?;
        Ok(Self {
            builder,
            clients: Mutex::new(vec![first]),
            streams: config.limits.streams.max(1),
            max_clients: config.limits.shared_connections.max(1),
            unshared: Arc::new(Semaphore::new(config.limits.unshared_requests())),
            shared: AtomicBool::new(secure),
            proven: AtomicBool::new(proven),
            made: AtomicUsize::new(1),
            server_name,
        })
    }
    /// Returns the URL of an endpoint, with the host name that the server's certificate must carry.
    pub(super) fn url<'a>(&self, address: &Address, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = address.endpoint(parts);
        if let Some(name) = &self.server_name {
            // an invalid name fails later, when the certificate is checked
            let _ = url.set_host(Some(name));
        }
        url
    }
    pub(super) fn shares(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }
    /// Returns whether an answer has shown that connections are shared.
    pub(super) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }
    /// Records the HTTP version of an answer.
    pub(super) fn note(&self, lease: &Lease, version: Version) {
        let shared = version == Version::HTTP_2;
        self.shared.store(shared, Ordering::Relaxed);
        self.proven.store(shared, Ordering::Relaxed);
        if shared && !lease.pooled.assumes_h2 {
            self.replace(&lease.pooled, true);
        }
    }
    /// Records that no connection could be opened: the server may have changed its protocol.
    pub(super) fn note_unconnected(&self, lease: &Lease) {
        if lease.pooled.assumes_h2 {
            self.replace(&lease.pooled, false);
        }
    }

    /// Replaces a client. Requests under way finish on the old one.
    fn replace(&self, old: &PooledClient, assumes_h2: bool) {
        let mut clients = self.clients.lock();
        let slot = clients.iter_mut().find(|pooled| pooled.number == old.number);
        // building can fail only if it failed before; then the old client stays
        if let (Some(slot), Ok(pooled)) = (slot, self.build(assumes_h2)) {
            *slot = pooled;
        }
    }

    fn build(&self, assumes_h2: bool) -> Result<PooledClient, TlsError> {
        self.builder.build(self.made.fetch_add(1, Ordering::Relaxed), assumes_h2)
    }
    /// Waits for a slot and returns it, on the first connection that has one.
    pub(super) async fn lease(&self) -> Result<Lease, TlsError> {
        let permit = if self.shares() { None } else { Arc::clone(&self.unshared).acquire_owned().await.ok() };
        let pooled = self.least_busy()?;
        Ok(Lease { pooled, _permit: permit })
    }

    fn least_busy(&self) -> Result<PooledClient, TlsError> {
        let mut clients = self.clients.lock();
        let busy = |pooled: &&PooledClient| pooled.busy.load(Ordering::Relaxed);
        let free = clients.iter().find(|pooled| !self.shares() || busy(pooled) < self.streams).cloned();
        let pooled = match free {
            Some(pooled) => pooled,
            None if clients.len() < self.max_clients => {
                let pooled = self.build(self.is_proven())?;
                clients.push(pooled.clone());
                pooled
            }
            None => clients.iter().min_by_key(busy).cloned().ok_or_else(no_connection)?,
        };
        pooled.busy.fetch_add(1, Ordering::Relaxed);
        Ok(pooled)
    }
}

fn no_connection() -> TlsError {
    TlsError::Setup("no connection exists".to_owned())
}

struct Builder {
    authorities: Vec<reqwest::Certificate>,
    identity: Option<reqwest::Identity>,
    verify: bool,
    timing: Timing,
    resolver: Option<Arc<FixedResolver>>,
    /// Unix socket to connect to, in place of the URL's host.
    socket: Option<PathBuf>,
}

impl Builder {
    fn build(&self, number: usize, assumes_h2: bool) -> Result<PooledClient, TlsError> {
        // fails if a provider is already installed, which is fine
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent("tributary")
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .gzip(true)
            .connect_timeout(self.timing.connect)
            .tcp_keepalive(self.timing.keepalive)
            .tcp_nodelay(true)
            .pool_idle_timeout(Duration::from_secs(60))
            .http2_keep_alive_interval(self.timing.keepalive)
            .http2_keep_alive_timeout(self.timing.keepalive_answer)
            .http2_keep_alive_while_idle(true)
            .tls_version_min(reqwest::tls::Version::TLS_1_2)
            .tls_danger_accept_invalid_certs(!self.verify);
        if !self.authorities.is_empty() {
            builder = builder.tls_certs_only(self.authorities.clone());
        }
        if let Some(identity) = &self.identity {
            builder = builder.identity(identity.clone());
        }
        if let Some(resolver) = &self.resolver {
            builder = builder.dns_resolver(Arc::clone(resolver));
        }
        if let Some(socket) = &self.socket {
            builder = builder.unix_socket(socket.as_path());
        }
        if assumes_h2 {
            builder = builder.http2_prior_knowledge();
        }
        let client = builder.build().map_err(|error| TlsError::Setup(cause(&error)))?;
        Ok(PooledClient { number, client, assumes_h2, busy: Arc::default() })
    }
}

fn cause(error: &reqwest::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Resolver that returns the configured address whatever name is requested.
struct FixedResolver(String);

impl Resolve for FixedResolver {
    fn resolve(&self, _: Name) -> Resolving {
        let host = self.0.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// Returns the header of HTTP basic authentication.
pub(super) fn basic(user: &str, password: &SecretString) -> Option<HeaderValue> {
    let text = format!("{user}:{}", password.expose_secret());
    super::secret(&format!("Basic {}", base64(text.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for digit_at in 0..4 {
            let digit = (bits >> (18 - 6 * digit_at)) & 63;
            let char = if digit_at > chunk.len() { '=' } else { char::from(DIGITS[digit as usize]) };
            out.push(char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_authentication_is_encoded_as_base64() {
        for (text, want) in [
            ("", ""),
            ("a", "YQ=="),
            ("ab", "YWI="),
            ("abc", "YWJj"),
            ("Aladdin:open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ] {
            assert_eq!(base64(text.as_bytes()), want, "{text}");
        }
        let header = basic("me", &SecretString::from("hunter2")).unwrap();
        assert!(header.is_sensitive() && header.to_str().unwrap().starts_with("Basic "));
    }
}
