//! The contents of one file: its documents as they were last read, and the fault of the file.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tributary_model::{Code, ObjectRef, Position, Problem, Version};

use crate::document::Object;
use crate::read::fault;
use crate::read::identity::ObjectIdentity;
use crate::read::load::{self, Read};

/// A document and its line in the file.
#[derive(Debug, Clone)]
pub(crate) struct PlacedDocument {
    /// The file's line at which it begins.
    pub(crate) line: u32,
    /// The result of reading it; shared with earlier readings of the same text.
    pub(crate) read: Arc<Read>,
}

/// One file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    /// The name that messages show.
    pub(crate) name: Arc<str>,
    /// The hash of its text.
    version: Option<Version>,
    /// Its documents.
    pub(crate) documents: Vec<PlacedDocument>,
    /// Why the file cannot be read, if so; the documents are then those of the last reading.
    pub(crate) fault: Option<Problem>,
    /// Whether its documents are those of an earlier reading, because it cannot be read.
    is_stale: bool,
}

impl Contents {
    /// Creates a file that has not been read.
    pub(crate) fn unread(root: &str, path: &Path) -> Self {
        let name = Path::new(root).join(path).to_string_lossy().into();
        Self { name, ..Self::default() }
    }
    /// Applies a new text. Documents whose text was in this file before are not read again.
    pub(crate) fn update(&mut self, text: &str) {
        let version = Version::of(text.as_bytes());
        let settled = self.fault.is_none();
        if self.version == Some(version) && settled {
            return;
        }
        self.version = Some(version);
        self.is_stale = false;
        let known: HashMap<Version, Arc<Read>> =
            self.documents.drain(..).map(|placed| (placed.read.version, placed.read)).collect();
        let (chunks, over) = load::documents(text);
        for chunk in chunks {
            let version = Version::of(chunk.text.as_bytes());
            let read =
                known.get(&version).cloned().unwrap_or_else(|| Arc::new(load::read(chunk.text, version)));
            self.documents.push(PlacedDocument { line: chunk.line, read });
        }
        self.fault = over.and_then(|fault| fault::problem(&[fault], &self.name, 1));
    }
    /// Records that the file exists and cannot be read: its last contents stay.
    pub(crate) fn fail(&mut self, code: Code, why: &str) {
        let kept = if self.documents.is_empty() { "" } else { "; its last contents stay served" };
        let message = format!("{}: {why}{kept}", self.name);
        self.fault = Some(Problem { code, message: message.into() });
        self.is_stale = true;
    }
    /// Whether any document may be any object: it does not name its object, or cannot be read.
    pub(crate) fn is_unclear(&self) -> bool {
        self.fault.is_some()
            || self.documents.iter().any(|placed| placed.read.identity == ObjectIdentity::Unknown)
    }
    /// The problem of every object that is served from the file, if its newer version cannot be read.
    pub(crate) fn staleness(&self) -> Option<&Problem> {
        self.fault.as_ref().filter(|_| self.is_stale)
    }
    /// The reference of the file, for its own problem.
    pub(crate) fn reference(&self) -> ObjectRef {
        ObjectRef { id: load::of_file(&self.name), position: Position::new(self.name.clone()) }
    }
    /// The position of a document.
    pub(crate) fn position(&self, placed: &PlacedDocument) -> Arc<str> {
        load::position(&self.name, placed.read.at, placed.line)
    }
    /// The object that is served from a document, or in its place.
    pub(crate) fn object(&self, placed: &PlacedDocument) -> Option<Object> {
        let document = placed.read.document.clone().or_else(|| placed.read.stand_in.clone())?;
        Some(Object {
            document,
            position: self.position(placed),
            version: placed.read.version.to_string().into(),
            cluster_context: Arc::default(),
        })
    }
    /// The problem of a document.
    pub(crate) fn problem(&self, placed: &PlacedDocument) -> Option<Problem> {
        fault::problem(&placed.read.faults, &self.name, placed.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_contents(text: &str) -> Contents {
        let mut contents = Contents::unread("dir", Path::new("f.yaml"));
        contents.update(text);
        contents
    }

    const ENTRY: &str = "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: a}\nspec: {address: 10.0.0.1}\n";

    #[test]
    fn moved_document_is_not_read_again() {
        let mut contents = mk_contents(ENTRY);
        let before = contents.documents[0].read.clone();
        contents.update(&format!("kind: x\n...\n{ENTRY}"));
        assert!(Arc::ptr_eq(&before, &contents.documents[1].read));
        assert_eq!(&*contents.position(&contents.documents[1]), "dir/f.yaml:3:1");
    }

    #[test]
    fn a_file_that_cannot_be_read_keeps_what_it_held() {
        let mut contents = mk_contents(ENTRY);
        contents.fail(Code::FILE_UNREADABLE, "permission denied");
        assert_eq!(contents.documents.len(), 1);
        assert!(contents.is_unclear());
        contents.update(ENTRY);
        assert!(contents.fault.is_none() && !contents.is_unclear());
    }
}
