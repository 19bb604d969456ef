//! How the process ends: exit codes and the errors that a person reads.
//!
//! Every command returns `Result<Exit, CommandError>`; only `main` turns that into a process exit code,
//! after everything has been dropped. The numbers are part of the interface.

use std::fmt;
use std::process::ExitCode;

use tributary_model::Code;

/// What an exit code means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Yes, healthy, done.
    Ok = 0,
    /// The command failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The command worked and the answer is "no".
    No = 3,
    /// Nothing of that name.
    NotFound = 4,
    /// A wait ended without what was waited for.
    TimedOut = 5,
    /// The server refuses.
    NotAuthorised = 6,
    /// The answer is there and is not all: a registry has not synced yet.
    Partial = 7,
}

impl Exit {
    /// Every code with its meaning, for the reference.
    pub const TABLE: &'static [(Self, &'static str)] = &[
        (Self::Ok, "yes, healthy, done"),
        (Self::Failed, "the command failed"),
        (Self::Usage, "the command line or the configuration is wrong"),
        (Self::No, "the command worked and the answer is no: not served, not healthy"),
        (Self::NotFound, "the server knows nothing of that name"),
        (Self::TimedOut, "a wait ended without what was waited for"),
        (Self::NotAuthorised, "the server refuses"),
        (Self::Partial, "the answer is not all: a registry has not synced yet"),
    ];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed, and what to do next. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError {
    /// How the process ends.
    pub exit: Exit,
    /// The row of the table of codes, where there is one.
    pub code: Option<Code>,
    /// What failed; names the object.
    pub message: String,
    /// What to do next; empty leaves it to the code's own words.
    pub next: String,
}

impl CommandError {
    /// A failure with a code; what to do next is the code's.
    pub fn new(exit: Exit, code: Code, message: impl Into<String>) -> Self {
        Self { exit, code: Some(code), message: message.into(), next: String::new() }
    }
    /// A failure that no code describes.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, code: None, message: message.into(), next: String::new() }
    }
    /// The configuration is wrong: TRB0102, exit 2.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, Code::CONFIG_INVALID, message)
    }
    /// With other words for what to do next.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(code) = self.code {
            write!(f, "{code} ")?;
        }
        f.write_str(&self.message)?;
        match (self.next.as_str(), self.code) {
            ("", Some(code)) => write!(f, "\n  next: {}", code.info().next),
            ("", None) => Ok(()),
            (next, _) => write!(f, "\n  next: {next}"),
        }
    }
}
impl std::error::Error for CommandError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_interface() {
        let numbers: Vec<u8> = Exit::TABLE.iter().map(|(exit, _)| *exit as u8).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_failure_reads_as_cause_and_next_step() {
        let failure = CommandError::new(Exit::Failed, Code::SERVER_UNREACHABLE, "no server at http://x");
        let text = failure.to_string();
        assert!(text.starts_with("TRB0108 no server at http://x\n  next: start one with"), "{text}");
        assert!(failure.next("wait").to_string().ends_with("\n  next: wait"));
        assert_eq!(CommandError::plain("broken").to_string(), "broken");
    }
}
