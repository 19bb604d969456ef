//! Scopes that are held, withheld and end, update by update.

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
use crate::map::keys;
use crate::modes::Answer;
use crate::wire;

/// A rim whose requests are never sent: the test answers them.
struct Ground {
    rim: RunLoop,
    out: UpdateReceiver,
    _asks: ConfirmSender,
}

impl Ground {
    /// Finds its namespaces, beside what is held.
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
        let rim = RunLoop::new(Arc::new(config), client, RegistryIo { out: into, confirms, held }, 7);
        rim.announce();
        Self { rim, out, _asks: sender }
    }
    /// What the agent's datacenter has below it.
    fn found(&mut self, all: &[&str], below: Vec<(String, Result<Below, Fault>)>) {
        let all = all.iter().map(|name| (*name).to_owned()).collect();
        self.rim.discovered(&Discovered { own: "dc1".to_owned(), all, below }).unwrap();
    }
    /// The leader's list names these namespaces.
    fn list(&mut self, namespaces: &[&str]) {
        let mut below = Below { sure: true, ..Below::default() };
        let namespaces: Vec<String> = namespaces.iter().map(|name| (*name).to_owned()).collect();
        parts::below("dc1", "", &namespaces, &[], &mut below.parts);
        self.found(&["dc1"], vec![("dc1".to_owned(), Ok(below))]);
    }
    fn at(&self, scope: &str) -> usize {
        self.rim.by_scope[&mk_scope(scope)]
    }
    /// What a scope asks of this service, or of its names, is answered.
    fn reply(&mut self, scope: &str, service: Option<&str>, reply: Result<Answer, Fault>) {
        let at = self.at(scope);
        let mut begun = self.rim.places[&at].under_way.iter();
        let number = begun.find(|(_, begun)| begun.service.as_deref() == service).map(|(number, _)| *number);
        self.rim.replied(at, number.unwrap(), reply);
    }
    fn answer(&mut self, scope: &str, service: Option<&str>, answer: Answer) {
        self.reply(scope, service, Ok(answer));
    }
    fn fail(&mut self, scope: &str, failure: RequestFailure) {
        self.reply(scope, None, Err(mk_fault(failure)));
        self.rim.tick().unwrap();
    }
    /// A scope has no services.
    fn lists_none(&mut self, scope: &str) {
        self.answer(scope, None, names(&[]));
        self.rim.tick().unwrap();
    }
    fn follows(&self, scope: &str) -> bool {
        self.rim.by_scope.contains_key(&mk_scope(scope))
    }
    /// What was reported since this was called last.
    fn take(&mut self) -> Vec<RegistryUpdate> {
        self.out.take().into_iter().map(|said| said.value).collect()
    }
    /// What was taken away since then, and why.
    fn taken_away(&mut self) -> BTreeMap<FactKey, Evidence> {
        let drops = self.take().into_iter().filter_map(|delta| match delta {
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

/// The scope that an update is about; `None` for what is about the whole registry.
fn scope_of(delta: &RegistryUpdate) -> Option<&Scope> {
    match delta {
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

/// The scopes that the last `Follows` requires, and those that it does not.
fn followed(deltas: &[RegistryUpdate]) -> (BTreeSet<String>, BTreeSet<String>) {
    let of = |all: &[Collection]| all.iter().map(|collection| collection.scope.to_string()).collect();
    let last = deltas.iter().rev().find_map(|delta| match delta {
        RegistryUpdate::Follows { required, optional } => Some((of(required), of(optional))),
        _ => None,
    });
    last.unwrap()
}

fn set(scopes: &[&str]) -> BTreeSet<String> {
    scopes.iter().map(|scope| (*scope).to_owned()).collect()
}

fn withheld(deltas: &[RegistryUpdate]) -> Vec<(String, Withheld)> {
    let of = |delta: &RegistryUpdate| match delta {
        RegistryUpdate::Withheld(collection, withheld) => {
            Some((collection.scope.to_string(), withheld.clone()))
        }
        _ => None,
    };
    let mut all: Vec<_> = deltas.iter().filter_map(of).collect();
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
async fn a_scope_ends_on_the_leaders_word_and_nothing_follows_until_it_begins_again() {
    let mut ground = Ground::new(&[]);
    ground.list(&["default", "shop"]);
    let shop = "dc1//shop";
    ground.answer(shop, None, names(&["web"]));
    ground.answer(shop, Some("web"), web());
    let area = &ground.rim.places[&ground.at(shop)].area;
    let all = keys(area, &Arc::from("web"), &ground.rim.config.mapping);
    let with = |evidence: &Evidence| all.iter().map(|key| (key.clone(), evidence.clone())).collect();
    ground.list(&["default"]);
    ground.list(&["default"]);
    assert_eq!(ground.taken_away(), BTreeMap::new(), "its names are still there");
    ground.answer(shop, None, names(&[]));
    assert_eq!(ground.taken_away(), with(&Evidence::AbsentFromList));
    ground.list(&["default"]);
    assert!(ground.follows(shop), "any server may have said that it has no names");
    ground.answer(shop, None, names(&[]));
    let number = *ground.rim.places[&ground.at(shop)].under_way.keys().next().unwrap();
    let at = ground.at(shop);
    ground.take();
    ground.list(&["default"]);
    let said = ground.take();
    let end = said
        .iter()
        .position(|delta| matches!(delta, RegistryUpdate::End(scope, _) if scope.as_str() == shop));
    let (_, after) = said.split_at(end.expect("the leader has said so") + 1);
    assert!(
        after.iter().all(|delta| scope_of(delta).is_none_or(|scope| scope.as_str() != shop)),
        "{after:?}"
    );
    assert_eq!(followed(after), (set(&["(datacenters)", "(dc1)", "dc1//default"]), set(&[])));

    all.iter().for_each(|key| ground.rim.asked(key));
    ground.rim.replied(at, number, Ok(names(&["web"])));
    ground.rim.token_looked(Ok(true));
    ground.rim.status_at = Instant::now();
    ground.rim.tick().unwrap();
    let said = ground.take();
    assert!(said.iter().all(|delta| scope_of(delta).is_none_or(|scope| scope.as_str() != shop)), "{said:?}");

    ground.list(&["default", "shop"]);
    let said = ground.take();
    assert!(followed(&said).0.contains(shop));
    let first = said.iter().find(|delta| scope_of(delta).is_some_and(|scope| scope.as_str() == shop));
    assert!(matches!(first, Some(RegistryUpdate::ListStarted(_))), "{first:?}");
}

#[tokio::test]
async fn scopes_that_end_leave_nothing_behind() {
    let mut ground = Ground::new(&[]);
    for round in 0..50 {
        let name = format!("n{round}");
        ground.list(&["default", &name]);
        let scope = format!("dc1//{name}");
        ground.answer(&scope, None, names(&[]));
        ground.list(&["default"]);
        ground.list(&["default"]);
        ground.answer(&scope, None, names(&[]));
        ground.list(&["default"]);
        assert!(!ground.follows(&scope));
    }
    assert_eq!((ground.rim.places.len(), ground.rim.by_scope.len(), ground.rim.held.len()), (1, 1, 0));
}

#[tokio::test]
async fn an_ended_scope_has_no_problem_left() {
    let mut ground = Ground::new(&[]);
    ground.list(&["default", "shop"]);
    let shop = "dc1//shop";
    ground.answer(shop, None, names(&["web"]));
    ground.reply(shop, Some("web"), Err(mk_fault(RequestFailure::Broken)));
    ground.answer(shop, None, names(&[]));
    ground.list(&["default"]);
    ground.list(&["default"]);
    ground.answer(shop, None, names(&[]));
    let place = &ground.rim.places[&ground.at(shop)];
    assert!(place.has_no_problem());
    ground.list(&["default"]);
    assert!(!ground.follows(shop));
    let said = ground.take();
    let open = said.iter().filter(|delta| matches!(delta, RegistryUpdate::Problem(_, _, Some(_))));
    assert_eq!(open.count(), 0, "the end is all that is left of the scope: {said:?}");
}

#[tokio::test]
async fn held_scopes_are_followed_whatever_is_listed() {
    let mut ground = Ground::new(&["dc1//shop", "dc2//far", "dc1@east", "(dc1)", "dc2/"]);
    let held = ["dc1//shop", "dc2//far", "dc1@east"];
    assert_eq!(followed(&ground.take()), (set(&["(datacenters)"]), set(&held)));
    ground.list(&["default"]);
    let said = ground.take();
    assert_eq!(followed(&said), (set(&["(datacenters)", "(dc1)", "dc1//default"]), set(&held)));
    for scope in held {
        let begins = |delta: &RegistryUpdate| matches!(delta, RegistryUpdate::ListStarted(c) if c.scope.as_str() == scope);
        assert!(ground.follows(scope) && said.iter().any(begins), "{scope}");
        ground.answer(scope, None, names(&[]));
    }
    ground.rim.tick().unwrap();
    let shown = ground.take();
    for (scope, unlisted) in [("dc1//shop", true), ("dc1//default", false)] {
        let reason = shown.iter().rev().find_map(|delta| match delta {
            RegistryUpdate::Status(of, status) if of.as_str() == scope => Some(status.reason.to_string()),
            _ => None,
        });
        assert_eq!(reason.unwrap().starts_with("not listed"), unlisted, "{scope}");
    }
    ground.list(&["default", "shop"]);
    assert!(followed(&ground.take()).0.contains("dc1//shop"), "it is listed again");
}

#[tokio::test]
async fn held_scopes_that_were_configured_away_are_not_followed() {
    let mut config = mk_config();
    config.datacenters = Datacenters::Listed(vec!["dc1".into()]);
    let mut ground = Ground::over(config, &["dc1", "dc2"]);
    ground.found(&["dc1", "dc2"], Vec::new());
    assert_eq!(followed(&ground.take()), (set(&["dc1"]), set(&[])));
}

#[tokio::test]
async fn a_scope_that_cannot_be_read_is_withheld_while_another_can() {
    let cases = [
        (RequestFailure::Auth, 1, WithheldCause::Forbidden),
        (RequestFailure::Config, 1, WithheldCause::Failing),
        (RequestFailure::Transient, 3, WithheldCause::Failing),
    ];
    for (failure, times, cause) in cases {
        let mut config = mk_config();
        config.datacenters = Datacenters::All;
        config.timing.pause_first = Duration::ZERO;
        let mut ground = Ground::over(config, &[]);
        ground.found(&["dc1", "dc2"], Vec::new());
        for _ in 0..times {
            assert_eq!(withheld(&ground.take()), [], "{failure:?}: nothing can be read");
            ground.fail("dc2", failure);
        }
        assert_eq!(withheld(&ground.take()), [], "{failure:?}: nothing can be read");
        ground.lists_none("dc1");
        let said = ground.take();
        let want = Withheld { cause, why: "500 No path to datacenter".into() };
        assert_eq!(withheld(&said), [("dc2".to_owned(), want)], "{failure:?}");
        ground.rim.tick().unwrap();
        assert_eq!(withheld(&ground.take()), [], "{failure:?}: once is enough");
    }
}

#[tokio::test]
async fn a_withheld_scope_lists_when_it_can_be_read_again() {
    let mut config = mk_config();
    config.datacenters = Datacenters::All;
    (config.timing.pause_auth, config.timing.pause_first) = (Duration::ZERO, Duration::ZERO);
    let mut ground = Ground::over(config, &[]);
    ground.found(&["dc1", "dc2"], Vec::new());
    ground.lists_none("dc1");
    ground.fail("dc2", RequestFailure::Auth);
    assert_eq!(withheld(&ground.take()).len(), 1);
    ground.lists_none("dc2");
    let synced = |delta: &RegistryUpdate| matches!(delta, RegistryUpdate::ListEnded(c, Completeness::Complete) if c.scope.as_str() == "dc2");
    assert!(ground.take().iter().any(synced));
}

#[tokio::test]
async fn lists_of_scopes_that_cannot_be_had_are_withheld_while_a_held_scope_can_be_read() {
    let mut config = mk_config();
    config.discover = Discover { namespaces: true, ..Discover::default() };
    let mut ground = Ground::over(config, &["dc1//shop"]);
    ground.found(&["dc1"], vec![("dc1".to_owned(), Err(mk_fault(RequestFailure::Auth)))]);
    let said = ground.take();
    assert_eq!((withheld(&said), followed(&said).0.contains("(dc1)")), (vec![], true));
    ground.lists_none("dc1//shop");
    let said = withheld(&ground.take());
    assert_eq!((said.len(), said[0].0.as_str(), said[0].1.cause), (1, "(dc1)", WithheldCause::Forbidden));
    ground.list(&["default", "shop"]);
    ground.found(&["dc1"], vec![("dc1".to_owned(), Err(mk_fault(RequestFailure::Transient)))]);
    ground.rim.tick().unwrap();
    assert_eq!(withheld(&ground.take()).len(), 1, "it could be had in between");
}
