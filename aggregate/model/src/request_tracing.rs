//! Tracing of the requests of sidecars: how many requests begin a trace, and which tags their spans have.
//!
//! Part of [`Settings`](crate::Settings). Sources of settings call [`RequestTracing::check`]; the encoder of HTTP connection
//! managers reads the values. A proxy sends spans to the tracer of its own bootstrap, and none without one.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Tracing of the requests of sidecars.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct RequestTracing {
    /// Whether requests are traced.
    pub enabled: bool,
    /// Share of the requests without a trace that begin one.
    pub sampling: SampledShare,
    /// Whether spans have tags that describe the proxy.
    pub proxy_tags: bool,
    /// Further tags, each name once.
    pub tags: Arc<[SpanTag]>,
    /// Longest path in a tag, in bytes; the proxy's own limit if absent.
    pub max_path: Option<u32>,
}

/// Share in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub struct SampledShare(u32);

/// Tag of a span.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct SpanTag {
    /// Name.
    pub name: Arc<str>,
    /// Where its value comes from.
    pub value: SpanTagValue,
}

/// Where the value of a tag comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum SpanTagValue {
    /// This text.
    Literal(Arc<str>),
    /// Variable of the proxy's environment, and the value without it; without both there is no tag.
    Environment(Arc<str>, Option<Arc<str>>),
    /// Header of the request, and the value without it; without both there is no tag.
    Header(Arc<str>, Option<Arc<str>>),
}

impl Default for RequestTracing {
    /// Returns what Istio applies without settings.
    fn default() -> Self {
        Self {
            enabled: true,
            sampling: SampledShare::ONE_PERCENT,
            proxy_tags: true,
            tags: Arc::default(),
            max_path: None,
        }
    }
}

impl SampledShare {
    /// One request of a hundred.
    pub const ONE_PERCENT: Self = Self(10_000);

    /// Returns the share of a percentage from 0 to 100.
    pub fn of_percent(percent: f64) -> Result<Self, String> {
        if !(0.0..=100.0).contains(&percent) {
            return Err(format!("{percent} is not a percentage from 0 to 100"));
        }
        // in range, so nothing is cut off
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(Self((percent * 10_000.0).round() as u32))
    }
    /// Returns the share of a number of millionths, at most all.
    #[must_use]
    pub fn of_millionths(millionths: u32) -> Self {
        Self(millionths.min(1_000_000))
    }
    /// Returns the number of millionths.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }
    /// Returns the percentage.
    #[must_use]
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 10_000.0
    }
}

impl RequestTracing {
    /// Largest number of tags.
    pub const MOST_TAGS: usize = 64;
    /// Longest name or value of a tag, in bytes.
    pub const MOST_TEXT: usize = 1_024;

    /// Checks the tags: a proxy rejects a listener with a tag that is not valid.
    pub fn check(&self) -> Result<(), String> {
        if self.tags.len() > Self::MOST_TAGS {
            return Err(format!("has {} tags; at most {} are served", self.tags.len(), Self::MOST_TAGS));
        }
        let mut names = BTreeSet::new();
        for tag in &*self.tags {
            tag.check().map_err(|why| format!("tag {:?}: {why}", shown(&tag.name)))?;
            if !names.insert(&tag.name) {
                return Err(format!("tag {:?} is given twice", shown(&tag.name)));
            }
        }
        Ok(())
    }
}

impl SpanTag {
    fn check(&self) -> Result<(), String> {
        text("the name", &self.name)?;
        match &self.value {
            SpanTagValue::Literal(value) => text("the value", value),
            SpanTagValue::Environment(name, default) => {
                text("the name of the variable", name)?;
                default.as_deref().map_or(Ok(()), |value| text("the default", value))
            }
            SpanTagValue::Header(name, default) => {
                text("the name of the header", name)?;
                if !is_header_name(name) {
                    return Err(format!("{:?} is not the name of a header", shown(name)));
                }
                default.as_deref().map_or(Ok(()), |value| text("the default", value))
            }
        }
    }
}

fn text(what: &str, text: &str) -> Result<(), String> {
    if text.is_empty() || text.len() > RequestTracing::MOST_TEXT {
        return Err(format!("{what} is not 1 to {} bytes long", RequestTracing::MOST_TEXT));
    }
    if text.contains(['\0', '\r', '\n']) {
        return Err(format!("{what} has a line break or NUL"));
    }
    Ok(())
}

/// Whether a text is a token of HTTP, or a pseudo-header.
fn is_header_name(name: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let name = name.strip_prefix(':').unwrap_or(name);
    !name.is_empty() && name.bytes().all(token)
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_tags(tags: &[(&str, SpanTagValue)]) -> RequestTracing {
        let tag =
            |(name, value): &(&str, SpanTagValue)| SpanTag { name: (*name).into(), value: value.clone() };
        RequestTracing { tags: tags.iter().map(tag).collect(), ..RequestTracing::default() }
    }

    #[test]
    fn share_is_a_percentage() {
        let share = |percent| SampledShare::of_percent(percent).map(SampledShare::millionths);
        assert_eq!(share(0.0), Ok(0));
        assert_eq!(share(0.0001), Ok(1));
        assert_eq!(share(1.0), Ok(SampledShare::ONE_PERCENT.millionths()));
        assert_eq!(share(100.0), Ok(1_000_000));
        assert!((SampledShare::of_percent(12.5).unwrap().percent() - 12.5).abs() < 1e-9);
        for percent in [-0.1, 100.01, f64::NAN, f64::INFINITY] {
            assert!(share(percent).is_err(), "{percent}");
        }
    }

    #[test]
    fn tags_that_a_proxy_rejects_are_refused() {
        let literal = |text: &str| SpanTagValue::Literal(text.into());
        let long = "a".repeat(RequestTracing::MOST_TEXT + 1);
        let header =
            |name: &str, default: Option<&str>| SpanTagValue::Header(name.into(), default.map(Into::into));
        let environment = |name: &str, default: Option<&str>| {
            SpanTagValue::Environment(name.into(), default.map(Into::into))
        };
        let valid = [
            ("a", literal("x")),
            ("b", header("x-user", None)),
            ("c", header(":path", Some("/"))),
            ("d", environment("HOME", Some("none"))),
        ];
        assert_eq!(mk_tags(&valid).check(), Ok(()));
        let refused = [
            ("", literal("x")),
            ("a", literal("")),
            ("a", literal(&long)),
            (&long, literal("x")),
            ("a", header("", None)),
            ("a", header("x y", None)),
            ("a", header("x", Some(""))),
            ("a", environment("", None)),
            ("a", environment("A\nB", None)),
        ];
        for (name, value) in refused {
            assert!(mk_tags(&[(name, value.clone())]).check().is_err(), "{name} {value:?}");
        }
        assert!(mk_tags(&[("a", literal("x")), ("a", literal("y"))]).check().is_err());
        let many: Vec<String> = (0..=RequestTracing::MOST_TAGS).map(|i| format!("t{i}")).collect();
        let many: Vec<(&str, SpanTagValue)> = many.iter().map(|name| (&**name, literal("x"))).collect();
        assert!(mk_tags(&many).check().is_err());
        assert_eq!(mk_tags(&many[1..]).check(), Ok(()));
    }
}
