//! Where a command writes: data, talk, and whether somebody watches.

use std::io::Write;

use crate::exit::Failure;

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
    pub fn data(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|e| Failure::plain(format!("cannot write the answer: {e}")))
    }
    /// Writes talk; what cannot be said is not an error.
    pub fn say(&mut self, text: &str) {
        let _ = writeln!(self.talk, "{text}");
    }
}
