//! Joins the errors of a configuration into one error, so that an operator sees all of them at once.
//!
//! `file`, `layers` and `check` collect their errors here. The order of the errors stays; each has its own line.

use crate::exit::CommandError;

/// Most errors that are shown.
const MAX_SHOWN: usize = 20;

/// Returns one error with a line for each error; `None` without an error.
#[must_use]
pub fn join(errors: Vec<CommandError>) -> Option<CommandError> {
    let more = errors.len().saturating_sub(MAX_SHOWN);
    let mut all = errors.into_iter();
    let mut out = all.next()?;
    for error in all.take(MAX_SHOWN - 1) {
        if next_of(&error) != next_of(&out) {
            out.next =
                "correct each of these values; `tributary config schema` prints what is allowed".to_owned();
        }
        out.message.push('\n');
        if let Some(code) = error.code {
            out.message.push_str(&format!("{code} "));
        }
        out.message.push_str(&error.message);
    }
    if more > 0 {
        out.message.push_str(&format!("\nand {more} more errors"));
    }
    Some(out)
}

fn next_of(error: &CommandError) -> &str {
    match error.code {
        Some(code) if error.next.is_empty() => code.info().next,
        _ => &error.next,
    }
}

/// Returns an error about the value of a field. The next step fits to where the value was set: a flag, a
/// variable, or a position in the file.
#[must_use]
pub fn about(origin: Option<&str>, message: impl std::fmt::Display) -> CommandError {
    let Some(origin) = origin else { return CommandError::config(message.to_string()) };
    let error = CommandError::config(format!("{origin}: {message}"));
    match origin {
        flag if flag.starts_with("--") => error.next("correct the flag; see `tributary serve --help`"),
        variable if is_variable(variable) => error.next("correct the variable or unset it"),
        _ => error,
    }
}

/// Whether an origin is the name of a variable; positions in a file have colons.
fn is_variable(origin: &str) -> bool {
    origin.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Rewrites the text of an error that a type returned while it read its fields.
#[must_use]
pub fn plain(text: &str) -> String {
    let wrong = text.strip_prefix("invalid type: ").or_else(|| text.strip_prefix("invalid value: "));
    if let Some((found, wanted)) = wrong.and_then(|rest| rest.split_once(", expected ")) {
        return format!("found {found}; write {wanted}");
    }
    if let Some(name) = text.strip_prefix("missing field ") {
        return format!("{name} is missing; set it");
    }
    text.replacen(", expected one of ", "; use one of ", 1).replacen(", expected ", "; use ", 1)
}

/// Describes a field that its part of the configuration does not have.
#[must_use]
pub fn unknown_field(path: &str, known: &[&str]) -> String {
    let name = path.rsplit('.').next().unwrap_or_default();
    match similar(name, known) {
        Some(other) => format!("unknown field `{path}`; did you mean `{other}`?"),
        None => format!("unknown field `{path}`; use one of {}", known.join(", ")),
    }
}

/// Returns the name that is most similar to a misspelled one, if any is similar enough.
#[must_use]
pub fn similar<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |other: &str| edit_distance(&name.to_lowercase(), &other.to_lowercase());
    let best = known.iter().map(|other| (distance(other), *other)).min_by_key(|(distance, _)| *distance)?;
    (best.0 <= 1 + name.chars().count().min(12) / 5).then_some(best.1)
}

/// Number of letters to insert, delete, replace or swap with their neighbour.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(x != y)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_line_up_to_the_bound() {
        assert_eq!(join(Vec::new()), None);
        let errors = (0..25).map(|i| CommandError::config(format!("f{i}"))).collect();
        let text = join(errors).unwrap().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[1], lines[20]), ("TRB0102 f0", "TRB0102 f1", "and 5 more errors"));
        assert!(lines[21].starts_with("  next: ") && lines.len() == 22, "{text}");
    }

    #[test]
    fn next_step_fits_where_the_value_was_set() {
        for (origin, next) in [
            (Some("--domain"), "correct the flag; see `tributary serve --help`"),
            (Some("POD_NAMESPACE"), "correct the variable or unset it"),
            (Some("t.yaml:4:3"), ""),
            (None, ""),
        ] {
            assert_eq!(about(origin, "x").next, next, "{origin:?}");
        }
    }

    #[test]
    fn text_of_a_type_names_the_found_value_and_the_wanted() {
        for (text, wanted) in [
            ("invalid type: integer `1`, expected a string", "found integer `1`; write a string"),
            ("missing field `base`", "`base` is missing; set it"),
            ("unknown field `a`, expected `b` or `c`", "unknown field `a`; use `b` or `c`"),
            (
                "unknown variant `a`, expected one of `b`, `c`, `d`",
                "unknown variant `a`; use one of `b`, `c`, `d`",
            ),
            ("name is too long", "name is too long"),
        ] {
            assert_eq!(plain(text), wanted);
        }
    }

    #[test]
    fn misspelled_name_has_a_suggestion() {
        let known = ["listen", "maxConnections", "registries", "tls"];
        for (name, wanted) in [
            ("lisen", Some("listen")),
            ("MAXCONNECTIONS", Some("maxConnections")),
            ("registires", Some("registries")),
            ("tsl", Some("tls")),
            ("port", None),
            ("", None),
        ] {
            assert_eq!(similar(name, &known), wanted, "{name}");
        }
    }
}
