//! Reads the configuration file: bounded and strict. Errors name file, line and field.

use std::path::{Path, PathBuf};

use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options};

use super::field_positions::{FieldPositions, Position};
use super::model::{API_VERSION, Config, KIND};
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
        let shown = path.display();
        let size = std::fs::metadata(path).map_err(|e| cannot_read(path, &e))?.len();
        if size > MAX_BYTES {
            return Err(CommandError::config(format!("{shown}: larger than {MAX_BYTES} bytes")));
        }
        let bytes = std::fs::read(path).map_err(|e| cannot_read(path, &e))?;
        let text = String::from_utf8(bytes).map_err(|e| {
            CommandError::config(format!("{shown}: not UTF-8 at byte {}", e.utf8_error().valid_up_to()))
        })?;
        Self::parse(path, &text)
    }
    /// Parses a text and checks its shape.
    pub fn parse(path: &Path, text: &str) -> Result<Self, CommandError> {
        let positions = FieldPositions::of(text, options());
        let read = serde_saphyr::from_str_with_options::<Option<Config>>(text, options());
        let config = read.map_err(|e| explain(path, &positions, e.without_snippet()))?.unwrap_or_default();
        let file = Self { path: path.to_owned(), config, positions };
        file.check_header()?;
        Ok(file)
    }
    /// Returns `file:line:column: `, the prefix of errors about a field.
    #[must_use]
    pub fn position_of(&self, field: &str) -> String {
        prefix(&self.path, self.positions.at(field))
    }
    fn check_header(&self) -> Result<(), CommandError> {
        for (field, found, wanted) in
            [("apiVersion", &self.config.api_version, API_VERSION), ("kind", &self.config.kind, KIND)]
        {
            if !self.positions.sets(field) {
                let message =
                    format!("{}{field} is missing, write `{field}: {wanted}`", prefix(&self.path, None));
                return Err(CommandError::config(message));
            }
            if found != wanted {
                let message = format!("{}{field} is `{found}`, use `{wanted}`", self.position_of(field));
                return Err(CommandError::config(message));
            }
        }
        Ok(())
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::config(format!("{}: cannot read: {error}", path.display()))
        .next("check the path given by --config")
}

fn options() -> Options {
    serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_depth: 32,
            max_nodes: 100_000,
            max_anchors: 0,
            max_aliases: 0,
        },
    }
}

fn prefix(path: &Path, position: Option<Position>) -> String {
    match position {
        Some((line, column)) => format!("{}:{line}:{column}: ", path.display()),
        None => format!("{}: ", path.display()),
    }
}

fn explain(path: &Path, positions: &FieldPositions, error: &serde_saphyr::Error) -> CommandError {
    let position = error.location().map(|l| (l.line(), l.column())).filter(|(line, _)| *line > 0);
    let at = prefix(path, position);
    let field = position.map(|position| positions.path_at(position)).unwrap_or_default();
    let detail = describe(error);
    let message = match error {
        serde_saphyr::Error::SerdeUnknownField { field: name, expected, .. } => {
            let known = expected.join(", ");
            format!("{at}unknown field `{}`; use one of {known}", full(field, name))
        }
        serde_saphyr::Error::SerdeMissingField { field: name, .. } => {
            let part = position.map(|position| positions.part_at(position)).unwrap_or_default();
            format!("{at}`{}` is missing", join(part, name))
        }
        _ if field.is_empty() => format!("{at}{detail}"),
        _ => format!("{at}{field}: {detail}"),
    };
    CommandError::config(message)
}

/// Describes the error in one line, without its position.
fn describe(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as E;
    match error {
        E::Message { msg, .. } => msg.clone(),
        E::SerdeInvalidType { unexpected, expected, .. }
        | E::SerdeInvalidValue { unexpected, expected, .. } => {
            format!("expected {expected}, found {unexpected}")
        }
        E::SerdeUnknownVariant { variant, expected, .. } => {
            format!("`{variant}` is not valid; use one of {}", expected.join(", "))
        }
        E::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is set twice; keep one"),
        other => {
            let text = other.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.trim_start_matches("error: ").to_owned()
        }
    }
}

/// Returns the path of a field that an error names. The error's position is either the field or its parent.
fn full(at: &str, name: &str) -> String {
    match at.rsplit_once('.') {
        _ if at == name || at.is_empty() => name.to_owned(),
        Some((_, last)) if last == name => at.to_owned(),
        _ => join(at, name),
    }
}

fn join(part: &str, name: &str) -> String {
    if part.is_empty() { name.to_owned() } else { format!("{part}.{name}") }
}
