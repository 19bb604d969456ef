//! Lists a directory and reads what changed in it. The only code that opens files.
//!
//! Blocking; called by [`super::source`] on a thread for that. Names that begin with `.` are passed
//! over, so that the hidden directories behind a mounted ConfigMap are not read twice; links are
//! followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tributary_model::{Code, SourceState};

/// The bounds of one directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Files that are read.
    pub(crate) files: usize,
    /// Bytes of one file.
    pub(crate) file_bytes: u64,
    /// Bytes that are read in one walk.
    pub(crate) walk_bytes: u64,
    /// Directories inside directories.
    pub(crate) depth: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { files: 50_000, file_bytes: 32 << 20, walk_bytes: 512 << 20, depth: 32 }
    }
}

/// Which directory it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DirId {
    device: u64,
    inode: u64,
}

impl DirId {
    #[cfg(test)]
    pub(crate) const fn new(inode: u64) -> Self {
        Self { device: 0, inode }
    }
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// By which a file that did not change is known.
pub(crate) type Stamps = Arc<BTreeMap<PathBuf, Stamp>>;

/// A file's identity, size and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    id: DirId,
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
    /// Whether it had settled when it was read: a file written in the instant before may be written
    /// again without its times showing it.
    settled: bool,
}

impl Stamp {
    fn of(metadata: &Metadata, now: Duration) -> Self {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let age = now.as_secs().saturating_sub(u64::try_from(changed.0).unwrap_or_default());
        Self {
            id: DirId::of(metadata),
            bytes: metadata.len(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            changed,
            settled: age >= 2,
        }
    }
    fn same(&self, other: &Self) -> bool {
        let parts = |s: &Self| (s.id, s.bytes, s.written, s.changed);
        parts(self) == parts(other)
    }
}

/// What a walk came to.
#[derive(Debug)]
pub(crate) enum Listing {
    /// The directory cannot be read at all.
    Unreadable(SourceState, String),
    /// It was walked.
    Walked(Walk),
}

/// A directory's files.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Which directory it is.
    pub(crate) dir: DirId,
    /// The files by their path inside it.
    pub(crate) files: BTreeMap<PathBuf, Seen>,
    /// Why the listing is not whole, where it is not.
    pub(crate) faults: Vec<Fault>,
    /// For the next walk, if this one is taken.
    pub(crate) stamps: Stamps,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// As it was when its stamp was taken.
    Same,
    /// This.
    Text(String),
    /// It is there and cannot be read.
    Failed(Code, String),
}

/// Why a listing is not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The code.
    pub(crate) code: Code,
    /// What it makes of the scope.
    pub(crate) state: SourceState,
    /// The reason, with the name of what it is about.
    pub(crate) why: String,
}

/// Walks a directory; files whose stamps are as `stamps` has them are not read.
pub(crate) fn walk(root: &Path, stamps: &Stamps, bounds: Bounds) -> Listing {
    let dir = match root_of(root) {
        Ok(dir) => dir,
        Err(error) => return unreadable(root, &error),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut walker = Walker::new(root, stamps, bounds, now);
    if let Err(error) = walker.directory(Path::new(""), &mut vec![dir]) {
        return unreadable(root, &error);
    }
    // The name must lead to the same directory still, or the listing is of neither.
    match root_of(root) {
        Ok(after) if after == dir => Listing::Walked(Walk {
            dir,
            files: walker.files,
            faults: walker.faults,
            stamps: Arc::new(walker.stamps),
        }),
        Ok(_) => Listing::Unreadable(
            SourceState::Broken,
            format!("{} was replaced while it was read", root.display()),
        ),
        Err(error) => unreadable(root, &error),
    }
}

fn root_of(root: &Path) -> io::Result<DirId> {
    let metadata = fs::metadata(root)?;
    if metadata.is_dir() { Ok(DirId::of(&metadata)) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

fn unreadable(root: &Path, error: &io::Error) -> Listing {
    Listing::Unreadable(state_of(error), format!("{} cannot be read: {error}", root.display()))
}

fn state_of(error: &io::Error) -> SourceState {
    match error.kind() {
        io::ErrorKind::PermissionDenied => SourceState::Forbidden,
        io::ErrorKind::NotADirectory => SourceState::Broken,
        _ => SourceState::Unreachable,
    }
}

struct Walker<'w> {
    root: &'w Path,
    known: &'w Stamps,
    bounds: Bounds,
    now: Duration,
    read: u64,
    files: BTreeMap<PathBuf, Seen>,
    stamps: BTreeMap<PathBuf, Stamp>,
    faults: Vec<Fault>,
}

impl<'w> Walker<'w> {
    fn new(root: &'w Path, known: &'w Stamps, bounds: Bounds, now: Duration) -> Self {
        Self {
            root,
            known,
            bounds,
            now,
            read: 0,
            files: BTreeMap::new(),
            stamps: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    /// One directory; an error is its own. `above` are the directories that lead to it.
    fn directory(&mut self, path: &Path, above: &mut Vec<DirId>) -> io::Result<()> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(self.root.join(path))? {
            names.insert(entry?.file_name());
        }
        for name in names {
            if name.to_string_lossy().starts_with('.') {
                continue;
            }
            let path = path.join(&name);
            match fs::metadata(self.root.join(&path)) {
                Ok(metadata) if metadata.is_dir() => self.below(&path, &metadata, above),
                Ok(metadata) if is_yaml(&path) => self.file(path, &metadata),
                Ok(_) => {}
                // Gone since, or a link that leads nowhere: it is not there.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if is_yaml(&path) => self.failed(path, &error),
                Err(error) => self.fault(Code::FILE_UNREADABLE, &error, &path),
            }
        }
        Ok(())
    }

    fn below(&mut self, path: &Path, metadata: &Metadata, above: &mut Vec<DirId>) {
        let id = DirId::of(metadata);
        if above.contains(&id) {
            return; // a link to a directory that it lies in
        }
        if above.len() >= self.bounds.depth {
            let why = format!("nests deeper than {} directories; flatten it", self.bounds.depth);
            return self.limit(path, &why);
        }
        above.push(id);
        match self.directory(path, above) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.fault(Code::FILE_UNREADABLE, &error, path),
        }
        above.pop();
    }

    fn file(&mut self, path: PathBuf, metadata: &Metadata) {
        if self.files.len() >= self.bounds.files {
            if self.faults.is_empty() {
                let why = format!("is one file more than the {} that are read; use fewer", self.bounds.files);
                self.limit(&path, &why);
            }
            return;
        }
        let stamp = Stamp::of(metadata, self.now);
        if self.known.get(&path).is_some_and(|known| known.settled && known.same(&stamp)) {
            self.stamps.insert(path.clone(), stamp);
            self.files.insert(path, Seen::Same);
            return;
        }
        match self.text(&path, metadata) {
            Ok(text) => {
                self.stamps.insert(path.clone(), stamp);
                self.files.insert(path, Seen::Text(text));
            }
            Err(Refusal::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(Refusal::Io(error)) => self.failed(path, &error),
            Err(Refusal::Said(code, why)) => {
                self.files.insert(path, Seen::Failed(code, why));
            }
        }
    }

    fn text(&mut self, path: &Path, metadata: &Metadata) -> Result<String, Refusal> {
        if !metadata.is_file() {
            return Err(Refusal::Said(
                Code::FILE_UNREADABLE,
                "is not a regular file; replace it by one".into(),
            ));
        }
        let most = self.bounds.file_bytes;
        if metadata.len() > most {
            return Err(too_large(metadata.len(), most));
        }
        if self.read.saturating_add(metadata.len()) > self.bounds.walk_bytes {
            let why = format!(
                "lies beyond the {} bytes of one directory that are read; use more directories",
                self.bounds.walk_bytes
            );
            return Err(Refusal::Said(Code::SOURCE_LIMIT, why));
        }
        let file = File::open(self.root.join(path)).map_err(Refusal::Io)?;
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes).map_err(Refusal::Io)?;
        self.read = self.read.saturating_add(bytes.len() as u64);
        if bytes.len() as u64 > most {
            return Err(too_large(bytes.len() as u64, most));
        }
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Refusal::Said(Code::FILE_UNREADABLE, format!("is not UTF-8 from byte {at} on; save it as UTF-8"))
        })
    }

    fn failed(&mut self, path: PathBuf, error: &io::Error) {
        let why = format!("cannot be read ({error}); check its permissions");
        self.files.insert(path, Seen::Failed(Code::FILE_UNREADABLE, why));
    }
    fn fault(&mut self, code: Code, error: &io::Error, path: &Path) {
        let why = format!("{} cannot be read: {error}", self.root.join(path).display());
        self.push(Fault { code, state: state_of(error), why });
    }
    fn limit(&mut self, path: &Path, why: &str) {
        let why = format!("{} {why}", self.root.join(path).display());
        self.push(Fault { code: Code::SOURCE_LIMIT, state: SourceState::Broken, why });
    }
    fn push(&mut self, fault: Fault) {
        const SHOWN: usize = 16;
        if self.faults.len() < SHOWN {
            self.faults.push(fault);
        }
    }
}

enum Refusal {
    Io(io::Error),
    Said(Code, String),
}

fn too_large(bytes: u64, most: u64) -> Refusal {
    Refusal::Said(Code::SOURCE_LIMIT, format!("is {bytes} bytes long, more than {most}; split it"))
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("yaml") || ext.eq_ignore_ascii_case("yml"))
}

#[cfg(test)]
mod tests;
