//! Chooses the document that serves an object, among all that claim it.
//!
//! Pure. Claims are ordered by file name, then by position, so that all replicas choose the same one.
//! Only two parts of the history count: the last good version of a document that became invalid, and
//! a document that is missing and not yet known to be removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::Mono;

use super::contents::{Contents, PlacedDocument};
use crate::document::{Document, Object};

/// A document that claims to be an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DocumentClaim<'t> {
    /// The path of the file.
    pub(crate) file: &'t Path,
    /// The file.
    pub(crate) contents: &'t Contents,
    /// The document.
    pub(crate) placed: &'t PlacedDocument,
}

impl DocumentClaim<'_> {
    fn document(&self) -> Option<&Arc<Document>> {
        self.placed.read.document.as_ref()
    }
    /// The document, or what stands in for it.
    fn content(&self) -> Option<&Arc<Document>> {
        self.document().or(self.placed.read.stand_in.as_ref())
    }
    /// What it serves, if it may be served.
    pub(crate) fn served(&self) -> Option<Served> {
        let object = self.contents.object(self.placed)?;
        Some(Served { object, file: self.file.to_owned(), line: self.placed.line, missing: None })
    }
}

/// The served document of an object.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    /// The object.
    pub(crate) object: Object,
    /// The file that it was read from.
    pub(crate) file: PathBuf,
    /// The file's line at which it begins.
    pub(crate) line: u32,
    /// Since when the file does not contain it.
    pub(crate) missing: Option<Mono>,
}

impl Served {
    /// Whether this claim is served and unchanged.
    pub(crate) fn is(&self, claim: &DocumentClaim<'_>) -> bool {
        let same = claim.content().is_some_and(|document| Arc::ptr_eq(document, &self.object.document));
        same && self.missing.is_none() && self.line == claim.placed.line && self.file == claim.file
    }
}

/// The decision on an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The served document stays.
    Keep,
    /// The served document stays and is missing: look again.
    Missing,
    /// This claim serves, by its index.
    Serve(usize),
    /// The object is removed.
    Removed,
}

/// Decides on an object. `absent` is whether a missing document may count as removed at all: the listing is complete,
/// and no unclear document of its file may be this object.
pub(crate) fn decide(
    claims: &[DocumentClaim<'_>],
    served: Option<&Served>,
    absent: bool,
    now: Mono,
    confirm: Duration,
) -> Verdict {
    // what stands in never takes the place of a good version
    let stands_in = || claims.iter().position(|claim| claim.content().is_some());
    let is_open = served.is_none_or(|served| served.object.document.is_stand_in());
    let best = best(claims, served).or_else(|| stands_in().filter(|_| is_open));
    let Some(served) = served else { return best.map_or(Verdict::Keep, Verdict::Serve) };
    let held = claims.iter().any(|claim| claim.file == served.file);
    let document = best.and_then(|i| claims.get(i)?.content());
    let same = document.is_some_and(|document| *document == served.object.document);
    match best {
        Some(i) if held || same => Verdict::Serve(i),
        None if held => Verdict::Keep,
        _ if !absent => Verdict::Keep,
        _ if served.missing.is_none_or(|since| now.since(since) < confirm) => Verdict::Missing,
        Some(i) => Verdict::Serve(i),
        None if claims.is_empty() => Verdict::Removed,
        // Only invalid documents in other files claim it: it was moved and broken at once.
        None => Verdict::Keep,
    }
}

/// The first claim that may be served; `None` if no claim may be, or if the first claim is invalid and its last
/// good version is served.
fn best(claims: &[DocumentClaim<'_>], served: Option<&Served>) -> Option<usize> {
    let first = claims.first()?;
    let is_kept = |served: &Served| served.file == first.file && !served.object.document.is_stand_in();
    if first.document().is_none() && served.is_some_and(is_kept) {
        return None;
    }
    claims.iter().position(|claim| claim.document().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIRM: Duration = Duration::from_millis(250);

    fn mk_file(file: &str, address: &str) -> (PathBuf, Contents) {
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {{name: a}}\nspec: {{address: {address}}}\n"
        );
        let mut contents = Contents::unread("", Path::new(file));
        contents.update(&text);
        (file.into(), contents)
    }

    fn good(file: &str, address: &str) -> (PathBuf, Contents) {
        mk_file(file, address)
    }

    fn bad(file: &str) -> (PathBuf, Contents) {
        mk_file(file, "[]")
    }

    fn claim((file, contents): &(PathBuf, Contents)) -> DocumentClaim<'_> {
        DocumentClaim { file, contents, placed: &contents.documents[0] }
    }

    fn served(file: &str, address: &str, missing: Option<u64>) -> Served {
        let file = mk_file(file, address);
        Served { missing: missing.map(Mono), ..claim(&file).served().unwrap() }
    }

    fn at(now: u64, files: &[(PathBuf, Contents)], served: Option<&Served>) -> Verdict {
        judge(now, files, served, true)
    }

    fn judge(now: u64, files: &[(PathBuf, Contents)], served: Option<&Served>, absent: bool) -> Verdict {
        let claims: Vec<_> = files.iter().map(claim).collect();
        decide(&claims, served, absent, Mono(now), CONFIRM)
    }

    #[test]
    fn the_first_good_claim_serves() {
        assert_eq!(at(0, &[good("a", "1.1.1.1"), good("b", "2.2.2.2")], None), Verdict::Serve(0));
        assert_eq!(at(0, &[bad("a"), good("b", "2.2.2.2")], None), Verdict::Serve(1));
        assert_eq!(at(0, &[bad("a")], None), Verdict::Keep);
        let later = served("b", "2.2.2.2", None);
        assert_eq!(at(0, &[good("a", "1.1.1.1"), good("b", "2.2.2.2")], Some(&later)), Verdict::Serve(0));
    }

    #[test]
    fn last_good_version_stays_before_a_second_claim() {
        let now = served("a", "1.1.1.1", None);
        assert_eq!(at(0, &[bad("a"), good("b", "2.2.2.2")], Some(&now)), Verdict::Keep);
    }

    #[test]
    fn missing_document_is_removed_after_a_second_look() {
        assert_eq!(at(0, &[], Some(&served("a", "1.1.1.1", None))), Verdict::Missing);
        assert_eq!(at(249, &[], Some(&served("a", "1.1.1.1", Some(0)))), Verdict::Missing);
        assert_eq!(at(250, &[], Some(&served("a", "1.1.1.1", Some(0)))), Verdict::Removed);
    }

    #[test]
    fn second_claim_serves_once_the_first_is_removed() {
        let first = served("a", "1.1.1.1", None);
        assert_eq!(at(0, &[good("b", "2.2.2.2")], Some(&first)), Verdict::Missing);
        let gone = served("a", "1.1.1.1", Some(0));
        assert_eq!(at(250, &[good("b", "2.2.2.2")], Some(&gone)), Verdict::Serve(0));
        assert_eq!(at(0, &[good("b", "1.1.1.1")], Some(&first)), Verdict::Serve(0), "the file was renamed");
    }

    #[test]
    fn nothing_is_removed_if_absence_proves_nothing() {
        let gone = served("a", "1.1.1.1", Some(0));
        assert_eq!(judge(9_999, &[], Some(&gone), false), Verdict::Keep);
        assert_eq!(at(9_999, &[bad("b")], Some(&gone)), Verdict::Keep);
    }
}
