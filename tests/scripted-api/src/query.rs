//! Parsed requests.

use std::collections::BTreeMap;

use axum::http::{Method, Uri};
use serde_json::Value;

use crate::fault::Verb;

/// Request that the server received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Type of the request.
    pub verb: Verb,
    /// Path without the query.
    pub path: String,
    /// Query parameters.
    pub query: BTreeMap<String, String>,
}

impl ReceivedRequest {
    pub(crate) fn read(method: &Method, uri: &Uri) -> Self {
        let query: BTreeMap<String, String> = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), decoded(value)))
            .collect();
        let verb = match *method {
            Method::GET if query.get("watch").is_some_and(|on| on == "true") => Verb::Watch,
            Method::GET if query.get("limit").is_some_and(|limit| limit == "1") => Verb::Probe,
            Method::GET => Verb::Get,
            _ => Verb::Write,
        };
        Self { verb, path: uri.path().to_owned(), query }
    }
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.query.get(name)?.parse().ok()
    }
    /// Whether the request selects this object name.
    pub(crate) fn selects(&self, name: &str) -> bool {
        let selected =
            self.query.get("fieldSelector").and_then(|selector| selector.strip_prefix("metadata.name="));
        selected.is_none_or(|selected| selected == name)
    }
    /// Whether the request selects an object with these labels. Only terms of the form `KEY=VALUE` count.
    pub(crate) fn selects_labels(&self, object: &Value) -> bool {
        let terms = self.query.get("labelSelector").map_or("", String::as_str).split(',');
        let mut equal = terms.filter_map(|term| term.split_once('=')).filter(|(key, _)| !key.ends_with('!'));
        equal.all(|(key, value)| object["metadata"]["labels"][key] == *value)
    }
    pub(crate) fn is_streamed_list(&self) -> bool {
        self.query.get("sendInitialEvents").is_some_and(|on| on == "true")
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let hex: Vec<u8> = rest.by_ref().take(2).collect();
            bytes.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}
