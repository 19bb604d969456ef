//! Exit codes of the process and the errors shown to the operator.
//!
//! Every command returns `Result<Exit, CommandError>`; only `main` turns it into a process exit code, after
//! everything is dropped. The numbers are part of the interface.

use std::fmt;
use std::process::ExitCode;

use tributary_model::Code;

/// Exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success: yes, healthy, done.
    Ok = 0,
    /// The command failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The command worked and the answer is "no".
    No = 3,
    /// Name not found.
    NotFound = 4,
    /// A wait timed out.
    TimedOut = 5,
    /// The server refused the request.
    NotAuthorised = 6,
    /// The answer is incomplete: a registry has not synced, or a replica did not answer.
    Partial = 7,
}

impl Exit {
    /// Every code with its meaning, for the reference.
    pub const TABLE: &'static [(Self, &'static str)] = &[
        (Self::Ok, "yes, healthy, done"),
        (Self::Failed, "the command failed; of `diff`: the clients differ"),
        (Self::Usage, "the command line or the configuration is wrong; of `diff` also: the command failed"),
        (Self::No, "the command worked and the answer is no: not served, not healthy"),
        (Self::NotFound, "name not found; a filter, such as `--host`, that matches nothing ends with 0"),
        (Self::TimedOut, "a wait timed out"),
        (Self::NotAuthorised, "the server refused the request"),
        (Self::Partial, "the answer is incomplete: a registry has not synced, or a replica did not answer"),
    ];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed, and what to do next. Never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError {
    /// Exit code of the process.
    pub exit: Exit,
    /// Code from the table of codes, if there is one.
    pub code: Option<Code>,
    /// What failed; names the object.
    pub message: String,
    /// What to do next; if empty, the code's own text.
    pub next: String,
}

impl CommandError {
    /// Returns an error with a code; its next step is the code's.
    pub fn new(exit: Exit, code: Code, message: impl Into<String>) -> Self {
        Self { exit, code: Some(code), message: message.into(), next: String::new() }
    }
    /// Returns an error without a code.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, code: None, message: message.into(), next: String::new() }
    }
    /// Returns an error without a code for a change that is not made: exit 3.
    pub fn no(message: impl Into<String>) -> Self {
        Self { exit: Exit::No, ..Self::plain(message) }
    }
    /// Returns a configuration error: TRB0102, exit 2.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, Code::CONFIG_INVALID, message)
    }
    /// Sets the next step of a name that was not found, of a client or of what `others` lists.
    #[must_use]
    pub fn listing(self, others: &str) -> Self {
        match self.exit {
            Exit::NotFound => self.next(format!("list clients with `tributary get clients`, {others}")),
            _ => self,
        }
    }
    /// Sets the next step.
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
    fn exit_codes_have_their_documented_numbers() {
        let numbers: Vec<u8> = Exit::TABLE.iter().map(|(exit, _)| *exit as u8).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn error_text_has_cause_and_next_step() {
        let failure = CommandError::new(Exit::Failed, Code::SERVER_UNREACHABLE, "no server at http://x");
        let text = failure.to_string();
        assert!(
            text.starts_with("TRB0108 no server at http://x\n  next: check that a server runs"),
            "{text}"
        );
        assert!(failure.next("wait").to_string().ends_with("\n  next: wait"));
        assert_eq!(CommandError::plain("broken").to_string(), "broken");
    }
}
