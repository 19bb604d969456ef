//! The directory of the journal: created, checked and locked.
//!
//! The start of the process and the inspection call it. One process holds it at a time; a second one gets the
//! holder's process id. A directory of another user, or a symbolic link, is rejected, because other users
//! could read or replace its files.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Files, Folder, open_own};

/// Name of the lock file, which contains the process id of the holder.
const LOCK: &str = "lock";

/// Reason why a directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Another process holds it.
    #[error("state directory {path} is held by {}; stop it or use another directory", holder(*.pid))]
    Held {
        /// Path of the directory.
        path: PathBuf,
        /// Process id, if it could be read.
        pid: Option<u32>,
    },
    /// It is a symbolic link.
    #[error("{0} is a symbolic link; use its target")]
    Link(PathBuf),
    /// Other users may enter it and it contains other files, so its mode is not changed.
    #[error("{0} is open to others and holds other files; use an empty directory, or set its mode to 700")]
    Open(PathBuf),
    /// It is not a directory.
    #[error("{0} is not a directory; use a directory")]
    NotDirectory(PathBuf),
    /// Another user owns it.
    #[error("{0} belongs to another user; use a directory of your own")]
    Foreign(PathBuf),
    /// A system call failed.
    #[error("state directory {0} cannot be used: {1}; check its permissions or choose another directory")]
    Io(PathBuf, io::Error),
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// A directory that this process holds until the value is dropped and its files are closed.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    files: Arc<dyn Files>,
}

impl StateDirectory {
    /// Creates the directory if it is absent, checks it and locks it.
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        let fault = |error| DirectoryError::Io(path.to_owned(), error);
        match std::fs::symlink_metadata(path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fault)?;
            }
            Err(error) => return Err(fault(error)),
        }
        Self::open_existing(path)
    }
    /// Checks and locks an existing directory.
    pub fn open_existing(path: &Path) -> Result<Self, DirectoryError> {
        let fault = |error| DirectoryError::Io(path.to_owned(), error);
        let about = std::fs::symlink_metadata(path).map_err(fault)?;
        if about.is_symlink() {
            return Err(DirectoryError::Link(path.to_owned()));
        }
        if !about.is_dir() {
            return Err(DirectoryError::NotDirectory(path.to_owned()));
        }
        check_owner(path, &about)?;
        if about.permissions().mode() & 0o777 != 0o700 {
            close(path)?;
        }
        let files = Folder::new(path.to_owned(), lock(path)?);
        Ok(Self { path: path.to_owned(), files: Arc::new(files) })
    }
    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Returns its files.
    pub(crate) fn files(&self) -> Arc<dyn Files> {
        self.files.clone()
    }
    /// Returns a directory of files that fail on a test's request.
    #[cfg(any(test, feature = "faulty-disk"))]
    pub(crate) fn of(files: Arc<dyn Files>) -> Self {
        Self { path: PathBuf::from("test"), files }
    }
}

/// Denies access to other users, if the directory is empty or known to be a state directory.
fn close(path: &Path) -> Result<(), DirectoryError> {
    let fault = |error| DirectoryError::Io(path.to_owned(), error);
    let empty = std::fs::read_dir(path).map_err(fault)?.next().is_none();
    if !empty && std::fs::symlink_metadata(path.join(LOCK)).is_err() {
        return Err(DirectoryError::Open(path.to_owned()));
    }
    std::fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(fault)
}

/// Rejects a file of another user.
pub(crate) fn check_owner(path: &Path, about: &Metadata) -> Result<(), DirectoryError> {
    owned_by(path, about.uid(), rustix::process::geteuid().as_raw())
}

fn owned_by(path: &Path, owner: u32, own: u32) -> Result<(), DirectoryError> {
    if owner == own { Ok(()) } else { Err(DirectoryError::Foreign(path.to_owned())) }
}

fn lock(path: &Path) -> Result<File, DirectoryError> {
    let fault = |error| DirectoryError::Io(path.to_owned(), error);
    let mut file = open_own(&path.join(LOCK)).map_err(fault)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let mut text = String::new();
            // The content may not be a number yet: the holder may be about to write it.
            let _ = (&mut file).take(16).read_to_string(&mut text);
            return Err(DirectoryError::Held { path: path.to_owned(), pid: text.trim().parse().ok() });
        }
        Err(std::fs::TryLockError::Error(error)) => return Err(fault(error)),
    }
    file.set_len(0).map_err(fault)?;
    file.rewind().map_err(fault)?;
    writeln!(file, "{}", std::process::id()).map_err(fault)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn directory_and_files_are_closed_to_others() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("a/b");
        let held = StateDirectory::open(&path).unwrap();
        held.files().open("file").unwrap();
        assert_eq!((mode(&path), mode(&path.join("file")), mode(&path.join(LOCK))), (0o700, 0o600, 0o600));
        drop(held);
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        StateDirectory::open(&path).unwrap();
        assert_eq!(mode(&path), 0o700, "access of other users is removed");
    }

    #[test]
    fn second_process_is_rejected_with_the_holders_id() {
        let base = tempfile::tempdir().unwrap();
        let held = StateDirectory::open(base.path()).unwrap();
        let error = StateDirectory::open(base.path()).unwrap_err();
        assert!(error.to_string().contains(&format!("held by process {}", std::process::id())), "{error}");
        drop(held);
        StateDirectory::open(base.path()).unwrap();
    }

    /// The database writes when it is closed: another process must not read the file before.
    #[test]
    fn directory_is_locked_until_its_last_file_is_closed() {
        let base = tempfile::tempdir().unwrap();
        let held = StateDirectory::open(base.path()).unwrap();
        let file = held.files().open("file").unwrap();
        drop(held);
        assert!(matches!(StateDirectory::open(base.path()), Err(DirectoryError::Held { .. })));
        drop(file);
        StateDirectory::open(base.path()).unwrap();
    }

    #[test]
    fn symbolic_links_are_rejected() {
        let base = tempfile::tempdir().unwrap();
        let (real, link) = (base.path().join("real"), base.path().join("link"));
        let held = StateDirectory::open(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(matches!(StateDirectory::open(&link), Err(DirectoryError::Link(_))));
        std::os::unix::fs::symlink(base.path().join("elsewhere"), real.join("file")).unwrap();
        assert!(held.files().open("file").is_err());
        assert!(!base.path().join("elsewhere").exists());
    }

    #[test]
    fn mode_of_a_directory_with_other_files_is_not_changed() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("letter"), "").unwrap();
        std::fs::set_permissions(base.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(StateDirectory::open(base.path()), Err(DirectoryError::Open(_))));
        assert_eq!(mode(base.path()), 0o755);
    }

    #[test]
    fn directory_of_another_user_is_rejected() {
        assert!(matches!(owned_by(Path::new("d"), 1, 2), Err(DirectoryError::Foreign(_))));
        assert!(owned_by(Path::new("d"), 2, 2).is_ok());
    }

    #[test]
    fn file_in_place_of_the_directory_is_rejected() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("file");
        std::fs::write(&path, "").unwrap();
        assert!(matches!(StateDirectory::open(&path), Err(DirectoryError::NotDirectory(_))));
    }
}
