//! The state directory of a killed server, and copies of it as a crash, a full disk or another release leaves
//! them.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use redb::{Database, TableDefinition};
use tributary_suites::ServerOptions;

use crate::table::Journal;

const FILE: &str = "journal.redb";
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// A format that no release has reached.
pub(crate) const LATER_FORMAT: u64 = 9;
/// Space for the server's log and lock, and for the first pages of the database.
const FIRST_PAGES: u64 = 64 << 10;

/// The journal of a killed server.
pub(crate) struct Left {
    bytes: Vec<u8>,
    /// A text in the records of the served service.
    text: String,
}

impl Left {
    /// Reads the journal of a directory that no server uses.
    pub(crate) fn read(state: &Path, text: &str) -> Result<Self> {
        let bytes = std::fs::read(state.join(FILE)).context("read the journal")?;
        let left = Self { bytes, text: text.to_owned() };
        ensure!(!left.places().is_empty(), "{text} stands nowhere in the journal");
        Ok(left)
    }
    /// Creates a directory that holds it in this condition.
    pub(crate) fn put(&self, state: &Path, journal: Journal) -> Result<()> {
        std::fs::DirBuilder::new().mode(0o700).create(state).context("make a state directory")?;
        std::fs::write(state.join(FILE), self.bytes_of(journal)).context("write a journal")?;
        match journal {
            Journal::Older => set_format(state, 0),
            // Without the space that the killed server had reserved.
            Journal::FullDisk => set_format(state, 1),
            Journal::Newer => set_format(state, LATER_FORMAT),
            _ => Ok(()),
        }
    }
    fn bytes_of(&self, journal: Journal) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        match journal {
            Journal::Cut(seed) => bytes.truncate(below(seed, bytes.len())),
            Journal::Flipped(seed) => {
                // Most of the file is free space.
                let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
                bytes[used[below(seed, used.len())]] ^= 0x5a;
            }
            Journal::Marred => self.places().into_iter().for_each(|at| bytes[at] ^= 0x5a),
            Journal::Good | Journal::Older | Journal::FullDisk | Journal::DeadDisk | Journal::Newer => {}
        }
        bytes
    }
    fn places(&self) -> Vec<usize> {
        let text = self.text.as_bytes();
        (0..self.bytes.len()).filter(|at| self.bytes[*at..].starts_with(text)).collect()
    }
}

/// Returns options for a server on such a disk.
pub(crate) fn options(state: &Path, journal: Journal) -> Result<ServerOptions> {
    let most = match journal {
        Journal::FullDisk => std::fs::metadata(state.join(FILE))?.len(),
        Journal::DeadDisk => FIRST_PAGES,
        _ => return Ok(ServerOptions::default()),
    };
    Ok(ServerOptions::default().largest_file(most))
}

/// Returns a number below `most` that depends on the seed.
fn below(seed: u64, most: usize) -> usize {
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
    usize::try_from(mixed).unwrap_or_default() % most.max(1)
}

/// Changes a journal to the format of another release.
fn set_format(state: &Path, format: u64) -> Result<()> {
    let db = Database::open(state.join(FILE)).context("open a journal")?;
    let change = db.begin_write()?;
    for name in ["format", "lowest_reader"] {
        change.open_table(META)?.insert(name, format)?;
    }
    Ok(change.commit()?)
}
