//! Conformance suite over the scripted Consul: two datacenters, or two namespaces of one, none of them the agent's
//! own, so that each service has one host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tributary_conformance::{Ability, Act, Harness, Script, Service, conformance_tests};
use tributary_consul::config::Datacenters;
use tributary_model::{Hostname, WithheldCause};
use tributary_registry_api::RegistryFactory;

use crate::fake::{Alteration, Fake, mk_entry};
use crate::stage::{for_each, mk_config, mk_factory, set_poll_budget};

/// Kind of parts, and how they are found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// Configured datacenters.
    Configured,
    /// Discovered datacenters.
    Listed,
    /// Discovered namespaces.
    Namespaces,
}

impl Parts {
    const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Namespaces => ["dc1//default", "dc1//shop"],
            Self::Configured | Self::Listed => ["dc1", "dc2"],
        }
    }
    const fn domains(self) -> [&'static str; 2] {
        match self {
            Self::Namespaces => ["service.dc1.dc", "service.shop.ns.dc1.dc"],
            Self::Configured | Self::Listed => ["service.dc1.dc", "service.dc2.dc"],
        }
    }
}

#[derive(Clone, Copy)]
struct ConsulHarness {
    /// Poll budget of a scope.
    polls: usize,
    parts: Parts,
}

/// Poll budget for all services of a test.
const ALL: usize = 100;

const fn configured(polls: usize) -> ConsulHarness {
    ConsulHarness { polls, parts: Parts::Configured }
}

#[async_trait]
impl Harness for ConsulHarness {
    async fn script(&self) -> Box<dyn Script> {
        let fake = Fake::start(&["dc0", "dc1", "dc2"]).await;
        if self.parts == Parts::Namespaces {
            fake.list("namespaces", &["default", "shop"]);
            self.parts.names().iter().for_each(|name| fake.add(name));
        }
        Box::new(ConsulScript { fake, harness: *self, narrowed: false, last: Mutex::default() })
    }
    fn declines(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::Shorten if self.parts == Parts::Configured => Some("datacenters are configured here"),
            Ability::End if self.parts != Parts::Namespaces => {
                Some("no answer of Consul proves that a datacenter is gone")
            }
            Ability::Narrow if self.parts != Parts::Configured => Some("all that is listed is followed here"),
            Ability::Swap => Some("a Consul has no identity that its interface shows"),
            _ => None,
        }
    }
    fn is_quick(&self) -> bool {
        false
    }
    fn patience(&self) -> Duration {
        Duration::from_millis(700)
    }
}

struct ConsulScript {
    fake: Fake,
    harness: ConsulHarness,
    /// Whether only part 0 is configured.
    narrowed: bool,
    /// Last entries of each service, to send them again.
    last: Mutex<BTreeMap<String, Vec<Value>>>,
}

/// Returns the part of a service; the prefix `far` means the second part.
fn part_of(service: &str) -> usize {
    usize::from(service.starts_with("far"))
}

#[async_trait]
impl Script for ConsulScript {
    fn factory(&self) -> Arc<dyn RegistryFactory> {
        let mut config = mk_config(&[&self.fake.url]);
        let listed =
            |names: &[&str]| Datacenters::Listed(names.iter().map(|name| (*name).to_owned()).collect());
        config.datacenters = match self.harness.parts {
            Parts::Listed => Datacenters::All,
            Parts::Namespaces => listed(&["dc1"]),
            Parts::Configured if self.narrowed => listed(&["dc1"]),
            Parts::Configured => listed(&["dc1", "dc2"]),
        };
        config.discover.namespaces = self.harness.parts == Parts::Namespaces;
        set_poll_budget(&mut config, self.harness.polls, 2);
        mk_factory(config)
    }
    fn host(&self, service: &str) -> Hostname {
        let domain = self.harness.parts.domains()[part_of(service)];
        Hostname::new(format!("{service}.{domain}.consul")).unwrap()
    }
    async fn set(&mut self, part: usize, service: &Service) {
        assert_eq!(part, part_of(&service.name), "the suite names its far services so");
        let parts = self.harness.parts.names();
        let ips = service.endpoints.iter();
        let mut entries: Vec<Value> = ips.map(|ip| mk_entry(&service.name, &ip.to_string())).collect();
        if entries.is_empty() {
            // Consul has no service without instances: an excluded one leaves none to serve
            let mut mirror = mk_entry(&service.name, "10.99.0.1");
            mirror["Service"]["Meta"] = json!({"external-source": "kubernetes"});
            entries.push(mirror);
        }
        self.last.lock().insert(service.name.clone(), entries.clone());
        self.fake.change(|state| {
            let path = format!("/v1/health/service/{}", service.name);
            state.rules.retain(|rule| !path.ends_with(rule.path));
        });
        self.fake.set(parts[part], &service.name, entries);
    }
    async fn delete(&mut self, service: &str) {
        self.last.lock().remove(service);
        let path = format!("/v1/health/service/{service}");
        self.fake.change(|state| state.rules.retain(|rule| !path.ends_with(rule.path)));
        for part in self.harness.parts.names() {
            if self.fake.state.lock().datacenters[part].services.contains_key(service) {
                self.fake.set(part, service, Vec::new());
            }
        }
    }
    async fn act(&mut self, act: Act) {
        let parts = self.harness.parts.names();
        match act {
            Act::Fail(part) => self.fake.change(|state| {
                let all = state.datacenters.keys().cloned().collect();
                let failing = part.map_or(all, |part| vec![parts[part].to_owned()]);
                for name in &failing {
                    state.datacenters.get_mut(name).unwrap().fails = Some((500, "No cluster leader"));
                }
            }),
            Act::Refuse(_, cause) => self.fake.change(|state| {
                let forbidden = cause == WithheldCause::Forbidden;
                let answer = if forbidden { (403, "Permission denied") } else { (500, "No cluster leader") };
                state.datacenters.get_mut(parts[1]).unwrap().fails = Some(answer);
            }),
            Act::Shorten if self.harness.parts == Parts::Namespaces => {
                let listed = Alteration::Body("application/json", br#"[{"Name": "default"}]"#.to_vec());
                self.fake.alter("/v1/namespaces", usize::MAX, listed);
            }
            Act::End => {
                self.fake.list("namespaces", &["default"]);
                self.fake.change(|state| drop(state.datacenters.remove(parts[1])));
            }
            Act::Narrow => self.narrowed = true,
            Act::Shorten => {
                let listed = Alteration::Body("application/json", br#"["dc0","dc1"]"#.to_vec());
                self.fake.alter("/v1/catalog/datacenters", usize::MAX, listed);
            }
            Act::Recover => self.fake.heal(),
            Act::Corrupt(name) => {
                let path: &'static str = Box::leak(format!("/v1/health/service/{name}").into_boxed_str());
                self.fake.alter(path, usize::MAX, Alteration::Body("application/json", b"[{}]".to_vec()));
                let entries = self.last.lock()[&name].clone();
                self.fake.set(parts[part_of(&name)], &name, entries);
            }
            Act::Relist => {
                let last = self.last.lock().clone();
                for (name, entries) in last {
                    self.fake.set(parts[part_of(&name)], &name, entries);
                }
            }
            Act::Tear(times) => {
                let rule = |_| self.fake.alter("/v1/catalog/services", times as usize, Alteration::Truncated);
                parts.iter().for_each(rule);
            }
            Act::LieEmpty => {
                let empty = || Alteration::Body("application/json", b"{}".to_vec());
                parts.iter().for_each(|_| self.fake.alter("/v1/catalog/services", 1, empty()));
            }
            Act::Duplicate => self.fake.change(|state| state.twice = true),
            Act::Reorder => self.fake.change(|state| state.shuffled = true),
            Act::Swap => panic!("{act:?} was declined"),
        }
    }
}

mod per_service {
    use super::*;
    conformance_tests!(real, configured(ALL));
}

mod notify_and_fetch {
    use super::*;
    conformance_tests!(real, configured(0));
}

mod discovering {
    use super::*;
    use tributary_conformance::{Scenario, conformance};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn unlisted_datacenter_is_followed() {
        let harness = ConsulHarness { polls: ALL, parts: Parts::Listed };
        conformance(Scenario::ShorterDiscovery, &harness).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn namespace_that_ended_is_freed() {
        for_each([ALL, 0], |polls| async move {
            let harness = ConsulHarness { polls, parts: Parts::Namespaces };
            conformance(Scenario::ScopeEnded, &harness).await;
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn unlisted_namespace_is_followed() {
        let harness = ConsulHarness { polls: ALL, parts: Parts::Namespaces };
        conformance(Scenario::ShorterDiscovery, &harness).await;
    }
}
