//! The scripted Consul over TLS and h2. Its connections can fall silent: they stay open, but nothing is read or
//! written any more, as behind a NAT that dropped them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// Running TLS front.
pub(crate) struct Secure {
    pub(crate) url: String,
    /// Directory with `ca.pem`, the authority of the front's certificate.
    pub(crate) home: TempDir,
    all: Arc<Connections>,
    _server: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Connections {
    made: AtomicUsize,
    /// Number of connections, from the first on, that are silent.
    silent: AtomicUsize,
}

impl Secure {
    pub(crate) async fn start(router: Router) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("ca.pem"), cert.pem()).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let mut config = builder.with_single_cert(vec![cert.der().clone()], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let all = Arc::<Connections>::default();
        let accepting = accept(listener, TlsAcceptor::from(Arc::new(config)), Arc::clone(&all), router);
        Self { url, home, all, _server: AbortOnDropHandle::new(tokio::spawn(accepting)) }
    }
    /// Makes all current connections silent; new ones are not.
    pub(crate) fn fall_silent(&self) {
        self.all.silent.store(self.all.made.load(SeqCst), SeqCst);
    }
    /// Returns the number of connections so far.
    pub(crate) fn made(&self) -> usize {
        self.all.made.load(SeqCst)
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, all: Arc<Connections>, router: Router) {
    // silent connections never end by themselves
    let mut open = tokio::task::JoinSet::new();
    while let Ok((tcp, _)) = listener.accept().await {
        let number = all.made.fetch_add(1, SeqCst);
        let link = Link { tcp, number, all: Arc::clone(&all) };
        let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(router.clone()));
        open.spawn(async move {
            let Ok(tls) = acceptor.accept(link).await else { return };
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            // a broken connection is handled by its client
            let _ = builder.serve_connection(TokioIo::new(tls), service).await;
        });
    }
}

struct Link {
    tcp: TcpStream,
    number: usize,
    all: Arc<Connections>,
}

impl Link {
    fn is_silent(&self) -> bool {
        self.number < self.all.silent.load(SeqCst)
    }
}

/// A silent connection is never woken.
impl AsyncRead for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_silent() {
            return Poll::Pending;
        }
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Link {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_silent() {
            return Poll::Pending;
        }
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
