//! Reads the configuration file: bounded and strict. Errors name file, line and field.

use std::path::{Path, PathBuf};

use super::errors::{join, plain, unknown_field};
use super::field_positions::FieldPositions;
use super::model::{API_VERSION, Config, KIND};
use super::shape::{self, SCHEMA};
use super::tree::{self, Located, Node, Position};
use crate::exit::CommandError;

/// Largest accepted file, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// File that has been read, with its values and their positions.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// Path, as given.
    pub path: PathBuf,
    /// Values over the defaults.
    pub config: Config,
    /// Positions of its fields.
    pub positions: FieldPositions,
}

impl ConfigFile {
    /// Reads a file and checks its shape. `check` validates the values later.
    pub fn read(path: &Path) -> Result<Self, CommandError> {
        let metadata = std::fs::metadata(path).map_err(|e| cannot_read(path, &e))?;
        if metadata.is_dir() {
            return Err(unusable(path, "a directory, not a file").next("name a file in it"));
        }
        if metadata.len() > MAX_BYTES {
            let why = format!("larger than {MAX_BYTES} bytes");
            return Err(unusable(path, why).next("check that it is a configuration file"));
        }
        let bytes = std::fs::read(path).map_err(|e| cannot_read(path, &e))?;
        let text = String::from_utf8(bytes).map_err(|e| {
            let why = format!("not text in UTF-8 from byte {}", e.utf8_error().valid_up_to() + 1);
            unusable(path, why).next("check that it is a configuration file, and save it as UTF-8")
        })?;
        Self::parse(path, &text)
    }
    /// Parses a text and checks its shape. Reports every error of the shape.
    pub fn parse(path: &Path, text: &str) -> Result<Self, CommandError> {
        let root = match tree::read(text) {
            Ok(root) => Some(root),
            Err(serde_saphyr::Error::Eof { .. }) => None,
            Err(e) => {
                let message = format!("{}{}", prefix(path, tree::position_of(&e)), tree::describe(&e));
                return Err(CommandError::config(message).next("correct the named line"));
            }
        };
        let positions = root.as_ref().map(FieldPositions::of).unwrap_or_default();
        let wrong = |(at, message): (Option<Position>, String)| {
            CommandError::config(format!("{}{message}", prefix(path, at)))
        };
        if let Some(error) = join(header(root.as_ref()).into_iter().map(wrong).collect()) {
            return Err(error);
        }
        let errors = root.iter().flat_map(|root| shape::errors("", root, &SCHEMA));
        if let Some(error) = join(errors.map(|e| wrong((Some(e.at), e.message))).collect()) {
            return Err(error);
        }
        let read = serde_saphyr::from_str_with_options::<Option<Config>>(text, tree::options());
        let config = read.map_err(|e| explain(path, &positions, e.without_snippet()))?.unwrap_or_default();
        Ok(Self { path: path.to_owned(), config, positions })
    }
    /// Returns `file:line:column: `, the prefix of errors about a field.
    #[must_use]
    pub fn position_of(&self, field: &str) -> String {
        prefix(&self.path, self.positions.at(field))
    }
}

/// Returns the errors of `apiVersion` and `kind`.
fn header(root: Option<&Located>) -> Vec<(Option<Position>, String)> {
    let entries = match root.map(|root| &root.value) {
        Some(Node::Map(entries)) => entries.as_slice(),
        Some(Node::List(_) | Node::Bool(_) | Node::Number(_) | Node::Text(_)) => {
            let why = format!(
                "the file has no fields; start it with `apiVersion: {API_VERSION}` and `kind: {KIND}`"
            );
            return vec![(root.map(tree::position), why)];
        }
        Some(Node::Null) | None => &[],
    };
    let error = |(field, wanted): (&str, &str)| {
        let Some((key, value)) = entries.iter().find(|(key, _)| key.value == field) else {
            return Some((None, format!("{field} is missing, write `{field}: {wanted}`")));
        };
        let found = match &value.value {
            Node::Text(text) if text == wanted => return None,
            Node::Text(text) | Node::Number(text) => text.chars().take(40).collect(),
            _ => String::new(),
        };
        Some((Some(tree::position(key)), format!("{field} is `{found}`, use `{wanted}`")))
    };
    [("apiVersion", API_VERSION), ("kind", KIND)].into_iter().filter_map(error).collect()
}

/// Next step after a path that cannot be read.
const PATH: &str = "check the path: the argument of `config validate`, --config or TRIBUTARY_CONFIG";

fn cannot_read(path: &Path, error: &std::io::Error) -> CommandError {
    let (why, next) = match error.kind() {
        std::io::ErrorKind::NotFound => ("no such file".to_owned(), PATH),
        std::io::ErrorKind::PermissionDenied => {
            ("permission denied".to_owned(), "give the user of this process the right to read it")
        }
        _ => (error.to_string(), PATH),
    };
    unusable(path, format!("cannot read: {why}")).next(next)
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> CommandError {
    CommandError::config(format!("{}: {why}", path.display()))
}

fn prefix(path: &Path, position: Option<Position>) -> String {
    match position {
        Some((line, column)) => format!("{}:{line}:{column}: ", path.display()),
        None => format!("{}: ", path.display()),
    }
}

fn explain(path: &Path, positions: &FieldPositions, error: &serde_saphyr::Error) -> CommandError {
    let position = tree::position_of(error);
    let at = prefix(path, position);
    let field = position.map(|position| positions.path_at(position)).unwrap_or_default();
    let message = match error {
        serde_saphyr::Error::SerdeUnknownField { field: name, expected, .. } => {
            format!("{at}{}", unknown_field(&full(field, name), expected))
        }
        serde_saphyr::Error::SerdeMissingField { field: name, .. } => {
            let part = position.map(|position| positions.part_at(position)).unwrap_or_default();
            format!("{at}`{}` is missing; set it", below(part, name))
        }
        _ if field.is_empty() => format!("{at}{}", describe(error)),
        _ => format!("{at}{field}: {}", describe(error)),
    };
    CommandError::config(message)
}

/// Describes an error that the types found, in one line, without its position.
fn describe(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as E;
    match error {
        E::Message { msg, .. } => plain(msg),
        E::SerdeInvalidType { unexpected, expected, .. }
        | E::SerdeInvalidValue { unexpected, expected, .. } => {
            format!("found {unexpected}; write {expected}")
        }
        E::SerdeUnknownVariant { variant, expected, .. } => {
            format!("`{variant}` is not valid; use one of {}", expected.join(", "))
        }
        _ => "the value has the wrong type; see `tributary config schema`".to_owned(),
    }
}

/// Returns the path of a field that an error names. The error's position is either the field or its parent.
fn full(at: &str, name: &str) -> String {
    match at.rsplit_once('.') {
        _ if at == name || at.is_empty() => name.to_owned(),
        Some((_, last)) if last == name => at.to_owned(),
        _ => below(at, name),
    }
}

fn below(part: &str, name: &str) -> String {
    if part.is_empty() { name.to_owned() } else { format!("{part}.{name}") }
}
