//! Bounds of texts that are shown.

use std::borrow::Cow;

/// What stands for the left-out middle of a text.
const GAP: &str = " \u{2026} ";

/// Returns a text, or the beginning and the end of a longer one, in at most so many bytes. The reason of a rejection stands at
/// either end: before or behind a dump of the rejected resource.
#[must_use]
pub fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    let each = most.saturating_sub(GAP.len()) / 2;
    let (head, tail) = (text.floor_char_boundary(each), text.ceil_char_boundary(text.len() - each));
    format!("{}{GAP}{}", &text[..head], &text[tail..]).into()
}

/// Returns a text on one line: each run of spaces, line breaks and other control characters is one space.
#[must_use]
pub fn one_line(text: &str) -> String {
    let is_space = |c: char| c.is_whitespace() || c.is_control();
    let mut parts = text.split(is_space).filter(|part| !part.is_empty());
    let mut out = String::with_capacity(text.len());
    out.extend(parts.next());
    parts.for_each(|part| out.extend([" ", part]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_long_text_are_kept() {
        assert_eq!(shorten("abcdefghij", 10), "abcdefghij");
        assert_eq!(shorten("abcdefghijkl", 11), "abc \u{2026} jkl");
        assert_eq!(shorten("\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}", 11), "\u{e9} \u{2026} \u{e9}");
    }

    #[test]
    fn text_of_several_lines_becomes_one() {
        assert_eq!(one_line(" a\n  b\t\u{1b}[31mc\r\n"), "a b [31mc");
        assert_eq!(one_line("\n"), "");
    }
}
