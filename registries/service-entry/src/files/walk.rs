//! Lists a directory and reads what changed in it. The only code that opens files.
//!
//! Blocking; [`super::source`] calls it on a blocking thread. Names that begin with `.` are skipped,
//! so that the hidden directories of a mounted ConfigMap are not read twice; links are followed. A link to nothing is a file
//! or directory that cannot be read, not one that is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tributary_model::{Code, SourceState};

/// Limits of one directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Maximum number of files.
    pub(crate) files: usize,
    /// Maximum size of one file, in bytes.
    pub(crate) file_bytes: u64,
    /// Maximum number of bytes read in one walk.
    pub(crate) walk_bytes: u64,
    /// Maximum depth of directories.
    pub(crate) depth: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { files: 50_000, file_bytes: 32 << 20, walk_bytes: 512 << 20, depth: 32 }
    }
}

/// Identity of a directory, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirId {
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
    /// Reads the identity of the directory that has this name now.
    pub fn read(root: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(root)?;
        if metadata.is_dir() { Ok(Self::of(&metadata)) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }
}

/// Stamps by which unchanged files are recognized.
pub(crate) type Stamps = Arc<BTreeMap<PathBuf, Stamp>>;

/// A file's identity, size and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    id: DirId,
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
    /// Whether the file had settled when it was read: a file that was written just before may be written
    /// again without a change of its times.
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

/// The result of a walk.
#[derive(Debug)]
pub(crate) enum Listing {
    /// The directory cannot be read.
    Unreadable(SourceState, String),
    /// The directory was walked.
    Walked(Walk),
}

/// A directory's files.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Identity of the directory.
    pub(crate) dir: DirId,
    /// The files by their path relative to the directory.
    pub(crate) files: BTreeMap<PathBuf, Seen>,
    /// Why the listing is incomplete; empty if it is complete.
    pub(crate) faults: Vec<Fault>,
    /// Stamps for the next walk.
    pub(crate) stamps: Stamps,
}

/// The state of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Unchanged since its stamp was taken.
    Same,
    /// The new text.
    Text(String),
    /// The file exists and cannot be read.
    Failed(Code, String),
}

/// Why a listing is incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The code.
    pub(crate) code: Code,
    /// The resulting state of the scope.
    pub(crate) state: SourceState,
    /// The reason, with the path.
    pub(crate) why: String,
}

/// Walks a directory; files with the same stamp as in `stamps` are not read.
pub(crate) fn walk(root: &Path, stamps: &Stamps, bounds: Bounds) -> Listing {
    let dir = match DirId::read(root) {
        Ok(dir) => dir,
        Err(error) => return unreadable(root, &error),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut walker = Walker::new(root, stamps, bounds, now);
    if let Err(error) = walker.directory(Path::new(""), &mut vec![dir]) {
        return unreadable(root, &error);
    }
    // If the name leads to a different directory now, the listing belongs to neither.
    match DirId::read(root) {
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

    /// Reads one directory; an error is the directory's own. `above` are its parents.
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
            match target(&self.root.join(&path)) {
                Ok(Some(metadata)) if metadata.is_dir() => self.below(&path, &metadata, above),
                Ok(Some(metadata)) if is_yaml(&path) => self.file(path, &metadata),
                // Removed in the meantime, or a file that is not read.
                Ok(_) => {}
                Err(error) if is_yaml(&path) => self.failed(path, &error),
                Err(error) => self.fault(Code::FILE_UNREADABLE, &error, &path),
            }
        }
        Ok(())
    }

    fn below(&mut self, path: &Path, metadata: &Metadata, above: &mut Vec<DirId>) {
        let id = DirId::of(metadata);
        if above.contains(&id) {
            return; // a link to a parent directory
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
                let why = format!("exceeds the limit of {} files; use fewer", self.bounds.files);
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
            Err(Refusal::Rejected(code, why)) => {
                self.files.insert(path, Seen::Failed(code, why));
            }
        }
    }

    fn text(&mut self, path: &Path, metadata: &Metadata) -> Result<String, Refusal> {
        if !metadata.is_file() {
            return Err(Refusal::Rejected(
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
                "exceeds the limit of {} bytes for one directory; use more directories",
                self.bounds.walk_bytes
            );
            return Err(Refusal::Rejected(Code::SOURCE_LIMIT, why));
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
            Refusal::Rejected(
                Code::FILE_UNREADABLE,
                format!("is not UTF-8 from byte {at} on; save it as UTF-8"),
            )
        })
    }

    fn failed(&mut self, path: PathBuf, error: &io::Error) {
        self.files.insert(path, Seen::Failed(Code::FILE_UNREADABLE, cause(error)));
    }
    fn fault(&mut self, code: Code, error: &io::Error, path: &Path) {
        let why = format!("{} {}", self.root.join(path).display(), cause(error));
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
    Rejected(Code, String),
}

/// What a name leads to; `None` if the name is gone. A link to nothing is an error: a deletion removes the name too.
fn target(path: &Path) -> io::Result<Option<Metadata>> {
    let absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match fs::metadata(path) {
        Err(error) if absent(&error) => match fs::symlink_metadata(path) {
            // Read once more: the directory behind the link may just have been swapped for another one.
            Ok(_) => fs::metadata(path).map(Some),
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(error),
        },
        found => found.map(Some),
    }
}

/// Why a name cannot be read, and what to do.
fn cause(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "is a link to nothing; restore its target, or remove the link".into(),
        _ => format!("cannot be read ({error}); check its permissions"),
    }
}

fn too_large(bytes: u64, most: u64) -> Refusal {
    Refusal::Rejected(Code::SOURCE_LIMIT, format!("is {bytes} bytes long, more than {most}; split it"))
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("yaml") || ext.eq_ignore_ascii_case("yml"))
}

#[cfg(test)]
mod tests;
