//! What is wrong with policies and the services that they name: findings with a severity, a code and a position.
//!
//! `tributary analyze` reads a directory of files as a file registry does, or asks a running server. The conditions are
//! those that the server reports; this module only orders them by severity and leaves out those that are suppressed.

pub mod files;
pub mod live;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tributary_model::Code;

use crate::document::policies::is_of_part;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It works; something in it has no effect
    Info,
    /// It works in part, or not as it reads
    Warning,
    /// Requests fail, or the object is not served
    Error,
}

impl Severity {
    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
    /// Returns that of an object that is not served: a warning if no object of its kind is, or only a field is not.
    #[must_use]
    pub fn of_unserved(code: Code) -> Self {
        if code == Code::KIND_NOT_SERVED || is_of_part(code) { Self::Warning } else { Self::Error }
    }
    /// Returns that of a condition.
    #[must_use]
    pub fn of(code: Code) -> Self {
        match code {
            Code::ROUTE_DESTINATION_UNMATCHED
            | Code::ROUTE_SUBSET_UNDECLARED
            | Code::ROUTE_DELEGATE_UNMATCHED
            | Code::ROUTE_WITHOUT_ENDPOINTS
            | Code::SUBSET_UNMATCHED
            | Code::ROUTE_DESTINATION_HIDDEN
            | Code::SHARES_UNMATCHED
            | Code::MESH_SHARES_UNMATCHED
            | Code::NACKED
            | Code::EGRESS_PROXY_UNREACHABLE
            | Code::AUTHORIZATION_UNREADABLE
            | Code::TOKENS_UNREADABLE
            | Code::KEYS_UNREACHABLE
            | Code::KEYS_UNDECLARED => Self::Error,
            Code::POLICY_FIELD_IGNORED | Code::PATCH_UNUSED | Code::ROUTE_HOST_EXCEPTED => Self::Info,
            _ => Self::Warning,
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Code from the table of codes.
    pub code: String,
    /// Position of the object: file, line and column, or the resource version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub position: String,
    /// Object, as `KIND NAMESPACE/NAME`.
    pub object: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub next: String,
}

impl Finding {
    /// Returns a finding with the next step of its code.
    #[must_use]
    pub fn new(severity: Severity, code: Code, object: String, position: &str, message: &str) -> Self {
        let (position, next) = (position.to_owned(), code.info().next.to_owned());
        Self { severity, code: code.to_string(), position, object, message: message.to_owned(), next }
    }
}

/// Findings that are left out: `CODE`, or `CODE=NAMESPACE/NAME` with `*` for any namespace or name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppression {
    code: Code,
    /// Namespace and name.
    object: Option<(String, String)>,
}

impl std::str::FromStr for Suppression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (code, object) = text.split_once('=').map_or((text, None), |(code, object)| (code, Some(object)));
        let number = code.strip_prefix("TRB").and_then(|number| number.parse().ok());
        let code = number.and_then(Code::from_number);
        let code = code.ok_or_else(|| format!("{text:?} does not begin with a code, such as TRB0450"))?;
        let split = |object: &str| {
            let parts =
                object.split_once('/').map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
            parts.ok_or_else(|| format!("{object:?} is not NAMESPACE/NAME; `*` is any"))
        };
        Ok(Self { code, object: object.map(split).transpose()? })
    }
}

impl Suppression {
    /// Whether it leaves a finding out.
    #[must_use]
    pub fn takes(&self, finding: &Finding) -> bool {
        let name = finding.object.rsplit(' ').next().unwrap_or_default();
        let fits = |(namespace, own): &(String, String)| {
            let (in_namespace, named) = name.split_once('/').unwrap_or(("", name));
            (namespace == "*" || namespace == in_namespace) && (own == "*" || own == named)
        };
        self.code.to_string() == finding.code && self.object.as_ref().is_none_or(fits)
    }
}

/// Returns the findings that are not suppressed, the worst first, then by position and object; each once.
#[must_use]
pub fn ordered(mut all: Vec<Finding>, suppressed: &[Suppression]) -> Vec<Finding> {
    all.retain(|finding| !suppressed.iter().any(|one| one.takes(finding)));
    let key = |one: &Finding| {
        let (file, line) = split_position(&one.position);
        (std::cmp::Reverse(one.severity), file.to_owned(), line, one.object.clone(), one.code.clone())
    };
    all.sort_by_cached_key(key);
    all.dedup();
    all
}

/// Splits a message such as `a.yaml:7:3: spec.x is not valid`.
fn position_of(message: &str) -> Option<(&str, &str)> {
    let (position, rest) = message.split_once(": ")?;
    (split_position(position).1 != (0, 0)).then_some((position, rest))
}

/// Splits `FILE:LINE:COLUMN` into the file and its numbers.
fn split_position(position: &str) -> (&str, (u32, u32)) {
    let mut parts = position.rsplitn(3, ':');
    let column = parts.next().and_then(|text| text.parse().ok());
    let line = parts.next().and_then(|text| text.parse().ok());
    match (parts.next(), line, column) {
        (Some(file), Some(line), Some(column)) => (file, (line, column)),
        _ => (position, (0, 0)),
    }
}

#[cfg(test)]
mod tests;
