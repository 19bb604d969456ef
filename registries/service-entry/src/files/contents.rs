//! What one file holds: its documents as they were last read, and what is wrong with the file.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tributary_model::{Code, ObjectRef, Problem, Version};

use crate::document::Object;
use crate::fault;
use crate::identity::About;
use crate::load::{self, Read};

/// One document where it lies in its file.
#[derive(Debug, Clone)]
pub(crate) struct Lying {
    /// The file's line at which it begins.
    pub(crate) line: u32,
    /// What it came to; shared with earlier readings of the same text.
    pub(crate) read: Arc<Read>,
}

/// One file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    /// Its name, as messages show it.
    pub(crate) name: Arc<str>,
    /// The hash of its text.
    version: Option<Version>,
    /// Its documents.
    pub(crate) documents: Vec<Lying>,
    /// What is wrong with the file itself; its documents are then those of the last good reading.
    pub(crate) fault: Option<Problem>,
}

impl Contents {
    /// A file that has not been read.
    pub(crate) fn unread(root: &str, path: &Path) -> Self {
        let name = Path::new(root).join(path).to_string_lossy().into();
        Self { name, ..Self::default() }
    }
    /// Takes a text in. Documents whose text has been seen before in this file are not read again.
    pub(crate) fn update(&mut self, text: &str) {
        let version = Version::of(text.as_bytes());
        let settled = self.fault.is_none();
        if self.version == Some(version) && settled {
            return;
        }
        self.version = Some(version);
        let known: HashMap<Version, Arc<Read>> =
            self.documents.drain(..).map(|lying| (lying.read.version, lying.read)).collect();
        let (chunks, over) = load::documents(text);
        for chunk in chunks {
            let version = Version::of(chunk.text.as_bytes());
            let read =
                known.get(&version).cloned().unwrap_or_else(|| Arc::new(load::read(chunk.text, version)));
            self.documents.push(Lying { line: chunk.line, read });
        }
        self.fault = over.and_then(|fault| fault::problem(&[fault], &self.name, 1));
    }
    /// The file is there and cannot be read: what it held last stays.
    pub(crate) fn fail(&mut self, code: Code, why: &str) {
        let message = format!("{}: {why}; what it last held stays served", self.name);
        self.fault = Some(Problem { code, message: message.into() });
    }
    /// Whether a document may be any object: it does not say which it is, or cannot be read at all.
    pub(crate) fn is_unclear(&self) -> bool {
        self.fault.is_some() || self.documents.iter().any(|lying| lying.read.about == About::Unknown)
    }
    /// The file itself, for its own problem.
    pub(crate) fn reference(&self) -> ObjectRef {
        ObjectRef { id: load::of_file(&self.name), place: self.name.clone() }
    }
    /// Where a document lies.
    pub(crate) fn place(&self, lying: &Lying) -> Arc<str> {
        load::place(&self.name, lying.read.at, lying.line)
    }
    /// A document as it is served.
    pub(crate) fn object(&self, lying: &Lying) -> Option<Object> {
        let document = lying.read.document.clone()?;
        Some(Object {
            document,
            place: self.place(lying),
            version: lying.read.version.to_string().into(),
            cluster_context: Arc::default(),
        })
    }
    /// What is wrong with a document.
    pub(crate) fn problem(&self, lying: &Lying) -> Option<Problem> {
        fault::problem(&lying.read.faults, &self.name, lying.line)
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
    fn a_document_that_only_moved_is_not_read_again() {
        let mut contents = mk_contents(ENTRY);
        let before = contents.documents[0].read.clone();
        contents.update(&format!("kind: x\n...\n{ENTRY}"));
        assert!(Arc::ptr_eq(&before, &contents.documents[1].read));
        assert_eq!(&*contents.place(&contents.documents[1]), "dir/f.yaml:3:1");
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
