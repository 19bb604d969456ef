//! Connections that dial only addresses which a check passes, for API servers that others name.
//!
//! hyper's own connector dials an address literal without asking its resolver, and a name can resolve to another address at each
//! connect. This connector resolves, checks and dials in one step: the address that was checked is the one that is dialled.
//! [`super::Connection::guarded`] uses it.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Returns why an address may not be dialled, as the end of a sentence about it.
pub type AddressCheck = Arc<dyn Fn(IpAddr) -> Result<(), String> + Send + Sync>;

/// Returns the addresses of a host and a port.
type Resolve = Arc<dyn Fn(String, u16) -> Resolving + Send + Sync>;
type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;
type Dialling = Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, DialError>> + Send>>;

/// Time limit of one address; a host can have several.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Most addresses of a host that are tried.
const MOST: usize = 8;

/// Reason for a connection that was not made. It names the host, which is no secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// The address has no host.
    #[error("the address of the server has no host")]
    NoHost,
    /// The name does not resolve.
    #[error("{0} does not resolve: {1}")]
    Unresolved(String, io::Error),
    /// No address of the host may be dialled.
    #[error("{host} leads to {address}, which {why}")]
    Refused {
        /// Host of the URL.
        host: String,
        /// First address that was refused.
        address: IpAddr,
        /// Reason of the check.
        why: String,
    },
    /// No address answered.
    #[error("no connection to {0}: {1}")]
    Unreachable(SocketAddr, io::Error),
}

/// Connector that checks every address before it dials it.
#[derive(Clone)]
pub(super) struct GuardedConnector {
    check: AddressCheck,
    resolve: Resolve,
}

impl GuardedConnector {
    /// Creates a connector that resolves names as the system does.
    pub(super) fn new(check: AddressCheck) -> Self {
        Self::resolving(check, Arc::new(|host, port| Box::pin(system(host, port))))
    }
    fn resolving(check: AddressCheck, resolve: Resolve) -> Self {
        Self { check, resolve }
    }
    async fn dial(self, uri: Uri) -> Result<TokioIo<TcpStream>, DialError> {
        let host = uri.host().ok_or(DialError::NoHost)?.trim_matches(['[', ']']).to_owned();
        let default = if uri.scheme_str() == Some("http") { 80 } else { 443 };
        let addresses = self.passing(&host, uri.port_u16().unwrap_or(default)).await?;
        let mut failed = None;
        for address in addresses {
            match connect(address).await {
                Ok(stream) => return Ok(TokioIo::new(stream)),
                Err(error) => failed = Some(DialError::Unreachable(address, error)),
            }
        }
        Err(failed.unwrap_or(DialError::NoHost))
    }
    /// Resolves a host. Fails if none of its addresses passes the check.
    async fn passing(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
        let found = match host.parse::<IpAddr>() {
            Ok(literal) => vec![SocketAddr::new(literal, port)],
            Err(_) => {
                let unresolved = |error| DialError::Unresolved(host.to_owned(), error);
                (self.resolve)(host.to_owned(), port).await.map_err(unresolved)?
            }
        };
        let checked = found.into_iter().map(|address| {
            (self.check)(address.ip()).map(|()| address).map_err(|why| DialError::Refused {
                host: host.to_owned(),
                address: address.ip(),
                why,
            })
        });
        let (passing, refused): (Vec<_>, Vec<_>) = checked.partition(Result::is_ok);
        let passing: Vec<SocketAddr> = passing.into_iter().flatten().take(MOST).collect();
        match refused.into_iter().find_map(Result::err) {
            _ if !passing.is_empty() => Ok(passing),
            Some(refused) => Err(refused),
            None => Err(DialError::Unresolved(host.to_owned(), io::Error::other("it has no address"))),
        }
    }
}

impl tower::Service<Uri> for GuardedConnector {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = Dialling;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, uri: Uri) -> Dialling {
        Box::pin(self.clone().dial(uri))
    }
}

async fn system(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    let stream = tokio::time::timeout(ATTEMPT, TcpStream::connect(address)).await.map_err(late)??;
    stream.set_nodelay(true)?;
    Ok(stream)
}
