//! Values for the requests of sidecars and gRPC clients: `defaultHttpRetryPolicy` and the access log.

use std::sync::Arc;

use serde_json::Value;
use tributary_model::{AccessLog, HttpRetries, LogEncoding};

use super::tree::{Tree, duration, get};

/// Supported fields of `defaultHttpRetryPolicy`.
pub(super) const RETRY_FIELDS: [&str; 6] =
    ["attempts", "perTryTimeout", "retryOn", "retryRemoteLocalities", "retryIgnorePreviousHosts", "backoff"];

/// Parses a retry policy. Without attempts, or with none, nothing is retried.
pub(super) fn retries(tree: &Tree) -> Result<HttpRetries, String> {
    let usual = HttpRetries::default();
    let about = |name: &'static str| move |why: String| format!("{name} {why}");
    let text = get(tree, "retryOn").map_or(Some(""), Value::as_str);
    let wait = |name| get(tree, name).map(|value| duration(value).map_err(about(name))).transpose();
    let parsed = HttpRetries {
        attempts: get(tree, "attempts").map_or(Ok(0), attempts)?,
        per_try_timeout: wait("perTryTimeout")?,
        backoff: wait("backoff")?,
        remote_localities: flag(tree, "retryRemoteLocalities")?.unwrap_or(usual.remote_localities),
        other_hosts: flag(tree, "retryIgnorePreviousHosts")?.unwrap_or(usual.other_hosts),
        ..usual
    };
    parsed.on(text.ok_or("retryOn is not text")?).map_err(about("retryOn"))
}

fn attempts(value: &Value) -> Result<u32, String> {
    let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
    let number = number.ok_or_else(|| format!("attempts {value} is not a whole number"))?;
    Ok(u32::try_from(number).unwrap_or(0))
}

fn flag(tree: &Tree, name: &str) -> Result<Option<bool>, String> {
    let read = |value: &Value| value.as_bool().ok_or_else(|| format!("{name} is neither true nor false"));
    get(tree, name).map(read).transpose()
}

/// Parses the file or the format of the access log; an empty one is absent.
pub(super) fn log_text(value: &Value) -> Result<Option<Arc<str>>, String> {
    let text = value.as_str().ok_or("is not text")?;
    if text.len() > AccessLog::MOST_TEXT {
        return Err(format!("is longer than {} bytes", AccessLog::MOST_TEXT));
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

/// Parses `accessLogEncoding`.
pub(super) fn log_encoding(value: &Value) -> Result<LogEncoding, String> {
    match value.as_str() {
        Some("TEXT") => Ok(LogEncoding::Text),
        Some("JSON") => Ok(LogEncoding::Json),
        _ => Err(format!("{value} is not one of TEXT, JSON")),
    }
}

/// Checks that the format of objects is one.
pub(super) fn check_format(log: Option<&AccessLog>) -> Result<(), String> {
    let format = log.filter(|log| log.encoding == LogEncoding::Json).and_then(|log| log.format.as_deref());
    let is_object = |text: &str| serde_json::from_str::<Tree>(text).is_ok();
    if format.is_none_or(is_object) {
        Ok(())
    } else {
        Err("is not a JSON object, as accessLogEncoding JSON needs".into())
    }
}
