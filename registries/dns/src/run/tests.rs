//! The loop on a paused clock, with scripted answers.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tributary_model::{Fact, ObjectId, ObjectRef, Scope};
use tributary_registry_api::{ProcessClock, SplitMix};

use super::*;
use crate::answer::Family;

/// Answers by name; a name that it does not have makes the lookup panic.
struct Scripted(watch::Receiver<BTreeMap<String, Answer>>);

#[async_trait]
impl Lookup for Scripted {
    async fn lookup(&self, name: &str) -> Answer {
        let answer = self.0.borrow().get(name).cloned();
        answer.expect("a scripted answer")
    }
}

fn mk_answer(ip: &str) -> Answer {
    let v4 = Family::Has(vec![ip.parse().unwrap()]);
    Answer { v4, v6: Family::Empty("none".into()), ttl: None }
}

/// Waits for the next value of a name.
async fn next(updates: &mut mpsc::Receiver<RegistryUpdate>) -> String {
    loop {
        if let RegistryUpdate::Put(_, Fact::GatewayName(name, value), _) = updates.recv().await.unwrap() {
            let failure = value.failure.as_ref().map(|failure| failure.reason.to_string());
            return format!("{name} {:?} {}", value.addresses, failure.unwrap_or_default());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_followed_and_a_lookup_that_panics_is_a_failure() {
    let answers = [("gw.test".to_owned(), mk_answer("192.0.2.1"))];
    let (script, scripted) = watch::channel(BTreeMap::from(answers));
    let (want, wanted) = watch::channel(Wanted::default());
    let (sender, mut updates) = mpsc::channel(64);
    let names = Names::new(Scope::new("gateways").unwrap(), Box::new(SplitMix::seeded(1)));
    let report = move |all: Vec<RegistryUpdate>| {
        all.into_iter().for_each(|update| sender.try_send(update).unwrap());
    };
    let clock: Arc<dyn Clock> = Arc::new(ProcessClock::starting_now());
    let task = tokio::spawn(run(names, wanted, (Arc::new(Scripted(scripted)), clock), report));
    let object = ObjectRef::new(ObjectId::new("Service", "mesh", "a"));
    want.send_replace(Wanted { names: [("gw.test".into(), [object].into())].into(), complete: true });
    assert_eq!(next(&mut updates).await, "gw.test [192.0.2.1] ");
    script.send_replace([("gw.test".to_owned(), mk_answer("192.0.2.2"))].into());
    assert_eq!(next(&mut updates).await, "gw.test [192.0.2.2] ");
    script.send_replace(BTreeMap::new());
    assert_eq!(next(&mut updates).await, "gw.test [192.0.2.2] the lookup failed inside the server");
    script.send_replace([("gw.test".to_owned(), mk_answer("192.0.2.2"))].into());
    assert_eq!(next(&mut updates).await, "gw.test [192.0.2.2] ");
    drop(want);
    task.await.unwrap();
}
