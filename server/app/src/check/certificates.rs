//! Checks of certificates: their ends, and whether those in use are those of the files.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tributary_model::Code;
use tributary_remote::Validity;

use super::finding::{counted, without_next};
use super::{Documents, Finding, Found};
use crate::document::{CertificateItem, timestamp};
use crate::ops::clusters::conditions::{SOON, VERY_SOON, left};

/// Time before the end of a certificate from which it is reported; for one with a short life, the share of its life decides.
const WARN: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Time before the end from which it is reported again.
const WARN_AGAIN: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Why a check of certificates is skipped.
pub(super) const NO_TLS: &str = "no listener has TLS";

/// Judges the ends of the certificates of the listeners.
pub(super) fn ends(documents: &Documents) -> Found {
    if documents.certificates.is_empty() {
        return Found::skipped(NO_TLS);
    }
    let findings = documents.certificates.iter().filter_map(|one| end(one, documents.now));
    Found::new(
        counted(documents.certificates.len() as u64, "certificate", "certificates"),
        findings.collect(),
    )
}

/// Returns the finding of a certificate that has ended, ends soon, or is not valid yet.
pub(crate) fn end(one: &CertificateItem, now: Timestamp) -> Option<Finding> {
    let about = |made: Finding| made.code(Code::TLS_FILES).about("certificate", one.file.as_str());
    let Some(until) = one.until else {
        let message = format!("{}: its end cannot be read", one.name);
        return Some(about(Finding::warning("not readable", message)));
    };
    let (at, name) = (timestamp(until), &one.name);
    if until <= now {
        let message = format!("{name}: expired at {at}; clients refuse it");
        return Some(about(Finding::error("expired", message).next("replace the certificate now")));
    }
    if let Some(from) = one.from.filter(|from| *from > now) {
        let message = format!("{name}: valid only from {}", timestamp(from));
        return Some(about(
            Finding::error("not valid yet", message).next("correct the clock or the certificate"),
        ));
    }
    let rest = until.duration_since(now);
    let share = left(Validity { from: one.from, until }, now);
    let is_within =
        |time: SignedDuration, percent: u64| rest < time && share.is_none_or(|left| left < percent);
    let next = "renew the certificate; the file is read again without a restart";
    let bounds = [(WARN_AGAIN, VERY_SOON, "very soon"), (WARN, SOON, "soon")];
    let (.., text) = bounds.into_iter().find(|(time, percent, _)| is_within(*time, *percent))?;
    let message = format!("{name}: expires {text}, at {at}");
    Some(about(Finding::warning("expires soon", message).next(next)))
}

/// Judges whether changed files are in use.
pub(super) fn files(documents: &Documents) -> Found {
    if documents.certificates.is_empty() {
        return Found::skipped(NO_TLS);
    }
    let error = documents.config.get("certificateError").and_then(Value::as_str);
    let finding = error.map(|error| Finding::error("not in use", without_next(error)).code(Code::TLS_FILES));
    Found::new("", finding.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Severity;

    #[test]
    fn end_is_reported_by_days_and_for_short_lives_by_share() {
        let day = 86_400;
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let found = |from: Option<i64>, until: i64, now: i64| {
            let one = CertificateItem {
                name: "xDS certificate".into(),
                file: "c.pem".into(),
                from: from.map(at),
                until: Some(at(until)),
            };
            end(&one, at(now)).map(|found| (found.severity, found.message.contains("very soon")))
        };
        let soon = |very| Some((Severity::Warning, very));
        assert_eq!(found(Some(0), 365 * day, 300 * day), None);
        assert_eq!(found(Some(0), 365 * day, 340 * day), soon(false));
        assert_eq!(found(Some(0), 365 * day, 360 * day), soon(true));
        assert_eq!(found(Some(0), 365 * day, 365 * day), Some((Severity::Error, false)));
        assert_eq!(found(Some(0), day, day / 2), None, "a certificate of one day is renewed at its end");
        assert_eq!(found(Some(0), day, day * 8 / 10), soon(false));
        assert_eq!(found(Some(10), day, 0), Some((Severity::Error, false)), "not valid yet");
    }
}
