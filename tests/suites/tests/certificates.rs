//! Tests the harness's certificates on a small TLS server: clients trust the authority, a client presents its
//! certificate if it has one, and both sides agree on HTTP/2.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tributary_suites::{Authority, ports, wait};

const URI: &str = "spiffe://cluster.local/ns/default/sa/web";

fn server_config(authority: &Authority) -> Result<ServerConfig> {
    let identity = authority.server("xds")?;
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file())?)?;
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?;
    let certificate = CertificateDer::from_pem_file(&identity.certificate_file)?;
    let key = PrivateKeyDer::from_pem_file(&identity.key_file)?;
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_client_cert_verifier(verifier).with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// Serves one connection and returns the certificate of its client.
async fn serve(authority: &Authority) -> Result<(SocketAddr, JoinHandle<Result<Vec<u8>>>)> {
    let acceptor = TlsAcceptor::from(Arc::new(server_config(authority)?));
    let addr = ports::free_addr()?;
    let listener = TcpListener::bind(addr).await?;
    let task = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut stream = acceptor.accept(stream).await?;
        stream.write_all(b"!").await?;
        stream.flush().await?;
        let certificates = stream.get_ref().1.peer_certificates().context("no certificate")?;
        Ok(certificates.first().context("no certificate")?.to_vec())
    });
    Ok((addr, task))
}

#[tokio::test]
async fn client_presents_its_identity() -> Result<()> {
    let authority = Authority::new()?;
    let identity = authority.client("web", URI)?;
    let (addr, server) = serve(&authority).await?;
    let mut stream = authority.connect(addr, Some(&identity)).await?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    wait::in_time("a byte", Duration::from_secs(10), async { Ok(stream.read_u8().await?) }).await?;
    let certificate = server.await??;
    ensure!(certificate.windows(URI.len()).any(|window| window == URI.as_bytes()), "the URI is not in it");
    Ok(())
}

#[tokio::test]
async fn client_without_required_identity_is_rejected() -> Result<()> {
    let authority = Authority::new()?;
    let (addr, server) = serve(&authority).await?;
    let stream = authority.connect(addr, None).await;
    let refused = server.await?.is_err();
    drop(stream);
    ensure!(refused, "the server took a client without a certificate");
    Ok(())
}
