//! JSON of documents with a bound on each text, so that one object cannot make an answer large.
//!
//! The admin surface writes its lists with it. A longer text ends with `…`; all other texts are written as they are.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};

/// Maximum length of a text in a document, in bytes of UTF-8.
pub const MAX_TEXT: usize = 4_096;

/// Writes a document as JSON whose texts have at most [`MAX_TEXT`] bytes and, if they are longer, `…`.
pub fn to_json(document: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1_024);
    document.serialize(&mut Serializer::with_formatter(&mut out, Bounded::default()))?;
    Ok(out)
}

/// Compact JSON without the end of long texts.
#[derive(Default)]
struct Bounded {
    /// Bytes of the current text that were written.
    written: usize,
    /// Whether its end is left out.
    is_cut: bool,
}

impl Bounded {
    /// Whether a part of this length still fits; nothing does after the first one that did not.
    fn fits(&mut self, bytes: usize) -> bool {
        self.is_cut |= self.written + bytes > MAX_TEXT;
        self.written += bytes;
        !self.is_cut
    }
}

impl Formatter for Bounded {
    fn begin_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        *self = Self::default();
        writer.write_all(b"\"")
    }
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if self.is_cut {
            return Ok(());
        }
        let left = MAX_TEXT - self.written;
        let shown = fragment.floor_char_boundary(left);
        writer.write_all(&fragment.as_bytes()[..shown])?;
        self.fits(fragment.len());
        Ok(())
    }
    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        if !self.fits(1) {
            return Ok(());
        }
        let short = match escape {
            CharEscape::Quote => b"\\\"",
            CharEscape::ReverseSolidus => b"\\\\",
            CharEscape::Solidus => b"\\/",
            CharEscape::Backspace => b"\\b",
            CharEscape::FormFeed => b"\\f",
            CharEscape::LineFeed => b"\\n",
            CharEscape::CarriageReturn => b"\\r",
            CharEscape::Tab => b"\\t",
            CharEscape::AsciiControl(byte) => return write!(writer, "\\u{byte:04x}"),
        };
        writer.write_all(short)
    }
    fn end_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(if self.is_cut { "…\"".as_bytes() } else { b"\"" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn read(document: &Value) -> Value {
        serde_json::from_slice(&to_json(document).unwrap()).unwrap()
    }

    #[test]
    fn long_texts_are_cut_at_a_character_and_others_are_not() {
        let long = "é".repeat(5_000_000);
        let read = read(&json!({"long": &long, "exact": "x".repeat(MAX_TEXT), "<b>": ["a\u{0}\n\"\u{1b}"]}));
        let cut = read["long"].as_str().unwrap();
        assert_eq!((cut.chars().count(), cut.ends_with("é…")), (MAX_TEXT / 2 + 1, true));
        assert_eq!(read["exact"], "x".repeat(MAX_TEXT));
        assert_eq!(read["<b>"][0], "a\u{0}\n\"\u{1b}");
    }

    #[test]
    fn escaped_characters_count_and_are_cut_too() {
        let read = read(&json!(["\u{1}".repeat(9_000), "a".repeat(MAX_TEXT - 1) + "\n\n\nend"]));
        let cut = read[0].as_str().unwrap();
        assert_eq!((cut.chars().count(), cut.chars().next_back()), (MAX_TEXT + 1, Some('…')));
        assert!(read[1].as_str().unwrap().ends_with("a\n…"), "nothing follows the place of the cut");
    }

    proptest! {
        #[test]
        fn every_text_stays_as_long_as_it_is_short(text in any::<String>(), key in any::<String>()) {
            let document = json!({ key: text });
            prop_assert_eq!(read(&document), document);
        }
    }
}
