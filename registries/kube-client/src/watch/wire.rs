//! Wire format: lines of a watch, pages of a list, and the status of an error.
//!
//! Objects stay raw, so that an invalid one is a problem of that object only.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::api_failure::ApiFailure;

/// Longest line of a watch in bytes, far above the size limit of a stored object.
pub(crate) const LONGEST_LINE: usize = 16 << 20;

/// Line of a watch.
#[derive(Debug)]
pub(crate) enum WatchLine<'a> {
    /// An object was created or changed.
    Now(&'a RawValue),
    /// An object was deleted.
    Deleted(&'a RawValue),
    /// The watch reached this version; `complete` ends a streamed list.
    Bookmark { version: String, complete: bool },
    /// The watch failed.
    Error(ApiFailure),
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark<'a> {
    #[serde(borrow)]
    metadata: BookmarkMeta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta<'a> {
    resource_version: String,
    #[serde(borrow, default)]
    annotations: Option<Annotations<'a>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    #[serde(rename = "k8s.io/initial-events-end", borrow, default)]
    end: Option<Cow<'a, str>>,
}

/// Parses a line.
pub(crate) fn watch_line(line: &[u8]) -> Result<WatchLine<'_>, ApiFailure> {
    let Line { kind, object } =
        serde_json::from_slice(line).map_err(|e| garbled("a line of the watch", &e))?;
    match kind.as_ref() {
        "ADDED" | "MODIFIED" => Ok(WatchLine::Now(object)),
        "DELETED" => Ok(WatchLine::Deleted(object)),
        "BOOKMARK" => bookmark(object),
        "ERROR" => {
            let status: Status = serde_json::from_str(object.get()).unwrap_or_default();
            Ok(WatchLine::Error(status.failure(500, None)))
        }
        other => {
            let shown: String = other.chars().take(64).collect();
            Err(ApiFailure::Garbled(format!("unknown watch event {shown:?}")))
        }
    }
}

fn bookmark(object: &RawValue) -> Result<WatchLine<'_>, ApiFailure> {
    let Bookmark { metadata } = serde_json::from_str(object.get()).map_err(|e| garbled("a bookmark", &e))?;
    let complete = metadata.annotations.and_then(|all| all.end).is_some_and(|end| end == "true");
    Ok(WatchLine::Bookmark { version: metadata.resource_version, complete })
}

/// Page of a list.
#[derive(Deserialize)]
pub(crate) struct Page<'a> {
    pub(crate) metadata: PageMeta,
    #[serde(borrow, default)]
    pub(crate) items: Option<Vec<&'a RawValue>>,
}

/// Version and continuation of a page.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageMeta {
    pub(crate) resource_version: String,
    #[serde(rename = "continue", default)]
    next: Option<String>,
}

impl PageMeta {
    /// Returns the continue token, if there is a next page, and the version.
    pub(crate) fn next(self) -> (Option<String>, String) {
        (self.next.filter(|next| !next.is_empty()), self.resource_version)
    }
}

/// Parses a page.
pub(crate) fn page(body: &[u8]) -> Result<Page<'_>, ApiFailure> {
    serde_json::from_slice(body).map_err(|e| garbled("a list", &e))
}

/// `Status` object of an error.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub(crate) struct Status {
    code: Option<u16>,
    message: Option<String>,
    details: Option<StatusDetails>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct StatusDetails {
    retry_after_seconds: Option<u64>,
}

impl Status {
    /// Classifies the error; `code` and `pause` come from the HTTP head or the context.
    pub(crate) fn failure(self, code: u16, pause: Option<Duration>) -> ApiFailure {
        let seconds = self.details.and_then(|details| details.retry_after_seconds).map(Duration::from_secs);
        let message = self.message.unwrap_or_default().chars().take(512).collect();
        ApiFailure::of_status(self.code.unwrap_or(code), pause.or(seconds), message)
    }
}

pub(crate) fn garbled(what: &str, error: &serde_json::Error) -> ApiFailure {
    ApiFailure::Garbled(format!("{what}: {error}"))
}

/// Splits a stream into lines; buffers at most one unfinished line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    held: BytesMut,
    searched: usize,
}

impl Lines {
    /// Appends a chunk; fails if a line is too long.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), ApiFailure> {
        if self.held.len() + chunk.len() > LONGEST_LINE && !chunk.contains(&b'\n') {
            return Err(ApiFailure::Garbled(format!("a line of more than {LONGEST_LINE} bytes")));
        }
        self.held.extend_from_slice(chunk);
        Ok(())
    }
    /// Returns the next whole line.
    pub(crate) fn next(&mut self) -> Option<BytesMut> {
        let from = self.held.get(self.searched..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', from) else {
            self.searched = self.held.len();
            self.shrink();
            return None;
        };
        let line = self.held.split_to(self.searched + end);
        self.held.advance(1);
        self.searched = 0;
        Some(line)
    }
    /// Whether an unfinished line remains.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.held.iter().any(|byte| !byte.is_ascii_whitespace())
    }
    /// Releases the memory of a long line.
    fn shrink(&mut self) {
        if self.held.is_empty() {
            self.held = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn end_of_a_streamed_list_differs_from_a_bookmark() {
        let bookmark = |meta: &str| {
            let line = format!(r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","metadata":{meta}}}}}"#);
            match watch_line(line.as_bytes()).unwrap() {
                WatchLine::Bookmark { version, complete } => (version, complete),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(bookmark(r#"{"resourceVersion":"9"}"#), ("9".to_owned(), false));
        let end = r#"{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true","x":"y"}}"#;
        assert_eq!(bookmark(end), ("9".to_owned(), true));
    }

    #[test]
    fn error_in_the_stream_is_classified_like_any_other() {
        let line = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old","reason":"Expired"}}"#;
        assert!(
            matches!(watch_line(line), Ok(WatchLine::Error(ApiFailure::Gone(text))) if text == "too old")
        );
        let line = br#"{"type":"ERROR","object":{"code":429,"details":{"retryAfterSeconds":3}}}"#;
        let Ok(WatchLine::Error(failure)) = watch_line(line) else { panic!("no error") };
        assert_eq!(failure.pause(), Some(Duration::from_secs(3)));
    }

    #[test]
    fn unknown_watch_line_is_garbled() {
        for line in
            [&b"{"[..], b"{}", br#"{"type":"NEWS","object":{}}"#, br#"{"type":"BOOKMARK","object":{}}"#]
        {
            assert!(
                matches!(watch_line(line), Err(ApiFailure::Garbled(_))),
                "{}",
                String::from_utf8_lossy(line)
            );
        }
    }

    #[test]
    fn page_without_items_is_empty_and_has_a_continuation_flag() {
        let body = br#"{"metadata":{"resourceVersion":"5","continue":""},"items":null,"unknown":[{}]}"#;
        let Page { metadata, items } = page(body).unwrap();
        assert_eq!((metadata.next(), items.map(|all| all.len())), ((None, "5".to_owned()), None));
    }

    #[test]
    fn endless_line_is_refused() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 1 << 20];
        let refused = (0..32).any(|_| lines.push(&chunk).is_err());
        assert!(refused && lines.next().is_none());
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_chunk_borders(
            lines in proptest::collection::vec("[a-z]{0,9}", 0..9),
            cuts in proptest::collection::vec(1..7_usize, 1..9),
        ) {
            let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>() + "rest";
            let (mut cut, mut found, mut rest) = (Lines::default(), Vec::new(), text.as_bytes());
            for size in cuts.iter().cycle() {
                let (chunk, left) = rest.split_at((*size).min(rest.len()));
                cut.push(chunk).unwrap();
                while let Some(line) = cut.next() {
                    found.push(String::from_utf8(line.to_vec()).unwrap());
                }
                rest = left;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, lines);
            prop_assert!(cut.is_unfinished());
        }
    }
}
