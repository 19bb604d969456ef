//! Streams of a command: data, messages, and the properties of the terminal.

use std::io::{ErrorKind, Write};

use crate::exit::{CommandError, Exit};

/// Streams of one command.
pub struct Console<'a> {
    /// Receives data.
    pub out: &'a mut (dyn Write + Send),
    /// Receives messages.
    pub talk: &'a mut (dyn Write + Send),
    /// Whether data goes to a terminal, which can be redrawn.
    pub terminal: bool,
    /// Whether to use colour.
    pub color: bool,
}

impl Console<'_> {
    /// Writes data. A reader that closes early (`| head`) ends the command with exit 0 and no error text.
    pub fn data(&mut self, text: &str) -> Result<(), CommandError> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|e| match e.kind() {
            ErrorKind::BrokenPipe => CommandError { exit: Exit::Ok, ..CommandError::plain("") },
            _ => CommandError::plain(format!("cannot write to stdout: {e}")),
        })
    }
    /// Writes a message; a failed write is ignored.
    pub fn note(&mut self, text: &str) {
        let _ = writeln!(self.talk, "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Gone(ErrorKind);

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn closed_stdout_ends_the_command_without_an_error() {
        for (kind, exit) in [(ErrorKind::BrokenPipe, Exit::Ok), (ErrorKind::StorageFull, Exit::Failed)] {
            let (mut out, mut talk) = (Gone(kind), Vec::new());
            let mut console = Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
            assert_eq!(console.data("x").unwrap_err().exit, exit, "{kind}");
        }
    }
}
