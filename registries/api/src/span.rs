//! Duration in its text form: `30s`, `1m 30s`, `500ms`, `0`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Non-negative duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span(Duration);

impl Span {
    /// Returns a duration of whole seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
    /// Returns the standard library's duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }
    /// Returns the duration; zero means no limit.
    #[must_use]
    pub const fn limit(self) -> Option<Duration> {
        if self.0.is_zero() { None } else { Some(self.0) }
    }
}

impl From<Duration> for Span {
    fn from(span: Duration) -> Self {
        Self(span)
    }
}

impl FromStr for Span {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{}` is not a duration; write for example `30s` or `5m`", cut(text));
        if text.trim() == "0" {
            return Ok(Self::default());
        }
        let parsed: jiff::SignedDuration = text.trim().parse().map_err(|_| bad())?;
        Duration::try_from(parsed).map(Self).map_err(|_| bad())
    }
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::SignedDuration::try_from(self.0) {
            Ok(signed) => write!(f, "{signed:#}"),
            Err(_) => write!(f, "{}s", self.0.as_secs()),
        }
    }
}

impl serde::Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "Duration: `30s`, `1m 30s`, `500ms`; `0` for none.",
            "examples": ["30s", "5m"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_from_their_text() {
        for (text, millis) in
            [("30s", 30_000), ("1m 30s", 90_000), ("500ms", 500), ("0", 0), ("2h", 7_200_000)]
        {
            assert_eq!(text.parse::<Span>().unwrap().get(), Duration::from_millis(millis), "{text}");
        }
        for bad in ["", "soon", "-5s", "30"] {
            assert!(bad.parse::<Span>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn duration_round_trips_through_its_text() {
        for text in ["30s", "1m 30s", "500ms", "0s"] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.to_string().parse::<Span>().unwrap(), span, "{text} became {span}");
        }
    }
}
