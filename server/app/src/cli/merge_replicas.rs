//! Merges the answers of replicas to one request into one document.
//!
//! `server` calls it. An item that all replicas show is in the document once; one that only some show, or show in another
//! form, has their names in `replicas`. Ages and times of reading do not make items different. Replicas that did not answer are in
//! `metadata.silent`, and the document is then partial. Order: that of the first replica, then items of the others.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::http::of_server;
use super::replicas::ReplicaAnswer;
use crate::document::is_age;
use crate::exit::{CommandError, Exit};
use tributary_model::Code;

/// Merges answers. A name that some replicas do not know is no failure of theirs: a client, for example, is connected to one.
pub(super) fn documents(path: &str, answers: Vec<ReplicaAnswer>) -> Result<Bytes, CommandError> {
    let (mut documents, mut unknown, mut silent) = (Vec::new(), Vec::new(), Vec::new());
    for ReplicaAnswer { replica, body } in answers {
        match body {
            Ok(body) => documents.push((replica, body)),
            Err(failure) if matches!(failure.exit, Exit::NotFound | Exit::Usage) => {
                unknown.push((replica, failure));
            }
            Err(failure) => silent.push((replica, failure)),
        }
    }
    if documents.is_empty() {
        return Err(without_document(unknown, silent));
    }
    let lists: Vec<(String, Value)> = documents
        .into_iter()
        .map(|(replica, body)| list(path, &replica, &body).map(|list| (replica, list)))
        .collect::<Result<_, CommandError>>()?;
    let silent = silent.iter().map(|(replica, failure)| format!("{replica}: {}", failure.message)).collect();
    let merged = merge(lists, silent).to_string();
    Ok(merged.into())
}

/// Returns the error of an answer without any document. What a silent replica has is not known.
fn without_document(
    unknown: Vec<(String, CommandError)>,
    silent: Vec<(String, CommandError)>,
) -> CommandError {
    let is_partial = !unknown.is_empty();
    let error = silent.into_iter().map(|(replica, failure)| match is_partial {
        true => CommandError {
            exit: Exit::Partial,
            message: format!(
                "no answer of replica {replica}, and the others do not have it: {}",
                failure.message
            ),
            ..failure
        },
        false => of_server(failure, &replica),
    });
    let first = error.chain(refused(unknown)).next();
    first.unwrap_or_else(|| CommandError::plain("no replica was found"))
}

/// Returns the refusal of all replicas: that of each, if they differ.
fn refused(unknown: Vec<(String, CommandError)>) -> Option<CommandError> {
    let (_, first) = unknown.first()?.clone();
    if unknown.iter().all(|(_, failure)| failure.message == first.message) {
        return Some(first);
    }
    let each = unknown.iter().map(|(replica, failure)| format!("{replica}: {}", failure.message));
    Some(CommandError { message: each.collect::<Vec<_>>().join("; "), ..first })
}

/// Parses a list; a document of another shape describes one server alone.
fn list(path: &str, replica: &str, body: &[u8]) -> Result<Value, CommandError> {
    let document: Value = serde_json::from_slice(body)
        .map_err(|e| CommandError::plain(format!("cannot read the answer of a replica: {e}")))?;
    if document.get("items").is_some_and(Value::is_array) {
        return Ok(document);
    }
    let message = format!("{path} describes one server, and several replicas answered");
    Err(CommandError::new(Exit::Usage, Code::FLAG_INVALID, message)
        .next(format!("name one of them with --server, such as {replica}")))
}

fn merge(lists: Vec<(String, Value)>, silent: Vec<String>) -> Value {
    let count = lists.len();
    let mut items: Vec<Merged> = Vec::new();
    let mut out: Option<Map<String, Value>> = None;
    for (replica, list) in lists {
        let Value::Object(mut list) = list else { continue };
        let Some(Value::Array(own)) = list.remove("items") else { continue };
        take(&mut items, own, &replica);
        match &mut out {
            None => out = Some(list),
            Some(first) => {
                let metadata = first.entry("metadata").or_insert_with(|| json!({}));
                combine(metadata, list.remove("metadata").unwrap_or_default());
            }
        }
    }
    let mut out = out.unwrap_or_default();
    if let (Some(Value::Object(metadata)), false) = (out.get_mut("metadata"), silent.is_empty()) {
        metadata.insert("partial".to_owned(), true.into());
        metadata.insert("silent".to_owned(), silent.into());
    }
    if out.get("kind").is_some_and(|kind| kind == "Timeline") {
        // entries of replicas follow each other in time
        items.sort_by(|a, b| a.item["at"].as_str().cmp(&b.item["at"].as_str()));
    }
    if let Some(Value::Object(metadata)) = out.get_mut("metadata") {
        count_all(metadata, items.len());
    }
    out.insert("items".to_owned(), items.into_iter().map(|item| item.value(count)).collect());
    Value::Object(out)
}

/// Sets the number of matching items of all replicas. That of whole lists is the number of merged items; of pages it is not known which
/// of the others are equal, so the largest number is a lower bound.
fn count_all(metadata: &mut Map<String, Value>, merged: usize) {
    let is_whole = metadata.get("remaining").and_then(Value::as_u64).unwrap_or_default() == 0;
    match metadata.remove("total") {
        Some(_) if is_whole => drop(metadata.insert("total".to_owned(), merged.into())),
        Some(most) => drop(metadata.insert("totalAtLeast".to_owned(), most)),
        None => {}
    }
}

/// Item with the replicas that show it.
struct Merged {
    item: Value,
    steady: Value,
    replicas: Vec<String>,
}

impl Merged {
    fn value(self, count: usize) -> Value {
        let Self { mut item, replicas, .. } = self;
        if let (Value::Object(fields), true) = (&mut item, replicas.len() < count) {
            fields.insert("replicas".to_owned(), replicas.into());
        }
        item
    }
}

/// Returns an item without what each replica has of its own: ages, times of reading, numbers of runs, and where it keeps a file.
fn comparable(item: &Value) -> Value {
    const OWN: [&str; 6] = ["asOf", "confirmedAt", "since", "generation", "nextGeneration", "position"];
    match item {
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| !is_age(name) && !OWN.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), comparable(value))).collect())
        }
        Value::Array(items) => items.iter().map(comparable).collect(),
        other => other.clone(),
    }
}

/// Adds the items of a replica. An item of the list that this replica already has is not the same as another one of its own.
fn take(items: &mut Vec<Merged>, own: Vec<Value>, replica: &str) {
    let mut known: std::collections::HashMap<String, Vec<usize>> = std::collections::HashMap::new();
    for (at, item) in items.iter().enumerate().rev() {
        known.entry(item.steady.to_string()).or_default().push(at);
    }
    for item in own {
        let steady = comparable(&item);
        match known.get_mut(&steady.to_string()).and_then(Vec::pop).and_then(|at| items.get_mut(at)) {
            Some(same) => same.replicas.push(replica.to_owned()),
            None => items.push(Merged { item, steady, replicas: vec![replica.to_owned()] }),
        }
    }
}

/// Combines metadata: lists are united, the larger number counts, one partial list makes the whole partial.
fn combine(into: &mut Value, from: Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { return };
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (None, value) => drop(into.insert(name, value)),
            (Some(Value::Array(all)), Value::Array(more)) => {
                let new: Vec<Value> = more.into_iter().filter(|one| !all.contains(one)).collect();
                all.extend(new);
            }
            (Some(Value::Bool(is)), Value::Bool(other)) => *is |= other,
            (Some(Value::Number(number)), Value::Number(other)) if other.as_f64() > number.as_f64() => {
                *number = other
            }
            // generations of replicas count by themselves
            (Some(Value::String(text)), Value::String(other))
                if name == "resourceVersion" && *text != other =>
            {
                text.clear()
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(replica: &str, body: Value) -> ReplicaAnswer {
        ReplicaAnswer { replica: replica.to_owned(), body: Ok(body.to_string().into()) }
    }

    fn failed(replica: &str, exit: Exit) -> ReplicaAnswer {
        ReplicaAnswer {
            replica: replica.to_owned(),
            body: Err(CommandError { exit, ..CommandError::plain("why") }),
        }
    }

    fn list(replica: &str, version: &str, items: Value) -> Value {
        let metadata = json!({"observedFrom": [replica], "partial": false, "asOf": "t", "resourceVersion": version, "notes": ["n"]});
        json!({"apiVersion": "v", "kind": "ServiceList", "metadata": metadata, "items": items})
    }

    fn merged(answers: Vec<ReplicaAnswer>) -> Value {
        serde_json::from_slice(&documents("/debug/services", answers).unwrap()).unwrap()
    }

    #[test]
    fn equal_items_are_one_whatever_their_age() {
        let item = |host: &str, age: u64| json!({"host": host, "confirmedMillisAgo": age});
        let all = merged(vec![
            answer("t-0", list("t-0", "7", json!([item("a", 1), item("b", 1)]))),
            answer("t-1", list("t-1", "9", json!([item("b", 50), item("c", 50), item("a", 50)]))),
        ]);
        assert_eq!(
            all["items"],
            json!([item("a", 1), item("b", 1), {"host": "c", "confirmedMillisAgo": 50, "replicas": ["t-1"]}])
        );
        let metadata = &all["metadata"];
        assert_eq!(
            (&metadata["observedFrom"], &metadata["resourceVersion"]),
            (&json!(["t-0", "t-1"]), &json!(""))
        );
        assert_eq!(
            (&metadata["notes"], &metadata["partial"], &metadata["silent"]),
            (&json!(["n"]), &json!(false), &Value::Null)
        );
    }

    #[test]
    fn place_of_a_file_makes_no_difference() {
        let item = |position: &str| json!({"host": "a", "object": {"name": "pay", "position": position}});
        let all = merged(vec![
            answer("t-0", list("t-0", "1", json!([item("a/pay.yaml:1")]))),
            answer("t-1", list("t-1", "1", json!([item("b/pay.yaml:1")]))),
        ]);
        assert_eq!(all["items"], json!([item("a/pay.yaml:1")]));
    }

    #[test]
    fn refusals_that_differ_name_their_replicas() {
        let refused = |replica: &str, why: &str| ReplicaAnswer {
            replica: replica.to_owned(),
            body: Err(CommandError { exit: Exit::NotFound, ..CommandError::plain(why) }),
        };
        let failure = |second: &str| {
            documents("/debug/diff", vec![refused("t-0", "no client b"), refused("t-1", second)]).unwrap_err()
        };
        assert_eq!(failure("no client b").message, "no client b");
        let both = failure("no client a");
        assert_eq!(
            (both.message.as_str(), both.exit),
            ("t-0: no client b; t-1: no client a", Exit::NotFound)
        );
    }

    #[test]
    fn time_of_a_confirmation_makes_no_difference() {
        let item =
            |at: &str, by: &str| json!({"steps": [{"detail": format!("listed by {by}"), "confirmedAt": at}]});
        let of = |a: Value, b: Value| {
            let all = merged(vec![
                answer("t-0", list("t-0", "1", json!([a]))),
                answer("t-1", list("t-1", "1", json!([b]))),
            ]);
            all["items"].as_array().unwrap().len()
        };
        assert_eq!(of(item("10:00", "east"), item("10:01", "east")), 1);
        assert_eq!(of(item("10:00", "east"), item("10:00", "west")), 2);
    }

    #[test]
    fn total_is_computed_from_whole_lists_and_a_bound_otherwise() {
        let page = |names: &[&str], total: usize| {
            let items: Vec<Value> = names.iter().map(|name| json!({"id": name})).collect();
            let metadata = json!({"total": total, "remaining": total - names.len()});
            json!({"kind": "ServiceList", "metadata": metadata, "items": items})
        };
        let of = |a: Value, b: Value| {
            let all = merged(vec![answer("t-0", a), answer("t-1", b)]);
            (all["metadata"]["total"].clone(), all["metadata"]["totalAtLeast"].clone())
        };
        let whole = of(page(&["a", "b"], 2), page(&["b", "c"], 2));
        assert_eq!(whole, (json!(3), Value::Null), "three in all, and each replica has two");
        let cut = of(page(&["a"], 5), page(&["b", "c"], 2));
        assert_eq!(cut, (Value::Null, json!(5)), "which of the others are equal is not known");
    }

    #[test]
    fn items_that_differ_name_their_replicas() {
        let all = merged(vec![
            answer("t-0", list("t-0", "1", json!([{"name": "east", "state": "Live"}]))),
            answer("t-1", list("t-1", "1", json!([{"name": "east", "state": "Stale"}]))),
        ]);
        let states: Vec<_> =
            all["items"].as_array().unwrap().iter().map(|i| (&i["state"], &i["replicas"])).collect();
        assert_eq!(states, [(&json!("Live"), &json!(["t-0"])), (&json!("Stale"), &json!(["t-1"]))]);
    }

    #[test]
    fn equal_items_of_one_replica_stay_apart() {
        let twice = json!([{"id": "a"}, {"id": "a"}]);
        let all = merged(vec![
            answer("t-0", list("t-0", "1", twice.clone())),
            answer("t-1", list("t-1", "1", twice.clone())),
        ]);
        assert_eq!(all["items"], twice);
    }

    #[test]
    fn silent_replica_makes_the_answer_partial() {
        let only = list("t-0", "1", json!([{"id": "a"}]));
        let all = merged(vec![answer("t-0", only.clone()), failed("t-1", Exit::TimedOut)]);
        assert_eq!(
            (&all["metadata"]["partial"], &all["metadata"]["silent"]),
            (&json!(true), &json!(["t-1: why"]))
        );
        let known = merged(vec![failed("t-0", Exit::NotFound), answer("t-1", only)]);
        assert_eq!(known["metadata"]["partial"], false, "a client is connected to one replica");
    }

    #[test]
    fn answer_without_any_document_is_the_failure_of_a_silent_replica() {
        let exit = |answers| documents("/debug/explain", answers).unwrap_err().exit;
        assert_eq!(exit(vec![failed("t-0", Exit::NotFound), failed("t-1", Exit::NotFound)]), Exit::NotFound);
        assert_eq!(
            exit(vec![failed("t-0", Exit::NotFound), failed("t-1", Exit::TimedOut)]),
            Exit::Partial,
            "the silent one may have it"
        );
        assert_eq!(exit(vec![failed("t-0", Exit::TimedOut), failed("t-1", Exit::Failed)]), Exit::TimedOut);
    }

    #[test]
    fn document_of_one_server_is_refused_for_several() {
        let state = json!({"kind": "State"});
        let failure =
            documents("/debug/state", vec![answer("a", state.clone()), answer("b", state)]).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
    }
}
