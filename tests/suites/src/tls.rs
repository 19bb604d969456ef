//! Keys and certificates for one test: an authority, a server, and clients with a SPIFFE URI, as files for the
//! server's configuration and as a TLS stream for the raw ADS client.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A test authority; its files are removed with it.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    folder: TempDir,
}

/// A certificate and its key, in PEM, and the files that hold them.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
    /// The file with the certificate.
    pub certificate_file: PathBuf,
    /// The file with the key.
    pub key_file: PathBuf,
}

impl Authority {
    /// Creates an authority with its own key.
    pub fn new() -> Result<Self> {
        let key = KeyPair::generate().context("make a key")?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "tests of tributary");
        let certificate = params.self_signed(&key).context("sign the authority")?.pem();
        let folder = tempfile::tempdir().context("make a folder for certificates")?;
        std::fs::write(folder.path().join("ca.pem"), &certificate)?;
        Ok(Self { issuer: Issuer::new(params, key), certificate, folder })
    }

    /// Returns the file with the authority's certificate.
    pub fn file(&self) -> PathBuf {
        self.path().join("ca.pem")
    }

    /// Returns the path of its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Creates a server identity for `localhost` and 127.0.0.1, in files named after `name`; the same name
    /// again replaces them, as a rotation does.
    pub fn server(&self, name: &str) -> Result<Identity> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(name, params)
    }

    /// Creates a server identity for `localhost` whose time is over.
    pub fn expired(&self, name: &str) -> Result<Identity> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 12, 31);
        self.sign(name, params)
    }

    /// Creates a server identity for these hosts, in files named after `name`.
    pub fn server_of(&self, name: &str, hosts: &[&str]) -> Result<Identity> {
        let mut params =
            CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(name, params)
    }

    /// Starts a server that ends TLS and passes the bytes on to a backend. With `verifies`, clients must have a certificate
    /// of this authority.
    pub async fn front(&self, identity: &Identity, backend: SocketAddr, verifies: bool) -> Result<TlsFront> {
        start(serving(&self.certificate, identity, verifies)?, backend).await
    }
    /// Starts a server as [`Self::front`] does, whose backend speaks HTTP/2 without TLS: clients are offered it alone.
    pub async fn http2_front(&self, identity: &Identity, backend: SocketAddr) -> Result<TlsFront> {
        let mut config = serving(&self.certificate, identity, false)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        start(config, backend).await
    }

    /// Creates a client identity whose only name is a URI such as `spiffe://cluster.local/ns/default/sa/web`.
    pub fn client(&self, name: &str, uri: &str) -> Result<Identity> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.subject_alt_names.push(SanType::URI(uri.try_into().context("the URI of a client")?));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, params)
    }

    /// Creates the identity of a workload of a mesh, whose only name is a URI, for connections in both directions.
    pub fn workload(&self, name: &str, uri: &str) -> Result<Identity> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.subject_alt_names.push(SanType::URI(uri.try_into().context("the URI of a workload")?));
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, params)
    }

    /// Opens a TLS connection that trusts this authority, negotiates h2, and presents `identity` if there is
    /// one. Use it with [`crate::AdsClient::over`].
    pub async fn connect(
        &self,
        addr: SocketAddr,
        identity: Option<&Identity>,
    ) -> Result<TlsStream<TcpStream>> {
        let mut config = trusting(&self.certificate, identity)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(addr).await.with_context(|| format!("connect to {addr}"))?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").context("the name of the server")?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.context("TLS handshake")
    }

    /// Returns the authority's certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    fn sign(&self, name: &str, params: CertificateParams) -> Result<Identity> {
        let key = KeyPair::generate().context("make a key")?;
        let certificate = params.signed_by(&key, &self.issuer).with_context(|| format!("sign {name}"))?.pem();
        let identity = Identity {
            certificate,
            key: key.serialize_pem(),
            certificate_file: self.path().join(format!("{name}.pem")),
            key_file: self.path().join(format!("{name}.key")),
        };
        replace(&identity.key_file, &identity.key)?;
        replace(&identity.certificate_file, &identity.certificate)?;
        Ok(identity)
    }
}

/// Returns a TLS client that trusts only these certificates (PEM), and presents `identity` if there is one.
pub fn trusting(certificates: &str, identity: Option<&Identity>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(certificates.as_bytes()) {
        roots.add(certificate?)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots);
    let Some(identity) = identity else { return Ok(builder.with_no_client_auth()) };
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
    Ok(builder.with_client_auth_cert(vec![certificate], key)?)
}

/// A server that ends TLS; closed when dropped.
#[derive(Debug)]
pub struct TlsFront {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

impl TlsFront {
    /// Returns the address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn serving(authority: &str, identity: &Identity, verifies: bool) -> Result<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
    let provider = Arc::new(default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let config = config.with_safe_default_protocol_versions().context("protocol versions")?;
    let config = if verifies {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        config.with_client_cert_verifier(verifier)
    } else {
        config.with_no_client_auth()
    };
    config.with_single_cert(chain, key).context("the certificate of a server")
}

async fn start(config: ServerConfig, backend: SocketAddr) -> Result<TlsFront> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("open a port for TLS")?;
    let addr = listener.local_addr()?;
    let task = tokio::spawn(pass_on(listener, TlsAcceptor::from(Arc::new(config)), backend));
    Ok(TlsFront { addr, task })
}

async fn pass_on(listener: TcpListener, acceptor: TlsAcceptor, backend: SocketAddr) {
    // Dropped with this task: every connection ends with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            let mut inside = acceptor.accept(stream).await?;
            let mut outside = TcpStream::connect(backend).await?;
            tokio::io::copy_bidirectional(&mut inside, &mut outside).await
        });
    }
}

/// Replaces the file in one step, so a reloading server never reads a partial file.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).with_context(|| format!("write {}", fresh.display()))?;
    std::fs::rename(&fresh, path).with_context(|| format!("replace {}", path.display()))
}
