//! Mesh-wide defaults for the requests of sidecars and gRPC clients: retries and access logs.
//!
//! They are part of [`Settings`](crate::Settings); sources of settings check them, and the encoders of routes and
//! listeners read them.

use std::sync::Arc;
use std::time::Duration;

/// Retries of HTTP requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct HttpRetries {
    /// Retries of one request; 0 for none.
    pub attempts: u32,
    /// Conditions as Envoy names them, separated by commas.
    pub conditions: Arc<str>,
    /// Status codes that are retried too.
    pub codes: Arc<[u16]>,
    /// Maximum duration of one attempt.
    pub per_try_timeout: Option<Duration>,
    /// Shortest wait between two attempts; the client's own if absent.
    pub backoff: Option<Duration>,
    /// Whether a retry prefers localities that were not tried yet.
    pub remote_localities: bool,
    /// Whether a retry prefers endpoints that were not tried yet.
    pub other_hosts: bool,
}

impl Default for HttpRetries {
    /// Returns what applies without settings.
    fn default() -> Self {
        Self {
            attempts: 2,
            conditions: Self::CONDITIONS.into(),
            codes: Arc::default(),
            per_try_timeout: None,
            backoff: None,
            remote_localities: false,
            other_hosts: true,
        }
    }
}

impl HttpRetries {
    /// Conditions that apply if none are set.
    pub const CONDITIONS: &str =
        "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes";
    /// Condition under which status codes are retried.
    const BY_CODE: &str = "retriable-status-codes";
    /// Conditions that proxies know, those of gRPC last. A proxy ignores any other name.
    const KNOWN: [&str; 16] = [
        "5xx",
        "gateway-error",
        "reset",
        "reset-before-request",
        "connect-failure",
        "envoy-ratelimited",
        "retriable-4xx",
        "refused-stream",
        Self::BY_CODE,
        "retriable-headers",
        "http3-post-connect-failure",
        "cancelled",
        "deadline-exceeded",
        "internal",
        "resource-exhausted",
        "unavailable",
    ];
    /// Longest text of conditions.
    pub const MOST_TEXT: usize = 1_024;

    /// Returns these retries under the conditions of a text: names and status codes, separated by commas. A text
    /// without any changes nothing.
    pub fn on(self, text: &str) -> Result<Self, String> {
        if text.len() > Self::MOST_TEXT {
            return Err(format!("is longer than {} bytes", Self::MOST_TEXT));
        }
        let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        let is_known = |part: &str| Self::KNOWN.contains(&part) || status(part).is_some();
        if let Some(part) = parts.iter().find(|part| !is_known(part)) {
            let known = Self::KNOWN.join(", ");
            return Err(format!(
                "{part:?} is not a condition of retries; write status codes, or some of {known}"
            ));
        }
        if parts.is_empty() {
            return Ok(self);
        }
        let codes: Arc<[u16]> = parts.iter().filter_map(|part| status(part)).collect();
        let mut names: Vec<&str> = parts.into_iter().filter(|part| status(part).is_none()).collect();
        if !codes.is_empty() && !names.contains(&Self::BY_CODE) {
            names.push(Self::BY_CODE);
        }
        Ok(Self { conditions: names.join(",").into(), codes, ..self })
    }
}

/// Parses an assigned status code of HTTP.
fn status(text: &str) -> Option<u16> {
    let code = text.parse().ok()?;
    let assigned = matches!(code,
        100..=103 | 200..=208 | 226 | 300..=305 | 307 | 308 | 400..=418 | 421..=426 | 428 | 429 | 431 | 451
        | 500..=508 | 510 | 511);
    assigned.then_some(code)
}

/// Form of the entries of an access log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize)]
pub enum LogEncoding {
    /// Lines of text.
    #[default]
    Text,
    /// Objects of JSON.
    Json,
}

/// Log of the requests and connections of sidecars.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct AccessLog {
    /// File on the machine of the proxy, such as `/dev/stdout`; empty for no log.
    pub file: Arc<str>,
    /// Form of an entry.
    pub encoding: LogEncoding,
    /// Text of a line, or an object of JSON whose values are texts of a line; the usual one if absent.
    pub format: Option<Arc<str>>,
}

impl AccessLog {
    /// Longest text of a file or a format.
    pub const MOST_TEXT: usize = 64 << 10;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_names_and_status_codes() {
        let cases: [(&str, &str, &[u16]); 5] = [
            ("", HttpRetries::CONDITIONS, &[]),
            (" , ", HttpRetries::CONDITIONS, &[]),
            ("5xx, reset", "5xx,reset", &[]),
            ("gateway-error,503, 429", "gateway-error,retriable-status-codes", &[503, 429]),
            ("retriable-status-codes,503", "retriable-status-codes", &[503]),
        ];
        for (text, conditions, codes) in cases {
            let retries = HttpRetries::default().on(text).unwrap();
            assert_eq!((&*retries.conditions, &*retries.codes), (conditions, codes), "{text:?}");
        }
    }

    #[test]
    fn text_that_is_no_condition_is_refused() {
        for text in ["5xx;reset", "a b", "503 reset", "5xxx,reset", "Reset", "503,599", &"a".repeat(1_025)] {
            assert!(HttpRetries::default().on(text).is_err(), "{text:?}");
        }
    }
}
