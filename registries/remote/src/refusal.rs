//! Faults of a kubeconfig, for operators.
//!
//! Vetting collects them. Texts are constants and fields are names: the types leave no place for a value, which may be a secret.

use std::fmt;

use ipnet::IpNet;
use tributary_model::Code;

use crate::allowed::Feature;

/// Largest number of faults of one kubeconfig.
const MOST: usize = 16;
/// Longest name of an unknown field that is shown.
const LONGEST_NAME: usize = 40;

/// Opt-in of the operator that would allow a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptIn {
    /// Allows a feature of kubeconfigs.
    Feature(Feature),
    /// Allows servers in a range.
    ServerCidr(IpNet),
}

impl fmt::Display for OptIn {
    /// Writes the flag that allows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Feature(feature) => write!(f, "--allow-kubeconfig {feature}"),
            Self::ServerCidr(range) => write!(f, "--allow-server-cidr {range}"),
        }
    }
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Code from the table of codes.
    pub code: Code,
    /// Path of the field, such as `users[0].user.exec`; empty for the whole document.
    pub field: String,
    /// Line, counted from 1 at the start of the kubeconfig.
    pub line: Option<u64>,
    /// What is wrong, as the end of a sentence about the field.
    pub why: &'static str,
    /// What to do.
    pub next: &'static str,
    /// What the operator can set to allow it.
    pub opt_in: Option<OptIn>,
}

impl Refusal {
    /// Returns a fault of a field.
    pub(crate) fn new(code: Code, field: impl Into<String>, why: &'static str, next: &'static str) -> Self {
        Self { code, field: field.into(), line: None, why, next, opt_in: None }
    }
    /// Sets the line; 0 is unknown.
    pub(crate) fn at(mut self, line: u64) -> Self {
        self.line = Some(line).filter(|line| *line > 0);
        self
    }
    /// Sets the opt-in.
    pub(crate) fn allow(mut self, opt_in: OptIn) -> Self {
        self.opt_in = Some(opt_in);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.field.is_empty() { "the document" } else { &self.field })?;
        if let Some(line) = self.line {
            write!(f, " (line {line})")?;
        }
        write!(f, " {}; {}", self.why, self.next)?;
        match self.opt_in {
            Some(opt_in) => write!(f, ", or allow it with `{opt_in}`"),
            None => Ok(()),
        }
    }
}

/// Every fault of a kubeconfig, at least one and at most 16.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the kubeconfig is refused: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Refused(pub Vec<Refusal>);

impl From<Refusal> for Refused {
    fn from(only: Refusal) -> Self {
        Self(vec![only])
    }
}

/// Faults found so far.
#[derive(Default)]
pub(crate) struct Faults(Vec<Refusal>);

impl Faults {
    /// Adds a fault; those beyond the limit are dropped.
    pub(crate) fn add(&mut self, fault: Refusal) {
        if self.0.len() < MOST {
            self.0.push(fault);
        }
    }
    /// Returns the value if there is no fault.
    pub(crate) fn conclude<T>(self, value: Option<T>) -> Result<T, Refused> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ if self.0.is_empty() => Err(unreadable("is not a kubeconfig").into()),
            _ => Err(Refused(self.0)),
        }
    }
}

/// Returns a fault of the whole document.
pub(crate) fn unreadable(why: &'static str) -> Refusal {
    Refusal::new(Code::KUBECONFIG_UNREADABLE, "", why, Code::KUBECONFIG_UNREADABLE.info().next)
}

/// Returns the name of an unknown field as it may be shown. A slip such as `token:abc` makes a secret a name, so that only a
/// name of a few letters is shown; the line is shown always.
pub(crate) fn shown_name(name: &str) -> &str {
    let is_plain = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-');
    if is_plain { name } else { "(unknown name)" }
}
