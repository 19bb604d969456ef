//! Tables of times and reports, and the property that the order of gateways and answers does not matter.

use std::net::IpAddr;

use proptest::prelude::*;
use tributary_model::{Code, ObjectId, Problem};
use tributary_registry_api::SplitMix;

use super::*;
use crate::answer::Family;

const SECOND: u64 = 1_000;

struct Longest;
impl RandomSource for Longest {
    fn unit(&mut self) -> f64 {
        1.0
    }
}

fn mk_names() -> Names {
    Names::new(Scope::new("gateways").unwrap(), Box::new(Longest))
}
fn mk_object(name: &str) -> ObjectRef {
    ObjectRef::new(ObjectId::new("Service", "mesh", name))
}
fn mk_wanted(all: &[(&str, &[&str])]) -> Wanted {
    let objects = |all: &[&str]| all.iter().map(|name| mk_object(name)).collect();
    Wanted { names: all.iter().map(|(name, of)| ((*name).into(), objects(of))).collect(), complete: true }
}
fn mk_answer(ips: &[&str], ttl: Option<u64>) -> Answer {
    let of = |v4: bool| {
        let ips = ips.iter().map(|ip| ip.parse::<IpAddr>().unwrap()).filter(|ip| ip.is_ipv4() == v4);
        let ips: Vec<IpAddr> = ips.collect();
        if ips.is_empty() { Family::Empty("no such name".into()) } else { Family::Has(ips) }
    };
    Answer { v4: of(true), v6: of(false), ttl: ttl.map(Duration::from_secs) }
}

/// What a source reported, as its readers see it.
#[derive(Debug, Default, Clone, PartialEq)]
struct Seen {
    facts: BTreeMap<String, ResolvedName>,
    problems: BTreeMap<String, Problem>,
}

impl Seen {
    /// Returns the number of updates but for confirmations.
    fn take(&mut self, updates: Vec<RegistryUpdate>) -> usize {
        let is_news = |update: &&RegistryUpdate| !matches!(update, RegistryUpdate::Progress(_));
        let count = updates.iter().filter(is_news).count();
        for update in updates {
            match update {
                RegistryUpdate::Put(_, Fact::GatewayName(name, value), _) => {
                    self.facts.insert(name.to_string(), ResolvedName::clone(&value));
                }
                RegistryUpdate::Remove(FactKey { item: FactId::GatewayName(name), .. }, _) => {
                    assert!(self.facts.remove(&*name).is_some(), "{name} was not reported");
                }
                RegistryUpdate::Problem(_, object, Some(problem)) => {
                    self.problems.insert(object.id.name.to_string(), problem);
                }
                RegistryUpdate::Problem(_, object, None) => {
                    assert!(self.problems.remove(&*object.id.name).is_some(), "{object:?} had none");
                }
                _ => {}
            }
        }
        count
    }
    fn ips(&self, name: &str) -> Vec<String> {
        let value = self.facts.get(name);
        value.into_iter().flat_map(|value| value.addresses.iter()).map(ToString::to_string).collect()
    }
    fn codes(&self) -> Vec<(&str, u16)> {
        self.problems.iter().map(|(name, problem)| (name.as_str(), problem.code.number())).collect()
    }
}

fn name(text: &str) -> Arc<str> {
    text.into()
}

#[test]
fn name_is_asked_again_when_its_records_expire_within_bounds() {
    for (ttl, seconds) in [(None, 60), (Some(0), 30), (Some(29), 30), (Some(60), 60), (Some(86_400), 300)] {
        let mut names = mk_names();
        names.want(Mono(0), &mk_wanted(&[("gw.test", &["a"])]));
        assert_eq!(names.due(Mono(0)), [name("gw.test")]);
        assert_eq!(names.next(), None, "one lookup at a time");
        names.answer(Mono(5), &name("gw.test"), &mk_answer(&["192.0.2.1"], ttl));
        assert_eq!(names.next(), Some(Mono(5 + seconds * SECOND)), "{ttl:?}");
        assert!(names.due(Mono(4 + seconds * SECOND)).is_empty());
        assert_eq!(names.due(Mono(5 + seconds * SECOND)).len(), 1);
    }
}

#[test]
fn failing_name_keeps_its_addresses_and_is_asked_with_backoff() {
    let (mut names, mut seen) = (mk_names(), Seen::default());
    seen.take(names.want(Mono(0), &mk_wanted(&[("gw.test", &["a", "b"])])));
    names.due(Mono(0));
    seen.take(names.answer(Mono(0), &name("gw.test"), &mk_answer(&["192.0.2.2", "192.0.2.1"], None)));
    let mut at = Mono(60 * SECOND);
    let mut delays = Vec::new();
    let no_answer = Answer::failed("no answer");
    let gone = mk_answer(&[], None);
    for round in 0..8 {
        names.due(at);
        let failure = if round < 4 { &no_answer } else { &gone };
        let reported = seen.take(names.answer(at, &name("gw.test"), failure));
        assert_eq!(reported > 0, round == 0 || round == 4, "equal failures report nothing: round {round}");
        assert_eq!(seen.ips("gw.test"), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(seen.codes(), [("a", 331), ("b", 331)]);
        let next = names.next().unwrap();
        delays.push(next.since(at).as_secs());
        at = next;
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
    let failure = seen.facts["gw.test"].failure.clone().unwrap();
    assert_eq!((failure.since, &*failure.reason), (Mono(60 * SECOND), "no such name"));
    assert!(seen.problems["a"].message.contains("its last addresses stay in use: 192.0.2.1, 192.0.2.2"));
    names.due(at);
    seen.take(names.answer(at, &name("gw.test"), &mk_answer(&["192.0.2.3"], None)));
    assert_eq!((seen.ips("gw.test"), seen.codes()), (vec!["192.0.2.3".to_owned()], vec![]));
    assert_eq!(names.next(), Some(at.plus(Names::USUAL)));
}

#[test]
fn name_that_was_never_resolved_is_a_problem_of_its_objects() {
    let (mut names, mut seen) = (mk_names(), Seen::default());
    seen.take(names.want(Mono(0), &mk_wanted(&[("bad.test", &["a"]), ("gw.test", &["a", "b"])])));
    assert_eq!(names.due(Mono(0)).len(), 2);
    seen.take(names.answer(Mono(0), &name("gw.test"), &mk_answer(&["192.0.2.1"], None)));
    assert_eq!(seen.codes(), []);
    seen.take(names.answer(Mono(0), &name("bad.test"), &mk_answer(&[], None)));
    assert_eq!(seen.codes(), [("a", Code::GATEWAY_NAME_UNRESOLVED.number())]);
    let message = "host name bad.test cannot be resolved: no such name; clients of other networks do not use the gateway";
    assert_eq!(&*seen.problems["a"].message, message);
    seen.take(names.want(Mono(1), &mk_wanted(&[("gw.test", &["a", "b"])])));
    assert_eq!(seen.codes(), []);
    assert!(!seen.facts.contains_key("bad.test"), "a name without addresses is forgotten at once");
}

#[test]
fn equal_answer_reports_nothing() {
    let (mut names, mut seen) = (mk_names(), Seen::default());
    names.want(Mono(0), &mk_wanted(&[("gw.test", &["a"])]));
    names.due(Mono(0));
    let answer = |ips: &[&str]| mk_answer(ips, None);
    assert_eq!(seen.take(names.answer(Mono(0), &name("gw.test"), &answer(&["192.0.2.1", "192.0.2.2"]))), 1);
    names.due(Mono(60 * SECOND));
    let again = answer(&["192.0.2.2", "192.0.2.1", "192.0.2.1"]);
    let updates = names.answer(Mono(60 * SECOND), &name("gw.test"), &again);
    assert!(matches!(&updates[..], [RegistryUpdate::Progress(_)]), "the source is confirmed: {updates:?}");
    names.due(Mono(120 * SECOND));
    let failed = names.answer(Mono(120 * SECOND), &name("gw.test"), &Answer::failed("no answer"));
    assert!(!failed.iter().any(|update| matches!(update, RegistryUpdate::Progress(_))), "{failed:?}");
    assert_eq!(seen.take(failed), 1 + 1, "the failure and its problem");
}

#[test]
fn name_without_a_gateway_is_remembered_for_a_while() {
    let (mut names, mut seen) = (mk_names(), Seen::default());
    names.want(Mono(0), &mk_wanted(&[("gw.test", &["a"])]));
    names.due(Mono(0));
    seen.take(names.answer(Mono(0), &name("gw.test"), &mk_answer(&["192.0.2.1"], None)));
    let none = mk_wanted(&[]);
    seen.take(names.want(Mono(10), &Wanted { complete: false, ..none.clone() }));
    assert_eq!(names.next(), None, "while sources are unknown, nothing is forgotten");
    seen.take(names.want(Mono(10), &none));
    let over = Mono(10).plus(Names::REMEMBERED);
    assert_eq!(names.next(), Some(over));
    seen.take(names.forget(Mono(over.0 - 1)));
    assert_eq!(seen.ips("gw.test"), ["192.0.2.1"]);
    seen.take(names.want(Mono(11), &mk_wanted(&[("gw.test", &["b"])])));
    assert_eq!(names.due(Mono(11)).len(), 1, "a gateway that comes back is asked for at once");
    names.answer(Mono(11), &name("gw.test"), &mk_answer(&["192.0.2.1"], None));
    seen.take(names.want(Mono(12), &none));
    seen.take(names.forget(Mono(12).plus(Names::REMEMBERED)));
    assert!(seen.facts.is_empty() && names.next().is_none());
}

#[test]
fn names_of_an_earlier_process_are_listed_first_and_stay_in_use() {
    let (mut names, mut seen) = (mk_names(), Seen::default());
    let known = (name("gw.test"), Arc::new(ResolvedName::new(["192.0.2.1".parse().unwrap()])));
    let updates = names.begin(Mono(7), [known]);
    let ended = RegistryUpdate::ListEnded(
        Collection { scope: Scope::new("gateways").unwrap(), kind: CollectionKind::Gateways },
        Completeness::Complete,
    );
    assert!(matches!(updates[0], RegistryUpdate::Follows { .. }) && updates.last() == Some(&ended));
    seen.take(updates);
    seen.take(names.want(Mono(8), &mk_wanted(&[("gw.test", &["a"])])));
    assert_eq!(names.due(Mono(8)), [name("gw.test")]);
    seen.take(names.answer(Mono(9), &name("gw.test"), &Answer::failed("no answer")));
    assert_eq!((seen.ips("gw.test"), seen.codes()), (vec!["192.0.2.1".to_owned()], vec![("a", 331)]));
}

#[test]
fn names_and_lookups_are_bounded() {
    let (mut names, mut seen) = (mk_names(), Seen::default());
    let all =
        (0..Names::MAX + 3).map(|at| (name(&format!("{at:04}.test")), [mk_object(&at.to_string())].into()));
    seen.take(names.want(Mono(0), &Wanted { names: all.collect(), complete: true }));
    let mut asked = 0;
    loop {
        let due = names.due(Mono(0));
        assert!(due.len() <= Names::MAX_ASKING);
        assert!(names.due(Mono(0)).is_empty(), "no more at a time");
        if due.is_empty() {
            break;
        }
        asked += due.len();
        for one in due {
            seen.take(names.answer(Mono(0), &one, &mk_answer(&["192.0.2.1"], None)));
        }
    }
    assert_eq!((asked, seen.facts.len()), (Names::MAX, Names::MAX));
    assert_eq!(seen.codes().len(), 3, "the objects of the others show it");
    let many = seen.problems["512"].message.contains("of more than 512 host names");
    assert!(many, "{:?}", seen.problems["512"]);
}

#[test]
fn declared_name_with_addresses_is_neither_displaced_nor_forgotten() {
    let (mut names, mut seen) = (mk_names(), Seen::default());
    seen.take(names.want(Mono(0), &mk_wanted(&[("z.test", &["gw"])])));
    let due = names.due(Mono(0));
    seen.take(names.answer(Mono(0), &due[0], &mk_answer(&["192.0.2.1"], None)));
    let many = (0..Names::MAX + 100).map(|at| (name(&format!("a{at:04}.test")), [mk_object("many")].into()));
    let mut wanted = Wanted { names: many.collect(), complete: true };
    wanted.names.insert(name("z.test"), [mk_object("gw")].into());
    seen.take(names.want(Mono(1), &wanted));
    assert!(
        !seen.codes().iter().any(|(object, _)| *object == "gw"),
        "it keeps its place: {:?}",
        seen.codes()
    );
    let late = Mono(0).plus(Names::REMEMBERED * 2);
    let mut asked = BTreeSet::new();
    loop {
        let due = names.due(late);
        if due.is_empty() {
            break;
        }
        for one in due {
            seen.take(names.answer(late, &one, &Answer::failed("no answer")));
            asked.insert(one);
        }
    }
    assert!(asked.len() == Names::MAX && asked.contains(&name("z.test")), "{} are asked for", asked.len());
    seen.take(names.forget(late));
    assert_eq!(seen.ips("z.test"), ["192.0.2.1"]);
}

#[derive(Debug, Clone)]
enum Step {
    Want(Vec<(usize, usize)>),
    Answer(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        proptest::collection::vec((0..4_usize, 0..3_usize), 0..5).prop_map(Step::Want),
        (0..4_usize, 0..4_usize).prop_map(|(name, answer)| Step::Answer(name, answer)),
    ]
}

proptest! {
    /// What is reported follows from the names that gateways have and from the last address of each name, in whatever order they came.
    #[test]
    fn reports_follow_from_gateways_and_last_answers(steps in proptest::collection::vec(step(), 0..40), seed: u64) {
        let names_of = ["a.test", "b.test", "c.test", "d.test"];
        let answers = [
            mk_answer(&["192.0.2.1"], None),
            mk_answer(&["192.0.2.2", "2001:db8::1"], None),
            mk_answer(&[], None),
            Answer::failed("no answer"),
        ];
        let mut names = Names::new(Scope::new("gateways").unwrap(), Box::new(SplitMix::seeded(seed)));
        let (mut seen, mut now) = (Seen::default(), Mono(0));
        let mut wanted: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        // last addresses, and whether the last answer failed
        let mut last: BTreeMap<&str, (Vec<String>, bool)> = BTreeMap::new();
        for step in steps {
            now = now.plus(Duration::from_secs(1));
            match step {
                Step::Want(all) => {
                    wanted.clear();
                    for (name, object) in all {
                        wanted.entry(names_of[name]).or_default().insert(object);
                    }
                    let objects = |of: &BTreeSet<usize>| of.iter().map(|at| mk_object(&at.to_string())).collect();
                    let all = wanted.iter().map(|(name, of)| ((*name).into(), objects(of))).collect();
                    seen.take(names.want(now, &Wanted { names: all, complete: true }));
                    last.retain(|name, (ips, _)| wanted.contains_key(name) || !ips.is_empty());
                }
                Step::Answer(name, answer) => {
                    let name = names_of[name];
                    if !wanted.contains_key(name) {
                        continue;
                    }
                    seen.take(names.answer(now, &name.into(), &answers[answer]));
                    let before = last.remove(name).map(|(ips, _)| ips).unwrap_or_default();
                    let ips = match answer {
                        0 => vec!["192.0.2.1".to_owned()],
                        1 => vec!["192.0.2.2".to_owned(), "2001:db8::1".to_owned()],
                        _ => before,
                    };
                    last.insert(name, (ips, answer > 1));
                }
            }
        }
        for name in names_of {
            let (ips, failing) = last.get(name).cloned().unwrap_or_default();
            prop_assert_eq!(seen.ips(name), ips);
            prop_assert_eq!(seen.facts.get(name).is_some_and(|value| value.failure.is_some()), failing);
        }
        let failing = wanted.iter().filter(|(name, _)| last.get(*name).is_some_and(|(_, failing)| *failing));
        let objects: BTreeSet<String> = failing.flat_map(|(_, of)| of).map(ToString::to_string).collect();
        prop_assert_eq!(seen.problems.keys().cloned().collect::<BTreeSet<_>>(), objects);
    }
}
