//! Receipts on disk: one file of the state directory, which each new receipt replaces as a whole.
//!
//! Only the receipts call it. A file that is torn or that cannot be read is set aside under another name and reported; it never stops
//! the server, which begins with no receipts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::MOST_RECEIPTS;
use crate::document::ReceiptItem;

/// Name of the file.
const NAME: &str = "receipts.json";
/// Name of a file that could not be read.
const ASIDE: &str = "receipts.json.unread";
/// Most bytes that are read: 100 receipts of 100 host names have less.
const MOST_BYTES: u64 = 8 << 20;

/// File of one state directory.
#[derive(Debug, Clone)]
pub(super) struct ReceiptFile(PathBuf);

impl ReceiptFile {
    pub(super) fn of(directory: &Path) -> Self {
        Self(directory.to_owned())
    }

    /// Returns the receipts of earlier processes, the newest first.
    pub(super) fn read(&self) -> Vec<ReceiptItem> {
        let path = self.0.join(NAME);
        match read(&path) {
            Ok(mut all) => {
                all.truncate(MOST_RECEIPTS);
                all
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                let aside = self.0.join(ASIDE);
                let (file, kept) = (path.display(), aside.display());
                tracing::warn!(%file, %kept, %error, "receipts of removed clusters cannot be read and were set aside");
                // if it cannot be renamed, the next receipt replaces it
                let _ = fs::rename(&path, &aside);
                Vec::new()
            }
        }
    }

    /// Replaces the file; on an error the old one stays.
    pub(super) fn write(&self, all: &[ReceiptItem]) {
        let path = self.0.join(NAME);
        if let Err(error) = replace(&self.0, &path, all) {
            let file = path.display();
            tracing::warn!(%file, %error, "receipts of removed clusters are not kept; check the state directory");
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<ReceiptItem>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn replace(directory: &Path, path: &Path, all: &[ReceiptItem]) -> io::Result<()> {
    let next = path.with_extension("json.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    file.write_all(&serde_json::to_vec(all)?)?;
    file.sync_all()?;
    fs::rename(&next, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::tests::mk_receipt;
    use super::*;

    #[test]
    fn receipts_survive_and_a_torn_file_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let file = ReceiptFile::of(dir.path());
        assert_eq!(file.read(), []);
        let all = [mk_receipt(2), mk_receipt(1)];
        file.write(&all);
        assert_eq!(ReceiptFile::of(dir.path()).read(), all);

        let path = dir.path().join(NAME);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(file.read(), []);
        assert!(dir.path().join(ASIDE).exists() && !path.exists());
        file.write(&all[1..]);
        assert_eq!(file.read(), all[1..]);
    }

    #[test]
    fn directory_that_is_gone_loses_nothing_but_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = ReceiptFile::of(&dir.path().join("absent"));
        file.write(&[mk_receipt(1)]);
        assert_eq!(file.read(), []);
    }
}
