//! The table: what is served, and what is shown of it, for every kind of registry, state of its source and state of the
//! journal. The tests read it row by row and decide nothing themselves.

/// How the source is while the server starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// As it was.
    Up,
    /// Its connections are accepted and nothing answers.
    Paused,
    /// Its process is gone; of the folder: the folder is.
    Killed,
    /// It answers 403; of the folder: its path cannot be followed, for no user.
    Refusing,
    /// It answers 200 with empty lists to a token that may read nothing.
    Blind,
    /// It answers that there is nothing, and is right.
    Empty,
}

/// What the state directory holds, and what its disk does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journal {
    /// As the killed server left it.
    Good,
    /// Of the format before this one.
    Older,
    /// As it was left, and no file may grow.
    FullDisk,
    /// As it was left, and no write beyond the first pages is accepted.
    DeadDisk,
    /// Cut off at a byte that the seed chooses.
    Cut(u64),
    /// One byte of what is written is changed, which the seed chooses.
    Flipped(u64),
    /// One byte of every record of a service is changed.
    Marred,
    /// Of a format that only a later release reads.
    Newer,
}

/// What a cell serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    /// All that was served, with the same versions, from the start on; stale with its true age unless the source is up.
    Before,
    /// The same, or nothing as in `Unknown`; never a part.
    BeforeOrUnknown,
    /// Nothing: the server is not ready, and answers that it does not know.
    Unknown,
    /// The same as before, or nothing as in `Withheld`; never a part.
    BeforeOrWithheld,
    /// Nothing: the server waits no longer for what it may not read, and answers that it does not know.
    Withheld,
    /// What the source lists, from when the server is ready.
    Listed,
    /// The same as before, or nothing as in `Emptied`; never a part.
    BeforeOrEmptied,
    /// Nothing, and it is known that there is nothing.
    Emptied,
}

impl Serves {
    /// Of the two that a row leaves open, what it is of a server that found its journal.
    pub(crate) fn with_memory(self) -> Self {
        match self {
            Self::BeforeOrUnknown | Self::BeforeOrWithheld | Self::BeforeOrEmptied => Self::Before,
            other => other,
        }
    }
}

/// Cells that come out alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) source: Source,
    pub(crate) journals: &'static [Journal],
    pub(crate) serves: Serves,
    /// The state that `get registries` shows: of what was served, and of what was not.
    pub(crate) state: &'static str,
}

use Journal::{Cut, DeadDisk, Flipped, FullDisk, Good, Marred, Newer, Older};
use Serves::{
    Before, BeforeOrEmptied, BeforeOrUnknown, BeforeOrWithheld, Emptied, Listed, Unknown, Withheld,
};
use Source::{Blind, Empty, Killed, Paused, Refusing, Up};

/// What a restart finds whole.
const KEPT: &[Journal] = &[Good, Older, FullDisk, DeadDisk];
/// What it finds whole or not at all, as chance has it.
const TORN: &[Journal] = &[Cut(1), Flipped(2)];
/// What it cannot find.
const LOST: &[Journal] = &[Marred, Newer];
const NOT_KEPT: &[Journal] = &[Cut(1), Flipped(2), Marred, Newer];
const ANY: &[Journal] = &[Good, Older, FullDisk, DeadDisk, Cut(1), Flipped(2), Marred, Newer];

const fn row(source: Source, journals: &'static [Journal], serves: Serves, state: &'static str) -> Row {
    Row { source, journals, serves, state }
}

/// Services and slices of a cluster. No right to read is a reason not to wait for what was never known.
pub(crate) const KUBERNETES: [Row; 12] = [
    row(Up, KEPT, Before, "Live"),
    row(Up, NOT_KEPT, Listed, "Live"),
    row(Paused, KEPT, Before, "Unreachable"),
    row(Paused, TORN, BeforeOrUnknown, "Unreachable"),
    row(Paused, LOST, Unknown, "Unreachable"),
    row(Killed, KEPT, Before, "Unreachable"),
    row(Killed, TORN, BeforeOrUnknown, "Unreachable"),
    row(Killed, LOST, Unknown, "Unreachable"),
    row(Refusing, KEPT, Before, "Forbidden"),
    row(Refusing, TORN, BeforeOrWithheld, "Forbidden"),
    row(Refusing, LOST, Withheld, "Forbidden"),
    row(Empty, ANY, Emptied, "Live"),
];
/// ServiceEntries and WorkloadEntries of a cluster.
pub(crate) const CUSTOM: [Row; 12] = KUBERNETES;
/// A catalog. What a token may read is all that there is; a token that may read less removes nothing.
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
/// A folder. Nothing about it can pause, and who may read it at all sees everything in it.
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
