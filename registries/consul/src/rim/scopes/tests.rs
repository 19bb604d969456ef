//! A scope that ends: what must have been said before, and what becomes of questions that come later.

use std::collections::BTreeMap;

use tributary_model::{Evidence, Generation, Key, RegistryName};
use tributary_registry_api::{AskSender, ManualClock, Outlet, RegistryIo, Run, asks, inlet};

use super::super::discover::Discovered;
use super::*;
use crate::answer::Headers;
use crate::client::Client;
use crate::config::{Address, ConsulConfig, Select};
use crate::content::{Instances, Names};
use crate::map::keys;
use crate::modes::Answer;
use crate::wire;

/// Where `shop` stands among the scopes.
const SHOP: usize = 1;

/// A rim whose requests are never sent: the test answers them.
struct Ground {
    rim: Rim,
    out: Outlet,
    _asks: AskSender,
}

impl Ground {
    fn new() -> Self {
        let mut config = ConsulConfig::new(vec![Address::parse("http://127.0.0.1:1").unwrap()]).unwrap();
        config.discover.namespaces = true;
        let client = Client::new(&config, &config.addresses).unwrap();
        let run = Run { registry: RegistryName::new("consul").unwrap(), generation: Generation(1) };
        let (into, out) = inlet(run, Arc::new(ManualClock::default()), Arc::default());
        let (sender, asks) = asks();
        let rim = Rim::new(
            Arc::new(config),
            client,
            RegistryIo { out: into, asks, held: Arc::from([]) },
            Arc::default(),
            7,
        );
        Self { rim, out, _asks: sender }
    }
    /// The leader's list names these namespaces.
    fn list(&mut self, namespaces: &[&str]) {
        let mut below = Below { sure: true, ..Below::default() };
        let namespaces: Vec<String> = namespaces.iter().map(|name| (*name).to_owned()).collect();
        parts::below("dc1", "", &namespaces, &[], &mut below.parts);
        let dc1 = "dc1".to_owned();
        let found = Discovered { own: dc1.clone(), all: vec![dc1.clone()], below: vec![(dc1, Ok(below))] };
        self.rim.discovered(&found).unwrap();
    }
    /// What `shop` asks of this service, or of its names, is answered.
    fn answer(&mut self, service: Option<&str>, answer: Answer) {
        let mut begun = self.rim.places[SHOP].under_way.iter();
        let number = begun.find(|(_, begun)| begun.service.as_deref() == service).map(|(number, _)| *number);
        self.rim.replied(SHOP, number.unwrap(), Ok(answer));
    }
    fn is_followed(&self) -> bool {
        !self.rim.places[SHOP].retired
    }
    /// What was taken away since this was called last, and why.
    fn taken_away(&mut self) -> BTreeMap<Key, Evidence> {
        let said = self.out.take().into_iter().map(|said| said.value);
        let drops = said.filter_map(|delta| match delta {
            Delta::Drop(key, evidence) => Some((key, evidence)),
            _ => None,
        });
        drops.collect()
    }
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
async fn a_scope_ends_on_the_leaders_word_and_a_question_that_comes_later_is_answered() {
    let mut ground = Ground::new();
    ground.list(&["default", "shop"]);
    ground.answer(None, names(&["web"]));
    ground.answer(Some("web"), web());
    let shop = &ground.rim.places[SHOP].area;
    let all = keys(shop, &Arc::from("web"), &ground.rim.config.mapping);
    let with = |evidence: &Evidence| all.iter().map(|key| (key.clone(), evidence.clone())).collect();
    ground.list(&["default"]);
    ground.list(&["default"]);
    assert_eq!(ground.taken_away(), BTreeMap::new(), "its names are still there");
    ground.answer(None, names(&[]));
    assert_eq!(ground.taken_away(), with(&Evidence::AbsentFromList));
    ground.list(&["default"]);
    assert!(ground.is_followed(), "any server may have said that it has no names");
    ground.answer(None, names(&[]));
    ground.list(&["default"]);
    assert!(!ground.is_followed(), "the leader has said so");
    all.iter().for_each(|key| ground.rim.asked(key));
    assert_eq!(ground.taken_away(), with(&Evidence::Confirmed));
}
