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
        let text = harmless(text, self.color);
        self.write(&text)
    }
    /// Writes data in place of what a terminal shows; elsewhere one text follows another.
    pub fn redraw(&mut self, text: &str) -> Result<(), CommandError> {
        if !self.terminal {
            return self.data(&format!("{text}\n"));
        }
        self.write("\u{1b}[H\u{1b}[2J\u{1b}[3J")?;
        self.data(text)
    }
    fn write(&mut self, text: &str) -> Result<(), CommandError> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|e| match e.kind() {
            ErrorKind::BrokenPipe => CommandError { exit: Exit::Ok, ..CommandError::plain("") },
            _ => CommandError::plain(format!("cannot write to stdout: {e}")),
        })
    }
    /// Notes that a replica gave no answer.
    pub fn silent(&mut self, replica: &str, why: &CommandError) {
        self.note(&format!("no answer of replica {replica}: {}", why.message));
    }
    /// Writes a message; a failed write is ignored.
    pub fn note(&mut self, text: &str) {
        let _ = writeln!(self.talk, "{}", harmless(text, false));
    }
}

/// Replaces control characters, which names from outside may contain: a terminal obeys them. Line ends, tabs and, with `color`, colours
/// stay.
#[must_use]
pub fn harmless(text: &str, color: bool) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    while let Some(at) = rest.find(|c: char| is_obeyed(c) && c != '\n' && c != '\t') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let colored = if color { color_at(rest) } else { None };
        let skipped = colored.unwrap_or_else(|| rest.chars().next().map_or(0, char::len_utf8));
        out.push_str(colored.map_or(" ", |end| &rest[..end]));
        rest = &rest[skipped..];
    }
    out.push_str(rest);
    out
}

/// Returns a text from outside as one line, without control characters.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) { ' ' } else { c }).collect()
}

/// Whether a terminal does something else than to show the character: control characters, line separators, characters without width, and
/// those that change the direction of what follows.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}')
}

/// Returns the length of the sequence at the beginning that sets a colour.
fn color_at(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    codes[end..].starts_with('m').then_some(2 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_a_terminal_and_colours_do() {
        let hostile = "a\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}2J\r\tb\u{1b}[31mred\u{1b}[0m\u{1b}[1;9\n";
        assert_eq!(harmless(hostile, false), "a ]0;owned  [2J 2J \tb [31mred [0m [1;9\n");
        assert_eq!(one_line("pay\u{202e}tset.\u{2066}\n"), "pay tset.  ");
        assert_eq!(harmless("pay\u{202e}tset\n", false), "pay tset\n");
        assert_eq!(harmless(hostile, true), "a ]0;owned  [2J 2J \tb\u{1b}[31mred\u{1b}[0m [1;9\n");
        let (mut out, mut talk) = (Vec::new(), Vec::new());
        let mut console = Console { out: &mut out, talk: &mut talk, terminal: true, color: false };
        console.data("clients/\u{1b}[2J\n").unwrap();
        console.note("no client \u{1b}[2J");
        console.redraw("x\u{7}").unwrap();
        assert_eq!(out, b"clients/ [2J\n\x1b[H\x1b[2J\x1b[3Jx ");
        assert_eq!(talk, b"no client  [2J\n");
    }

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
