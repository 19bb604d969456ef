//! Connections to one address: one per request where they cannot be shared, else as few as carry the requests.
//!
//! A reqwest client holds one shared connection, so that a pool is several of them, made when they are needed. One that
//! finds out by itself what the server speaks makes a connection for each request that comes before it knows; so it is
//! replaced, once that has been seen, by one that knows from the start and makes a single connection for all of them.

use std::net::SocketAddr;
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
pub(super) struct Pool {
    builder: Builder,
    lanes: Mutex<Vec<Lane>>,
    streams: usize,
    most: usize,
    /// Where connections cannot be shared, how many there may be.
    alone: Arc<Semaphore>,
    /// Whether they are shared: expected over TLS, until an answer says otherwise.
    shared: AtomicBool,
    /// Whether an answer has said so.
    proven: AtomicBool,
    made: AtomicUsize,
    server_name: Option<String>,
}

#[derive(Clone)]
struct Lane {
    number: usize,
    client: reqwest::Client,
    /// Whether it takes it for granted that its connection is shared.
    knows: bool,
    busy: Arc<AtomicUsize>,
}

/// A place on a connection, given back when dropped.
pub(super) struct Lease {
    lane: Lane,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Lease {
    pub(super) const fn client(&self) -> &reqwest::Client {
        &self.lane.client
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.lane.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
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
            dial: server_name.as_ref().map(|_| Arc::new(Dial(address.dialled()))),
        };
        let proven = proven && secure;
        let first = builder.build(0, proven)?;
        Ok(Self {
            builder,
            lanes: Mutex::new(vec![first]),
            streams: config.limits.streams.max(1),
            most: config.limits.shared_connections.max(1),
            alone: Arc::new(Semaphore::new(config.limits.connections.max(1))),
            shared: AtomicBool::new(secure),
            proven: AtomicBool::new(proven),
            made: AtomicUsize::new(1),
            server_name,
        })
    }
    /// The URL of an endpoint, under the name that the server's certificate must have.
    pub(super) fn url<'a>(&self, address: &Address, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = address.endpoint(parts);
        if let Some(name) = &self.server_name {
            // a name that is none shows when the certificate is checked
            let _ = url.set_host(Some(name));
        }
        url
    }
    pub(super) fn shares(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }
    /// Whether an answer has shown that they are.
    pub(super) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }
    /// What an answer came over.
    pub(super) fn note(&self, lease: &Lease, version: Version) {
        let shared = version == Version::HTTP_2;
        self.shared.store(shared, Ordering::Relaxed);
        self.proven.store(shared, Ordering::Relaxed);
        if shared && !lease.lane.knows {
            self.replace(&lease.lane, true);
        }
    }
    /// No connection could be made: perhaps the server speaks otherwise now.
    pub(super) fn note_unconnected(&self, lease: &Lease) {
        if lease.lane.knows {
            self.replace(&lease.lane, false);
        }
    }

    /// What is under way on the old one ends there.
    fn replace(&self, old: &Lane, knows: bool) {
        let mut lanes = self.lanes.lock();
        let place = lanes.iter_mut().find(|lane| lane.number == old.number);
        // built once, it can be built again; if not, the old one does
        if let (Some(place), Ok(lane)) = (place, self.build(knows)) {
            *place = lane;
        }
    }

    fn build(&self, knows: bool) -> Result<Lane, TlsError> {
        self.builder.build(self.made.fetch_add(1, Ordering::Relaxed), knows)
    }
    /// A place on the first connection that has one.
    pub(super) async fn lease(&self) -> Result<Lease, TlsError> {
        let permit = if self.shares() { None } else { Arc::clone(&self.alone).acquire_owned().await.ok() };
        let lane = self.lane()?;
        Ok(Lease { lane, _permit: permit })
    }

    fn lane(&self) -> Result<Lane, TlsError> {
        let mut lanes = self.lanes.lock();
        let busy = |lane: &&Lane| lane.busy.load(Ordering::Relaxed);
        let free = lanes.iter().find(|lane| !self.shares() || busy(lane) < self.streams).cloned();
        let lane = match free {
            Some(lane) => lane,
            None if lanes.len() < self.most => {
                let lane = self.build(self.is_proven())?;
                lanes.push(lane.clone());
                lane
            }
            None => lanes.iter().min_by_key(busy).cloned().ok_or_else(none_at_all)?,
        };
        lane.busy.fetch_add(1, Ordering::Relaxed);
        Ok(lane)
    }
}

fn none_at_all() -> TlsError {
    TlsError::Setup("there is no connection".to_owned())
}

struct Builder {
    authorities: Vec<reqwest::Certificate>,
    identity: Option<reqwest::Identity>,
    verify: bool,
    timing: Timing,
    dial: Option<Arc<Dial>>,
}

impl Builder {
    fn build(&self, number: usize, knows: bool) -> Result<Lane, TlsError> {
        // whoever installed one before has the say
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
        if let Some(dial) = &self.dial {
            builder = builder.dns_resolver(Arc::clone(dial));
        }
        if knows {
            builder = builder.http2_prior_knowledge();
        }
        let client = builder.build().map_err(|error| TlsError::Setup(cause(&error)))?;
        Ok(Lane { number, client, knows, busy: Arc::default() })
    }
}

fn cause(error: &reqwest::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Whatever name is asked for, the address that was configured is dialled.
struct Dial(String);

impl Resolve for Dial {
    fn resolve(&self, _: Name) -> Resolving {
        let host = self.0.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// The header of HTTP basic authentication.
pub(super) fn basic(user: &str, password: &SecretString) -> Option<HeaderValue> {
    let text = format!("{user}:{}", password.expose_secret());
    super::secret(&format!("Basic {}", base64(text.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = (word >> (18 - 6 * place)) & 63;
            let char = if place > chunk.len() { '=' } else { char::from(DIGITS[digit as usize]) };
            out.push(char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_password_are_written_as_http_wants_them() {
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
