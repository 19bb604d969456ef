//! One connection: handshakes, age limit, shutdown.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::service::Routes;
use tributary_model::Identity;

use super::abort::{self, StreamExecutor};
use super::patience::{Patience, within};
use super::server::{Limits, Shared};
use super::tls::{self, Tls};

/// The remote side of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// Identities in its certificate; `None` if the listener requests no certificate.
    pub(crate) identities: Option<Vec<Identity>>,
    /// Cancelled when the connection must end: its streams then end themselves.
    pub(crate) ending: CancellationToken,
    pub(crate) streams: AtomicU64,
}

/// A connection being served, in an allocation of its size: a plain one holds no state of TLS.
pub(crate) type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves a connection until it ends.
pub(crate) fn run(
    shared: Arc<Shared>,
    routes: Routes,
    (tcp, address): (TcpStream, SocketAddr),
    tls: Option<Arc<Tls>>,
) -> Connection {
    let _ = tcp.set_nodelay(true);
    let ending = shared.stop.child_token();
    let peer = Peer { address, identities: None, ending, streams: AtomicU64::new(0) };
    match tls {
        None => Box::pin(serve(shared, routes, tcp, Arc::new(peer))),
        Some(tls) => Box::pin(handshake(shared, routes, tcp, peer, tls)),
    }
}

/// Serves a connection over TLS.
async fn handshake(shared: Arc<Shared>, routes: Routes, tcp: TcpStream, peer: Peer, tls: Arc<Tls>) {
    let accept = TlsAcceptor::from(tls.current()).accept(tcp);
    // both are large, and needed for a short time, or moved often
    let accepted = Box::pin(within(shared.limits.handshake, accept)).await;
    let Some(Ok(stream)) = accepted.map(|stream| stream.map(Box::new)) else {
        shared.env.counters.handshakes_failed.inc();
        return;
    };
    let proven = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let identities = proven.map(tls::identities);
    serve(shared, routes, stream, Arc::new(Peer { identities, ..peer })).await;
}

/// Ends gracefully on drain and age, and immediately if no request arrives in time.
async fn serve<I>(shared: Arc<Shared>, routes: Routes, io: I, peer: Arc<Peer>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &shared.limits;
    let peer_of_requests = Arc::clone(&peer);
    let service = service_fn(move |mut request: Request<Incoming>| {
        peer_of_requests.streams.fetch_add(1, Ordering::Relaxed);
        request.extensions_mut().insert(Arc::clone(&peer_of_requests));
        respond(routes.clone(), request)
    });
    let mut connection = pin!(builder(limits).serve_connection(TokioIo::new(io), service));
    tokio::select! {
        // the connection reads what has arrived before a limit ends
        biased;
        _ = connection.as_mut() => return,
        () = no_request_in_time(&shared, &peer) => return,
        () = age(&shared) => {}
        () = peer.ending.cancelled() => {}
    }
    peer.ending.cancel();
    connection.as_mut().graceful_shutdown();
    let _ = timeout(limits.spread + limits.grace, connection).await;
}

async fn respond(mut routes: Routes, mut request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    if let Some(abort) = abort::current() {
        request.extensions_mut().insert(abort);
    }
    match not_grpc(&request) {
        None => routes.call(request).await,
        Some(status) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status;
            Ok(response)
        }
    }
}

fn not_grpc(request: &Request<Incoming>) -> Option<StatusCode> {
    if request.method() != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let grpc = kind.is_some_and(|kind| kind.starts_with(b"application/grpc"));
    (!grpc).then_some(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// Completes if no request arrives in time.
async fn no_request_in_time(shared: &Shared, peer: &Peer) {
    Patience::new(shared.limits.handshake).await;
    if peer.streams.load(Ordering::Relaxed) > 0 {
        std::future::pending::<()>().await;
    }
    shared.env.counters.handshakes_failed.inc();
}

/// Completes when a connection reaches its maximum age.
async fn age(shared: &Shared) {
    match shared.limits.max_age {
        Some(age) => sleep(shared.jittered(age)).await,
        None => std::future::pending().await,
    }
}

fn builder(limits: &Limits) -> http2::Builder<StreamExecutor> {
    let mut builder = http2::Builder::new(StreamExecutor);
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .max_frame_size(1 << 20)
        .max_send_buf_size(1 << 20)
        .max_header_list_size(16 << 10)
        .max_concurrent_streams(limits.streams_per_connection)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(100)
        .keep_alive_interval(Some(limits.keepalive))
        .keep_alive_timeout(limits.keepalive_timeout);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_rustls::server::TlsStream;

    /// Returns the size of the future that a function returns.
    const fn size<A, B, C, D, F>(_: fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_connection_holds_little() {
        let (plain, secure) = (size(serve::<TcpStream>), size(serve::<Box<TlsStream<TcpStream>>>));
        assert!(plain <= 2_048, "{plain} bytes");
        assert!(secure <= 2_048, "{secure} bytes");
    }
}
