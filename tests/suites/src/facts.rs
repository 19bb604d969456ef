//! Facts of a client's configuration: the content of one client's resources, as sorted lines of text, so that the
//! answers of two servers for the same objects can be compared. The suite `sidecar_facts` compares Tributary with the
//! facts recorded from a pilot-discovery; both come from this code.
//!
//! A key is a path: the resource, then a part of it, then an attribute of the part. A part's value describes
//! it; attributes that a resource does not have are absent.

mod clusters;
mod collect;
mod compact;
pub mod compare;
mod listeners;
mod logs;
mod policy;
mod routes;
mod world;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use envoy_types::pb::google::protobuf::Duration;

pub use collect::collect;
pub use world::{Mode, World, WorldClient};

/// Facts of one client: path and value.
pub type Facts = BTreeMap<String, String>;

/// Facts of all clients of a world.
pub type Recorded = BTreeMap<String, Facts>;

/// Formats the facts of a world, with a first line that names their origin.
pub fn format(origin: &str, recorded: &Recorded) -> String {
    let mut out = format!("# {origin}\n");
    for (client, facts) in recorded {
        out.push_str(&format!("\n[{client}]\n"));
        for (key, value) in facts {
            out.push_str(&format!("{key} = {value}\n"));
        }
    }
    out
}

/// Parses what [`format`] writes.
pub fn parse(text: &str) -> Result<Recorded> {
    let mut out = Recorded::new();
    let mut client = None;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            client = Some(out.entry(name.to_owned()).or_default());
            continue;
        }
        let (key, value) = line.split_once(" = ").with_context(|| format!("no value in {line:?}"))?;
        let facts = client.as_deref_mut().with_context(|| format!("no client before {line:?}"))?;
        facts.insert(key.to_owned(), value.to_owned());
    }
    Ok(out)
}

/// Adds a fact; a further one with the same key gets a number.
fn put(facts: &mut Facts, key: String, value: impl Into<String>) -> String {
    let mut unique = key.clone();
    let mut number = 2;
    while facts.contains_key(&unique) {
        unique = format!("{key}#{number}");
        number += 1;
    }
    facts.insert(unique.clone(), value.into());
    unique
}

/// Adds an attribute that is not empty.
fn attribute(facts: &mut Facts, of: &str, name: &str, value: String) {
    if !value.is_empty() {
        facts.insert(format!("{of} {name}"), value);
    }
}

fn seconds(duration: Duration) -> String {
    let seconds = duration.seconds as f64 + f64::from(duration.nanos) / 1e9;
    format!("{seconds}s")
}

/// Returns the last part of a dotted name.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_facts_parse_to_the_same() {
        let facts = Facts::from([
            ("cds a".to_owned(), "EDS".to_owned()),
            ("rds 80 host a".to_owned(), "*".to_owned()),
        ]);
        let recorded = Recorded::from([("shop".to_owned(), facts), ("web".to_owned(), Facts::new())]);
        assert_eq!(parse(&format("a server 1.0", &recorded)).unwrap(), recorded);
    }

    #[test]
    fn line_without_a_client_or_value_is_an_error() {
        assert!(parse("cds a = EDS").is_err());
        assert!(parse("[shop]\ncds a").is_err());
    }

    #[test]
    fn equal_keys_are_counted() {
        let mut facts = Facts::new();
        for _ in 0..3 {
            put(&mut facts, "lds a chain any".to_owned(), "tcp x");
        }
        assert_eq!(facts.keys().last().unwrap(), "lds a chain any#3");
    }
}
