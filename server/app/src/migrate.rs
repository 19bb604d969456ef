//! What an istiod does and what becomes of it here: `tributary migrate check` and its reference page.
//!
//! `cli::migrate` reads the Deployment and the mesh configuration and calls [`check`], which is a function of both. The tables in [`flags`],
//! [`variables`], [`mesh`] and [`tasks`] have a row for each name that istiod reads; a name outside of them is reported as unknown.

pub mod deployment;
pub mod flags;
pub mod mesh;
pub mod tasks;
pub mod variables;

use serde::Serialize;

pub use deployment::{Istiod, Setting};
pub use mesh::MeshTexts;

/// What becomes of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Outcome {
    /// Tributary reads it under the same name, or does the same without it.
    #[serde(rename = "honoured")]
    Honoured,
    /// Tributary has it under another name.
    #[serde(rename = "other name")]
    OtherName,
    /// Nothing depends on it here.
    #[serde(rename = "no effect needed")]
    NoEffectNeeded,
    /// Tributary does not do it.
    #[serde(rename = "refused")]
    Refused,
    /// No table has it.
    #[serde(rename = "unknown")]
    Unknown,
}

impl Outcome {
    /// Every outcome that a row of a table may have.
    pub const OF_ROWS: [Self; 4] = [Self::Honoured, Self::OtherName, Self::NoEffectNeeded, Self::Refused];

    /// Display name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::OtherName => "other name",
            Self::NoEffectNeeded => "no effect needed",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

/// Row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Name in istiod.
    pub name: &'static str,
    /// What becomes of it.
    pub outcome: Outcome,
    /// Values with which nothing changes, in lower case: those that ask for nothing of a refused one, and those that a fixed one has here.
    /// With none, a refused one is always lost, and any other never.
    pub same: &'static [&'static str],
    /// Name or behaviour in Tributary, or why it is refused.
    pub here: &'static str,
}

/// Declares a table of rows: name, outcome, values with which nothing changes, text.
macro_rules! rows {
    ($(#[$about:meta])* $table:ident: $($name:literal $outcome:ident [$($same:literal),*] $here:literal;)*) => {
        $(#[$about])*
        pub const $table: &[$crate::migrate::Row] = &[$($crate::migrate::Row {
            name: $name,
            outcome: $crate::migrate::Outcome::$outcome,
            same: &[$($same),*],
            here: $here,
        }),*];
    };
}
pub(crate) use rows;

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// `flag`, `variable`, `mesh`, `task` or `kind`.
    pub what: &'static str,
    /// Name in istiod.
    pub name: String,
    /// Value, or how many objects there are.
    pub value: String,
    /// What becomes of it.
    pub outcome: Outcome,
    /// Name or behaviour in Tributary, or why it is refused.
    pub here: String,
    /// Whether something that is in use would be lost.
    pub lost: bool,
}

impl Item {
    fn new(what: &'static str, name: &str, value: String, outcome: Outcome, here: String) -> Self {
        Self { what, name: name.to_owned(), value, outcome, here, lost: outcome == Outcome::Refused }
    }
}

/// Number of objects of a kind that Tributary does not serve, or why it could not be read.
pub type Counted = (&'static tasks::UnservedKind, Result<Option<u64>, String>);

/// Returns every line: flags, variables, mesh configuration, tasks, kinds.
#[must_use]
pub fn check(istiod: &Istiod, texts: &MeshTexts, counts: &[Counted]) -> Vec<Item> {
    let flags = istiod.flags.iter().map(|flag| of_setting("flag", flag, flags::find(&flag.name)));
    let variables = istiod
        .variables
        .iter()
        .map(|variable| of_setting("variable", variable, variables::find(&variable.name)));
    let mesh = mesh::check(texts);
    let tasks = tasks::check(istiod, texts, counts);
    flags.chain(variables).chain(mesh).chain(tasks).collect()
}

fn of_setting(what: &'static str, setting: &Setting, row: Option<&Row>) -> Item {
    match row {
        Some(row) => {
            let outcome = row.judge(setting.value.as_deref());
            Item::new(what, &setting.name, setting.shown(), outcome, row.here.to_owned())
        }
        None => {
            let here =
                "not in the table of this version: look it up in the reference of your Istio".to_owned();
            Item::new(what, &setting.name, setting.hidden(), Outcome::Unknown, here)
        }
    }
}

impl Row {
    /// Returns the outcome for a value. A value that is not known counts as one that asks for something.
    #[must_use]
    pub fn judge(&self, value: Option<&str>) -> Outcome {
        let has = |value: &str| self.same.contains(&value);
        let is_same = value.is_some_and(|value| has(&plain(value)) || has(&value.to_ascii_lowercase()));
        match self.outcome {
            Outcome::Refused if is_same => Outcome::NoEffectNeeded,
            Outcome::Honoured if !self.same.is_empty() && !is_same => Outcome::Refused,
            outcome => outcome,
        }
    }
}

/// Returns a value as the tables write it: flags of all spellings are `true` or `false`.
fn plain(value: &str) -> String {
    match value.trim().to_ascii_lowercase().as_str() {
        "1" | "t" | "true" => "true".to_owned(),
        "0" | "f" | "false" => "false".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests;
