//! Looks at the directory of kubeconfigs, and passes on what is there.
//!
//! The remote clusters start it and receive its looks in order. It never ends by itself. It lists one directory without its
//! subdirectories and follows links, so that a mounted Secret or ConfigMap that is replaced as a whole is read as one that changed. Only
//! this module opens the files. Bounds: 10,000 names, 256 KiB a file, and 64 MiB in all; a file beyond a bound is shown and loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use tributary_model::Code;
use tributary_registry_api::Credential;
use tributary_remote::{FileContent, Look, MAX_BYTES};
use tributary_service_entry::{DirId, Looks, Timing};

use super::followers::Batch;

/// Most names of the directory.
const MOST_NAMES: usize = 10_000;
/// Most bytes that one look reads.
const MOST_BYTES: u64 = 64 << 20;

/// Looks at one directory.
pub(super) struct DirectoryWatch {
    looks: Looks,
    out: mpsc::Sender<Batch>,
}

impl DirectoryWatch {
    pub(super) fn new(root: &Path, out: mpsc::Sender<Batch>) -> Self {
        Self { looks: Looks::new(root, Timing::default()), out }
    }
    /// Looks whenever the directory may have changed; never ends.
    pub(super) async fn run(&mut self) {
        loop {
            self.looks.wait().await;
            let failed = || Look::Unreadable("reading it failed".to_owned());
            let look = self.looks.look(read).await.unwrap_or_else(failed);
            self.looks.plan(matches!(look, Look::Listed(_)), None);
            if self.out.send(Batch::Files(look)).await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// Lists the directory and reads its files; returns its identity too, if it could be listed.
pub(crate) fn read(root: &Path) -> (Look, Option<DirId>) {
    match list(root) {
        Ok((files, id)) => (Look::Listed(files), Some(id)),
        Err(error) => (Look::Unreadable(format!("{}: {error}", root.display())), None),
    }
}

type Files = BTreeMap<PathBuf, FileContent>;

fn list(root: &Path) -> io::Result<(Files, DirId)> {
    let id = DirId::read(root)?;
    let (mut files, mut left) = (Files::new(), MOST_BYTES);
    for path in paths(root)? {
        if let Some(content) = content(&path, &mut left) {
            files.insert(path, content);
        }
    }
    // if the name leads to another directory now, the listing is that of neither
    if DirId::read(root)? != id {
        return Err(io::Error::other("it was replaced while it was read"));
    }
    Ok((files, id))
}

/// Returns the paths in the directory whose name does not begin with `.`.
fn paths(root: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut paths = BTreeSet::new();
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        paths.insert(root.join(name));
        if paths.len() > MOST_NAMES {
            return Err(io::Error::other(format!("it has more than {MOST_NAMES} names; divide it")));
        }
    }
    Ok(paths)
}

/// Returns the content of a file; `None` for a path that is no regular file. A dangling link, or a file that was removed meanwhile, is
/// none.
fn content(path: &Path, left: &mut u64) -> Option<FileContent> {
    match bytes(path, left) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            let why = format!("it cannot be read ({error}); check its permissions");
            Some(FileContent::Unread(Code::KUBECONFIG_UNREADABLE, why))
        }
    }
}

fn bytes(path: &Path, left: &mut u64) -> io::Result<Option<FileContent>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let most = MAX_BYTES as u64;
    if metadata.len() > *left {
        let why = format!("the files of the directory have more than {MOST_BYTES} bytes; remove some");
        return Ok(Some(FileContent::Unread(Code::SOURCE_LIMIT, why)));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(most)).unwrap_or_default() + 1);
    // one byte more than is allowed shows that the file is too large
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    *left = left.saturating_sub(bytes.len() as u64);
    Ok(Some(FileContent::Read(Credential::new(bytes))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(files: &Files) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        files.keys().map(name).collect()
    }

    fn listed(root: &Path) -> Files {
        match read(root) {
            (Look::Listed(files), Some(_)) => files,
            (look, _) => panic!("{look:?}"),
        }
    }

    fn text(files: &Files, path: &Path) -> String {
        match &files[path] {
            FileContent::Read(bytes) => String::from_utf8(bytes.expose().to_vec()).unwrap(),
            unread @ FileContent::Unread(..) => panic!("{unread:?}"),
        }
    }

    #[test]
    fn regular_files_and_links_to_them_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["east.yaml", ".hidden", "west"] {
            fs::write(at(name), name).unwrap();
        }
        fs::create_dir(at("below")).unwrap();
        fs::write(at("below/north.yaml"), "north").unwrap();
        symlink(at("below"), at("linked")).unwrap();
        symlink(at("below/north.yaml"), at("north.conf")).unwrap();
        symlink(at("absent"), at("dangling")).unwrap();
        let files = listed(dir.path());
        assert_eq!(names(&files), ["east.yaml", "north.conf", "west"]);
        assert_eq!(text(&files, &at("north.conf")), "north");
    }

    #[test]
    fn mount_that_is_swapped_as_a_whole_is_read_from_its_new_version() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (version, token) in [("..1", "old"), ("..2", "new")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("east.yaml"), token).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/east.yaml", at("east.yaml")).unwrap();
        assert_eq!(text(&listed(dir.path()), &at("east.yaml")), "old");
        symlink("..2", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        assert_eq!(text(&listed(dir.path()), &at("east.yaml")), "new");
    }

    #[test]
    fn directory_that_is_missing_or_a_file_is_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [dir.path().join("absent"), file] {
            let (Look::Unreadable(why), None) = read(&path) else { panic!("{} is read", path.display()) };
            assert!(why.contains(&*path.to_string_lossy()), "{why}");
        }
    }

    #[test]
    fn files_beyond_the_bounds_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        fs::write(&path, vec![b'a'; MAX_BYTES + 10]).unwrap();
        assert_eq!(text(&listed(dir.path()), &path).len(), MAX_BYTES + 1, "vetting refuses it by its size");
        let mut left = 3;
        assert!(matches!(content(&path, &mut left), Some(FileContent::Unread(Code::SOURCE_LIMIT, _))));
    }

    #[tokio::test]
    async fn change_is_passed_on_without_waiting_for_the_next_periodic_look() {
        let dir = tempfile::tempdir().unwrap();
        let (out, mut batches) = mpsc::channel(4);
        let mut watch = DirectoryWatch::new(dir.path(), out);
        let watching = tokio::spawn(async move { watch.run().await });
        let mut next = async || match batches.recv().await {
            Some(Batch::Files(Look::Listed(files))) => names(&files),
            _ => panic!("no list"),
        };
        assert!(next().await.is_empty());
        let began = std::time::Instant::now();
        fs::write(dir.path().join("east.yaml"), "east").unwrap();
        while next().await != ["east.yaml"] {}
        assert!(began.elapsed() < Timing::default().rescan, "{:?}", began.elapsed());
        watching.abort();
    }
}
