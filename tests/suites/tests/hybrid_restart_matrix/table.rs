//! The table: what is served and shown, for every kind of registry, state of its source and state of the
//! journal. The tests read it row by row and decide nothing themselves.

/// State of the source while the server restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Unchanged.
    Up,
    /// Its connections are accepted and nothing answers.
    Paused,
    /// Its process is killed; a folder is removed.
    Killed,
    /// It answers 403; a folder's path cannot be followed by any user.
    Refusing,
    /// It answers 200 with empty lists, to a token without permissions.
    Blind,
    /// It is empty, and answers so.
    Empty,
}

/// Content of the state directory, and behaviour of its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journal {
    /// As the killed server left it.
    Good,
    /// In the previous format.
    Older,
    /// Unchanged, and no file may grow.
    FullDisk,
    /// Unchanged, and no write beyond the first pages is accepted.
    DeadDisk,
    /// Cut off at a byte that depends on the seed.
    Cut(u64),
    /// One used byte, which depends on the seed, is changed.
    Flipped(u64),
    /// One byte of every record of a service is changed.
    Marred,
    /// In a format that only a later release reads.
    Newer,
}

/// Assignments that a cell serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    /// Everything as before, with the same versions, from the start on; stale with its true age unless the
    /// source is up.
    Before,
    /// As `Before` or as `Unknown`, completely.
    BeforeOrUnknown,
    /// Nothing: the server is not ready, and answers that the state is unknown.
    Unknown,
    /// As `Before` or as `Withheld`, completely.
    BeforeOrWithheld,
    /// Nothing, and the server answers that the state is unknown. Whether it is ready depends on another registry.
    Withheld,
    /// The source's content, from the time when the server is ready.
    Listed,
    /// As `Before` or as `Emptied`, completely.
    BeforeOrEmptied,
    /// Nothing, known to be empty.
    Emptied,
}

impl Serves {
    /// Returns the outcome for a server that found its journal.
    pub(crate) fn with_memory(self) -> Self {
        match self {
            Self::BeforeOrUnknown | Self::BeforeOrWithheld | Self::BeforeOrEmptied => Self::Before,
            other => other,
        }
    }
}

/// Cells with the same result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) source: Source,
    pub(crate) journals: &'static [Journal],
    pub(crate) serves: Serves,
    /// State that `get registries` shows: with served facts, and without.
    pub(crate) state: &'static str,
}

use Journal::{Cut, DeadDisk, Flipped, FullDisk, Good, Marred, Newer, Older};
use Serves::{
    Before, BeforeOrEmptied, BeforeOrUnknown, BeforeOrWithheld, Emptied, Listed, Unknown, Withheld,
};
use Source::{Blind, Empty, Killed, Paused, Refusing, Up};

/// Journals that a restart restores completely.
const KEPT: &[Journal] = &[Good, Older, FullDisk, DeadDisk];
/// Journals that a restart restores completely or not at all, depending on the seed.
const TORN: &[Journal] = &[Cut(1), Flipped(2)];
/// Journals that a restart cannot restore.
const LOST: &[Journal] = &[Marred, Newer];
const NOT_KEPT: &[Journal] = &[Cut(1), Flipped(2), Marred, Newer];
const ANY: &[Journal] = &[Good, Older, FullDisk, DeadDisk, Cut(1), Flipped(2), Marred, Newer];

const fn row(source: Source, journals: &'static [Journal], serves: Serves, state: &'static str) -> Row {
    Row { source, journals, serves, state }
}

const fn cluster(torn: Serves, lost: Serves) -> [Row; 12] {
    [
        row(Up, KEPT, Before, "Live"),
        row(Up, NOT_KEPT, Listed, "Live"),
        row(Paused, KEPT, Before, "Unreachable"),
        row(Paused, TORN, BeforeOrUnknown, "Unreachable"),
        row(Paused, LOST, Unknown, "Unreachable"),
        row(Killed, KEPT, Before, "Unreachable"),
        row(Killed, TORN, BeforeOrUnknown, "Unreachable"),
        row(Killed, LOST, Unknown, "Unreachable"),
        row(Refusing, KEPT, Before, "Forbidden"),
        row(Refusing, TORN, torn, "Forbidden"),
        row(Refusing, LOST, lost, "Forbidden"),
        row(Empty, ANY, Emptied, "Live"),
    ]
}

/// Services and slices of a cluster. A server that may read nothing of it waits.
pub(crate) const KUBERNETES: [Row; 12] = cluster(BeforeOrUnknown, Unknown);
/// ServiceEntries and WorkloadEntries of a cluster. No server waits for a right to read them.
pub(crate) const CUSTOM: [Row; 12] = cluster(BeforeOrWithheld, Withheld);
/// A catalog. The token's view counts as complete; a token that may read less removes nothing.
pub(crate) const CONSUL: [Row; 15] = [
    row(Up, KEPT, Before, "Live"),
    row(Up, NOT_KEPT, Listed, "Live"),
    row(Paused, KEPT, Before, "Unreachable"),
    row(Paused, TORN, BeforeOrUnknown, "Unreachable"),
    row(Paused, LOST, Unknown, "Unreachable"),
    row(Killed, KEPT, Before, "Unreachable"),
    row(Killed, TORN, BeforeOrUnknown, "Unreachable"),
    row(Killed, LOST, Unknown, "Unreachable"),
    row(Refusing, KEPT, Before, "AuthFailed"),
    row(Refusing, TORN, BeforeOrUnknown, "AuthFailed"),
    row(Refusing, LOST, Unknown, "AuthFailed"),
    row(Blind, KEPT, Before, "Stale"),
    row(Blind, TORN, BeforeOrEmptied, "Stale, else Live"),
    row(Blind, LOST, Emptied, "Live"),
    row(Empty, ANY, Emptied, "Live"),
];
/// A folder. It cannot pause, and a user who can read it sees all of it.
pub(crate) const FOLDER: [Row; 9] = [
    row(Up, KEPT, Before, "Live"),
    row(Up, NOT_KEPT, Listed, "Live"),
    row(Killed, KEPT, Before, "Unreachable"),
    row(Killed, TORN, BeforeOrUnknown, "Unreachable"),
    row(Killed, LOST, Unknown, "Unreachable"),
    row(Refusing, KEPT, Before, "Unreachable"),
    row(Refusing, TORN, BeforeOrUnknown, "Unreachable"),
    row(Refusing, LOST, Unknown, "Unreachable"),
    row(Empty, ANY, Emptied, "Live"),
];
