//! File access for the database.
//!
//! The database calls it. It offers no locks: the directory is locked as a whole before any file of it
//! is opened, until the last of them is closed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use redb::StorageBackend;

/// A file, with the lock of its directory.
#[derive(Debug)]
pub(crate) struct FileBackend {
    file: File,
    _lock: Arc<File>,
}

impl FileBackend {
    /// Wraps an open file. The lock lasts until the file is closed.
    pub(crate) const fn new(file: File, lock: Arc<File>) -> Self {
        Self { file, _lock: lock }
    }
}

impl StorageBackend for FileBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }
}

/// A file of any kind, as the database needs it.
#[derive(Debug)]
pub(crate) struct AnyBackend(pub(crate) Box<dyn StorageBackend>);

impl StorageBackend for AnyBackend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}
