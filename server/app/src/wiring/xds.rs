//! xDS server over the runtime: receives catalog and readiness, wakes sessions, and reloads certificates.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tributary_model::{Catalog, CatalogChanges, Code, ObservedSince};
use tributary_registry_api::Clock;
use tributary_runtime::{Fanout, Handle};
use tributary_xds::answers::CatalogAnswers;
use tributary_xds::source::CatalogSource;
use tributary_xds::transport::tls::{Tls, TlsMaterial};
use tributary_xds::transport::{DeferredServer, Limits, XdsServer};

use crate::admin::listener::cannot_bind;
use crate::config::Config;
use crate::config::model::TlsConfig;
use crate::exit::{CommandError, Exit};
use crate::ops::sessions::Sessions;

/// Interval at which certificate files are checked.
const LOOK: Duration = Duration::from_secs(5);

/// xDS server before its port is bound.
pub struct Xds {
    tls: Option<Certificates>,
    later: DeferredServer,
}

/// Bound xDS address.
pub struct BoundXds {
    listener: TcpListener,
    /// Local address.
    pub address: SocketAddr,
}

/// Running xDS server.
pub struct Serving {
    server: XdsServer,
    sessions: Arc<Sessions>,
    stop: CancellationToken,
}

/// Certificates with the files that they come from.
struct Certificates {
    files: TlsConfig,
    seen: TlsMaterial,
    tls: Arc<Tls>,
}

impl Xds {
    /// Reads certificates.
    pub fn build(config: &Config) -> Result<Self, CommandError> {
        let tls = config.xds.tls.clone().map(Certificates::read).transpose()?;
        Ok(Self { tls, later: DeferredServer::default() })
    }
    /// Wakes the sessions of the server that starts later; before that there are none.
    #[must_use]
    pub fn fanout(&self) -> Arc<dyn Fanout> {
        Arc::new(Woken(self.later.clone()))
    }
    /// Serves the bound address. `epoch` is the start of the process's clock.
    pub fn start(
        self,
        bound: BoundXds,
        (handle, clock, epoch): (&Handle, &Arc<dyn Clock>, Instant),
        config: &Config,
    ) -> (Serving, Arc<Sessions>) {
        let source = Arc::new(Source(handle.clone()));
        let answers = Arc::<CatalogAnswers>::default();
        let server = XdsServer::builder(Arc::<CatalogAnswers>::clone(&answers), source)
            .limits(limits(config))
            .epoch(epoch)
            .seed(u64::from(std::process::id()))
            .build();
        // Set before the listener serves, so that no session misses a generation.
        self.later.set(&server);
        let tls = self.tls.as_ref().map(|certificates| Arc::clone(&certificates.tls));
        server.listen(bound.listener, tls);
        let sessions = Arc::new(Sessions {
            table: Arc::clone(server.clients()),
            counters: Arc::clone(server.counters()),
            answers,
            handle: handle.clone(),
            clock: Arc::clone(clock),
            draining: AtomicBool::new(false),
        });
        let stop = CancellationToken::new();
        if let Some(certificates) = self.tls {
            tokio::spawn(certificates.follow(stop.clone()));
        }
        (Serving { server, sessions: Arc::clone(&sessions), stop }, sessions)
    }
}

impl BoundXds {
    /// Binds the address.
    pub async fn bind(address: SocketAddr) -> Result<Self, CommandError> {
        let fail = |e: std::io::Error| cannot_bind("xds.listen", address, &e);
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self { listener, address })
    }
}

impl Serving {
    /// Announces the drain, then ends the streams within the timeout.
    pub async fn drain(&self, deadline: Duration) {
        let streams = self.sessions.table.len();
        self.sessions.draining.store(true, Ordering::Release);
        self.stop.cancel();
        if self.server.drain(deadline).await {
            tracing::info!(streams, "drained; every stream has ended");
        } else {
            let open = self.sessions.table.len();
            tracing::warn!(streams, open, "drain timeout reached; open streams aborted");
        }
    }
}

fn limits(config: &Config) -> Limits {
    let defaults = Limits::default();
    Limits {
        connections: usize::try_from(config.xds.max_connections).unwrap_or(usize::MAX),
        max_age: config.xds.max_connection_age.limit(),
        spread: defaults.spread.min(config.drain.timeout.get() / 2),
        ..defaults
    }
}

/// View of the runtime for sessions.
struct Source(Handle);

impl CatalogSource for Source {
    fn current(&self) -> Arc<Catalog> {
        self.0.catalog()
    }
    fn ready(&self) -> bool {
        self.0.readiness().borrow().is_ready()
    }
}

/// View of the sessions for the runtime.
struct Woken(DeferredServer);

impl Fanout for Woken {
    fn published(&self, catalog: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince) {
        self.0.published(catalog, changed, observed);
    }
    fn is_writing(&self) -> bool {
        self.0.is_writing()
    }
}

impl Certificates {
    fn read(files: TlsConfig) -> Result<Self, CommandError> {
        let seen = material(&files)?;
        let tls = Tls::new(&seen).map_err(|e| unusable(&e, &files))?;
        Ok(Self { files, seen, tls: Arc::new(tls) })
    }
    /// Reloads certificates when their files change; invalid files change nothing.
    async fn follow(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            match self.look() {
                Ok(false) => {}
                Ok(true) => tracing::info!("changed certificates loaded; new connections use them"),
                Err(failure) => {
                    tracing::error!(error = %failure, "changed certificates are invalid; the old ones stay in use")
                }
            }
        }
    }
    /// Reloads changed files and returns whether the certificates changed.
    fn look(&mut self) -> Result<bool, CommandError> {
        let now = material(&self.files)?;
        if same(&now, &self.seen) {
            return Ok(false);
        }
        self.tls.reload(&now).map_err(|e| unusable(&e, &self.files))?;
        self.seen = now;
        Ok(true)
    }
}

fn same(a: &TlsMaterial, b: &TlsMaterial) -> bool {
    a.certificates == b.certificates && a.key == b.key && a.client_ca == b.client_ca
}

/// Bounds the size of a file, against a pipe or a device named by mistake.
fn material(files: &TlsConfig) -> Result<TlsMaterial, CommandError> {
    let read = |field: &str, path: &std::path::Path| {
        let shown = path.display();
        let wrong = |why: &dyn std::fmt::Display| {
            CommandError::new(Exit::Usage, Code::TLS_FILES, format!("xds.tls.{field}: {shown}: {why}"))
        };
        let kind = std::fs::metadata(path).map_err(|e| wrong(&e))?;
        if !kind.is_file() || kind.len() > (1 << 20) {
            return Err(wrong(&"is not a file of at most 1 MiB"));
        }
        std::fs::read(path).map_err(|e| wrong(&e))
    };
    Ok(TlsMaterial {
        certificates: read("certFile", &files.cert_file)?,
        key: read("keyFile", &files.key_file)?,
        client_ca: files.client_ca_file.as_ref().map(|path| read("clientCaFile", path)).transpose()?,
    })
}

fn unusable(error: &tributary_xds::transport::tls::TlsError, files: &TlsConfig) -> CommandError {
    let (field, path) = match (error.what, &files.client_ca_file) {
        ("the key", _) => ("keyFile", &files.key_file),
        ("the client CA", Some(path)) => ("clientCaFile", path),
        _ => ("certFile", &files.cert_file),
    };
    CommandError::new(Exit::Usage, Code::TLS_FILES, format!("xds.tls.{field}: {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn mk_certificate(dir: &Path) -> TlsConfig {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let files =
            TlsConfig { cert_file: dir.join("c.pem"), key_file: dir.join("k.pem"), client_ca_file: None };
        std::fs::write(&files.cert_file, made.cert.pem()).unwrap();
        std::fs::write(&files.key_file, made.signing_key.serialize_pem()).unwrap();
        files
    }

    #[test]
    fn changed_certificates_load_and_invalid_ones_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let files = mk_certificate(dir.path());
        let mut certificates = Certificates::read(files.clone()).unwrap();
        assert_eq!(certificates.look(), Ok(false), "nothing has changed");
        std::fs::write(&files.cert_file, "no certificate").unwrap();
        let failure = certificates.look().unwrap_err();
        assert_eq!(failure.code, Some(Code::TLS_FILES));
        assert!(certificates.look().is_err(), "the error repeats until the files are valid");
        mk_certificate(dir.path());
        assert_eq!(certificates.look(), Ok(true));
    }

    #[test]
    fn private_key_is_never_printed() {
        let dir = tempfile::tempdir().unwrap();
        let files = mk_certificate(dir.path());
        std::fs::write(&files.key_file, "canary").unwrap();
        let failure = Certificates::read(files).err().unwrap();
        assert!(!failure.to_string().contains("canary"), "{failure}");
    }
}
