//! Why a run ended, said in a way that may be shown.

use std::fmt;
use std::sync::Arc;

/// A reason for people: one line, at most 512 characters, without what looks like a secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Reason(Arc<str>);

const LONGEST: usize = 512;
const HIDDEN: &str = "[redacted]";

impl Reason {
    /// Redacts: credentials inside URLs, what follows `Bearer`, `Basic` and secret-looking
    /// `name=value` or `name: value` words, and PEM bodies.
    #[must_use]
    pub fn new(text: impl fmt::Display) -> Self {
        let text = text.to_string();
        let cut = text.find("-----BEGIN ").unwrap_or(text.len());
        let mut words: Vec<String> = Vec::new();
        let mut hide_next = false;
        for word in text[..cut].split_whitespace().take(LONGEST) {
            let scheme = is_scheme(word);
            let shown = if hide_next && !scheme { HIDDEN.to_owned() } else { without_secret(word) };
            hide_next = scheme || (!hide_next && word.strip_suffix([':', '=']).is_some_and(is_secret_name));
            words.push(shown);
        }
        if cut < text.len() {
            words.push(HIDDEN.to_owned());
        }
        let line: String = words.join(" ").chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        Self(line.into())
    }
    /// The reason as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The reason as a shared text.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_ascii_lowercase();
    ["token", "password", "secret", "authorization", "apikey", "api_key", "api-key"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// `Bearer` or `Basic`: the secret is the next word.
fn is_scheme(word: &str) -> bool {
    let scheme = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("basic")
}

fn without_secret(word: &str) -> String {
    let word = without_user_info(word);
    let Some(at) = word.find(['=', ':']) else { return word };
    let (name, value) = word.split_at(at);
    let name_end = name.rsplit(['?', '&', '{', ',']).next().unwrap_or(name);
    if value.len() > 1 && !value.starts_with("://") && is_secret_name(name_end) {
        return format!("{name}{}{HIDDEN}", &value[..1]);
    }
    without_query_secrets(&word)
}

fn without_query_secrets(word: &str) -> String {
    let Some((path, query)) = word.split_once('?') else { return word.to_owned() };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret_name(name) => format!("{name}={HIDDEN}"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

fn without_user_info(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let authority = rest.find(['/', '?']).unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{scheme}://{HIDDEN}{}", &rest[at..]),
        None => word.to_owned(),
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Why a run ended, or could not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The next run may fare better: it is built after a backoff.
    #[error("{0}")]
    Retryable(Reason),
    /// No run can fare better until somebody changes the registry's configuration or credential.
    /// What it said stays served; the next run waits for a rotation.
    #[error("{0}")]
    Final(Reason),
}

impl RegistryError {
    /// The next run may fare better.
    #[must_use]
    pub fn retryable(reason: impl fmt::Display) -> Self {
        Self::Retryable(Reason::new(reason))
    }
    /// Somebody has to change something first.
    #[must_use]
    pub fn final_(reason: impl fmt::Display) -> Self {
        Self::Final(Reason::new(reason))
    }
    /// The reason.
    #[must_use]
    pub const fn reason(&self) -> &Reason {
        match self {
            Self::Retryable(reason) | Self::Final(reason) => reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_repeated() {
        for said in [
            "get https://user:hunter2@consul:8500/v1 failed",
            "header Authorization: Bearer hunter2 refused",
            "header \"Bearer\" hunter2 refused",
            "get https://consul/v1?dc=a&token=hunter2&wait=5s timed out",
            "token=hunter2 is not valid",
            "X-Consul-Token:hunter2 is not valid",
            "password: hunter2",
            "bad key -----BEGIN PRIVATE KEY----- hunter2",
        ] {
            let shown = Reason::new(said).to_string();
            assert!(!shown.contains("hunter2"), "{said:?} became {shown:?}");
            assert!(shown.contains(HIDDEN), "{said:?} became {shown:?}");
        }
    }

    #[test]
    fn what_is_no_secret_is_kept() {
        for said in ["connect https://consul:8500/v1?dc=a: refused", "no such directory: /etc/x", "401"] {
            assert_eq!(Reason::new(said).as_str(), said);
        }
    }

    #[test]
    fn a_reason_is_one_short_line() {
        let shown = Reason::new(format!("a\nb\u{7}c{}", "x".repeat(2000)));
        assert!(shown.as_str().starts_with("a bc"));
        assert_eq!(shown.as_str().chars().count(), LONGEST);
    }
}
