//! `get -w`: redraws the table when something changes, or writes a JSON line for each change.
//!
//! The server delays its answer until the catalog is past the last seen generation, so a change arrives
//! without polling. Clients and registries change without a new generation and are polled every second. The
//! watch retries while the server is unreachable.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::get::{name, parse, path, query, render};
use super::{Console, Server};
use crate::args::{GetArgs, Output, Resource};
use crate::document::{List, is_age};
use crate::exit::{CommandError, Exit};

/// How long the server may delay an answer.
const HELD: Duration = Duration::from_secs(25);
/// Poll interval of lists without a generation.
const PERIOD: Duration = Duration::from_secs(1);
/// Shortest time between two requests, whatever the rate of change.
const PACE: Duration = Duration::from_millis(50);

/// Watches until the caller drops the future or stdout closes.
pub async fn run(args: &GetArgs, server: &Server, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let mut follower = Follower::new(args);
    loop {
        let asked = tokio::time::Instant::now();
        match follower.ask(server).await {
            Ok(list) => {
                let text = follower.take(&list, console)?;
                match args.output {
                    _ if text.is_empty() => {}
                    Output::Json | Output::Yaml => console.data(&text)?,
                    Output::Table | Output::Wide | Output::Name => console.redraw(&text)?,
                }
            }
            Err(failure) if follower.seen.is_none() => return Err(failure),
            Err(failure) => {
                console.note(&format!("{}; trying again", failure.message));
                follower.seen = Some(String::new());
                tokio::time::sleep(PERIOD).await;
            }
        }
        tokio::time::sleep_until(asked + follower.pause).await;
    }
}

/// Last seen state.
struct Follower<'a> {
    args: &'a GetArgs,
    /// Last seen generation; empty to request at once.
    seen: Option<String>,
    drawn: String,
    /// Items of the last list without their ages.
    steady: Vec<Value>,
    items: BTreeMap<String, Value>,
    pause: Duration,
}

impl<'a> Follower<'a> {
    fn new(args: &'a GetArgs) -> Self {
        Self {
            args,
            seen: None,
            drawn: String::new(),
            steady: Vec::new(),
            items: BTreeMap::new(),
            pause: PACE,
        }
    }
    async fn ask(&mut self, server: &Server) -> Result<List<Value>, CommandError> {
        let by_generation = !matches!(
            self.args.what,
            Resource::Clients
                | Resource::Registries
                | Resource::Clusters
                | Resource::Resources
                | Resource::Routes
                | Resource::Timeline
        );
        let after = self.seen.clone().filter(|seen| by_generation && !seen.is_empty());
        let mut query = query(self.args);
        if by_generation {
            query.push(("after", after.as_deref()));
        }
        let body = server.get_held(HELD, &path(self.args.what), &query).await?;
        let list: List<Value> = parse(&body)?;
        let same = self.seen.as_deref() == Some(list.metadata.resource_version.as_str());
        self.pause = if same || !by_generation { PERIOD } else { PACE };
        self.seen = Some(list.metadata.resource_version.clone());
        Ok(list)
    }
    /// Returns the text to write.
    fn take(&mut self, list: &List<Value>, console: &Console<'_>) -> Result<String, CommandError> {
        match self.args.output {
            Output::Json | Output::Yaml => Ok(self.changes(list)),
            Output::Table | Output::Wide | Output::Name => self.draw(list, console),
        }
    }
    fn draw(&mut self, list: &List<Value>, console: &Console<'_>) -> Result<String, CommandError> {
        let text = render(self.args, list, console.color)?;
        let steady: Vec<Value> = list.items.iter().map(steady).collect();
        // only a terminal is redrawn for an age
        let is_same = !console.terminal && !self.drawn.is_empty() && steady == self.steady;
        self.steady = steady;
        if is_same || text == self.drawn {
            return Ok(String::new());
        }
        self.drawn.clone_from(&text);
        Ok(text)
    }
    /// Returns a line for each added, modified or deleted item.
    fn changes(&mut self, list: &List<Value>) -> String {
        let mut now = BTreeMap::new();
        for item in &list.items {
            now.insert(key(self.args.what, item), item.clone());
        }
        let mut out = String::new();
        let mut line = |kind: &str, item: &Value| {
            out.push_str(&json!({"type": kind, "object": item}).to_string());
            out.push('\n');
        };
        for (key, item) in &now {
            match self.items.get(key) {
                None => line("ADDED", item),
                Some(before) if steady(before) != steady(item) => line("MODIFIED", item),
                Some(_) => {}
            }
        }
        for (_, item) in self.items.iter().filter(|(key, _)| !now.contains_key(*key)) {
            line("DELETED", item);
        }
        self.items = now;
        out
    }
}

/// Returns the key of an item, which is unique even among items of one name.
fn key(what: Resource, item: &Value) -> String {
    let fields: &[&str] = match what {
        Resource::Services
        | Resource::Registries
        | Resource::Clusters
        | Resource::Merges
        | Resource::Resources
        | Resource::Policies
        | Resource::Overview
        | Resource::Timeline
        | Resource::Map => &[],
        Resource::Gateways => &["cluster"],
        Resource::Routes => &["match"],
        Resource::Endpoints => &["namespace", "host", "port", "registry", "scope", "source"],
        Resource::Clients => &["connection"],
    };
    let more = fields.iter().map(|field| match item.get(field) {
        Some(Value::Object(object)) => ["kind", "namespace", "name"]
            .iter()
            .filter_map(|part| object.get(*part)?.as_str())
            .collect::<Vec<_>>()
            .join("/"),
        Some(value) => value.to_string(),
        None => String::new(),
    });
    std::iter::once(name(what, item)).chain(more).collect::<Vec<_>>().join(" ")
}

/// Returns the item without its ages, which change all the time.
fn steady(item: &Value) -> Value {
    match item {
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| !is_age(name));
            Value::Object(kept.map(|(name, value)| (name.clone(), steady(value))).collect())
        }
        Value::Array(items) => items.iter().map(steady).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Metadata;

    fn mk_args(args: &[&str]) -> GetArgs {
        use clap::Parser as _;
        let all = ["tributary", "get"].iter().chain(args).copied();
        match crate::args::Cli::try_parse_from(all).unwrap().command {
            crate::args::Command::Get(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn mk_list(items: Vec<Value>) -> List<Value> {
        List::new("ClientList", items, Metadata::default(), usize::MAX)
    }

    #[test]
    fn json_watch_writes_each_change_once() {
        let args = mk_args(&["clients", "-w", "-o", "json"]);
        let mut follower = Follower::new(&args);
        let client =
            |id: &str, millis: u64, kind: &str| json!({"id": id, "connectedMillis": millis, "kind": kind});
        let first = follower.changes(&mk_list(vec![client("a", 1, "envoy"), client("b", 1, "envoy")]));
        assert_eq!(first.matches("ADDED").count(), 2);
        let aged = follower.changes(&mk_list(vec![client("a", 9, "envoy"), client("b", 9, "envoy")]));
        assert_eq!(aged, "", "an age alone is not a change");
        let second = follower.changes(&mk_list(vec![client("a", 10, "grpc")]));
        let types: Vec<Value> =
            second.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
        assert_eq!(types, ["MODIFIED", "DELETED"]);
    }
}
