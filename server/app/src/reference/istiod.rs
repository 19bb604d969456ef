//! Page on the flags, variables and tasks of an istiod, from the tables of `crate::migrate`.

use std::fmt::Write as _;

use super::MADE;
use crate::migrate::{Outcome, Row, flags, mesh, tasks, variables};

/// Returns the page.
pub(super) fn page() -> String {
    let mut out = format!(
        "# Flags and variables of istiod\n\n{MADE}What becomes of each flag, variable and setting of an istiod. `tributary migrate check` compares a Deployment with these tables, and [Migrate from istiod](../guides/migrate.md) uses it.\n\n| outcome | meaning |\n|---|---|\n"
    );
    for (outcome, means) in OUTCOMES {
        let _ = writeln!(out, "| {} | {means} |", outcome.as_str());
    }
    out.push_str("\nValues in the column *without effect* change nothing here: a refused name with one of them is not lost.\n");
    table(&mut out, "Flags", "flag", flags::TABLE);
    table(&mut out, "Variables of discovery", "variable", variables::DISCOVERY);
    table(&mut out, "Variables of security, CA and webhooks", "variable", variables::SECURITY);
    table(&mut out, "Variables of the data plane", "variable", variables::DATA_PLANE);
    table(&mut out, "Fields of the mesh configuration that are not read", "field", mesh::TABLE);
    out.push_str("\n## Tasks\n\nWhat an istiod does beside discovery and Tributary does not.\n\n| task | an istiod does it | without one |\n|---|---|---|\n");
    for task in tasks::TASKS {
        let _ = writeln!(out, "| `{}` | {} | {} |", task.name, task.when, task.here);
    }
    out.push_str("\n## Kinds\n\nKinds of which `tributary migrate check` counts the objects in a cluster.\n\n| kind | here |\n|---|---|\n");
    for kind in tasks::KINDS {
        let _ = writeln!(out, "| {} | {} |", kind.name, kind.here);
    }
    out
}

const OUTCOMES: [(Outcome, &str); 5] = [
    (Outcome::Honoured, "Tributary reads it under the same name, or does the same without it"),
    (Outcome::OtherName, "Tributary has it under the name in the last column"),
    (Outcome::NoEffectNeeded, "nothing depends on it here"),
    (Outcome::Refused, "Tributary does not do it, for the reason in the last column"),
    (Outcome::Unknown, "no table has the name: look it up in the reference of your Istio"),
];

fn table(out: &mut String, title: &str, what: &str, rows: &[Row]) {
    let _ = write!(out, "\n## {title}\n\n| {what} | outcome | without effect | here |\n|---|---|---|---|\n");
    for row in rows {
        let same: Vec<String> = row
            .same
            .iter()
            .map(|value| if value.is_empty() { "empty".to_owned() } else { format!("`{value}`") })
            .collect();
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            row.name,
            row.outcome.as_str(),
            same.join(", "),
            row.here
        );
    }
}
