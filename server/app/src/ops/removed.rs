//! Endpoints and hosts that the catalog had and has no longer, so that an explanation can name the registry that removed them, and when.
//!
//! `catalog_log` adds them as it compares generations; `explain` and `why-not` read them. The last ones are kept, bounded in number: a search
//! walks them, which only an operator requests.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tributary_answer::Query;
use tributary_model::{
    Code, HostPattern, Hostname, Mono, ObjectId, ObjectRef, PortNumber, RegistryName, Stage, StepTime,
    TraceStep, Verdict,
};

use super::notices::Withdrawn;
use crate::document::filter::{begins_with, same_host};

/// End of a text about something that its source removed.
const GONE: &str = ", and does so no longer";

/// The last removed endpoints and hosts. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Removed(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    endpoints: VecDeque<(Mono, RemovedEndpoint)>,
    hosts: VecDeque<(Mono, RemovedHost)>,
}

/// What two generations no longer share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removals {
    /// Endpoints, up to [`Removed::MOST_ENDPOINTS`].
    pub endpoints: Vec<RemovedEndpoint>,
    /// Hosts, up to [`Removed::MOST_HOSTS`].
    pub hosts: Vec<RemovedHost>,
}

/// Endpoint of a service port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedEndpoint {
    /// Address.
    pub at: Address,
    /// Port of the endpoint.
    pub number: Option<PortNumber>,
    /// Host of the service.
    pub host: Hostname,
    /// Port of the service.
    pub port: PortNumber,
    /// Registry that listed it.
    pub registry: RegistryName,
    /// Object that listed it.
    pub object: ObjectRef,
    /// Object of the workload behind it, if it differs.
    pub workload: Option<ObjectId>,
}

/// Address of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// IP address.
    Ip(IpAddr),
    /// Host name, or path after `unix:`.
    Text(Box<str>),
}

/// Host of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedHost {
    /// Host.
    pub host: Hostname,
    /// Registry that declared it.
    pub registry: RegistryName,
    /// Object that declared it.
    pub object: ObjectRef,
}

impl Removed {
    /// Most endpoints that are kept.
    pub const MOST_ENDPOINTS: usize = 4_096;
    /// Most hosts that are kept.
    pub const MOST_HOSTS: usize = 1_024;

    /// Adds what was removed at a time.
    pub fn add(&self, at: Mono, removals: Removals) {
        let mut memory = self.0.lock();
        let Memory { endpoints, hosts } = &mut *memory;
        extend(endpoints, removals.endpoints, at, Self::MOST_ENDPOINTS);
        extend(hosts, removals.hosts, at, Self::MOST_HOSTS);
    }
    /// Returns a step for each removal of an endpoint, of a host or its first labels and of a port if they are given, the latest first.
    #[must_use]
    pub fn of_endpoint(
        &self,
        query: &Query,
        (host, port): (Option<&str>, Option<PortNumber>),
    ) -> Vec<TraceStep> {
        let memory = self.0.lock();
        let labels = host.map(labels);
        let is_of =
            |own: &str| labels.as_ref().is_none_or(|labels| own == labels || begins_with(own, labels));
        let is_wanted = |one: &RemovedEndpoint| one.is(query) && one.has(port) && is_of(one.host.as_str());
        let found = memory.endpoints.iter().rev().filter(|(_, one)| is_wanted(one));
        distinct(found.map(|(at, one)| one.step(*at)))
    }
    /// Returns a step for each removal of a host, and for each of its endpoints at one of its ports, the latest first and those of one time in
    /// the order of addresses. Without a removal of the host, its first labels are enough, or a wildcard that matches it.
    #[must_use]
    pub fn of_host(&self, host: &str, port: Option<PortNumber>) -> Vec<TraceStep> {
        let memory = self.0.lock();
        let exact = memory.of_host(port, |own| same_host(host, own));
        if !exact.is_empty() {
            return exact;
        }
        let labels = labels(host);
        memory.of_host(port, |own| begins_with(own, &labels) || covers(own, &labels))
    }
    /// Returns the steps of [`Removed::of_host`] about endpoints: some source declares the host.
    #[must_use]
    pub fn of_declared_host(&self, host: &str, port: Option<PortNumber>) -> Vec<TraceStep> {
        distinct(self.0.lock().endpoints_of(port, |own| same_host(host, own)))
    }
}

impl Memory {
    fn of_host(&self, port: Option<PortNumber>, is: impl Fn(&str) -> bool) -> Vec<TraceStep> {
        let hosts = self.hosts.iter().rev().filter(|(_, one)| is(one.host.as_str()));
        distinct(hosts.map(|(at, one)| one.step(*at)).chain(self.endpoints_of(port, &is)))
    }
    fn endpoints_of(
        &self,
        port: Option<PortNumber>,
        is: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = TraceStep> {
        let is_wanted = |one: &RemovedEndpoint| one.has(port) && is(one.host.as_str());
        let mut found: Vec<_> = self.endpoints.iter().filter(|(_, one)| is_wanted(one)).collect();
        found.sort_by_key(|(at, one)| (Reverse(*at), &one.at, one.number));
        found.into_iter().map(|(at, one)| one.step(*at))
    }
}

/// Returns a host as the catalog writes it.
fn labels(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a host, which may be a wildcard, covers another one.
fn covers(own: &str, host: &str) -> bool {
    let [own, host] = [own, host].map(Hostname::new);
    own.is_ok_and(|own| host.is_ok_and(|host| HostPattern::from(own).matches(&host)))
}

/// Makes room first, so that the bound is that of the memory too.
fn extend<T>(kept: &mut VecDeque<(Mono, T)>, new: Vec<T>, at: Mono, most: usize) {
    let skipped = new.len().saturating_sub(most);
    let room = most.saturating_sub(new.len());
    kept.drain(..kept.len().saturating_sub(room));
    kept.extend(new.into_iter().skip(skipped).map(|one| (at, one)));
}

/// Returns the first one of the steps with the same endpoint and text, which is the latest.
fn distinct(steps: impl Iterator<Item = TraceStep>) -> Vec<TraceStep> {
    let mut known = BTreeSet::new();
    steps.filter(|step| known.insert((step.endpoint.clone(), step.detail.clone()))).collect()
}

/// Names the policy in place of the source if it withdraws the registry: the source may list the endpoint still.
#[must_use]
pub fn unless_withdrawn(mut step: TraceStep, withdrawn: &Withdrawn) -> TraceStep {
    let why = step.registry.as_ref().and_then(|registry| withdrawn.get(registry));
    if let (Some(why), Some(listed)) = (why, step.detail.strip_suffix(GONE)) {
        step.detail = format!("{listed}; {why}");
    }
    step
}

fn step(origin: (&RegistryName, &ObjectRef), endpoint: String, detail: String, at: Mono) -> TraceStep {
    TraceStep {
        stage: Stage::Source,
        verdict: Verdict::Drop,
        code: Code::REMOVED_BY_SOURCE,
        registry: Some(origin.0.clone()),
        object: Some(origin.1.clone()),
        endpoint,
        detail,
        time: Some(StepTime::Since(at)),
    }
}

impl Removals {
    /// Adds an endpoint, if there is room.
    pub fn endpoint(&mut self, made: impl FnOnce() -> RemovedEndpoint) {
        if self.endpoints.len() < Removed::MOST_ENDPOINTS {
            self.endpoints.push(made());
        }
    }
    /// Adds the host of a service, if there is room.
    pub fn host(&mut self, made: impl FnOnce() -> RemovedHost) {
        if self.hosts.len() < Removed::MOST_HOSTS {
            self.hosts.push(made());
        }
    }
}

impl RemovedEndpoint {
    fn has(&self, port: Option<PortNumber>) -> bool {
        port.is_none_or(|port| self.port == port)
    }
    fn is(&self, query: &Query) -> bool {
        match (query, &self.at) {
            (Query::Ip(ip), Address::Ip(at)) => ip == at,
            (Query::Socket(socket), Address::Ip(at)) => {
                socket.ip() == *at && self.number.is_some_and(|number| number.get() == socket.port())
            }
            (Query::Text(text), Address::Text(at)) => **at == **text || self.to_string() == *text,
            _ => false,
        }
    }
    fn step(&self, at: Mono) -> TraceStep {
        let Self { registry, host, port, object, .. } = self;
        let workload = self.workload.as_ref().map(|workload| format!(" ({workload})")).unwrap_or_default();
        let detail = format!("registry {registry} listed it for {host}:{port}{workload}{GONE}");
        step((registry, object), self.to_string(), detail, at)
    }
}

impl RemovedHost {
    fn step(&self, at: Mono) -> TraceStep {
        let Self { host, registry, object } = self;
        let detail = format!("registry {registry} declared {host}{GONE}");
        step((registry, object), String::new(), detail, at)
    }
}

impl std::fmt::Display for RemovedEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&address_text(&self.at, self.number))
    }
}

/// Returns an address with its port, if it has one.
#[must_use]
pub fn address_text(at: &Address, number: Option<PortNumber>) -> String {
    match (at, number) {
        (Address::Ip(ip), Some(number)) => std::net::SocketAddr::new(*ip, number.get()).to_string(),
        (Address::Ip(ip), None) => ip.to_string(),
        (Address::Text(text), Some(number)) => format!("{text}:{number}"),
        (Address::Text(text), None) => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_endpoint(ip: &str, number: u16, host: &str, registry: &str) -> RemovedEndpoint {
        RemovedEndpoint {
            at: ip.parse().map_or_else(|_| Address::Text(ip.into()), Address::Ip),
            number: PortNumber::new(number.into()).ok(),
            host: Hostname::new(host).unwrap(),
            port: PortNumber::new(80).unwrap(),
            registry: RegistryName::new(registry).unwrap(),
            object: mk_object(),
            workload: None,
        }
    }

    fn mk_host(host: &str) -> RemovedHost {
        RemovedHost {
            host: Hostname::new(host).unwrap(),
            registry: RegistryName::new("home").unwrap(),
            object: mk_object(),
        }
    }

    fn mk_object() -> ObjectRef {
        ObjectRef::new(tributary_model::ObjectId::new("ServiceEntry", "shop", "pay"))
    }

    fn at(seconds: u64) -> Mono {
        Mono::from_elapsed(std::time::Duration::from_secs(seconds))
    }

    fn details(steps: &[TraceStep]) -> Vec<&str> {
        steps.iter().map(|step| &*step.detail).collect()
    }

    #[test]
    fn endpoints_are_found_by_address_and_port_the_latest_first() {
        let removed = Removed::default();
        let of = |endpoints| Removals { endpoints, ..Removals::default() };
        removed.add(at(1), of(vec![mk_endpoint("10.0.0.1", 8080, "pay.test", "home")]));
        removed.add(
            at(2),
            of(vec![
                mk_endpoint("10.0.0.1", 8080, "pay.test", "away"),
                mk_endpoint("db.test", 5, "db.test", "home"),
            ]),
        );
        removed.add(at(3), of(vec![mk_endpoint("10.0.0.1", 8080, "pay.test", "home")]));
        let find = |text: &str| removed.of_endpoint(&text.parse().unwrap(), (None, None));
        let found = find("10.0.0.1:8080");
        let want = [
            "registry home listed it for pay.test:80, and does so no longer",
            "registry away listed it for pay.test:80, and does so no longer",
        ];
        assert_eq!(details(&found), want);
        assert_eq!(found[0].time, Some(StepTime::Since(at(3))), "the latest removal");
        assert_eq!(find("10.0.0.1").len(), 2);
        assert_eq!((find("10.0.0.1:80").len(), find("10.0.0.2").len()), (0, 0));
        assert_eq!((find("db.test").len(), find("db.test:5").len(), find("db.test:6").len()), (1, 1, 0));
        assert_eq!(find("10.0.0.1:8080")[0].endpoint, "10.0.0.1:8080");
        let of = |host, port: Option<u32>| {
            let port = port.map(|port| PortNumber::new(port).unwrap());
            removed.of_endpoint(&"10.0.0.1".parse().unwrap(), (Some(host), port)).len()
        };
        assert_eq!((of("pay", None), of("pay.test", Some(80)), of("cart.test", None)), (2, 2, 0));
        assert_eq!(of("pay.test", Some(81)), 0);
    }

    #[test]
    fn hosts_are_found_with_their_endpoints_by_name_port_and_first_labels() {
        let removed = Removed::default();
        let workload = Some(tributary_model::ObjectId::new("WorkloadEntry", "shop", "w1"));
        let endpoints = vec![
            mk_endpoint("10.0.0.1", 8080, "pay.test", "home"),
            RemovedEndpoint { workload, ..mk_endpoint("10.0.0.2", 8080, "pay.test", "home") },
            mk_endpoint("10.0.0.2", 8080, "pay.test", "home"),
            mk_endpoint("10.0.0.3", 1, "pay.test.local", "home"),
        ];
        removed.add(at(1), Removals { endpoints, hosts: vec![mk_host("pay.test")] });
        let find = |host: &str, port: Option<u32>| {
            removed.of_host(host, port.map(|port| PortNumber::new(port).unwrap()))
        };
        let found = find("PAY.test.", None);
        let want = ["", "10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.2:8080"];
        assert_eq!(found.iter().map(|step| &*step.endpoint).collect::<Vec<_>>(), want);
        assert_eq!(found[0].detail, "registry home declared pay.test, and does so no longer");
        assert!(found[2].detail.contains("for pay.test:80 (WorkloadEntry shop/w1), and"), "{found:?}");
        assert_eq!(removed.of_declared_host("pay.test", None).len(), 3);
        assert_eq!((find("pay.test", Some(80)).len(), find("pay.test", Some(81)).len()), (4, 1));
        assert_eq!((find("pay", None).len(), find("pa", None).len()), (5, 0), "whole labels");
        let endpoints = vec![mk_endpoint("10.0.0.4", 1, "*.wild.test", "home")];
        removed.add(at(2), Removals { endpoints, hosts: vec![mk_host("*.wild.test")] });
        assert_eq!((find("a.wild.test", None).len(), find("wild.test", None).len()), (2, 0));
    }

    #[test]
    fn the_last_ones_are_kept_within_the_bounds() {
        let removed = Removed::default();
        let mut removals = Removals::default();
        for number in 0..Removed::MOST_ENDPOINTS + 10 {
            let ip = format!("10.0.{}.{}", number / 256, number % 256);
            removals.endpoint(|| mk_endpoint(&ip, 1, "pay.test", "home"));
            removals.host(|| mk_host(&format!("h{number}.test")));
        }
        assert_eq!(
            (removals.endpoints.len(), removals.hosts.len()),
            (Removed::MOST_ENDPOINTS, Removed::MOST_HOSTS)
        );
        removed.add(at(0), removals);
        removed.add(
            at(0),
            Removals {
                endpoints: vec![mk_endpoint("10.9.9.9", 1, "pay.test", "home")],
                ..Removals::default()
            },
        );
        let find = |text: &str| removed.of_endpoint(&text.parse().unwrap(), (None, None)).len();
        assert_eq!((find("10.0.0.0"), find("10.0.0.1"), find("10.9.9.9")), (0, 1, 1));
        assert_eq!(removed.of_host("h1.test", None).len(), 1);
        assert!(
            removed.0.lock().endpoints.capacity() < 2 * Removed::MOST_ENDPOINTS,
            "the bound is that of the memory"
        );
        assert_eq!(removed.of_host("pay.test", None).len(), Removed::MOST_ENDPOINTS);
    }
}
