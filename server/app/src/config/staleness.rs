//! Staleness policy in its text form: `hold`, `degrade(10m)`, `withdraw(1h)`. It applies to the facts of a
//! registry whose source is unreachable or unsynced.

use std::fmt;
use std::str::FromStr;

use tributary_model::StalePolicy;

use super::Span;

/// Staleness policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Staleness {
    /// Facts stay served without a time limit.
    #[default]
    Hold,
    /// After this time facts are served at one priority lower.
    Degrade(Span),
    /// After this time facts are not served.
    Withdraw(Span),
}

impl Staleness {
    /// Converts to the core's type.
    #[must_use]
    pub const fn policy(self) -> StalePolicy {
        match self {
            Self::Hold => StalePolicy::Hold,
            Self::Degrade(after) => StalePolicy::Degrade(after.get()),
            Self::Withdraw(after) => StalePolicy::Withdraw(after.get()),
        }
    }
}

impl From<StalePolicy> for Staleness {
    fn from(policy: StalePolicy) -> Self {
        match policy {
            StalePolicy::Hold => Self::Hold,
            StalePolicy::Degrade(after) => Self::Degrade(after.into()),
            StalePolicy::Withdraw(after) => Self::Withdraw(after.into()),
        }
    }
}

impl FromStr for Staleness {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "hold" {
            return Ok(Self::Hold);
        }
        let after = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        if let Some(after) = after("degrade") {
            return after.parse().map(Self::Degrade);
        }
        if let Some(after) = after("withdraw") {
            return after.parse().map(Self::Withdraw);
        }
        let shown: String = text.chars().take(40).collect();
        Err(format!("`{shown}` is not a staleness policy; write `hold`, `degrade(10m)` or `withdraw(1h)`"))
    }
}

impl fmt::Display for Staleness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold => f.write_str("hold"),
            Self::Degrade(after) => write!(f, "degrade({after})"),
            Self::Withdraw(after) => write!(f, "withdraw({after})"),
        }
    }
}

impl serde::Serialize for Staleness {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Staleness {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Staleness {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Staleness".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "`hold`, `degrade(10m)` or `withdraw(1h)`",
            "pattern": "^(hold|(degrade|withdraw)\\(.+\\))$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_round_trips_through_its_text() {
        for text in ["hold", "degrade(10m)", "withdraw(1h)"] {
            let policy: Staleness = text.parse().unwrap();
            assert_eq!(policy.to_string().parse::<Staleness>(), Ok(policy));
            assert_eq!(Staleness::from(policy.policy()), policy);
        }
        let after = std::time::Duration::from_secs(600);
        assert_eq!("degrade(10m)".parse::<Staleness>().unwrap().policy(), StalePolicy::Degrade(after));
    }

    #[test]
    fn invalid_policy_names_the_valid_forms() {
        for text in ["", "drop", "degrade", "degrade(", "withdraw(soon)"] {
            assert!(text.parse::<Staleness>().is_err(), "{text}");
        }
        assert!("drop".parse::<Staleness>().unwrap_err().contains("write `hold`"));
    }
}
