//! A folder of ServiceEntries.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_suites::Entry;
use tributary_suites::consul::PORT;

use crate::origin::{Origin, host};
use crate::table::Source;

/// The folder, and its location while it is unavailable.
pub(crate) struct Folder {
    home: TempDir,
}

impl Folder {
    /// Creates an empty folder.
    pub(crate) fn new() -> Result<Self> {
        let folder = Self { home: tempfile::tempdir()? };
        std::fs::create_dir(folder.path())?;
        Ok(folder)
    }
    fn path(&self) -> PathBuf {
        self.home.path().join("files")
    }
    fn away(&self) -> PathBuf {
        self.home.path().join("away")
    }
    fn clear(&self) -> Result<()> {
        for file in std::fs::read_dir(self.path())? {
            std::fs::remove_file(file?.path())?;
        }
        Ok(())
    }
}

impl Origin for Folder {
    fn registry(&self) -> &'static str {
        "file"
    }
    fn config(&self) -> Value {
        json!({"kind": "file", "path": self.path()})
    }
    fn domain(&self) -> &'static str {
        "test"
    }
    async fn set(&self, name: &str, last: &[u8]) -> Result<()> {
        let hosts: Vec<_> = last.iter().map(|last| host(*last)).collect();
        let fresh = self.home.path().join("fresh");
        std::fs::write(&fresh, Entry::http(&format!("{name}.test"), PORT).all(&hosts).yaml())?;
        Ok(std::fs::rename(&fresh, self.path().join(format!("{name}.yaml")))?)
    }
    async fn take(&self, source: Source) -> Result<()> {
        match source {
            Source::Up => {}
            Source::Killed => std::fs::rename(self.path(), self.away())?,
            // A link to itself: file modes do not stop root.
            Source::Refusing => {
                std::fs::rename(self.path(), self.away())?;
                std::os::unix::fs::symlink(self.path(), self.path())?;
            }
            Source::Empty => self.clear()?,
            Source::Paused | Source::Blind => bail!("nothing answers for a folder"),
        }
        Ok(())
    }
    async fn give_back(&self, source: Source) -> Result<()> {
        if source == Source::Refusing {
            std::fs::remove_file(self.path())?;
        }
        if matches!(source, Source::Killed | Source::Refusing) {
            std::fs::rename(self.away(), self.path())?;
        }
        Ok(())
    }
}
