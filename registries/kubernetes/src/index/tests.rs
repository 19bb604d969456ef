//! The index as a whole: events in, deltas out.

use serde_json::json;
use tributary_model::*;

use super::*;
use crate::mk::*;

/// Each delta in a few words.
pub(crate) fn words(deltas: &[Delta]) -> Vec<String> {
    let object = |key: &Key| match &key.item {
        Item::Service(key) => key.object.to_string(),
        Item::Group(key) => key.object.to_string(),
        Item::Workload(key) => format!("Workload {}", key.name),
        other => format!("{other:?}"),
    };
    let word = |delta: &Delta| match delta {
        Delta::Put(scope, fact, _) => {
            format!("put {}", object(&Key { scope: scope.clone(), item: fact.item() }))
        }
        Delta::Drop(key, evidence) => {
            let why = match evidence {
                Evidence::Deleted(by) => format!("deleted {by}"),
                Evidence::Changed(by) => format!("changed {by}"),
                other => format!("{other:?}"),
            };
            format!("drop {}: {why}", object(key))
        }
        Delta::Problem(object, problem) => match problem {
            Some(problem) => format!("problem {object}: {} {}", problem.code, problem.message),
            None => format!("good {object}"),
        },
        Delta::Synced(collection, _) => format!("synced {:?}", collection.kind),
        Delta::Restart(collection) => format!("restart {:?}", collection.kind),
        Delta::Progress(collection) => format!("progress {:?}", collection.kind),
        Delta::Required(list) => format!("required {}", list.len()),
        Delta::Status(..) => "status".to_owned(),
        Delta::LeftOut(_, list) => format!("left out {}", list.len()),
    };
    deltas.iter().map(word).collect()
}
fn said(index: &mut Index) -> Vec<String> {
    let mut words = words(&index.flush());
    words.retain(|word| !word.starts_with("progress"));
    words
}

#[test]
fn a_service_is_said_once_all_that_it_joins_has_listed() {
    let mut index = Index::new(mk_options());
    assert_eq!(said(&mut index)[0], "required 5");
    index.apply(Input::Put(mk_service("pay", json!({}))));
    index.apply(Input::Listed(Feed::all(Kind::Service)));
    assert!(said(&mut index).is_empty(), "its namespace may yet say something");
    let others = mk_options().feeds().into_iter();
    for feed in others.filter(|feed| matches!(feed.kind, Kind::Namespace | Kind::MeshConfig)) {
        index.apply(Input::Listed(feed));
    }
    assert_eq!(said(&mut index), ["put Service shop/pay", "synced Services", "synced Settings"]);
    assert!(said(&mut index).is_empty());
}
