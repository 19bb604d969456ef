//! File operations of the journal, behind a trait, so that tests can make them fail.
//!
//! The store calls it. Names are plain file names within one directory. A rename is durable when it
//! returns.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::StorageBackend;

use super::backend::FileBackend;

/// Name of the journal's file.
pub(crate) const JOURNAL: &str = "journal.redb";
/// Name of a file that becomes the journal once it is complete.
pub(crate) const NEXT: &str = "journal.redb.new";

/// Unit in which the system counts the blocks of a file, in bytes.
const BLOCK: u64 = 512;

/// A directory's files.
pub(crate) trait Files: Debug + Send + Sync {
    /// Opens a file for reading and writing; creates it if absent.
    fn open(&self, name: &str) -> io::Result<Box<dyn StorageBackend>>;
    /// Returns the content of an existing file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// Renames a file; replaces an existing one.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file; succeeds if it is absent.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns the names of all files, sorted.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Returns the bytes that a file takes on disk; holes take none.
    fn length(&self, name: &str) -> io::Result<u64>;
}

/// Files of a real directory, which stays locked while one of them is open: closing the database writes.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    lock: Arc<File>,
}

impl Folder {
    /// Returns the files of a directory that this lock holds.
    pub(crate) fn new(path: PathBuf, lock: File) -> Self {
        Self { path, lock: Arc::new(lock) }
    }
}

/// Opens an own file: readable only for its owner, and never through a symbolic link.
pub(crate) fn open_own(path: &Path) -> io::Result<File> {
    let links = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = options.mode(0o600).custom_flags(links).open(path)?;
    super::directory::check_owner(path, &file.metadata()?).map_err(io::Error::other)?;
    Ok(file)
}

impl Files for Folder {
    fn open(&self, name: &str) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(FileBackend::new(open_own(&self.path.join(name))?, Arc::clone(&self.lock))))
    }
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.path.join(name))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))?;
        File::open(&self.path)?.sync_all()
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }
    fn length(&self, name: &str) -> io::Result<u64> {
        std::fs::symlink_metadata(self.path.join(name)).map(|about| about.blocks() * BLOCK)
    }
}
