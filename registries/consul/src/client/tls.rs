//! Certificate authorities, client certificate and key, read from files.

use std::path::{Path, PathBuf};

use reqwest::{Certificate, Identity};
use secrecy::{ExposeSecret, SecretSlice};

use crate::config::Tls;

const MAX_FILE: u64 = 4 << 20;
const MAX_FILES: usize = 1_000;

/// Error in the TLS files or their combination.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("tls file {path:?} cannot be read: {why}; check that it exists and may be read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// A file does not hold the expected PEM.
    #[error("tls file {path:?} is not valid PEM: {why}")]
    NotPem {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// The files do not fit together.
    #[error("tls cannot be set up: {0}; check certificate, key and authorities")]
    Setup(String),
}

/// Contents of the TLS files at the last read.
pub(super) struct Files {
    authorities: Vec<(PathBuf, Vec<u8>)>,
    identity: Option<SecretSlice<u8>>,
}

impl PartialEq for Files {
    fn eq(&self, other: &Self) -> bool {
        let bytes = |files: &Self| files.identity.as_ref().map(|secret| secret.expose_secret().to_vec());
        self.authorities == other.authorities && bytes(self) == bytes(other)
    }
}

impl Files {
    /// Reads the files that the configuration names.
    pub(super) fn read(tls: &Tls) -> Result<Self, TlsError> {
        let mut authorities = Vec::new();
        if let Some(path) = &tls.ca {
            authorities.push((path.clone(), file(path)?));
        }
        if let Some(directory) = &tls.ca_path {
            for path in listed(directory)? {
                let bytes = file(&path)?;
                authorities.push((path, bytes));
            }
        }
        let identity = match (&tls.cert, &tls.key) {
            (Some(cert), Some(key)) => {
                let mut pem = file(cert)?;
                pem.push(b'\n');
                pem.extend(file(key)?);
                Some(pem.into())
            }
            _ => None,
        };
        Ok(Self { authorities, identity })
    }
    /// Returns all authorities; an empty list means the system's.
    pub(super) fn authorities(&self) -> Result<Vec<Certificate>, TlsError> {
        let mut all = Vec::new();
        for (path, pem) in &self.authorities {
            let not_pem = |why: String| TlsError::NotPem { path: path.clone(), why };
            let certificates =
                Certificate::from_pem_bundle(pem).map_err(|error| not_pem(error.to_string()))?;
            if certificates.is_empty() {
                return Err(not_pem("it holds no certificate".to_owned()));
            }
            all.extend(certificates);
        }
        Ok(all)
    }
    /// Returns the client certificate with its key. An error never repeats file contents.
    pub(super) fn identity(&self) -> Result<Option<Identity>, TlsError> {
        let identity = self.identity.as_ref().map(|pem| Identity::from_pem(pem.expose_secret()));
        identity
            .transpose()
            .map_err(|_| TlsError::Setup("the client certificate and key cannot be used".to_owned()))
    }
}

fn file(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |why: String| TlsError::Unreadable { path: path.to_owned(), why };
    let size = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if size > MAX_FILE {
        return Err(unreadable(format!("it is larger than {MAX_FILE} bytes")));
    }
    std::fs::read(path).map_err(|error| unreadable(error.to_string()))
}

/// Returns the files of a directory sorted by name; ignores subdirectories.
fn listed(directory: &Path) -> Result<Vec<PathBuf>, TlsError> {
    let unreadable =
        |error: std::io::Error| TlsError::Unreadable { path: directory.to_owned(), why: error.to_string() };
    let entries = std::fs::read_dir(directory).map_err(unreadable)?;
    let paths = entries.take(MAX_FILES).filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_file_is_named_and_keys_are_hidden() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let missing = Tls { ca: Some(path("no.pem")), ..Tls::default() };
        assert!(Files::read(&missing).err().unwrap().to_string().contains("no.pem"));
        std::fs::write(path("ca.pem"), "hello").unwrap();
        let files = Files::read(&Tls { ca: Some(path("ca.pem")), ..Tls::default() }).unwrap();
        assert!(files.authorities().err().unwrap().to_string().contains("ca.pem"));
        std::fs::write(path("key.pem"), "hunter2").unwrap();
        let pair = Tls { cert: Some(path("ca.pem")), key: Some(path("key.pem")), ..Tls::default() };
        let error = Files::read(&pair).unwrap().identity().err().unwrap().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn files_are_equal_if_their_bytes_are() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("a.pem"), "a").unwrap();
        let tls = Tls { ca_path: Some(home.path().to_owned()), ..Tls::default() };
        let one = Files::read(&tls).unwrap();
        assert!(one == Files::read(&tls).unwrap());
        std::fs::write(home.path().join("b.pem"), "b").unwrap();
        assert!(one != Files::read(&tls).unwrap());
    }
}
