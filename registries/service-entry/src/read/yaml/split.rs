//! Splits a YAML stream into its documents.
//!
//! A line of `---` or `...`, followed by white space or nothing, is always a document marker: YAML
//! forbids such a line inside quoted text and block scalars at column 0. So splitting needs no parser,
//! and an invalid document ends where the next one begins.

/// One document of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk<'t> {
    /// Its text, with its `---` line and without its `...` line.
    pub(crate) text: &'t str,
    /// The line of the stream at which it begins, counted from 1.
    pub(crate) line: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    /// `---`, and whether content follows on the line.
    Start {
        content: bool,
    },
    End,
    Directive,
    Blank,
    Content,
}

/// Splits a stream into the documents with content other than comments, in order. Line breaks are `\n`,
/// `\r\n` and `\r`; a byte order mark at the start is skipped.
pub(crate) fn split(text: &str) -> Vec<Chunk<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut cutter = Cutter { text, ..Cutter::default() };
    let mut offset = 0;
    let mut number = 1;
    while offset < text.len() {
        let (line, next) = next_line(text, offset);
        cutter.line(classify(line), offset, next, number);
        offset = next;
        number = number.saturating_add(1);
    }
    cutter.cut(text.len());
    cutter.chunks
}

#[derive(Default)]
struct Cutter<'t> {
    text: &'t str,
    chunks: Vec<Chunk<'t>>,
    /// Start of the current document: offset and line.
    begin: Option<(usize, u32)>,
    /// Whether the document has content other than comments.
    content: bool,
    /// Whether the document's `---` was found.
    marked: bool,
}

impl Cutter<'_> {
    fn line(&mut self, line: Line, offset: usize, next: usize, number: u32) {
        match line {
            Line::Start { content } => {
                if self.content || self.marked {
                    self.cut(offset);
                }
                self.begin.get_or_insert((offset, number));
                self.marked = true;
                self.content |= content;
            }
            Line::End => self.cut(offset),
            // A directive begins a document only outside of one.
            Line::Directive if !self.content && !self.marked => {
                self.begin.get_or_insert((offset, number));
            }
            Line::Blank => {}
            Line::Directive | Line::Content => {
                self.begin.get_or_insert((offset, number));
                self.content = true;
            }
        }
        debug_assert!(next > offset);
    }

    fn cut(&mut self, end: usize) {
        if let (Some((start, line)), true) = (self.begin, self.content)
            && let Some(text) = self.text.get(start..end)
        {
            self.chunks.push(Chunk { text, line });
        }
        (self.begin, self.content, self.marked) = (None, false, false);
    }
}

fn next_line(text: &str, offset: usize) -> (&str, usize) {
    let rest = text.get(offset..).unwrap_or_default();
    let Some(end) = rest.find(['\n', '\r']) else { return (rest, text.len()) };
    let width = if rest.get(end..).is_some_and(|r| r.starts_with("\r\n")) { 2 } else { 1 };
    (rest.get(..end).unwrap_or_default(), offset + end + width)
}

fn classify(line: &str) -> Line {
    let marker = |mark: &str| {
        line.strip_prefix(mark).filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])).map(str::trim)
    };
    if let Some(rest) = marker("---") {
        return Line::Start { content: !rest.is_empty() && !rest.starts_with('#') };
    }
    if marker("...").is_some() {
        return Line::End;
    }
    match line.trim_start().bytes().next() {
        None | Some(b'#') => Line::Blank,
        Some(b'%') if line.starts_with('%') => Line::Directive,
        Some(_) => Line::Content,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(u32, &str)> {
        split(text).into_iter().map(|chunk| (chunk.line, chunk.text)).collect()
    }

    #[test]
    fn documents_know_their_first_line() {
        assert_eq!(
            cut("a: 1\n---\nb: 2\n---\nc: 3\n"),
            [(1, "a: 1\n"), (2, "---\nb: 2\n"), (4, "---\nc: 3\n")]
        );
    }

    #[test]
    fn text_of_only_comments_is_not_a_document() {
        assert_eq!(cut("# head\n---\n# nothing\n---\n\n...\n---\na: 1\n---\n"), [(7, "---\na: 1\n")]);
        assert!(cut("").is_empty() && cut("---").is_empty() && cut("\u{feff}").is_empty());
    }

    #[test]
    fn only_a_marker_at_column_0_cuts() {
        let block = "text: |\n  one\n  ---\n   --- x\n  two\n";
        assert_eq!(cut(block), [(1, block)]);
        assert_eq!(cut("text: |\n  one\n---\nb: 2\n").len(), 2, "a marker ends a block scalar");
        assert_eq!(cut("---a: 1\n----\n"), [(1, "---a: 1\n----\n")], "these are texts, not markers");
    }

    #[test]
    fn content_may_stand_on_the_markers_line() {
        assert_eq!(cut("--- {a: 1}\n--- # note\n--- |\n x\n"), [(1, "--- {a: 1}\n"), (3, "--- |\n x\n")]);
    }

    #[test]
    fn all_line_breaks_count() {
        assert_eq!(cut("a: 1\r\n---\r\nb: 2\r\n"), [(1, "a: 1\r\n"), (2, "---\r\nb: 2\r\n")]);
        assert_eq!(cut("a: 1\r---\rb: 2"), [(1, "a: 1\r"), (2, "---\rb: 2")]);
        assert_eq!(cut("\u{feff}---\na: 1"), [(1, "---\na: 1")]);
    }

    #[test]
    fn an_end_marker_ends_and_directives_begin() {
        assert_eq!(
            cut("a: 1\n...\n%YAML 1.2\n---\nb: 2\n...\n"),
            [(1, "a: 1\n"), (3, "%YAML 1.2\n---\nb: 2\n")]
        );
    }
}
