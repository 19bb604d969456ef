//! File access for the database.
//!
//! The database calls it. It offers no locks: the directory is locked as a whole before any file of it
//! is opened.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use redb::StorageBackend;

/// A file.
#[derive(Debug)]
pub(crate) struct FileBackend(File);

impl FileBackend {
    /// Wraps an open file.
    pub(crate) const fn new(file: File) -> Self {
        Self(file)
    }
}

impl StorageBackend for FileBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
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
