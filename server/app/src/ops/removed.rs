//! Endpoints and hosts that the catalog had and has no longer, so that an explanation can name the registry that removed them, and when.
//!
//! `catalog_log` adds them as it compares generations; `explain` and `why-not` read them. The last ones are kept, bounded in number: a search
//! walks them, which only an operator requests.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tributary_answer::Query;
use tributary_model::{
    Code, Hostname, Mono, ObjectRef, PortNumber, RegistryName, Stage, StepTime, TraceStep, Verdict,
};

use crate::document::filter::same_host;

/// Most steps of one explanation.
const MOST_STEPS: usize = 8;

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
}

/// Address of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// IP address.
    Ip(IpAddr),
    /// Host name or path.
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
    /// Returns a step for each removal of an endpoint, the latest first.
    #[must_use]
    pub fn of_endpoint(&self, query: &Query) -> Vec<TraceStep> {
        let memory = self.0.lock();
        let found = memory.endpoints.iter().rev().filter(|(_, one)| one.is(query));
        steps(found.map(|(at, one)| (one.origin(), one.listed(), *at)))
    }
    /// Returns a step for each removal of a host or of its endpoints, the latest first.
    #[must_use]
    pub fn of_host(&self, host: &str) -> Vec<TraceStep> {
        let memory = self.0.lock();
        let hosts = memory.hosts.iter().rev().filter(|(_, one)| same_host(host, one.host.as_str()));
        let declared =
            |one: &RemovedHost| format!("registry {} declared it, and does so no longer", one.registry);
        let origin = |one: &RemovedHost| (one.registry.clone(), one.object.clone());
        let hosts = hosts.map(|(at, one)| (origin(one), declared(one), *at));
        let endpoints = memory.endpoints.iter().rev().filter(|(_, one)| same_host(host, one.host.as_str()));
        let endpoints = endpoints.map(|(at, one)| (one.origin(), format!("{one}: {}", one.listed()), *at));
        steps(hosts.chain(endpoints))
    }
}

/// Makes room first, so that the bound is that of the memory too.
fn extend<T>(kept: &mut VecDeque<(Mono, T)>, new: Vec<T>, at: Mono, most: usize) {
    let skipped = new.len().saturating_sub(most);
    let room = most.saturating_sub(new.len());
    kept.drain(..kept.len().saturating_sub(room));
    kept.extend(new.into_iter().skip(skipped).map(|one| (at, one)));
}

/// Registry and object that listed something.
type Origin = (RegistryName, ObjectRef);

/// Returns steps; of equal texts the first one, which is the latest.
fn steps(found: impl Iterator<Item = (Origin, String, Mono)>) -> Vec<TraceStep> {
    let mut out: Vec<TraceStep> = Vec::new();
    for ((registry, object), detail, at) in found {
        if out.len() == MOST_STEPS {
            break;
        }
        if !out.iter().any(|step| step.detail == detail) {
            out.push(TraceStep {
                stage: Stage::Source,
                verdict: Verdict::Drop,
                code: Code::REMOVED_BY_SOURCE,
                registry: Some(registry),
                object: Some(object),
                endpoint: String::new(),
                detail,
                time: Some(StepTime::Since(at)),
            });
        }
    }
    out
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
    fn origin(&self) -> Origin {
        (self.registry.clone(), self.object.clone())
    }
    fn listed(&self) -> String {
        let Self { registry, host, port, .. } = self;
        format!("registry {registry} listed it for {host}:{port}, and does so no longer")
    }
}

impl std::fmt::Display for RemovedEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.at, self.number) {
            (Address::Ip(ip), Some(number)) => std::net::SocketAddr::new(*ip, number.get()).fmt(f),
            (Address::Ip(ip), None) => ip.fmt(f),
            (Address::Text(text), Some(number)) => write!(f, "{text}:{number}"),
            (Address::Text(text), None) => f.write_str(text),
        }
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
        let find = |text: &str| removed.of_endpoint(&text.parse().unwrap());
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
        assert_eq!(removed.of_host("PAY.test.").len(), 2);
        assert!(
            details(&removed.of_host("pay.test"))[0].starts_with("10.0.0.1:8080: registry home listed it")
        );
    }

    #[test]
    fn the_last_ones_are_kept_within_the_bounds() {
        let removed = Removed::default();
        let mut removals = Removals::default();
        for number in 0..Removed::MOST_ENDPOINTS + 10 {
            let ip = format!("10.0.{}.{}", number / 256, number % 256);
            removals.endpoint(|| mk_endpoint(&ip, 1, "pay.test", "home"));
            removals.host(|| RemovedHost {
                host: Hostname::new(format!("h{number}.test")).unwrap(),
                registry: RegistryName::new("home").unwrap(),
                object: mk_object(),
            });
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
        let find = |text: &str| removed.of_endpoint(&text.parse().unwrap()).len();
        assert_eq!((find("10.0.0.0"), find("10.0.0.1"), find("10.9.9.9")), (0, 1, 1));
        assert_eq!(removed.of_host("h1.test").len(), 1);
        assert!(
            removed.0.lock().endpoints.capacity() < 2 * Removed::MOST_ENDPOINTS,
            "the bound is that of the memory"
        );
        assert_eq!(removed.of_host("pay.test").len(), MOST_STEPS);
    }
}
