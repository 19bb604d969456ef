//! Removes secrets from texts that leave the machine.
//!
//! Documents of the server hold none in fields of their own; texts of clients (NACK), of sources (errors) and values that an operator wrote
//! into a configuration may. What looks like a credential is replaced: tokens in JWT form, values of fields and headers that are named
//! after one, PEM blocks of keys, and users in URLs. In JSON, what a header or a tag with such a name is compared with or set to is replaced
//! too. `bug-report` passes everything through it.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// What stands in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Names of secrets in texts and documents, as a regular expression. Names of files and kinds end otherwise.
const SECRETS: &str = r"[a-z0-9_-]*(?:token|password|passwd|secret|api[_-]?key|(?:access|secret|private|signing|encryption|account|shared)[_-]?key)(?:[_-]?(?:id|value|v?[0-9]+))?";
/// Names of headers, tags and labels alone that are secrets, as their last part. A label has a URL without its punctuation, so the name decides
/// there.
const OF_HEADERS: &str = "authorization|(?:set-)?cookie|pass|pw|pwd|passphrase|credentials?|(?:basic)?auth|session(?:[_-]?id)?|[cx]srf|sig|signature|pin|otp|dsn|connection[_-]?string|(?:db|database|redis|mongo|amqp)[_-]?ur[il]";

/// Patterns, in order: each with the group that stays before the secret.
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let field = format!(
        r#"(?i)((?:\b|[_-])(?:{SECRETS}|authorization|basicauth\.users|(?:client-)?key-data|client-certificate-data)\\?["']?\s*[:=]\s*\\?["']?(?:bearer |basic )?)[^\s"',;&<>)}}\]\\]{{4,}}"#
    );
    let header = format!(
        r#"(?i)(\[\\?"(?:[^"\\\]]*[_.-])?(?:{OF_HEADERS}|{SECRETS})\\?"\](?:\.[a-z]+)? \\?")(?:[^"\\]|\\[^"])+"#
    );
    let refused =
        format!(r#"(?i)(value of (?:[^"\\\s]*[_./-])?(?:{OF_HEADERS}|{SECRETS}) \\?")(?:[^"\\]|\\[^"])+"#);
    let texts = [
        // a block of a private key, whole or cut; JSON escapes line ends
        r"()-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
        // a field, a header or an argument that is named after a secret, with its value
        field.as_str(),
        // the value of such a header in a message about it
        header.as_str(),
        // that of a label that is refused
        refused.as_str(),
        // the path of a webhook, also as a label has it
        r"(?i)(hooks\.slack\.com[/-]services[/-])[\w/-]+",
        r"(?i)(\b(?:bearer|basic) )[a-z0-9._~+/=-]{8,}",
        // a JSON Web Token
        r"()\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?",
        // tokens of hosts of code and of clouds
        r"()\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16})",
        // a user in a URL, or in the address of a database
        r#"()[^\s/:=@"'\\]+:[^\s@"'\\]+@(?:tcp|unix)\("#,
        r#"([a-z][a-z0-9+.-]*://)[^\s/@"'\\]+@"#,
        // base64 of a kubeconfig: `apiVersion:`, `clusters:`, `kind:`, or of PEM
        r"()\b(?:YXBpVmVyc2lvbj|Y2x1c3RlcnM6|a2luZDog|LS0tLS1CRUdJTi)[A-Za-z0-9+/=]*",
    ];
    texts.iter().filter_map(|text| Regex::new(text).ok()).collect()
});

/// Names of fields, headers, tags and labels whose values are secrets.
static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let names = format!(r"(?i)(?:^|[\[_.-])(?:{OF_HEADERS}|{SECRETS})\]?$");
    Regex::new(&names).ok()
});
/// Fields with the text that a header is compared with, or that a tag is set to.
const TEXTS: [&str; 4] = ["exact", "prefix", "regex", "value"];
/// Fields of tags, whose values are secrets whatever the name of the tag is.
const OF_TAGS: [&str; 2] = ["literal", "defaultValue"];
/// Fields with the texts that a condition compares a header with.
const OF_CONDITIONS: [&str; 2] = ["values", "notValues"];

/// Returns a JSON document without what looks like a secret; any other text as [`redacted`] does.
#[must_use]
pub fn redacted_document(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(mut document) => {
            redact(&mut document, false);
            redacted(&document.to_string())
        }
        Err(_) => redacted(text),
    }
}

/// Redacts below a value. `named` if the field that has the value is named after a secret.
fn redact(value: &mut Value, named: bool) {
    match value {
        Value::Object(fields) => {
            // a condition on a header: `key: request.headers[x-token]`, with `values`
            let of_header = fields.get("key").and_then(Value::as_str).is_some_and(is_secret);
            for (name, value) in fields {
                let is_text = |of: &[&str]| of.contains(&name.as_str());
                let is_value = of_header && is_text(&OF_CONDITIONS);
                let is_secret = is_secret(name) || named && is_text(&TEXTS) || is_text(&OF_TAGS) || is_value;
                redact(value, is_secret);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, named)),
        Value::String(text) if named && !text.is_empty() => REDACTED.clone_into(text),
        _ => {}
    }
}

/// Whether a field, a header or a label is named after a secret.
fn is_secret(name: &str) -> bool {
    NAMES.as_ref().is_some_and(|names| names.is_match(name))
}

/// Returns the text without what looks like a secret.
#[must_use]
pub fn redacted(text: &str) -> String {
    PATTERNS.iter().fold(text.to_owned(), |text, pattern| {
        let replace = |found: &Captures<'_>| {
            // the server has replaced it already
            if found[0].ends_with(REDACTED.trim_end_matches(']')) {
                return found[0].to_owned();
            }
            let stays = found.get(1).map_or("", |group| group.as_str());
            let at = if stays.ends_with("://") { "@" } else { "" };
            format!("{stays}{REDACTED}{at}")
        };
        pattern.replace_all(&text, replace).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!((PATTERNS.len(), NAMES.is_some()), (11, true));
    }

    #[test]
    fn secrets_in_texts_are_replaced() {
        let secrets = [
            r#""nack": "rejected: token: s3cr3t-hunter2""#,
            r#"{"accessToken":"s3cr3t-hunter2"}"#,
            r#"{\"password\":\"s3cr3t-hunter2\"}"#,
            "X-Consul-Token: s3cr3t-hunter2",
            "authorization: Bearer s3cr3t-hunter2",
            "got Basic czNjcjN0LWh1bnRlcjI= from s3cr3t-hunter2x".trim_end_matches(" from s3cr3t-hunter2x"),
            "https://ada:s3cr3t-hunter2@consul.test:8501/v1",
            "?token=s3cr3t-hunter2&dc=dc1",
            "-----BEGIN EC PRIVATE KEY-----\\ns3cr3t-hunter2\\n-----END EC PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\ns3cr3t-hunter2 and it is cut",
            "client-key-data: czNjcjN0LWh1bnRlcjI=",
            "Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzM2NyM3QifQ.c2ln",
            "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzM2NyM3QifQ.c2ln",
            "YXBpVmVyc2lvbjogdjEKa2luZDogQ29uZmln",
            "tag aws_secret_access_key=s3cr3t-hunter2",
            "client_secret_v2: s3cr3t-hunter2",
            "traefik.http.middlewares.a.basicauth.users=ada:s3cr3t-hunter2",
            r#""message": "value of password \"s3cr3t bad!\" is not valid""#,
            "https---hooks.slack.com-services-s3cr3t-B0",
            "got ghp_s3cr3ts3cr3ts3cr3ts3cr3t",
            "ada:s3cr3t-hunter2@tcp(db.test:3306)/pay",
            r#"spec.http[0].match[0].headers["authorization"].regex "(s3cr3t\d" is not an expression"#,
            r#"{"message": "headers[\"x-session-id\"].regex \"(s3cr3t\\d\" is not an expression"}"#,
        ];
        for text in secrets {
            let shown = redacted(text);
            assert!(shown.contains(REDACTED), "{text}: {shown}");
            for secret in ["s3cr3t", "czNjcjN0", "eyJ", "YXBp", "ada:"] {
                assert!(!shown.contains(secret), "{text}: {shown}");
            }
        }
    }

    #[test]
    fn texts_of_headers_tags_and_labels_with_secrets_are_replaced() {
        let document = serde_json::json!({
            "match": [{"headers": {
                "cookie": {"exact": "session=s3cr3t"}, "Authorization": {"regex": "s3cr3t.*"}, "x-api-key": {"prefix": "s3cr3t"},
                "token": {"exact": "s3cr3t"}, "x-canary": {"exact": "always"},
            }}],
            "headers": {"request": {"set": {"cookie": "a=s3cr3t", "x-user-token": "s3cr3t", "x-canary": "yes"}}},
            "customTags": {"pw": {"literal": "s3cr3t"}, "stage": {"literal": "s3cr3t"}, "user": {"header": {"name": "x-user", "defaultValue": "s3cr3t"}}},
            "labels": {
                "db_url": "postgres---u-s3cr3t-h-x", "app": "pay", "my.pwd": "s3cr3t", "auth": "s3cr3t", "x-token-value": "s3cr3t",
                "secretAccessKey": "s3cr3t", "AWS_ACCESS_KEY_ID": "s3cr3t", "private_key": "s3cr3t", "client_secret_v2": "s3cr3t",
            },
            "when": [
                {"key": "request.headers[x-token]", "values": ["s3cr3t"], "notValues": ["s3cr3t"]},
                {"key": "request.headers[x-canary]", "values": ["always"]},
            ],
            "list": {"set-cookie": ["s3cr3t"]}, "tokens": {"audiences": ["mesh"]}, "secret": {"name": "east"},
            "tokenFile": "/var/run/token", "password": REDACTED, "compass": "north", "accessToken": ["s3cr3t"],
        });
        let shown = redacted_document(&document.to_string());
        assert!(!shown.contains("s3cr3t") && !shown.contains("]]\""), "{shown}");
        let shown: Value = serde_json::from_str(&shown).unwrap();
        for (pointer, stays) in [
            ("/match/0/headers/x-canary/exact", "always"),
            ("/headers/request/set/x-canary", "yes"),
            ("/customTags/user/header/name", "x-user"),
            ("/labels/app", "pay"),
            ("/when/1/values/0", "always"),
            ("/tokens/audiences/0", "mesh"),
            ("/secret/name", "east"),
            ("/tokenFile", "/var/run/token"),
            ("/password", REDACTED),
            ("/compass", "north"),
        ] {
            assert_eq!(shown.pointer(pointer).and_then(Value::as_str), Some(stays), "{pointer}");
        }
        assert_eq!(redacted_document("{cut: token: s3cr3t-1"), "{cut: token: [redacted]");
    }

    #[test]
    fn other_texts_stay() {
        let texts = [
            r#""tokenFile": "/var/run/token""#,
            r#""identity": "9f3c0a1e-2222-4444-8888-0123456789ab""#,
            "Secret mesh/east: users[0].user.token (line 3) is missing",
            r#""secrets": "auto""#,
            "https://10.0.0.1:6443/api",
            "outbound|80||pay.shop.svc.cluster.local",
            r#""kind": "Secret", "name": "east""#,
            "remove the user and the password, because sidecars fetch keys without them",
            r#"headers["x-canary"].regex "(a" is not an expression"#,
        ];
        for text in texts {
            assert_eq!(redacted(text), text);
        }
    }
}
