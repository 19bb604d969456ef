//! Where a command writes: data, talk, and whether somebody watches.

use std::io::{ErrorKind, Write};

use crate::exit::{CommandError, Exit};

/// The streams of one command.
pub struct Console<'a> {
    /// Takes data.
    pub out: &'a mut (dyn Write + Send),
    /// Takes talk.
    pub talk: &'a mut (dyn Write + Send),
    /// Whether data goes to a terminal, so that it may be drawn over.
    pub terminal: bool,
    /// Whether colour is wanted.
    pub color: bool,
}

impl Console<'_> {
    /// Writes data. A reader that went away (`| head`) ends the command without an error text.
    pub fn data(&mut self, text: &str) -> Result<(), CommandError> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|e| match e.kind() {
            ErrorKind::BrokenPipe => CommandError { exit: Exit::Ok, ..CommandError::plain("") },
            _ => CommandError::plain(format!("cannot write the answer: {e}")),
        })
    }
    /// Writes talk; what cannot be said is not an error.
    pub fn say(&mut self, text: &str) {
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
    fn a_reader_that_has_seen_enough_is_no_error() {
        for (kind, exit) in [(ErrorKind::BrokenPipe, Exit::Ok), (ErrorKind::StorageFull, Exit::Failed)] {
            let (mut out, mut talk) = (Gone(kind), Vec::new());
            let mut console = Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
            assert_eq!(console.data("x").unwrap_err().exit, exit, "{kind}");
        }
    }
}
