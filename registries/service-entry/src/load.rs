//! A file's text becomes documents and problems.
//!
//! Every document is read, decoded and validated alone. [`load_str`] is what tests and tools call;
//! the file source calls [`read`] on each document, and keeps what did not change. An object of an
//! API server goes through [`examine`] as every document does.

use std::sync::Arc;

use tributary_model::{Code, ObjectId, ObjectRef, Problem, Version};

use crate::decode::decode;
use crate::document::{Document, Object, UNIDENTIFIED};
use crate::fault::{self, Fault, Faults, Pos, Severity};
use crate::identity::{self, About};
use crate::node::Node;
use crate::validate::validate;
use crate::yaml::{Chunk, parse, split};

/// How many documents of one file are read.
pub const MAX_DOCUMENTS: usize = 20_000;

/// What one document came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    /// The document, where it may be served.
    pub(crate) document: Option<Arc<Document>>,
    /// Which object it is about.
    pub(crate) about: About,
    /// Where it begins: its first key, within its text.
    pub(crate) at: Pos,
    /// What is wrong with it, refusals first.
    pub(crate) faults: Vec<Fault>,
    /// The hash of its text.
    pub(crate) version: Version,
}

/// Reads one document of a stream; `version` is the hash of its text.
pub(crate) fn read(text: &str, version: Version) -> Read {
    match parse(text) {
        Ok(node) => judge(&node, Faults::default(), version),
        Err(fault) => {
            let (about, at) = (identity::of_text(text), fault.at);
            Read { document: None, about, at, faults: vec![fault], version }
        }
    }
}

/// Decodes and validates a tree, whatever it was written in.
fn judge(node: &Node, faults: Faults, version: Version) -> Read {
    let examined = examine(node, faults);
    let good = examined.is_good();
    let Examined { draft, faults } = examined;
    let served = draft.filter(|_| good).map(Arc::new);
    let about = served.as_ref().map_or_else(|| identity::of_node(node), |d| About::Object(d.id()));
    Read { document: served, about, at: node.at, faults, version }
}

/// A tree that was decoded and validated.
pub(crate) struct Examined {
    /// What it says, as far as it could be decoded; not to be served unless it is good.
    pub(crate) draft: Option<Document>,
    /// What is wrong with it, refusals first.
    pub(crate) faults: Vec<Fault>,
}

impl Examined {
    /// Whether nothing keeps it out of service.
    pub(crate) fn is_good(&self) -> bool {
        self.draft.is_some() && self.faults.iter().all(|fault| fault.severity != Severity::Refused)
    }
}

/// The one way from a tree to a document: files and API servers both go it.
pub(crate) fn examine(node: &Node, mut faults: Faults) -> Examined {
    let draft = decode(node, &mut faults);
    // A field that could not be decoded would be found missing: that is said once, by the decoder.
    if let Some(document) = draft.as_ref().filter(|_| !faults.refused()) {
        validate(document, &mut faults);
    }
    Examined { draft, faults: faults.sorted() }
}

/// The documents of a stream, as many as are read, and a fault where there are more.
pub(crate) fn documents(text: &str) -> (Vec<Chunk<'_>>, Option<Fault>) {
    let mut chunks = split(text);
    let over = chunks.get(MAX_DOCUMENTS).map(|chunk| {
        let message =
            format!("the file holds {} documents, more than {MAX_DOCUMENTS}; split it", chunks.len());
        Fault::refused(Code::SOURCE_LIMIT, Pos::new(chunk.line, 1), message)
    });
    chunks.truncate(MAX_DOCUMENTS);
    (chunks, over)
}

/// What a text holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Load {
    /// The documents that may be served, in the text's order. A second document of one object is a
    /// problem and not here.
    pub documents: Vec<Object>,
    /// What is wrong, in the text's order.
    pub problems: Vec<Rejected>,
}

/// What is wrong with one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Which object, and where; a document that does not say is named by file and index.
    pub object: ObjectRef,
    /// Each fault, with its place in the file.
    pub faults: Vec<Fault>,
    /// All faults in one line, as it is shown.
    pub problem: Problem,
}

impl Rejected {
    /// Whether the document is kept out of service; else the faults are only warnings.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.faults.iter().any(|fault| fault.severity == Severity::Refused)
    }
}

/// Reads all documents of a text; `file` is the name that messages show.
#[must_use]
pub fn load_str(text: &str, file: &str) -> Load {
    let mut load = Load::default();
    let mut seen: std::collections::BTreeMap<ObjectId, Arc<str>> = Default::default();
    let (chunks, over) = documents(text);
    for (index, chunk) in chunks.into_iter().enumerate() {
        let mut read = read(chunk.text, Version::of(chunk.text.as_bytes()));
        let place = place(file, read.at, chunk.line);
        if let Some(document) = read.document.take() {
            match seen.get(&document.id()) {
                Some(first) => read.faults.insert(0, duplicate(&document.id(), first, read.at)),
                None => {
                    seen.insert(document.id(), place.clone());
                    load.documents.push(Object {
                        document,
                        place,
                        version: read.version.to_string().into(),
                        cluster_context: Arc::default(),
                    });
                }
            }
        }
        let id = named(&read.about, file, index);
        load.problems.extend(rejected(id, read.faults, file, chunk.line, read.at));
    }
    load.problems
        .extend(over.and_then(|fault| rejected(of_file(file), vec![fault], file, 1, Pos::new(1, 1))));
    load
}

/// `shop/pay.yaml:12:1`.
pub(crate) fn place(file: &str, at: Pos, first_line: u32) -> Arc<str> {
    let at = at.from_line(first_line);
    format!("{file}:{}:{}", at.line, at.column).into()
}

/// A second document of an object, which waits until the first goes.
pub(crate) fn duplicate(id: &ObjectId, first: &str, at: Pos) -> Fault {
    Fault::refused(
        Code::DUPLICATE_OBJECT,
        at,
        format!("{id} is declared already at {first}, which is served; rename or remove one of them"),
    )
}

/// The object that a document's problems are shown on.
pub(crate) fn named(about: &About, file: &str, index: usize) -> ObjectId {
    match about {
        About::Object(id) => id.clone(),
        About::Foreign | About::Unknown => ObjectId::new(UNIDENTIFIED, "", format!("{file}#{index}")),
    }
}

/// The object that a file's own problems are shown on.
pub(crate) fn of_file(file: &str) -> ObjectId {
    ObjectId::new("File", "", file)
}

fn rejected(id: ObjectId, faults: Vec<Fault>, file: &str, first_line: u32, at: Pos) -> Option<Rejected> {
    let problem = fault::problem(&faults, file, first_line)?;
    let placed = |fault: Fault| Fault { at: fault.at.from_line(first_line), ..fault };
    let object = ObjectRef { id, place: place(file, at, first_line) };
    Some(Rejected { object, faults: faults.into_iter().map(placed).collect(), problem })
}

#[cfg(test)]
mod tests;
