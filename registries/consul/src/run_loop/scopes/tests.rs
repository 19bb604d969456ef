//! Scopes that are held, withheld and ended, update by update.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    Collection, Completeness, Evidence, FactKey, Generation, RegistryName, Scope, Withheld, WithheldCause,
};
use tributary_registry_api::{
    ConfirmSender, ManualClock, Reason, RegistryIo, Run, UpdateReceiver, confirm_channel, update_channel,
};

use super::super::discover::Discovered;
use super::*;
use crate::answer::{Headers, RequestFailure};
use crate::client::Client;
use crate::config::{Address, ConsulConfig, Datacenters, Discover, Select};
use crate::content::{Instances, Names};
use crate::machine::Answer;
use crate::map::keys;
use crate::wire;

/// Run loop whose requests are never sent: the test answers them.
struct Fixture {
    run_loop: RunLoop,
    out: UpdateReceiver,
    _asks: ConfirmSender,
}

impl Fixture {
    /// Discovers namespaces, beside the held scopes.
    fn new(held: &[&str]) -> Self {
        let mut config = mk_config();
        config.discover.namespaces = true;
        Self::over(config, held)
    }
    fn over(config: ConsulConfig, held: &[&str]) -> Self {
        let client = Client::new(&config, &config.addresses).unwrap();
        let run = Run { registry: RegistryName::new("consul").unwrap(), generation: Generation(1) };
        let (into, out) = update_channel(run, Arc::new(ManualClock::default()), Arc::default());
        let (sender, confirms) = confirm_channel();
        let held = held.iter().map(|scope| mk_scope(scope)).collect();
        let run_loop = RunLoop::new(Arc::new(config), client, RegistryIo { out: into, confirms, held }, 7);
        run_loop.announce();
        Self { run_loop, out, _asks: sender }
    }
    /// Reports the scopes of the agent's datacenter.
    fn found(&mut self, all: &[&str], below: Vec<(String, Result<Below, Fault>)>) {
        let all = all.iter().map(|name| (*name).to_owned()).collect();
        self.run_loop.discovered(&Discovered { own: "dc1".to_owned(), all, below }).unwrap();
    }
    /// Reports the leader's list with these namespaces.
    fn list(&mut self, namespaces: &[&str]) {
        let mut below = Below { sure: true, ..Below::default() };
        let namespaces: Vec<String> = namespaces.iter().map(|name| (*name).to_owned()).collect();
        parts::below("dc1", "", &namespaces, &[], &mut below.parts);
        self.found(&["dc1"], vec![("dc1".to_owned(), Ok(below))]);
    }
    fn at(&self, scope: &str) -> usize {
        self.run_loop.by_scope[&mk_scope(scope)]
    }
    /// Answers a scope's request for this service, or for its names.
    fn reply(&mut self, scope: &str, service: Option<&str>, reply: Result<Answer, Fault>) {
        let at = self.at(scope);
        let mut begun = self.run_loop.runs[&at].under_way.iter();
        let number = begun.find(|(_, begun)| begun.service.as_deref() == service).map(|(number, _)| *number);
        self.run_loop.replied(at, number.unwrap(), reply);
    }
    fn answer(&mut self, scope: &str, service: Option<&str>, answer: Answer) {
        self.reply(scope, service, Ok(answer));
    }
    fn fail(&mut self, scope: &str, failure: RequestFailure) {
        self.reply(scope, None, Err(mk_fault(failure)));
        self.run_loop.tick().unwrap();
    }
    /// Answers that a scope has no services.
    fn lists_none(&mut self, scope: &str) {
        self.answer(scope, None, names(&[]));
        self.run_loop.tick().unwrap();
    }
    fn follows(&self, scope: &str) -> bool {
        self.run_loop.by_scope.contains_key(&mk_scope(scope))
    }
    /// Returns the updates since the last call.
    fn take(&mut self) -> Vec<RegistryUpdate> {
        self.out.take().into_iter().map(|updates| updates.value).collect()
    }
    /// Returns the removals since the last call, with their evidence.
    fn taken_away(&mut self) -> BTreeMap<FactKey, Evidence> {
        let drops = self.take().into_iter().filter_map(|update| match update {
            RegistryUpdate::Remove(key, evidence) => Some((key, evidence)),
            _ => None,
        });
        drops.collect()
    }
}

fn mk_config() -> ConsulConfig {
    ConsulConfig::new(vec![Address::parse("http://127.0.0.1:1").unwrap()]).unwrap()
}

fn mk_scope(scope: &str) -> Scope {
    Scope::new(scope).unwrap()
}

fn mk_fault(failure: RequestFailure) -> Fault {
    Fault { failure, reason: Reason::new("500 No path to datacenter") }
}

/// Returns the scope of an update; `None` if it concerns the whole registry.
fn scope_of(update: &RegistryUpdate) -> Option<&Scope> {
    match update {
        RegistryUpdate::Follows { .. } | RegistryUpdate::Identity(_) => None,
        RegistryUpdate::ListStarted(c)
        | RegistryUpdate::ListEnded(c, _)
        | RegistryUpdate::Progress(c)
        | RegistryUpdate::Withheld(c, _) => Some(&c.scope),
        RegistryUpdate::Remove(key, _) => Some(&key.scope),
        RegistryUpdate::End(scope, _)
        | RegistryUpdate::Put(scope, ..)
        | RegistryUpdate::Problem(scope, ..)
        | RegistryUpdate::Status(scope, _)
        | RegistryUpdate::Excluded(scope, _) => Some(scope),
    }
}

/// Returns the required and the optional scopes of the last `Follows`.
fn followed(updates: &[RegistryUpdate]) -> (BTreeSet<String>, BTreeSet<String>) {
    let of = |all: &[Collection]| all.iter().map(|collection| collection.scope.to_string()).collect();
    let last = updates.iter().rev().find_map(|update| match update {
        RegistryUpdate::Follows { required, optional } => Some((of(required), of(optional))),
        _ => None,
    });
    last.unwrap()
}

fn set(scopes: &[&str]) -> BTreeSet<String> {
    scopes.iter().map(|scope| (*scope).to_owned()).collect()
}

fn withheld(updates: &[RegistryUpdate]) -> Vec<(String, Withheld)> {
    let of = |update: &RegistryUpdate| match update {
        RegistryUpdate::Withheld(collection, withheld) => {
            Some((collection.scope.to_string(), withheld.clone()))
        }
        _ => None,
    };
    let mut all: Vec<_> = updates.iter().filter_map(of).collect();
    all.dedup();
    all
}

fn headers() -> Headers {
    Headers { index: Some(5), known_leader: Some(true), ..Headers::default() }
}

fn names(names: &[&str]) -> Answer {
    let listed = names.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
    Answer::Names(headers(), Some(Names::new(listed, &Select::default())))
}

fn web() -> Answer {
    let body = br#"[{"Node": {"Node": "n", "Address": "10.0.0.1"},
        "Service": {"ID": "web", "Service": "web", "Port": 80}, "Checks": []}]"#;
    let entries = wire::health(Some("application/json"), body).unwrap();
    Answer::Service(headers(), Some(Instances::new(entries, false, &Select::default())))
}

#[tokio::test]
async fn confirmed_scope_end_is_final_until_it_is_listed_again() {
    let mut fixture = Fixture::new(&[]);
    fixture.list(&["default", "shop"]);
    let shop = "dc1//shop";
    fixture.answer(shop, None, names(&["web"]));
    fixture.answer(shop, Some("web"), web());
    let area = &fixture.run_loop.runs[&fixture.at(shop)].area;
    let all = keys(area, &Arc::from("web"), &fixture.run_loop.config.mapping);
    let with = |evidence: &Evidence| all.iter().map(|key| (key.clone(), evidence.clone())).collect();
    fixture.list(&["default"]);
    fixture.list(&["default"]);
    assert_eq!(fixture.taken_away(), BTreeMap::new(), "its names are still there");
    fixture.answer(shop, None, names(&[]));
    assert_eq!(fixture.taken_away(), with(&Evidence::AbsentFromList));
    fixture.list(&["default"]);
    assert!(fixture.follows(shop), "any server may have updates that it has no names");
    fixture.answer(shop, None, names(&[]));
    let number = *fixture.run_loop.runs[&fixture.at(shop)].under_way.keys().next().unwrap();
    let at = fixture.at(shop);
    fixture.take();
    fixture.list(&["default"]);
    let updates = fixture.take();
    let end = updates
        .iter()
        .position(|update| matches!(update, RegistryUpdate::End(scope, _) if scope.as_str() == shop));
    let (_, after) = updates.split_at(end.expect("the leader has updates so") + 1);
    assert!(
        after.iter().all(|update| scope_of(update).is_none_or(|scope| scope.as_str() != shop)),
        "{after:?}"
    );
    assert_eq!(followed(after), (set(&["(datacenters)", "(dc1)", "dc1//default"]), set(&[])));

    all.iter().for_each(|key| fixture.run_loop.confirm_requested(key));
    fixture.run_loop.replied(at, number, Ok(names(&["web"])));
    fixture.run_loop.token_read(Ok(true));
    fixture.run_loop.status_at = Instant::now();
    fixture.run_loop.tick().unwrap();
    let updates = fixture.take();
    assert!(
        updates.iter().all(|update| scope_of(update).is_none_or(|scope| scope.as_str() != shop)),
        "{updates:?}"
    );

    fixture.list(&["default", "shop"]);
    let updates = fixture.take();
    assert!(followed(&updates).0.contains(shop));
    let first = updates.iter().find(|update| scope_of(update).is_some_and(|scope| scope.as_str() == shop));
    assert!(matches!(first, Some(RegistryUpdate::ListStarted(_))), "{first:?}");
}

#[tokio::test]
async fn ended_scopes_leave_no_state() {
    let mut fixture = Fixture::new(&[]);
    for round in 0..50 {
        let name = format!("n{round}");
        fixture.list(&["default", &name]);
        let scope = format!("dc1//{name}");
        fixture.answer(&scope, None, names(&[]));
        fixture.list(&["default"]);
        fixture.list(&["default"]);
        fixture.answer(&scope, None, names(&[]));
        fixture.list(&["default"]);
        assert!(!fixture.follows(&scope));
    }
    assert_eq!(
        (fixture.run_loop.runs.len(), fixture.run_loop.by_scope.len(), fixture.run_loop.held.len()),
        (1, 1, 0)
    );
}

#[tokio::test]
async fn ended_scope_has_no_problem() {
    let mut fixture = Fixture::new(&[]);
    fixture.list(&["default", "shop"]);
    let shop = "dc1//shop";
    fixture.answer(shop, None, names(&["web"]));
    fixture.reply(shop, Some("web"), Err(mk_fault(RequestFailure::Broken)));
    fixture.answer(shop, None, names(&[]));
    fixture.list(&["default"]);
    fixture.list(&["default"]);
    fixture.answer(shop, None, names(&[]));
    let run = &fixture.run_loop.runs[&fixture.at(shop)];
    assert!(run.has_no_problem());
    fixture.list(&["default"]);
    assert!(!fixture.follows(shop));
    let updates = fixture.take();
    let open = updates.iter().filter(|update| matches!(update, RegistryUpdate::Problem(_, _, Some(_))));
    assert_eq!(open.count(), 0, "the end is all that is left of the scope: {updates:?}");
}

#[tokio::test]
async fn held_scopes_are_followed_whatever_is_listed() {
    let mut fixture = Fixture::new(&["dc1//shop", "dc2//far", "dc1@east", "(dc1)", "dc2/"]);
    let held = ["dc1//shop", "dc2//far", "dc1@east"];
    assert_eq!(followed(&fixture.take()), (set(&["(datacenters)"]), set(&held)));
    fixture.list(&["default"]);
    let updates = fixture.take();
    assert_eq!(followed(&updates), (set(&["(datacenters)", "(dc1)", "dc1//default"]), set(&held)));
    for scope in held {
        let begins = |update: &RegistryUpdate| matches!(update, RegistryUpdate::ListStarted(c) if c.scope.as_str() == scope);
        assert!(fixture.follows(scope) && updates.iter().any(begins), "{scope}");
        fixture.answer(scope, None, names(&[]));
    }
    fixture.run_loop.tick().unwrap();
    let shown = fixture.take();
    for (scope, unlisted) in [("dc1//shop", true), ("dc1//default", false)] {
        let reason = shown.iter().rev().find_map(|update| match update {
            RegistryUpdate::Status(of, status) if of.as_str() == scope => Some(status.reason.to_string()),
            _ => None,
        });
        assert_eq!(reason.unwrap().starts_with("not listed"), unlisted, "{scope}");
    }
    fixture.list(&["default", "shop"]);
    assert!(followed(&fixture.take()).0.contains("dc1//shop"), "it is listed again");
}

#[tokio::test]
async fn held_scopes_removed_from_configuration_are_not_followed() {
    let mut config = mk_config();
    config.datacenters = Datacenters::Listed(vec!["dc1".into()]);
    let mut fixture = Fixture::over(config, &["dc1", "dc2"]);
    fixture.found(&["dc1", "dc2"], Vec::new());
    assert_eq!(followed(&fixture.take()), (set(&["dc1"]), set(&[])));
}

#[tokio::test]
async fn unreadable_scope_is_withheld_while_another_is_readable() {
    let cases = [
        (RequestFailure::Auth, 1, WithheldCause::Forbidden),
        (RequestFailure::Config, 1, WithheldCause::Failing),
        (RequestFailure::Transient, 3, WithheldCause::Failing),
    ];
    for (failure, times, cause) in cases {
        let mut config = mk_config();
        config.datacenters = Datacenters::All;
        config.timing.pause_first = Duration::ZERO;
        let mut fixture = Fixture::over(config, &[]);
        fixture.found(&["dc1", "dc2"], Vec::new());
        for _ in 0..times {
            assert_eq!(withheld(&fixture.take()), [], "{failure:?}: nothing can be read");
            fixture.fail("dc2", failure);
        }
        assert_eq!(withheld(&fixture.take()), [], "{failure:?}: nothing can be read");
        fixture.lists_none("dc1");
        let updates = fixture.take();
        let want = Withheld { cause, why: "500 No path to datacenter".into() };
        assert_eq!(withheld(&updates), [("dc2".to_owned(), want)], "{failure:?}");
        fixture.run_loop.tick().unwrap();
        assert_eq!(withheld(&fixture.take()), [], "{failure:?}: once is enough");
    }
}

#[tokio::test]
async fn withheld_scope_lists_when_readable_again() {
    let mut config = mk_config();
    config.datacenters = Datacenters::All;
    (config.timing.pause_auth, config.timing.pause_first) = (Duration::ZERO, Duration::ZERO);
    let mut fixture = Fixture::over(config, &[]);
    fixture.found(&["dc1", "dc2"], Vec::new());
    fixture.lists_none("dc1");
    fixture.fail("dc2", RequestFailure::Auth);
    assert_eq!(withheld(&fixture.take()).len(), 1);
    fixture.lists_none("dc2");
    let synced = |update: &RegistryUpdate| matches!(update, RegistryUpdate::ListEnded(c, Completeness::Complete) if c.scope.as_str() == "dc2");
    assert!(fixture.take().iter().any(synced));
}

#[tokio::test]
async fn unreadable_lists_are_withheld_while_a_held_scope_is_read() {
    let mut config = mk_config();
    config.discover = Discover { namespaces: true, ..Discover::default() };
    let mut fixture = Fixture::over(config, &["dc1//shop"]);
    fixture.found(&["dc1"], vec![("dc1".to_owned(), Err(mk_fault(RequestFailure::Auth)))]);
    let updates = fixture.take();
    assert_eq!((withheld(&updates), followed(&updates).0.contains("(dc1)")), (vec![], true));
    fixture.lists_none("dc1//shop");
    let updates = withheld(&fixture.take());
    assert_eq!(
        (updates.len(), updates[0].0.as_str(), updates[0].1.cause),
        (1, "(dc1)", WithheldCause::Forbidden)
    );
    fixture.list(&["default", "shop"]);
    fixture.found(&["dc1"], vec![("dc1".to_owned(), Err(mk_fault(RequestFailure::Transient)))]);
    fixture.run_loop.tick().unwrap();
    assert_eq!(withheld(&fixture.take()).len(), 1, "it could be had in between");
}
