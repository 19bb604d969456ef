//! Finding of a check: what is wrong, with which object, and what to do next.

use serde::{Deserialize, Serialize};
use tributary_model::Code;

use super::CheckInfo;

/// Severity of a finding, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Severity {
    /// It is wrong now.
    Error,
    /// It should be corrected.
    Warning,
    /// It needs no action.
    Info,
}

/// Object of a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectName {
    /// `registry`, `cluster`, `client`, `gateway`, …, or a kind of Kubernetes.
    pub kind: String,
    /// Name; with its namespace if it has one.
    pub name: String,
}

/// Finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Severity.
    pub severity: Severity,
    /// Code from the table of codes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Short text, equal for all findings of a sort.
    pub title: String,
    /// Object concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectName>,
    /// What was found.
    pub message: String,
    /// How long this has been so, in milliseconds, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_millis_ago: Option<u64>,
    /// What to do next.
    pub next: String,
    /// View of the console that shows the object, as KIND or KIND/NAME.
    pub view: String,
    /// Servers that report it, if several were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
}

impl Finding {
    fn new(severity: Severity, title: &str, message: impl Into<String>) -> Self {
        Self {
            severity,
            code: None,
            title: title.to_owned(),
            object: None,
            message: message.into(),
            since_millis_ago: None,
            next: String::new(),
            view: String::new(),
            servers: Vec::new(),
        }
    }
    /// Returns a finding that is wrong now.
    #[must_use]
    pub fn error(title: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, title, message)
    }
    /// Returns a finding that should be corrected.
    #[must_use]
    pub fn warning(title: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, title, message)
    }
    /// Returns a finding that needs no action.
    #[must_use]
    pub fn info(title: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Info, title, message)
    }
    /// Sets the code, and its next step unless one is set. A message that begins with the code, as errors do, does not repeat it.
    #[must_use]
    pub fn code(mut self, code: Code) -> Self {
        if self.next.is_empty() {
            code.info().next.clone_into(&mut self.next);
        }
        let text = code.to_string();
        if let Some(rest) = self.message.strip_prefix(&text) {
            self.message = rest.trim_start().to_owned();
        }
        self.code = Some(text);
        self
    }
    /// Sets a code as a document has it; an empty one is absent.
    #[must_use]
    pub fn coded(self, code: &str) -> Self {
        match parse_code(code) {
            Some(code) => self.code(code),
            None => Self { code: Some(code.to_owned()).filter(|code| !code.is_empty()), ..self },
        }
    }
    /// Sets the object.
    #[must_use]
    pub fn about(mut self, kind: &str, name: impl Into<String>) -> Self {
        self.object = Some(ObjectName { kind: kind.to_owned(), name: name.into() });
        self
    }
    /// Sets how long this has been so.
    #[must_use]
    pub fn since(self, millis: Option<u64>) -> Self {
        Self { since_millis_ago: millis, ..self }
    }
    /// Sets the next step.
    #[must_use]
    pub fn next(self, next: impl Into<String>) -> Self {
        Self { next: next.into(), ..self }
    }
    /// Sets the view of the console.
    #[must_use]
    pub fn view(self, view: impl Into<String>) -> Self {
        Self { view: view.into(), ..self }
    }
    /// Fills what the finding leaves to the row of its check.
    pub(super) fn complete(&mut self, info: &CheckInfo) {
        if self.next.is_empty() {
            info.next.clone_into(&mut self.next);
        }
        if self.view.is_empty() {
            self.view = match &self.object {
                Some(object) if info.has_items => format!("{}/{}", info.view, object.name),
                _ => info.view.to_owned(),
            };
        }
    }
    /// Returns true if both are the same finding of two servers.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.severity, one.code.clone(), one.title.clone(), one.object.clone());
        key(self) == key(other)
    }
}

/// Returns a number with its noun.
#[must_use]
pub(super) fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// Returns the text of an error without its next step, which a finding has in a field of its own.
#[must_use]
pub(super) fn without_next(error: &str) -> String {
    let lines = error.lines().filter(|line| !line.trim_start().starts_with("next: "));
    lines.collect::<Vec<_>>().join("; ")
}

/// Parses a code such as `TRB0201`.
#[must_use]
pub(super) fn parse_code(text: &str) -> Option<Code> {
    Code::from_number(text.strip_prefix("TRB")?.parse().ok()?)
}

/// Returns true if the table of codes has nothing to do about a code.
#[must_use]
pub(super) fn needs_nothing(code: &str) -> bool {
    parse_code(code).is_some_and(|code| code.info().next.starts_with("nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_brings_its_next_step_unless_one_is_set() {
        let coded = Finding::error("t", "m").coded("TRB0107");
        assert_eq!((coded.code.as_deref(), &*coded.next), (Some("TRB0107"), Code::TLS_FILES.info().next));
        assert_eq!(Finding::error("t", "TRB0107 m").coded("TRB0107").message, "m", "each code once");
        let own = Finding::error("t", "m").next("do this").coded("TRB0107");
        assert_eq!(own.next, "do this");
        let unknown = Finding::error("t", "m").coded("TRB9999");
        assert_eq!((unknown.code.as_deref(), &*unknown.next), (Some("TRB9999"), ""), "of a later version");
        assert_eq!(Finding::error("t", "m").coded("").code, None);
        assert!(needs_nothing("TRB0425") && !needs_nothing("TRB0401"));
    }
}
