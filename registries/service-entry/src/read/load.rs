//! Loads documents and problems from the text of a file.
//!
//! Every document is read, decoded and validated alone. Tests and tools call [`load_str`]; the file
//! source calls [`read`] for each changed document. Objects of an API server go through [`examine`],
//! as every document does.

use std::sync::Arc;

use tributary_model::{Code, ObjectId, ObjectRef, Position, Problem, Version};

use crate::document::{Document, Object, UNIDENTIFIED};
use crate::read::decode::decode;
use crate::read::fault::{self, Fault, Faults, Pos, Severity};
use crate::read::identity::{self, ObjectIdentity};
use crate::read::node::Node;
use crate::read::stand_in;
use crate::read::yaml::{Chunk, parse, split};
use crate::validate::validate;

/// Maximum number of documents that are read of one file.
pub const MAX_DOCUMENTS: usize = 20_000;

/// The result of reading one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    /// The document, if it may be served.
    pub(crate) document: Option<Arc<Document>>,
    /// What is served in its place while no version of its object may be.
    pub(crate) stand_in: Option<Arc<Document>>,
    /// The identity of the object.
    pub(crate) identity: ObjectIdentity,
    /// Position of the first key, within the document's text.
    pub(crate) at: Pos,
    /// The faults, refusals first.
    pub(crate) faults: Vec<Fault>,
    /// The hash of the text.
    pub(crate) version: Version,
}

/// Reads one document of a stream; `version` is the hash of its text.
pub(crate) fn read(text: &str, version: Version) -> Read {
    match parse(text) {
        Ok(node) => judge(&node, Faults::default(), version),
        Err(fault) => {
            let (identity, at) = (identity::of_text(text), fault.at);
            let stand_in = stand_in::of_text(text);
            Read { document: None, stand_in, identity, at, faults: vec![fault], version }
        }
    }
}

/// Decodes and validates a tree of any format.
fn judge(node: &Node, faults: Faults, version: Version) -> Read {
    let examined = examine(node, faults);
    let good = examined.is_good();
    let Examined { draft, faults } = examined;
    let stand_in = if good { None } else { stand_in::of_node(node, draft.as_ref()) };
    let served = draft.filter(|_| good).map(Arc::new);
    let identity =
        served.as_ref().map_or_else(|| identity::of_node(node), |d| ObjectIdentity::Object(d.id()));
    Read { document: served, stand_in, identity, at: node.at, faults, version }
}

/// A tree after decoding and validation.
pub(crate) struct Examined {
    /// The decoded part; may be served only if it is good.
    pub(crate) draft: Option<Document>,
    /// The faults, refusals first.
    pub(crate) faults: Vec<Fault>,
}

impl Examined {
    /// Whether it may be served.
    pub(crate) fn is_good(&self) -> bool {
        self.draft.is_some() && self.faults.iter().all(|fault| fault.severity != Severity::Refused)
    }
}

/// Decodes and validates a tree. Files and API servers share this function.
pub(crate) fn examine(node: &Node, mut faults: Faults) -> Examined {
    let draft = decode(node, &mut faults);
    // A field that could not be decoded would count as missing: only the decoder reports it.
    if let Some(document) = draft.as_ref().filter(|_| !faults.refused()) {
        validate(document, &mut faults);
    }
    Examined { draft, faults: faults.sorted() }
}

/// The documents of a stream up to the limit, and a fault if there are more.
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

/// The contents of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Load {
    /// The documents that may be served, in the text's order. A second document of the same object is a
    /// problem and is omitted.
    pub documents: Vec<Object>,
    /// The problems, in the text's order.
    pub problems: Vec<Rejected>,
}

/// The problem of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The object and its position; a document without an identity is named by file and index.
    pub object: ObjectRef,
    /// The faults, each with its position in the file.
    pub faults: Vec<Fault>,
    /// All faults in one line, for display.
    pub problem: Problem,
}

impl Rejected {
    /// Whether the document is refused; otherwise the faults are only warnings.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.faults.iter().any(|fault| fault.severity == Severity::Refused)
    }
}

/// Loads all documents of a text; `file` is the name in messages.
#[must_use]
pub fn load_str(text: &str, file: &str) -> Load {
    let mut load = Load::default();
    let mut seen: std::collections::BTreeMap<ObjectId, Arc<str>> = Default::default();
    let (chunks, over) = documents(text);
    for (index, chunk) in chunks.into_iter().enumerate() {
        let mut read = read(chunk.text, Version::of(chunk.text.as_bytes()));
        let position = position(file, read.at, chunk.line);
        if let Some(document) = read.document.take() {
            match seen.get(&document.id()) {
                Some(first) => read.faults.insert(0, duplicate(&document.id(), first, read.at)),
                None => {
                    seen.insert(document.id(), position.clone());
                    load.documents.push(Object {
                        document,
                        position,
                        version: read.version.to_string().into(),
                        cluster_context: Arc::default(),
                    });
                }
            }
        }
        let id = named(&read.identity, file, index);
        load.problems.extend(rejected(id, read.faults, file, chunk.line, read.at));
    }
    load.problems
        .extend(over.and_then(|fault| rejected(of_file(file), vec![fault], file, 1, Pos::new(1, 1))));
    load
}

/// `shop/pay.yaml:12:1`.
pub(crate) fn position(file: &str, at: Pos, first_line: u32) -> Arc<str> {
    let at = at.from_line(first_line);
    format!("{file}:{}:{}", at.line, at.column).into()
}

/// The fault of a second document of an object, which is not served while the first exists.
pub(crate) fn duplicate(id: &ObjectId, first: &str, at: Pos) -> Fault {
    Fault::refused(
        Code::DUPLICATE_OBJECT,
        at,
        format!("{id} is declared already at {first}, which is served; rename or remove one of them"),
    )
}

/// The object to which a document's problems are attached.
pub(crate) fn named(identity: &ObjectIdentity, file: &str, index: usize) -> ObjectId {
    match identity {
        ObjectIdentity::Object(id) | ObjectIdentity::Foreign(Some(id)) => id.clone(),
        ObjectIdentity::Foreign(None) | ObjectIdentity::Unknown => {
            ObjectId::new(UNIDENTIFIED, "", format!("{file}#{index}"))
        }
    }
}

/// The object to which a file's problems are attached.
pub(crate) fn of_file(file: &str) -> ObjectId {
    ObjectId::new("File", "", file)
}

fn rejected(id: ObjectId, faults: Vec<Fault>, file: &str, first_line: u32, at: Pos) -> Option<Rejected> {
    let problem = fault::problem(&faults, file, first_line)?;
    let placed = |fault: Fault| Fault { at: fault.at.from_line(first_line), ..fault };
    let object = ObjectRef { id, position: Position::new(position(file, at, first_line)) };
    Some(Rejected { object, faults: faults.into_iter().map(placed).collect(), problem })
}

#[cfg(test)]
mod tests;
