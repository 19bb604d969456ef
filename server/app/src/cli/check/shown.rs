//! Result of checks as text: a line for each check, in sections, and below it what was found, what to do and where to read more.

use std::fmt::Write as _;

use super::super::table::{Tone, age, paint};
use crate::check::{CheckItem, Finding, Outcome, Severity, table};

/// Returns the text.
pub(super) fn text(items: &[CheckItem], color: bool) -> String {
    let mut out = String::new();
    let mut section = None;
    for item in ordered(items) {
        if section != Some(item.section) {
            let gap = if section.is_some() { "\n" } else { "" };
            let _ = writeln!(out, "{gap}{}", item.section.as_str());
            section = Some(item.section);
        }
        check(&mut out, item, color);
    }
    let _ = writeln!(out, "\n{}", result(items));
    out
}

/// Returns the items with those of one section together, in the order of the first of each.
fn ordered(items: &[CheckItem]) -> Vec<&CheckItem> {
    let mut sections = Vec::new();
    for item in items {
        if !sections.contains(&item.section) {
            sections.push(item.section);
        }
    }
    let of = |section| items.iter().filter(move |item| item.section == section);
    sections.into_iter().flat_map(of).collect()
}

fn check(out: &mut String, item: &CheckItem, color: bool) {
    let (mark, tone) = match item.outcome {
        Outcome::Pass => ("√", Tone::Plain),
        Outcome::Skipped => ("-", Tone::Plain),
        Outcome::Warning => ("‼", Tone::Warn),
        Outcome::Error => ("×", Tone::Bad),
    };
    let summary =
        if item.summary.is_empty() { String::new() } else { format!(" ({})", clean(&item.summary)) };
    let _ = writeln!(out, "{} {}{summary}", paint(mark, tone, color), item.title);
    let mut next = "";
    for one in &item.findings {
        finding(out, one, color);
        if one.severity != Severity::Info && one.next != next {
            let _ = writeln!(out, "      next: {}", clean(&one.next));
            next = &one.next;
        }
    }
    if item.more > 0 {
        let _ = writeln!(out, "    and {} more", item.more);
    }
    let has_link = item.outcome > Outcome::Skipped;
    if let Some(info) = table::find(&item.check).filter(|_| has_link) {
        let _ = writeln!(out, "      see: {}", info.link());
    }
}

fn finding(out: &mut String, one: &Finding, color: bool) {
    let (mark, tone) = match one.severity {
        Severity::Error => ("×", Tone::Bad),
        Severity::Warning => ("‼", Tone::Warn),
        Severity::Info => ("i", Tone::Plain),
    };
    let object = one.object.as_ref().map(|object| format!("{} {}: ", object.kind, object.name));
    let code = one.code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
    let since = one.since_millis_ago.map(|millis| format!(", for {}", age(millis))).unwrap_or_default();
    let servers = match one.servers.as_slice() {
        [] => String::new(),
        servers => format!(" [{}]", servers.join(", ")),
    };
    let text = format!("{}{}{since}{code}{servers}", object.unwrap_or_default(), one.message);
    let _ = writeln!(out, "    {} {}", paint(mark, tone, color), clean(&text));
}

fn result(items: &[CheckItem]) -> String {
    let count = |severity| items.iter().map(|item| item.count(severity)).sum::<usize>();
    let noun = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    match (count(Severity::Error), count(Severity::Warning)) {
        (0, 0) => "RESULT: healthy".to_owned(),
        (0, warnings) => format!("RESULT: healthy, {}", noun(warnings, "warning")),
        (errors, 0) => format!("RESULT: unhealthy, {}", noun(errors, "error")),
        (errors, warnings) => {
            format!("RESULT: unhealthy, {} and {}", noun(errors, "error"), noun(warnings, "warning"))
        }
    }
}

/// Replaces control characters, which names and texts of clients may have.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Found;

    #[test]
    fn finding_has_its_object_code_next_step_and_link() {
        let info = table::find("registries-live").unwrap();
        let finding = Finding::error("t", "Stale: a\u{1b}[2J")
            .coded("TRB0206")
            .about("registry", "r")
            .since(Some(5000));
        let items = [CheckItem::new(info, Found::new("0 of 1 Live", vec![finding]))];
        let shown = text(&items, false);
        let expected = "registries\n× registries are Live (0 of 1 Live)\n    × registry r: Stale: a [2J, for 5s (TRB0206)\n      \
                        next: see its reason with `tributary get registries -o wide`\n      \
                        see: docs/reference/checks.md#registries-live\n\nRESULT: unhealthy, 1 error\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn equal_next_steps_of_one_check_are_shown_once() {
        let info = table::find("registries-live").unwrap();
        let finding = |name: &str| Finding::warning("t", "m").about("registry", name);
        let items = [CheckItem::new(info, Found::new("", vec![finding("a"), finding("b")]))];
        let shown = text(&items, false);
        assert_eq!(
            (shown.matches("next:").count(), shown.matches("RESULT: healthy, 2 warnings").count()),
            (1, 1)
        );
    }
}
