//! Certificates of a listener, read from their files at start and again when the files change.
//!
//! `Xds` and `RemoteAdmin` read them before they bind a port. An error names the file, its field, and where the field was set.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tributary_model::Code;
use tributary_registry_api::Credential;
use tributary_remote::Validity;
use tributary_xds::transport::tls::{Tls, TlsError, TlsMaterial};

use crate::check::{Severity, certificates};
use crate::config::errors::about;
use crate::config::model::TlsConfig;
use crate::config::{Loaded, Origins, layers};
use crate::document::{CertificateItem, timestamp};
use crate::exit::{CommandError, Exit};
use crate::reload::Running;

/// Interval at which the files are checked.
const LOOK: Duration = Duration::from_secs(5);
/// Maximum size of a file, against a pipe or a device named by mistake.
const MAX_BYTES: u64 = 1 << 20;

/// Field of the certificates of the xDS listener.
const XDS: &str = "xds.tls";

/// Certificates with the files that they come from.
pub struct Certificates {
    files: Files,
    seen: TlsMaterial,
    tls: Arc<Tls>,
}

/// Files, and where each was set.
struct Files {
    /// Field of the configuration, such as `xds.tls`.
    field: &'static str,
    protocols: &'static [&'static str],
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    /// Whether a token proves a client too.
    takes_tokens: bool,
    origins: Origins,
}

impl Certificates {
    /// Reads the files of the xDS listener; `None` without TLS.
    pub fn of(loaded: &Loaded) -> Result<Option<Self>, CommandError> {
        let Some(config) = &loaded.config.xds.tls else { return Ok(None) };
        let files = Files::of(config, (XDS, TlsMaterial::GRPC), origins(loaded, "xds"))?;
        Self::read(Files { takes_tokens: loaded.config.xds.tokens.is_some(), ..files }).map(Some)
    }
    /// Reads the files of the remote admin listener; `None` without one. A client may connect without a certificate: the access
    /// check decides.
    pub fn of_remote_admin(loaded: &Loaded) -> Result<Option<Self>, CommandError> {
        let Some(remote) = &loaded.config.admin.remote else { return Ok(None) };
        let listener = ("admin.remote.tls", TlsMaterial::HTTP1);
        let files = Files::of(&remote.tls, listener, origins(loaded, "admin"))?;
        Self::read(Files { takes_tokens: true, ..files }).map(Some)
    }
    fn read(files: Files) -> Result<Self, CommandError> {
        let seen = files.material()?;
        let tls = Tls::new(&seen).map_err(|e| files.unusable(&e))?;
        Ok(Self { files, seen, tls: Arc::new(tls) })
    }
    /// Returns the listener's view of the certificates.
    #[must_use]
    pub fn tls(&self) -> Arc<Tls> {
        Arc::clone(&self.tls)
    }
    /// Returns the certificates in use: the first of the chain, and every authority of clients.
    #[must_use]
    pub fn items(&self) -> Vec<CertificateItem> {
        let Files { certificate, client_ca, .. } = &self.files;
        let item = |name: &str, file: &Path, pem: &[u8]| {
            let validity = Validity::of(None, Some(&Credential::new(pem.to_vec())));
            CertificateItem {
                name: name.to_owned(),
                file: file.display().to_string(),
                from: validity.and_then(|validity| validity.from),
                until: validity.map(|validity| validity.until),
            }
        };
        let (own, authority) = match self.files.field {
            XDS => ("xDS certificate", "client CA"),
            _ => ("remote admin certificate", "remote admin client CA"),
        };
        let own = item(own, certificate, &self.seen.certificates);
        let authorities = client_ca.iter().zip(&self.seen.client_ca);
        let authorities = authorities.flat_map(|(file, pem)| blocks(pem).map(move |one| (file, one)));
        std::iter::once(own).chain(authorities.map(|(file, pem)| item(authority, file, pem))).collect()
    }
    /// Shows which certificates are in use, and logs those that have ended or end soon.
    pub fn show(&self, running: &Running) {
        let (items, now) = (self.items(), Timestamp::now());
        items.iter().for_each(|one| log_end(one, now));
        running.use_certificates(self.files.field, items);
    }
    /// Reloads certificates when their files change. Invalid files change nothing; their error shows in `running` and is
    /// logged once.
    pub async fn follow(mut self, running: Arc<Running>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            self.look_and_report(&running);
        }
    }
    fn look_and_report(&mut self, running: &Running) {
        let looked = self.look();
        let is_new = running.set_certificates(self.files.field, looked.as_ref().err());
        match looked {
            Ok(true) => {
                self.show(running);
                tracing::info!("changed certificates loaded; new connections use them");
            }
            Err(failure) if is_new => {
                tracing::error!(error = %failure, "changed certificates are invalid; the old ones stay in use");
            }
            Ok(false) if is_new => {
                tracing::info!("the certificates are valid again, and the same as before; they stay in use");
            }
            Ok(false) | Err(_) => {}
        }
    }
    /// Reloads changed files and returns whether the certificates changed.
    fn look(&mut self) -> Result<bool, CommandError> {
        let now = self.files.material()?;
        if same(&now, &self.seen) {
            return Ok(false);
        }
        self.tls.reload(&now).map_err(|e| self.files.unusable(&e))?;
        self.seen = now;
        Ok(true)
    }
}

/// Logs the end of a certificate by the rule of `check`.
fn log_end(one: &CertificateItem, now: Timestamp) {
    let Some(found) = certificates::end(one, now) else { return };
    let (certificate, path, end) = (&*one.name, &*one.file, one.until.map(timestamp));
    match found.severity {
        Severity::Error if one.until.is_some_and(|until| until <= now) => {
            tracing::warn!(certificate, path, end, "certificate has expired; clients refuse it");
        }
        Severity::Error => tracing::warn!(certificate, path, end, "certificate is not valid yet"),
        _ if end.is_none() => tracing::warn!(certificate, path, "end of a certificate cannot be read"),
        _ => tracing::warn!(certificate, path, end, "certificate expires soon"),
    }
}

/// Returns where the fields of a section were set.
fn origins(loaded: &Loaded, section: &str) -> Origins {
    let own = loaded.origins.iter().filter(|(field, _)| field.starts_with(section));
    own.map(|(field, origin)| (field.clone(), origin.clone())).collect()
}

/// Returns the certificates of a file of PEM, one by one.
fn blocks(pem: &[u8]) -> impl Iterator<Item = &[u8]> {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    let starts: Vec<usize> = memchr::memmem::find_iter(pem, BEGIN).collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([pem.len()]).collect();
    starts.into_iter().zip(ends).filter_map(|(from, to)| pem.get(from..to))
}

fn same(a: &TlsMaterial, b: &TlsMaterial) -> bool {
    a.certificates == b.certificates && a.key == b.key && a.client_ca == b.client_ca
}

impl Files {
    /// A configuration without one of the pair is an error here too: it must never serve without TLS.
    fn of(
        config: &TlsConfig,
        (section, protocols): (&'static str, &'static [&'static str]),
        origins: Origins,
    ) -> Result<Self, CommandError> {
        let missing = |field| CommandError::config(format!("{section}.{field} is missing; set it"));
        let (certificate, key) = config.pair().map_err(missing)?;
        let client_ca = config.client_ca_file.clone();
        Ok(Self {
            field: section,
            protocols,
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            client_ca,
            takes_tokens: false,
            origins,
        })
    }
    fn material(&self) -> Result<TlsMaterial, CommandError> {
        let client_ca = self.client_ca.as_ref().map(|path| self.bytes("clientCaFile", path));
        Ok(TlsMaterial {
            certificates: self.bytes("certFile", &self.certificate)?,
            key: self.bytes("keyFile", &self.key)?,
            client_ca: client_ca.transpose()?,
            is_certificate_optional: self.takes_tokens,
            protocols: self.protocols,
        })
    }
    fn bytes(&self, field: &str, path: &Path) -> Result<Vec<u8>, CommandError> {
        let wrong =
            |why: &dyn std::fmt::Display| self.error(field, format_args!("{}: {why}", path.display()));
        let kind = std::fs::metadata(path).map_err(|e| wrong(&e))?;
        if !kind.is_file() || kind.len() > MAX_BYTES {
            return Err(wrong(&"is not a file of at most 1 MiB"));
        }
        std::fs::read(path).map_err(|e| wrong(&e))
    }
    /// Returns the error of the file that cannot be used.
    fn unusable(&self, error: &TlsError) -> CommandError {
        let (field, path) = match (error.what, &self.client_ca) {
            (TlsError::PAIR, _) => return self.mismatch(),
            ("the key", _) => ("keyFile", &self.key),
            ("the client CA", Some(path)) => ("clientCaFile", path),
            _ => ("certFile", &self.certificate),
        };
        self.error(field, format_args!("{}: {error}", path.display()))
    }
    /// Returns the error of a key and a certificate that do not belong together. They may come from two layers, so it
    /// names both places.
    fn mismatch(&self) -> CommandError {
        let place = layers::origin(&self.origins, &format!("{}.certFile", self.field));
        let place = place.map(|place| format!(", set by {place}")).unwrap_or_default();
        let why = format!(
            "{}: is not the key of the certificate {} (certFile{place})",
            self.key.display(),
            self.certificate.display()
        );
        self.error("keyFile", why)
            .next("set certificate and key in the same place, and check that they belong together")
    }
    fn error(&self, field: &str, why: impl std::fmt::Display) -> CommandError {
        let field = format!("{}.{field}", self.field);
        let message = about(layers::origin(&self.origins, &field), format_args!("{field}: {why}")).message;
        CommandError::new(Exit::Usage, Code::TLS_FILES, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_certificate(dir: &Path) -> TlsConfig {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (certificate, key) = (dir.join("c.pem"), dir.join("k.pem"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        TlsConfig { cert_file: Some(certificate), key_file: Some(key), client_ca_file: None }
    }

    fn read(config: &TlsConfig) -> Result<Certificates, CommandError> {
        Certificates::read(Files::of(config, ("xds.tls", TlsMaterial::GRPC), Origins::new()).unwrap())
    }

    #[test]
    fn changed_certificates_load_and_invalid_ones_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let files = mk_certificate(dir.path());
        let mut certificates = read(&files).unwrap();
        assert_eq!(certificates.look(), Ok(false), "nothing has changed");
        std::fs::write(files.pair().unwrap().0, "no certificate").unwrap();
        let failure = certificates.look().unwrap_err();
        assert_eq!(failure.code, Some(Code::TLS_FILES));
        assert!(certificates.look().is_err(), "the error repeats until the files are valid");
        mk_certificate(dir.path());
        assert_eq!(certificates.look(), Ok(true));
    }

    #[test]
    fn invalid_certificates_are_shown_until_they_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let files = mk_certificate(dir.path());
        let (mut certificates, running) = (read(&files).unwrap(), Running::new(Loaded::default(), None));
        std::fs::write(files.pair().unwrap().0, "no certificate").unwrap();
        for _ in 0..2 {
            certificates.look_and_report(&running);
            let shown = running.document()["certificateError"].to_string();
            assert!(shown.contains("TRB0107") && shown.contains("c.pem"), "{shown}");
            assert!(!running.reloads().valid && running.complaint().is_some());
        }
        let failure = certificates.look().unwrap_err();
        assert!(!running.set_certificates("xds.tls", Some(&failure)), "the same error is not new");
        mk_certificate(dir.path());
        certificates.look_and_report(&running);
        assert!(running.reloads().valid && running.document()["certificateError"].is_null());
    }

    #[test]
    fn private_key_is_never_printed() {
        let dir = tempfile::tempdir().unwrap();
        let files = mk_certificate(dir.path());
        std::fs::write(files.pair().unwrap().1, "canary").unwrap();
        let failure = read(&files).err().unwrap();
        assert!(!failure.to_string().contains("canary"), "{failure}");
    }

    #[test]
    fn key_of_another_layer_is_an_error_that_names_both_places() {
        let (file, flag) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let key_file = mk_certificate(file.path()).key_file;
        let config = TlsConfig { key_file, ..mk_certificate(flag.path()) };
        let mut loaded = Loaded::default();
        loaded.config.xds.tls = Some(config);
        let origins = [
            ("xds", "t.yaml:3:1"),
            ("xds.tls.certFile", "TRIBUTARY_XDS__TLS__CERT_FILE"),
            ("xds.tls.keyFile", "t.yaml:5:3"),
        ];
        loaded.origins = origins.map(|(field, origin)| (field.to_owned(), origin.to_owned())).into();
        let failure = Certificates::of(&loaded).err().unwrap();
        assert_eq!(failure.code, Some(Code::TLS_FILES));
        assert!(failure.message.starts_with("t.yaml:5:3: xds.tls.keyFile: "), "{failure}");
        assert!(failure.message.ends_with("(certFile, set by TRIBUTARY_XDS__TLS__CERT_FILE)"), "{failure}");
    }
}
