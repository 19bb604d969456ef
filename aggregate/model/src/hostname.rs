//! Host names and host patterns, as services declare them and clients request them.

use std::fmt;
use std::sync::Arc;

use crate::id::InvalidName;

/// Lower-case DNS name of up to 253 bytes, optionally with a wildcard as or at the start of the first label.
///
/// Names compare by lower-case text without a trailing dot (RFC 4343).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct Hostname(Arc<str>);

const WHAT: &str = "host";

impl Hostname {
    /// Checks and lower-cases the text. Rejects a bare `*`, which would claim every name.
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
        let text = text.as_ref();
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() {
            return Err(InvalidName::new(WHAT, text, "is empty"));
        }
        if name.len() > 253 {
            return Err(InvalidName::new(WHAT, text, "is longer than 253 bytes"));
        }
        if name == "*" {
            return Err(InvalidName::new(WHAT, text, "would claim every name; give it a domain"));
        }
        // A wildcard is `*`, or the start of the first label: `*-docker.pkg.dev`, `*docker.pkg.dev`.
        let labels = ["*.", "*-", "*"].iter().find_map(|start| name.strip_prefix(start)).unwrap_or(name);
        if !labels.split('.').all(label_ok) {
            return Err(InvalidName::new(WHAT, text, "is not a DNS name"));
        }
        Ok(Self(name.to_ascii_lowercase().into()))
    }
    /// Name as text, in lower case, without a trailing dot.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Whether the first label is `*` or starts with `*`.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with('*')
    }
    /// Whether a part of the first label follows its `*`, as in `*-docker.pkg.dev`. Envoy matches such a name in
    /// routes, and rejects it as a TLS server name.
    #[must_use]
    pub fn is_partial_wildcard(&self) -> bool {
        self.is_wildcard() && !self.0.starts_with("*.")
    }
    /// Returns the host with a name without a dot completed, as one of a Kubernetes service: such a name means the
    /// service of this namespace.
    #[must_use]
    pub fn completed(&self, namespace: &str, domain: &str) -> Self {
        if self.0.contains('.') || self.is_wildcard() {
            return self.clone();
        }
        Self::new(format!("{}.{namespace}.svc.{domain}", self.0)).unwrap_or_else(|_| self.clone())
    }
}

fn label_ok(label: &str) -> bool {
    let bytes = label.as_bytes();
    let edge = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    matches!((bytes.first(), bytes.last()), (Some(&a), Some(&z)) if edge(a) && edge(z))
        && bytes.len() <= 63
        && bytes.iter().all(|&b| edge(b) || b == b'-')
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
impl std::str::FromStr for Hostname {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}
impl std::borrow::Borrow<str> for Hostname {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Hosts that a rule applies to: one host, `*.suffix` for every host below it, or `*` for all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct HostPattern(Arc<str>);

impl HostPattern {
    /// Checks and lower-cases the text as [`Hostname::new`] does; also accepts `*`.
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
        match text.as_ref() {
            "*" => Ok(Self("*".into())),
            text => Hostname::new(text).map(|host| Self(host.0)),
        }
    }
    /// Pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Whether the pattern matches a host. `*.suffix` matches names at any depth below the suffix,
    /// and the host `*.suffix` itself.
    #[must_use]
    pub fn matches(&self, host: &Hostname) -> bool {
        let suffix = self.0.strip_prefix('*');
        *self.0 == *host.0 || suffix.is_some_and(|suffix| host.0.ends_with(suffix))
    }
    /// Returns the text after the `*` of a wildcard; `None` for a host.
    #[must_use]
    pub fn suffix(&self) -> Option<&str> {
        self.0.strip_prefix('*')
    }
    /// Returns the pattern with a name without a dot completed, as [`Hostname::completed`] does.
    #[must_use]
    pub fn completed(&self, namespace: &str, domain: &str) -> Self {
        Hostname(Arc::clone(&self.0)).completed(namespace, domain).into()
    }
    /// Sort key among patterns that match one host; the greatest is the most specific. A host is more
    /// specific than a suffix, a longer suffix more than a shorter one.
    #[must_use]
    pub fn specificity(&self) -> (bool, usize) {
        (!self.0.starts_with('*'), self.0.len())
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl From<Hostname> for HostPattern {
    fn from(host: Hostname) -> Self {
        Self(host.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffix_pattern_matches_names_below_it() {
        let cases = [
            ("*", "a.b", true),
            ("*.b", "x.a.b", true),
            ("*.b", "b", false),
            ("*.b", "ab", false),
            ("a.b", "A.b.", true),
            ("a.b", "x.a.b", false),
        ];
        for (pattern, host, want) in cases {
            let matches = HostPattern::new(pattern).unwrap().matches(&Hostname::new(host).unwrap());
            assert_eq!(matches, want, "{pattern} {host}");
        }
        assert!(HostPattern::new("*.").is_err() && HostPattern::new("**").is_err());
        let grade = |text| HostPattern::new(text).unwrap().specificity();
        assert!(
            grade("a.b") > grade("*.long.suffix")
                && grade("*.a.b") > grade("*.b")
                && grade("*.b") > grade("*")
        );
    }

    #[test]
    fn case_and_trailing_dot_are_ignored() {
        assert_eq!(Hostname::new("Pay.Shop.").unwrap(), Hostname::new("pay.shop").unwrap());
    }

    #[test]
    fn invalid_host_names_are_rejected() {
        let long = format!("{}.com", "a".repeat(64));
        for bad in [
            "",
            ".",
            "*",
            "a..b",
            "-a.b",
            "a-.b",
            "a b",
            "a*.com",
            "*-.com",
            "*--a.com",
            "a.*.com",
            "\u{e9}.com",
            &long,
        ] {
            assert!(Hostname::new(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn wildcard_hosts_are_detected() {
        assert!(Hostname::new("*.example.com").unwrap().is_wildcard());
        assert!(!Hostname::new("local").unwrap().is_wildcard());
    }

    #[test]
    fn partial_wildcards_are_accepted_as_in_istio() {
        for text in ["*-docker.pkg.dev", "*docker.pkg.dev", "*-docker"] {
            let host = Hostname::new(text).unwrap();
            assert!(host.is_wildcard() && host.is_partial_wildcard(), "{text}");
        }
        assert!(!Hostname::new("*.pkg.dev").unwrap().is_partial_wildcard());
        let pattern = HostPattern::new("*-docker.pkg.dev").unwrap();
        assert!(pattern.matches(&Hostname::new("eu-docker.pkg.dev").unwrap()));
        assert!(!pattern.matches(&Hostname::new("docker.pkg.dev").unwrap()));
    }
}
