//! Accepts connections of the admin surface, bounded in number, in the time of a request head and in its
//! size.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;
use tributary_xds::transport::tls::{self, Tls};

use super::access::Peer;
use super::connections::{Connections, Slot};
use super::remote::PeerNames;
use crate::exit::{CommandError, Exit};
use tributary_model::Code;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 256;
/// Timeout for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the head of a request, in bytes.
const HEAD_BYTES: usize = 16 * 1024;
/// Pause after the system refused a connection for lack of a resource.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bound address that does not serve yet.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    /// Local address; the system chose the port if 0 was requested.
    pub address: SocketAddr,
}

impl Listener {
    /// Binds the address; the error names the field.
    pub async fn bind(field: &str, address: SocketAddr) -> Result<Self, CommandError> {
        let fail = |e: std::io::Error| cannot_bind(field, address, &e);
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self { listener, address })
    }
    /// Serves until stopped; open connections finish their answer.
    pub async fn serve(self, router: Router, stop: CancellationToken) {
        self.serve_with(router, None, stop).await;
    }
    /// Serves over TLS where there are certificates.
    pub async fn serve_with(self, router: Router, tls: Option<Arc<Tls>>, stop: CancellationToken) {
        let connections = Connections::new(MAX_CONNECTIONS);
        let tasks = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // Beyond the bound a connection is closed at once.
            let Some(slot) = connections.enter() else { continue };
            let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
            tasks.spawn(async move {
                tokio::select! {
                    () = slot.evicted.cancelled() => {}
                    () = accepted_connection((stream, peer), tls, router, (&slot, stop)) => {}
                }
            });
        }
        tasks.close();
        tasks.wait().await;
    }
}

/// Returns the error of an address that cannot be bound; it names the field.
pub fn cannot_bind(field: &str, address: SocketAddr, error: &std::io::Error) -> CommandError {
    if error.kind() == std::io::ErrorKind::AddrInUse {
        return CommandError::new(
            Exit::Failed,
            Code::ADDRESS_IN_USE,
            format!("{field}: {address} is in use"),
        );
    }
    let message = match error.kind() {
        std::io::ErrorKind::AddrNotAvailable => format!("{field}: {address} is no address of this machine"),
        _ => format!("{field}: cannot listen on {address}: {error}"),
    };
    CommandError::new(Exit::Failed, Code::ADDRESS_IN_USE, message).next("choose another address or port")
}

/// Serves a connection, after the handshake where there is TLS.
async fn accepted_connection(
    (stream, peer): (TcpStream, SocketAddr),
    tls: Option<Arc<Tls>>,
    router: Router,
    (slot, stop): (&Slot, CancellationToken),
) {
    let Some(tls) = tls else {
        return connection(stream, (peer, PeerNames::default()), router, (slot, stop)).await;
    };
    let accept = TlsAcceptor::from(tls.current()).accept(stream);
    let accepted = tokio::select! {
        () = stop.cancelled() => return,
        accepted = tokio::time::timeout(HEAD_TIMEOUT, accept) => accepted,
    };
    let Ok(Ok(stream)) = accepted else { return };
    let chain = stream.get_ref().1.peer_certificates();
    let names = chain.and_then(|chain| chain.first()).map(tls::names).unwrap_or_default();
    connection(stream, (peer, PeerNames(names.into())), router, (slot, stop)).await;
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    (peer, names): (SocketAddr, PeerNames),
    router: Router,
    (slot, stop): (&Slot, CancellationToken),
) {
    let proven = slot.proven.clone();
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        request.extensions_mut().insert(names.clone());
        request.extensions_mut().insert(proven.clone());
        router.clone().call(request)
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // A protocol error affects only the peer's own connection.
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn idle_connections_keep_no_other_out() {
        let listener = Listener::bind("admin.listen", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (address, stop) = (listener.address, CancellationToken::new());
        let router = Router::new().route("/", axum::routing::get(|| async { "served" }));
        let serving = tokio::spawn(listener.serve(router, stop.clone()));
        let mut idle = Vec::new();
        for _ in 0..=MAX_CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        // The oldest was accepted first: it is closed once all are accepted.
        assert_eq!(idle[0].read(&mut [0]).await.unwrap_or(0), 0);
        let mut late = TcpStream::connect(address).await.unwrap();
        late.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        late.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("served"), "{answer}");
        stop.cancel();
        drop(idle);
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn address_that_cannot_be_bound_has_a_code_and_a_next_step() {
        // 192.0.2.0/24 is for documentation: no machine has such an address.
        let foreign = Listener::bind("admin.listen", "192.0.2.1:0".parse().unwrap()).await.unwrap_err();
        assert_eq!(
            foreign.to_string(),
            "TRB0103 admin.listen: 192.0.2.1:0 is no address of this machine\n  next: choose another address or port"
        );
        let first = Listener::bind("admin.listen", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let used = Listener::bind("admin.listen", first.address).await.unwrap_err().to_string();
        assert!(
            used.starts_with("TRB0103 ") && used.contains("is in use\n  next: choose another port"),
            "{used}"
        );
    }
}
