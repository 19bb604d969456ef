//! The policy of a claim, from the annotations `tributary.dev/` of its Secret.
//!
//! The caller reads annotations with [`Policy::read`]; for a cluster of the configuration file it fills the fields itself. A value that
//! cannot be read is reported and has no effect. Messages name the annotation and never its value.

use std::time::Duration;

use tributary_model::{Code, Fingerprint, StalePolicy};
use tributary_registry_api::Span;

use super::claim::Fault;

/// Prefix of the annotations.
pub const PREFIX: &str = "tributary.dev/";
/// Name of the annotation with the UID that a server found; servers write it.
pub const FOUND_UID: &str = "found-uid";
/// Name of the annotation with the UID that an operator accepts.
pub const ACCEPT_UID: &str = "accept-uid";
/// Name of the annotation that accepts a credential which may read less: `true` for every one, a checksum for one.
pub const ACCEPT_RIGHTS: &str = "accept-rights";
/// Name of the annotation that removes a cluster.
pub const REMOVE: &str = "remove";
/// Name of the annotation with the time for which a cluster is drained.
pub const DRAIN: &str = "drain";
/// Longest time that an annotation sets.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest drain.
pub const LONGEST_DRAIN: Duration = Duration::from_secs(24 * 3600);

/// Settings of a claim that its owner writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// Position among Secrets that claim one cluster: the highest wins.
    pub priority: i32,
    /// Stops the connections of the cluster; its facts stay.
    pub paused: bool,
    /// Removes the cluster at once, although it is declared.
    pub remove: bool,
    /// How long its endpoints are used after those of others before they are removed; `None` leaves it to the configuration.
    pub drain: Option<Duration>,
    /// UID that the cluster may have in place of the known one.
    pub accept_uid: Option<Fingerprint>,
    /// Accepts a credential that may read less than the one before.
    pub accept_rights: bool,
    /// What becomes of stale facts; `None` leaves it to the configuration.
    pub staleness: Option<StalePolicy>,
    /// Renews the token.
    pub renew: bool,
    /// UID that a server found at its first contact and wrote here.
    pub found_uid: Option<Fingerprint>,
}

impl Policy {
    /// Reads the annotations of an object. Those without the prefix are skipped.
    #[must_use]
    pub fn read<'a>(annotations: impl IntoIterator<Item = (&'a str, &'a str)>) -> (Self, Vec<Fault>) {
        let mut policy = Self::default();
        let mut faults = Vec::new();
        for (key, value) in annotations {
            let Some(name) = key.strip_prefix(PREFIX) else { continue };
            if let Err(why) = policy.set(name, value) {
                let text = format!("annotation {PREFIX}{} {why}", shown(name));
                faults.push(Fault::coded(Code::ANNOTATION_REFUSED, text));
            }
        }
        (policy, faults)
    }
    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "priority" => self.priority = value.parse().map_err(|_| "is not a whole number")?,
            "paused" => self.paused = flag(value)?,
            REMOVE => self.remove = flag(value)?,
            DRAIN => self.drain = Some(drain(value)?),
            ACCEPT_UID => self.accept_uid = Some(Fingerprint::new(value).map_err(|_| "is not a UID")?),
            ACCEPT_RIGHTS => {
                let wrong = "is not `true`, `false`, or `sha256:` and 16 hexadecimal digits";
                self.accept_rights = flag(value).map_err(|_| wrong)?;
            }
            "staleness" => self.staleness = Some(staleness(value)?),
            "renew" => self.renew = flag(value)?,
            FOUND_UID => self.found_uid = Some(Fingerprint::new(value).map_err(|_| "is not a UID")?),
            _ => return Err("is not known; correct its name or remove it"),
        }
        Ok(())
    }
}

fn flag(value: &str) -> Result<bool, &'static str> {
    value.parse().map_err(|_| "is not `true` or `false`")
}

fn drain(value: &str) -> Result<Duration, &'static str> {
    let drain = value.parse::<Span>().ok().map(Span::get).filter(|drain| *drain <= LONGEST_DRAIN);
    drain.ok_or("is not a time such as `30s`, up to 24 hours")
}

fn staleness(value: &str) -> Result<StalePolicy, &'static str> {
    const FORM: &str =
        "is not `hold`, `degrade(TIME)` or `withdraw(TIME)` with a time such as 10m, up to 30 days";
    if value == "hold" {
        return Ok(StalePolicy::Hold);
    }
    let (kind, rest) = value.split_once('(').ok_or(FORM)?;
    let after = rest.strip_suffix(')').and_then(duration).ok_or(FORM)?;
    match kind {
        "degrade" => Ok(StalePolicy::Degrade(after)),
        "withdraw" => Ok(StalePolicy::Withdraw(after)),
        _ => Err(FORM),
    }
}

/// Reads a whole number of seconds, minutes or hours.
fn duration(text: &str) -> Option<Duration> {
    let units = [('s', 1), ('m', 60), ('h', 3600)];
    let (number, unit) = units.iter().find_map(|(letter, unit)| Some((text.strip_suffix(*letter)?, unit)))?;
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let time = Duration::from_secs(number.parse::<u64>().ok()?.checked_mul(*unit)?);
    (!time.is_zero() && time <= LONGEST).then_some(time)
}

/// Returns the name of an annotation as it may be shown.
fn shown(name: &str) -> &str {
    let is_plain = name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-');
    if is_plain { name } else { "(unknown name)" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_give_the_policy() {
        let (policy, faults) = Policy::read([
            ("tributary.dev/priority", "-3"),
            ("tributary.dev/paused", "true"),
            ("tributary.dev/remove", "false"),
            ("tributary.dev/drain", "1m 30s"),
            ("tributary.dev/accept-uid", "6a1f"),
            ("tributary.dev/accept-rights", "true"),
            ("tributary.dev/staleness", "withdraw(10m)"),
            ("tributary.dev/renew", "true"),
            ("tributary.dev/found-uid", "7b2e"),
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
        ]);
        assert_eq!(faults, []);
        let expected = Policy {
            priority: -3,
            paused: true,
            remove: false,
            drain: Some(Duration::from_secs(90)),
            accept_uid: Fingerprint::new("6a1f").ok(),
            accept_rights: true,
            staleness: Some(StalePolicy::Withdraw(Duration::from_secs(600))),
            renew: true,
            found_uid: Fingerprint::new("7b2e").ok(),
        };
        assert_eq!(policy, expected);
    }

    #[test]
    fn staleness_has_three_forms() {
        let cases = [
            ("hold", Some(StalePolicy::Hold)),
            ("degrade(90s)", Some(StalePolicy::Degrade(Duration::from_secs(90)))),
            ("withdraw(2h)", Some(StalePolicy::Withdraw(Duration::from_secs(7200)))),
        ];
        for (text, expected) in cases {
            assert_eq!(staleness(text).ok(), expected, "{text}");
        }
        for text in [
            "",
            "degrade",
            "degrade()",
            "degrade(0s)",
            "degrade(+1s)",
            "drop(1s)",
            "degrade(1s",
            "degrade(721h)",
        ] {
            assert!(staleness(text).is_err(), "{text}");
        }
        assert!(staleness(&format!("degrade({}h)", u64::MAX)).is_err(), "a product out of range");
    }

    #[test]
    fn invalid_annotations_are_reported_without_their_value() {
        let hidden = "hunter2";
        let names = [
            "priority",
            "paused",
            "remove",
            "drain",
            "accept-rights",
            "staleness",
            "renew",
            "pausd",
            "x.hunter2",
        ];
        for name in names {
            let key = format!("{PREFIX}{name}");
            let (policy, faults) = Policy::read([(key.as_str(), hidden)]);
            assert_eq!((policy, faults.len()), (Policy::default(), 1), "{name}");
            assert!(!faults[0].text.contains(hidden), "{faults:?}");
        }
        for name in ["tributary.dev/accept-uid", "tributary.dev/found-uid"] {
            assert_eq!(Policy::read([(name, "a b")]).1.len(), 1, "{name}");
        }
    }

    #[test]
    fn drain_is_a_time_of_at_most_a_day() {
        assert_eq!(drain("0"), Ok(Duration::ZERO), "at once");
        assert_eq!(drain("24h"), Ok(LONGEST_DRAIN));
        for text in ["", "-1s", "25h", "soon"] {
            assert!(drain(text).is_err(), "{text}");
        }
    }
}
