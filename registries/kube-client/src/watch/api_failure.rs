//! Classification of failed API requests, and the state of the source that each one implies.
//!
//! The watch, the probe beside it and the writers share this classification.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tributary_model::SourceState;
use tributary_registry_api::Reason;

/// Longest pause that a server can request.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Classified failure of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiFailure {
    /// 401, or no credential is available.
    Unauthorized(String),
    /// 403.
    Forbidden(String),
    /// 404.
    NotFound(String),
    /// 409.
    Conflict(String),
    /// 410: the requested version has expired.
    Gone(String),
    /// 400, 422 and other rejections of the request itself.
    Invalid(u16, String),
    /// 429, with the requested pause.
    TooMany(Option<Duration>, String),
    /// 5xx.
    Server(u16, String),
    /// No answer: refused, reset, untrusted, or timed out.
    Unreachable(String),
    /// A truncated answer.
    Torn(String),
    /// An answer that cannot be parsed.
    Garbled(String),
    /// Another cluster answers in place of the followed one.
    Replaced(String),
}

impl ApiFailure {
    /// Classifies an HTTP status and its message.
    pub(crate) fn of_status(code: u16, retry_after: Option<Duration>, message: String) -> Self {
        match code {
            401 => Self::Unauthorized(message),
            403 => Self::Forbidden(message),
            404 => Self::NotFound(message),
            409 => Self::Conflict(message),
            410 => Self::Gone(message),
            429 => Self::TooMany(retry_after.map(|pause| pause.min(LONGEST_PAUSE)), message),
            400..=499 => Self::Invalid(code, message),
            500..=599 => Self::Server(code, message),
            _ => Self::Garbled(format!("HTTP status {code}: {message}")),
        }
    }
    /// Classifies a client error, with its causes.
    pub(crate) fn of_client(error: &kube::Error) -> Self {
        match error {
            kube::Error::Auth(why) => Self::Unauthorized(crate::connection::plugin_trouble(why)),
            kube::Error::Service(why) => Self::Unreachable(causes(why.as_ref())),
            kube::Error::Api(status) => Self::of_status(status.code, None, status.message.clone()),
            other => Self::Unreachable(causes(other)),
        }
    }
    /// Returns the state of the source that this failure implies.
    #[must_use]
    pub const fn state(&self) -> SourceState {
        match self {
            Self::Unauthorized(_) => SourceState::AuthFailed,
            Self::Forbidden(_) => SourceState::Forbidden,
            Self::TooMany(..) | Self::Server(..) | Self::Unreachable(_) | Self::Torn(_) | Self::Gone(_) => {
                SourceState::Unreachable
            }
            Self::NotFound(_)
            | Self::Conflict(_)
            | Self::Invalid(..)
            | Self::Garbled(_)
            | Self::Replaced(_) => SourceState::Broken,
        }
    }
    /// Returns the pause that the server requested.
    #[must_use]
    pub const fn pause(&self) -> Option<Duration> {
        match self {
            Self::TooMany(pause, _) => *pause,
            _ => None,
        }
    }
    /// Returns the reason for operators: the request and its failure.
    pub(crate) fn reason(&self, asked: &str) -> Arc<str> {
        Reason::new(format_args!("{asked}: {self}")).shared()
    }
}

impl fmt::Display for ApiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unauthorized(text) => write!(f, "the credential is refused (401): {text}"),
            Self::Forbidden(text) => write!(f, "the right is missing (403): {text}"),
            Self::NotFound(text) => write!(f, "not found (404): {text}"),
            Self::Conflict(text) => write!(f, "another writer was first (409): {text}"),
            Self::Gone(text) => write!(f, "the requested version has expired (410): {text}"),
            Self::Invalid(code, text) => write!(f, "the request is refused ({code}): {text}"),
            Self::TooMany(_, text) => write!(f, "the server requests a pause (429): {text}"),
            Self::Server(code, text) => write!(f, "the server failed ({code}): {text}"),
            Self::Unreachable(text) => write!(f, "no answer: {text}"),
            Self::Torn(text) => write!(f, "the answer broke off: {text}"),
            Self::Garbled(text) => write!(f, "the answer cannot be parsed: {text}"),
            Self::Replaced(text) => write!(f, "{text}"),
        }
    }
}

impl std::error::Error for ApiFailure {}

/// Joins an error and its causes in one line; skips a cause that the text already contains.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let cause_text = next.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        cause = next.source();
    }
    if text.contains(GONE_AWAY) { "the server closed the connection".to_owned() } else { text }
}

/// How the HTTP/2 library names a server that ends a connection without an error (RFC 9113, 6.8), as one that stops does.
const GONE_AWAY: &str = "connection error received: not a result of an error";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_own_source_state() {
        use SourceState::{AuthFailed, Broken, Forbidden, Unreachable};
        let expected = [
            (401, AuthFailed),
            (403, Forbidden),
            (404, Broken),
            (409, Broken),
            (410, Unreachable),
            (422, Broken),
            (429, Unreachable),
            (500, Unreachable),
            (503, Unreachable),
            (302, Broken),
        ];
        for (code, state) in expected {
            assert_eq!(ApiFailure::of_status(code, None, String::new()).state(), state, "{code}");
        }
    }

    #[test]
    fn requested_pause_is_bounded() {
        let pause = |secs| ApiFailure::of_status(429, Some(Duration::from_secs(secs)), String::new()).pause();
        assert_eq!((pause(7), pause(86_400)), (Some(Duration::from_secs(7)), Some(LONGEST_PAUSE)));
    }

    #[test]
    fn reason_repeats_no_secret() {
        let failure = ApiFailure::Unauthorized("header Authorization: Bearer hunter2 expired".to_owned());
        let reason = failure.reason("list of pods");
        assert!(reason.starts_with("list of pods: the credential is refused (401)"), "{reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
    }
}
