//! A disk for tests and the simulation that fails on demand: it loses unsynced writes, tears writes at any byte, fills up, and
//! stops at any operation.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;

use super::directory::StateDirectory;
use super::files::Files;

/// One operation on a file that is not synced yet.
#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Resize(u64),
}

#[derive(Debug, Clone, Default)]
struct Content {
    /// Content as reads return it.
    now: Vec<u8>,
    /// Content that is certainly on disk.
    synced: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Arc<Mutex<Content>>>,
    /// Operations left before every operation fails.
    left: Option<u64>,
    /// Whether an operation failed for this reason.
    dead: bool,
    operations: u64,
    capacity: Option<u64>,
    failing_sync: bool,
}

/// The disk; clones share it.
#[derive(Debug, Clone, Default)]
pub struct FaultyDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    content: Arc<Mutex<Content>>,
}

/// A pseudorandom sequence of numbers.
#[derive(Debug, Clone)]
pub struct Numbers(pub u64);

impl Numbers {
    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

impl FaultyDisk {
    /// Returns the directory of a process on this disk.
    #[must_use]
    pub fn directory(&self) -> StateDirectory {
        StateDirectory::of(Arc::new(self.clone()))
    }
    /// Fails every operation after this many more.
    pub fn stop_after(&self, operations: u64) {
        self.0.lock().left = Some(operations);
    }
    /// Returns the number of operations.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }
    /// Limits the total size of all files, in bytes.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.lock().capacity = bytes;
    }
    /// Sets whether syncs fail.
    pub fn fail_sync(&self, fail: bool) {
        self.0.lock().failing_sync = fail;
    }
    /// Returns the bytes of a file.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.0.lock().files.get(name).map(|file| file.lock().now.clone()).unwrap_or_default()
    }
    /// Replaces a file.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let content = Content { now: bytes.clone(), synced: bytes, unsynced: Vec::new() };
        self.0.lock().files.insert(name.to_owned(), Arc::new(Mutex::new(content)));
    }
    /// Returns the disk as the next start finds it: each unsynced write is present, absent or torn.
    #[must_use]
    pub fn after_power_loss(&self, numbers: &mut Numbers) -> Self {
        let next = Self::default();
        for (name, content) in &self.0.lock().files {
            let content = content.lock();
            let mut bytes = content.synced.clone();
            for change in &content.unsynced {
                let torn = numbers.below(8192) as usize;
                apply(&mut bytes, change, [0, usize::MAX, torn][numbers.below(3) as usize]);
            }
            next.put(name, bytes);
        }
        next
    }
    fn step(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.operations += 1;
        match &mut state.left {
            Some(0) => Err(io::Error::other("the process was killed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
    fn room(&self, own: &Arc<Mutex<Content>>, length: u64) -> io::Result<()> {
        let state = self.0.lock();
        let Some(capacity) = state.capacity else { return Ok(()) };
        let others = state.files.values().filter(|file| !Arc::ptr_eq(file, own));
        let used: u64 = others.map(|file| file.lock().now.len() as u64).sum();
        if used + length > capacity { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// Applies a change; of a write, at most this many bytes.
fn apply(bytes: &mut Vec<u8>, change: &Change, most: usize) {
    match change {
        Change::Resize(length) => bytes.resize(*length as usize, 0),
        Change::Write(at, data) => overwrite(bytes, *at, &data[..most.min(data.len())]),
    }
}

fn overwrite(bytes: &mut Vec<u8>, at: u64, data: &[u8]) {
    let (start, end) = (at as usize, at as usize + data.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(data);
}

impl StorageBackend for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().now.len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.content.lock();
        let from = content.now.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.step()?;
        self.disk.room(&self.content, len)?;
        let mut content = self.content.lock();
        content.now.resize(len as usize, 0);
        content.unsynced.push(Change::Resize(len));
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        self.disk.step()?;
        if self.disk.0.lock().failing_sync {
            return Err(io::Error::other("sync failed"));
        }
        let mut content = self.content.lock();
        let Content { synced, unsynced, .. } = &mut *content;
        for change in unsynced.drain(..) {
            apply(synced, &change, usize::MAX);
        }
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let killed = self.disk.step();
        let mut content = self.content.lock();
        if killed.is_err() {
            // The write during which a process is killed may reach the disk; later ones do not.
            if !std::mem::replace(&mut self.disk.0.lock().dead, true) {
                content.unsynced.push(Change::Write(offset, data.to_vec()));
            }
            return killed;
        }
        overwrite(&mut content.now, offset, data);
        content.unsynced.push(Change::Write(offset, data.to_vec()));
        Ok(())
    }
}

impl Files for FaultyDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn StorageBackend>> {
        self.step()?;
        let content = self.0.lock().files.entry(name.to_owned()).or_default().clone();
        Ok(Box::new(FaultyFile { disk: self.clone(), content }))
    }
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.step()?;
        Ok(self.bytes(name))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.step()?;
        let mut state = self.0.lock();
        let file = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.files.insert(to.to_owned(), file);
        Ok(())
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.step()?;
        self.0.lock().files.remove(name);
        Ok(())
    }
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().files.keys().cloned().collect())
    }
    fn length(&self, name: &str) -> io::Result<u64> {
        let state = self.0.lock();
        let file = state.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        let length = file.lock().now.len() as u64;
        Ok(length)
    }
}
