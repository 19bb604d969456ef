//! Values for the requests of sidecars and gRPC clients: `defaultHttpRetryPolicy`.

use serde_json::Value;
use tributary_model::HttpRetries;

use super::read::{Tree, duration, get};

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
