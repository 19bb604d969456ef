//! Allocation against a server with other writers, late events and failing writes.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tributary_model::{Code, Timestamp};

use super::*;
use crate::allocate::Ranges;

/// An object of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Stored {
    version: u64,
    created: i64,
    hosts: Vec<u8>,
    specified: Option<u8>,
    given: Vec<(Arc<str>, IpAddr)>,
}

fn host(n: u8) -> Arc<str> {
    format!("h{n}.b").into()
}

fn user(n: u8) -> IpAddr {
    IpAddr::from([240, 240, 0, n])
}

impl Stored {
    fn claim(&self) -> AddressClaim {
        let eligible = self.specified.is_none();
        AddressClaim {
            created: Timestamp::from_second(self.created).ok(),
            version: self.version.to_string().into(),
            api: "v1",
            writable: true,
            hosts: self.hosts.iter().filter(|_| eligible).map(|n| host(*n)).collect(),
            specified: self.specified.iter().map(|n| user(*n).into()).collect(),
            given: self.given.iter().map(|(host, ip)| (host.clone(), ip.to_string().into())).collect(),
            has_status: !self.given.is_empty(),
        }
    }
}

/// The server, and the watch events that the writing replica has not received yet.
#[derive(Debug, Default)]
struct Server {
    objects: BTreeMap<ObjectName, Stored>,
    revision: u64,
    pending: Vec<(ObjectName, Option<Stored>)>,
}

impl Server {
    fn put(&mut self, name: &ObjectName, mut stored: Stored) {
        self.revision += 1;
        stored.version = self.revision;
        self.objects.insert(name.clone(), stored.clone());
        self.pending.push((name.clone(), Some(stored)));
    }
    fn delete(&mut self, name: &ObjectName) {
        self.objects.remove(name);
        self.pending.push((name.clone(), None));
    }
    /// A write that is bound to a version.
    fn write(&mut self, write: &Write) -> bool {
        let Some(stored) = self.objects.get(&write.name).cloned() else { return false };
        if *stored.version.to_string() != *write.was.version {
            return false;
        }
        self.put(&write.name, Stored { given: write.addresses.clone(), ..stored });
        true
    }
    fn deliver(&mut self, allocator: &mut Allocator, events: usize) {
        let events = events.min(self.pending.len());
        for (name, stored) in self.pending.drain(..events) {
            allocator.claim(&name, stored.map(|stored| stored.claim()));
        }
    }
    fn fresh(&mut self, ranges: Ranges) -> Allocator {
        self.pending.clear();
        let mut allocator = Allocator::new(ranges);
        for (name, stored) in &self.objects {
            allocator.claim(name, Some(stored.claim()));
        }
        allocator
    }
    /// Plans, writes and delivers events until no write is left.
    fn settle(&mut self, allocator: &mut Allocator) {
        for _ in 0..1_000 {
            let events = self.pending.len();
            self.deliver(allocator, events);
            let again = !std::mem::take(&mut allocator.refused).is_empty();
            let writes = allocator.plan(3);
            if writes.is_empty() && !again && self.pending.is_empty() && allocator.in_flight.is_empty() {
                return;
            }
            for write in writes {
                if !self.write(&write) {
                    allocator.failed(&write, refused());
                }
            }
        }
        panic!("allocation does not settle: {self:?}");
    }
    fn given(&self) -> BTreeMap<(ObjectName, Arc<str>, bool), IpAddr> {
        let all = self.objects.iter().flat_map(|(name, stored)| {
            stored.given.iter().map(move |(host, ip)| ((name.clone(), host.clone(), ip.is_ipv4()), *ip))
        });
        all.collect()
    }
}

fn refused() -> Option<Problem> {
    Some(Problem { code: Code::NOT_WRITTEN, message: "refused".into() })
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, Vec<u8>),
    Specify(u8, u8),
    Delete(u8),
    /// A different allocator set this address, regardless of its current owner.
    Meddle(u8, u8),
    /// The writer receives a number of events, plans, and each of its writes arrives or is lost.
    Work(usize, u8),
    /// A different replica takes over.
    Restart,
}

fn any_step(meddle: bool) -> impl Strategy<Value = Step> {
    let hosts = proptest::collection::btree_set(0..5_u8, 1..4).prop_map(|set| set.into_iter().collect());
    prop_oneof![
        4 => (0..5_u8, hosts).prop_map(|(name, hosts)| Step::Put(name, hosts)),
        1 => (0..5_u8, 1..6_u8).prop_map(|(name, ip)| Step::Specify(name, ip)),
        2 => (0..5_u8).prop_map(Step::Delete),
        u32::from(meddle) => (0..5_u8, 1..6_u8).prop_map(|(name, ip)| Step::Meddle(name, ip)),
        6 => (0..6_usize, any::<u8>()).prop_map(|(events, lost)| Step::Work(events, lost)),
        1 => Just(Step::Restart),
    ]
}

fn name(n: u8) -> ObjectName {
    ObjectName::new("shop", &format!("e{n}"))
}

fn play(server: &mut Server, ranges: Ranges, steps: Vec<Step>) -> Allocator {
    let mut allocator = server.fresh(ranges);
    for (second, step) in steps.into_iter().enumerate() {
        match step {
            Step::Put(n, hosts) => {
                let was = server.objects.get(&name(n)).cloned();
                let was = was.unwrap_or_else(|| Stored { created: second as i64, ..Stored::default() });
                server.put(&name(n), Stored { hosts, specified: None, ..was });
            }
            Step::Specify(n, ip) => {
                if let Some(was) = server.objects.get(&name(n)).cloned() {
                    server.put(&name(n), Stored { specified: Some(ip), ..was });
                }
            }
            Step::Meddle(n, ip) => {
                if let Some(was) = server.objects.get(&name(n)).cloned() {
                    let given = was.hosts.first().map(|n| (host(*n), user(ip))).into_iter().collect();
                    server.put(&name(n), Stored { given, ..was });
                }
            }
            Step::Delete(n) => server.delete(&name(n)),
            Step::Work(events, lost) => {
                server.deliver(&mut allocator, events);
                for (i, write) in allocator.plan(4).into_iter().enumerate() {
                    if lost & (1 << i) != 0 || !server.write(&write) {
                        allocator.failed(&write, refused());
                    }
                }
            }
            Step::Restart => allocator = server.fresh(ranges),
        }
    }
    allocator
}

/// Checks that no address is missing and none is contested.
fn check(server: &Server, families: usize) -> Result<(), TestCaseError> {
    let mut owners: BTreeMap<IpAddr, Arc<str>> = BTreeMap::new();
    let specified: BTreeSet<IpAddr> =
        server.objects.values().filter_map(|stored| stored.specified.map(user)).collect();
    for (name, stored) in &server.objects {
        let hosts: &[u8] = if stored.specified.is_some() { &[] } else { &stored.hosts };
        prop_assert_eq!(stored.given.len(), hosts.len() * families, "{} has {:?}", name, stored);
        for (host, ip) in &stored.given {
            let owner = owners.entry(*ip).or_insert_with(|| host.clone());
            prop_assert_eq!(&*owner, host, "two hosts have {}", ip);
            prop_assert!(!specified.contains(ip), "{} is specified by a user", ip);
        }
        for n in hosts {
            let own = stored.given.iter().filter(|(given, _)| *given == host(*n));
            prop_assert_eq!(own.map(|(_, ip)| ip.is_ipv4()).collect::<BTreeSet<_>>().len(), families);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_host_ends_with_its_own_addresses(
        steps in proptest::collection::vec(any_step(true), 0..60)
    ) {
        let mut server = Server::default();
        let mut allocator = play(&mut server, Ranges::default(), steps);
        server.settle(&mut allocator);
        check(&server, 2)?;
        let before = server.given();
        let mut other = server.fresh(Ranges::default());
        prop_assert_eq!(other.plan(100), Vec::new(), "another replica finds nothing to do");
        server.settle(&mut other);
        prop_assert_eq!(server.given(), before);
    }

    /// Without other writers, a host keeps its address until the entry or the host is removed, or a
    /// user specifies the address.
    #[test]
    fn allocated_addresses_are_stable(first in proptest::collection::vec(any_step(false), 0..30), then in proptest::collection::vec(any_step(false), 0..30)) {
        let mut server = Server::default();
        let mut allocator = play(&mut server, Ranges::default(), first);
        server.settle(&mut allocator);
        let before = server.given();
        let born: BTreeMap<_, _> = server.objects.iter().map(|(name, stored)| (name.clone(), stored.created)).collect();
        let mut lost: BTreeSet<(ObjectName, Arc<str>)> = BTreeSet::new();
        let mut taken: BTreeSet<IpAddr> = BTreeSet::new();
        for step in &then {
            match step {
                Step::Put(n, hosts) => {
                    let kept: BTreeSet<Arc<str>> = hosts.iter().map(|n| host(*n)).collect();
                    lost.extend(before.keys().filter(|(of, host, _)| *of == name(*n) && !kept.contains(host)).map(|(of, host, _)| (of.clone(), host.clone())));
                }
                Step::Delete(n) => lost.extend(before.keys().filter(|(of, ..)| *of == name(*n)).map(|(of, host, _)| (of.clone(), host.clone()))),
                Step::Specify(n, ip) => {
                    taken.insert(user(*ip));
                    lost.extend(before.keys().filter(|(of, ..)| *of == name(*n)).map(|(of, host, _)| (of.clone(), host.clone())));
                }
                _ => {}
            }
        }
        let mut allocator = play(&mut server, Ranges::default(), then);
        server.settle(&mut allocator);
        check(&server, 2)?;
        let after = server.given();
        for ((of, host, v4), ip) in before {
            if !lost.contains(&(of.clone(), host.clone())) && !taken.contains(&ip) && born.contains_key(&of) {
                prop_assert_eq!(after.get(&(of, host, v4)), Some(&ip));
            }
        }
    }

    /// An entry lacks an address only while the entries hold every address of the range: deleted hosts free theirs.
    /// Five hosts may hold all six, since each entry keeps its own address of a host.
    #[test]
    fn addresses_are_freed_and_given_again(steps in proptest::collection::vec(any_step(false), 0..60)) {
        let small = Ranges::parse("10.0.0.0/29", "").unwrap();
        let mut server = Server::default();
        let mut allocator = play(&mut server, small, steps);
        server.settle(&mut allocator);
        let held: BTreeSet<IpAddr> = server.given().into_values().collect();
        if allocator.problems().is_empty() {
            check(&server, 1)?;
        } else {
            prop_assert_eq!(held.len(), 6);
        }
    }
}

#[test]
fn write_in_flight_holds_its_addresses_until_it_fails() {
    let mut server = Server::default();
    server.put(&name(0), Stored { hosts: vec![0], ..Stored::default() });
    let mut allocator = server.fresh(Ranges::parse("10.0.0.0/30", "").unwrap());
    let first = allocator.plan(10).remove(0);
    server.put(&name(1), Stored { hosts: vec![1], ..Stored::default() });
    server.deliver(&mut allocator, 1);
    let second = allocator.plan(10).remove(0);
    assert_ne!(first.addresses[0].1, second.addresses[0].1);
    assert!(allocator.plan(10).is_empty(), "nothing is written twice");
    allocator.failed(&first, refused());
    assert_eq!(allocator.problems().len(), 1);
    assert!(allocator.plan(10).is_empty(), "nor again before its time");
    allocator.retry();
    assert_eq!(allocator.plan(10).remove(0).addresses, first.addresses, "its address was free");
}

#[test]
fn another_version_of_an_object_ends_the_wait_for_its_write() {
    let mut server = Server::default();
    server.put(&name(0), Stored { hosts: vec![0], ..Stored::default() });
    let mut allocator = server.fresh(Ranges::default());
    let write = allocator.plan(10).remove(0);
    allocator.failed(&write, refused());
    server.put(&name(0), Stored { hosts: vec![0, 1], ..Stored::default() });
    server.deliver(&mut allocator, 1);
    assert_eq!(allocator.plan(10).len(), 1);
    assert!(allocator.problems().is_empty());
}
