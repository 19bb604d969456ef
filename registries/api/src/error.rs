//! Errors of runs, with reasons that are safe to show.

use std::fmt;
use std::sync::Arc;

/// Reason for display: one line, at most 512 characters, without text that looks like a secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Reason(Arc<str>);

const LONGEST: usize = 512;
const HIDDEN: &str = "[redacted]";

impl Reason {
    /// Creates a reason. Redacts credentials inside URLs, the token after `Bearer` or `Basic`, values of
    /// secret-looking names in `name=value` or `name: value`, and PEM bodies.
    #[must_use]
    pub fn new(text: impl fmt::Display) -> Self {
        let text = text.to_string();
        let cut = text.find("-----BEGIN ").unwrap_or(text.len());
        let mut tokens: Vec<String> = Vec::new();
        let mut hide_next = false;
        for token in text[..cut].split_whitespace().take(LONGEST) {
            let scheme = is_scheme(token);
            let shown = if hide_next && !scheme { HIDDEN.to_owned() } else { without_secret(token) };
            hide_next = scheme || (!hide_next && token.strip_suffix([':', '=']).is_some_and(is_secret_name));
            tokens.push(shown);
        }
        if cut < text.len() {
            tokens.push(HIDDEN.to_owned());
        }
        let line: String = tokens.join(" ").chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        Self(line.into())
    }
    /// Returns the reason as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Returns the reason as a shared text.
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

/// Whether the token is `Bearer` or `Basic`, so the next token is a secret.
fn is_scheme(token: &str) -> bool {
    let scheme = token.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("basic")
}

fn without_secret(token: &str) -> String {
    let token = without_user_info(token);
    let Some(at) = token.find(['=', ':']) else { return token };
    let (name, value) = token.split_at(at);
    let name_end = name.rsplit(['?', '&', '{', ',']).next().unwrap_or(name);
    if value.len() > 1 && !value.starts_with("://") && is_secret_name(name_end) {
        return format!("{name}{}{HIDDEN}", &value[..1]);
    }
    without_query_secrets(&token)
}

fn without_query_secrets(token: &str) -> String {
    let Some((path, query)) = token.split_once('?') else { return token.to_owned() };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret_name(name) => format!("{name}={HIDDEN}"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

fn without_user_info(token: &str) -> String {
    let Some((scheme, rest)) = token.split_once("://") else { return token.to_owned() };
    let authority = rest.find(['/', '?']).unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{scheme}://{HIDDEN}{}", &rest[at..]),
        None => token.to_owned(),
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

/// Error that ended a run or prevented its start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The next run may succeed; the supervisor builds it after a backoff.
    #[error("{0}")]
    Retryable(Reason),
    /// No run can succeed until an operator changes the registry's configuration or credential. Its last
    /// known facts stay served; the next run starts with a rotation.
    #[error("{0}")]
    Final(Reason),
}

impl RegistryError {
    /// Creates an error after which the next run may succeed.
    #[must_use]
    pub fn retryable(reason: impl fmt::Display) -> Self {
        Self::Retryable(Reason::new(reason))
    }
    /// Creates an error that only a changed configuration or credential resolves.
    #[must_use]
    pub fn final_(reason: impl fmt::Display) -> Self {
        Self::Final(Reason::new(reason))
    }
    /// Returns the reason.
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
    fn secrets_are_redacted() {
        for text in [
            "get https://user:hunter2@consul:8500/v1 failed",
            "header Authorization: Bearer hunter2 refused",
            "header \"Bearer\" hunter2 refused",
            "get https://consul/v1?dc=a&token=hunter2&wait=5s timed out",
            "token=hunter2 is not valid",
            "X-Consul-Token:hunter2 is not valid",
            "password: hunter2",
            "bad key -----BEGIN PRIVATE KEY----- hunter2",
        ] {
            let shown = Reason::new(text).to_string();
            assert!(!shown.contains("hunter2"), "{text:?} became {shown:?}");
            assert!(shown.contains(HIDDEN), "{text:?} became {shown:?}");
        }
    }

    #[test]
    fn text_without_secrets_is_kept() {
        for text in ["connect https://consul:8500/v1?dc=a: refused", "no such directory: /etc/x", "401"] {
            assert_eq!(Reason::new(text).as_str(), text);
        }
    }

    #[test]
    fn reason_is_one_short_line() {
        let shown = Reason::new(format!("a\nb\u{7}c{}", "x".repeat(2000)));
        assert!(shown.as_str().starts_with("a bc"));
        assert_eq!(shown.as_str().chars().count(), LONGEST);
    }
}
