//! Reads the configuration file: bounded, strict, and with errors that name file, line and field.

use std::path::{Path, PathBuf};

use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options};

use super::field_positions::{FieldPositions, Place};
use super::model::{API_VERSION, Config, KIND};
use crate::exit::{CommandError, Exit};
use tributary_model::Code;

/// The largest file that is read.
pub const MAX_BYTES: u64 = 1 << 20;

/// A file that was read: its values and where they stand.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// Its path, as given.
    pub path: PathBuf,
    /// Its values over the defaults.
    pub config: Config,
    /// Where its fields stand.
    pub places: FieldPositions,
}

impl ConfigFile {
    /// Reads and checks the shape of a file; what values mean together is checked later.
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
    /// Checks the shape of a text.
    pub fn parse(path: &Path, text: &str) -> Result<Self, CommandError> {
        let places = FieldPositions::of(text, options());
        let read = serde_saphyr::from_str_with_options::<Option<Config>>(text, options());
        let config = read.map_err(|e| explain(path, &places, e.without_snippet()))?.unwrap_or_default();
        let file = Self { path: path.to_owned(), config, places };
        file.names_itself()?;
        Ok(file)
    }
    /// `file:line:column: field`, as errors begin.
    #[must_use]
    pub fn place_of(&self, field: &str) -> String {
        prefix(&self.path, self.places.at(field))
    }
    fn names_itself(&self) -> Result<(), CommandError> {
        for (field, found, wanted) in
            [("apiVersion", &self.config.api_version, API_VERSION), ("kind", &self.config.kind, KIND)]
        {
            if !self.places.sets(field) {
                let message =
                    format!("{}{field} is missing, write `{field}: {wanted}`", prefix(&self.path, None));
                return Err(CommandError::config(message));
            }
            if found != wanted {
                let message =
                    format!("{}{field} is `{found}`, only `{wanted}` is read", self.place_of(field));
                return Err(CommandError::config(message));
            }
        }
        Ok(())
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::config(format!("{}: cannot be read: {error}", path.display()))
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

fn prefix(path: &Path, place: Option<Place>) -> String {
    match place {
        Some((line, column)) => format!("{}:{line}:{column}: ", path.display()),
        None => format!("{}: ", path.display()),
    }
}

fn explain(path: &Path, places: &FieldPositions, error: &serde_saphyr::Error) -> CommandError {
    let place = error.location().map(|l| (l.line(), l.column())).filter(|(line, _)| *line > 0);
    let at = prefix(path, place);
    let field = place.map(|place| places.path_at(place)).unwrap_or_default();
    let words = words(error);
    let message = match error {
        serde_saphyr::Error::SerdeUnknownField { field: name, expected, .. } => {
            let known = expected.join(", ");
            format!("{at}unknown field `{}`; known here: {known}", full(field, name))
        }
        serde_saphyr::Error::SerdeMissingField { field: name, .. } => {
            let part = place.map(|place| places.part_at(place)).unwrap_or_default();
            format!("{at}`{}` is missing", join(part, name))
        }
        _ if field.is_empty() => format!("{at}{words}"),
        _ => format!("{at}{field}: {words}"),
    };
    match message.split_once("TRB0106 ") {
        Some((before, rest)) => {
            CommandError::new(Exit::Usage, Code::UNKNOWN_REGISTRY_KIND, format!("{before}{rest}"))
        }
        None => CommandError::config(message),
    }
}

/// The error's own words in one line, without the place that goes before them.
fn words(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as E;
    match error {
        E::Message { msg, .. } => msg.clone(),
        E::SerdeInvalidType { unexpected, expected, .. }
        | E::SerdeInvalidValue { unexpected, expected, .. } => {
            format!("{unexpected} stands where {expected} is expected")
        }
        E::SerdeUnknownVariant { variant, expected, .. } => {
            format!("`{variant}` is not one of: {}", expected.join(", "))
        }
        E::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is given twice"),
        other => {
            let text = other.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.trim_start_matches("error: ").to_owned()
        }
    }
}

/// The path of a field named in an error: the place may already be the field itself, or what
/// holds it.
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
