//! Assignment of addresses, one test for each rule of docs/reference/service-entry.md.

use tributary_model::Timestamp;

use super::*;

/// An entry of a table: name, age, hosts, addresses of its status, addresses of its spec.
#[derive(Default, Clone)]
struct Row<'a> {
    name: &'a str,
    created: Option<i64>,
    hosts: &'a [&'a str],
    given: &'a [(&'a str, &'a str)],
    specified: &'a [&'a str],
    foreign: bool,
}

fn claim(row: &Row<'_>) -> Arc<AddressClaim> {
    Arc::new(AddressClaim {
        created: row.created.map(|second| Timestamp::from_second(second).unwrap()),
        version: "1".into(),
        api: "v1",
        writable: !row.foreign,
        hosts: row.hosts.iter().map(|host| Arc::from(*host)).collect(),
        specified: row.specified.iter().map(|net| net.parse().unwrap()).collect(),
        given: row.given.iter().map(|(host, value)| (Arc::from(*host), Arc::from(*value))).collect(),
        has_status: !row.given.is_empty(),
    })
}

fn v4(range: &str) -> Ranges {
    Ranges::parse(range, "").unwrap()
}

fn planned(ranges: &Ranges, rows: &[Row<'_>]) -> (Vec<String>, Plan) {
    let claims: Vec<_> = rows.iter().map(|row| (ObjectName::new("shop", row.name), claim(row))).collect();
    let candidates =
        claims.iter().map(|(name, claim)| Candidate { name, claim, in_flight: None, held: false });
    let plan = plan(candidates, ranges, &mut Cursors::default(), 100);
    let show = |write: &Write| {
        let addresses: Vec<String> =
            write.addresses.iter().map(|(host, ip)| format!(" {host}={ip}")).collect();
        format!("{}:{}", write.name.name, addresses.concat())
    };
    (plan.writes.iter().map(show).collect(), plan)
}

fn writes(rows: &[Row<'_>]) -> Vec<String> {
    planned(&v4("240.240.0.0/16"), rows).0
}

const fn entry<'a>(name: &'a str, hosts: &'a [&'a str], given: &'a [(&'a str, &'a str)]) -> Row<'a> {
    Row { name, hosts, given, created: None, specified: &[], foreign: false }
}

#[test]
fn each_host_gets_one_address_of_each_family() {
    let (writes, _) = planned(&Ranges::default(), &[entry("a", &["x.b", "w.b"], &[])]);
    assert_eq!(writes, ["a: x.b=240.240.0.1 x.b=2001:2::1 w.b=240.240.0.2 w.b=2001:2::2"]);
}

#[test]
fn existing_addresses_are_kept_before_new_ones_are_given() {
    let older = Row { created: Some(1), ..entry("a", &["a.b"], &[]) };
    let younger = Row { created: Some(2), ..entry("b", &["b.b"], &[("b.b", "240.240.0.1")]) };
    assert_eq!(writes(&[older, younger]), ["a: a.b=240.240.0.2"]);
}

#[test]
fn entry_keeps_addresses_of_istio_outside_the_range() {
    let given = [("a.b", "2001:2::7"), ("a.b", "10.9.9.9")];
    let (writes, _) = planned(&Ranges::default(), &[entry("a", &["a.b"], &given)]);
    assert!(writes.is_empty(), "{writes:?}");
    let half = [("a.b", "240.240.3.3")];
    let (writes, _) = planned(&Ranges::default(), &[entry("a", &["a.b"], &half)]);
    assert_eq!(writes, ["a: a.b=240.240.3.3 a.b=2001:2::1"], "only what is missing is added");
}

#[test]
fn contested_address_stays_with_the_older_entry() {
    let given_a = [("a.b", "240.240.0.1")];
    let given_b = [("b.b", "240.240.0.1")];
    let a = Row { created: Some(2), ..entry("a", &["a.b"], &given_a) };
    let b = Row { created: Some(1), ..entry("b", &["b.b"], &given_b) };
    assert_eq!(writes(&[a.clone(), b.clone()]), ["a: a.b=240.240.0.2"]);
    assert_eq!(writes(&[b.clone(), a.clone()]), ["a: a.b=240.240.0.2"], "in any order");
    let unknown = Row { created: None, ..b };
    assert_eq!(writes(&[a, unknown]), ["b: b.b=240.240.0.2"], "an unknown age is the youngest");
}

#[test]
fn address_in_a_spec_belongs_to_that_entry() {
    let given = [("a.b", "240.240.0.1")];
    let auto = Row { created: Some(1), ..entry("a", &["a.b"], &given) };
    let user =
        Row { created: Some(9), specified: &["240.240.0.1/32", "240.240.0.2/31"], ..entry("u", &[], &[]) };
    assert_eq!(writes(&[auto, user]), ["a: a.b=240.240.0.4"]);
}

#[test]
fn a_network_that_holds_the_whole_range_claims_no_address_of_it() {
    let all = Row { specified: &["0.0.0.0/0", "240.0.0.0/4"], ..entry("all", &[], &[]) };
    assert_eq!(writes(&[all, entry("a", &["a.b"], &[])]), ["a: a.b=240.240.0.1"]);
}

#[test]
fn ineligible_entry_is_cleared_before_its_address_is_free() {
    let given = [("a.b", "240.240.0.1")];
    let was = entry("a", &[], &given);
    assert_eq!(writes(&[was, entry("b", &["b.b"], &[])]), ["a:", "b: b.b=240.240.0.2"]);
    assert_eq!(writes(&[entry("b", &["b.b"], &[])]), ["b: b.b=240.240.0.1"], "then it is free");
}

#[test]
fn host_removed_from_an_entry_loses_only_its_own_address() {
    let given = [("a.b", "240.240.0.1"), ("c.d", "240.240.0.2")];
    assert_eq!(writes(&[entry("a", &["c.d"], &given)]), ["a: c.d=240.240.0.2"]);
}

#[test]
fn entries_of_one_host_get_the_same_address() {
    let given = [("x.b", "240.240.0.9")];
    assert_eq!(
        writes(&[entry("a", &["x.b"], &[]), entry("b", &["x.b"], &given), entry("c", &["x.b"], &[])]),
        ["a: x.b=240.240.0.9", "c: x.b=240.240.0.9"]
    );
    let other = [("x.b", "240.240.0.8")];
    assert!(writes(&[entry("a", &["x.b"], &other), entry("b", &["x.b"], &given)]).is_empty());
}

#[test]
fn entry_that_is_not_writable_keeps_its_address() {
    let given = [("a.b", "240.240.0.1")];
    let foreign = Row { foreign: true, created: Some(9), ..entry("a", &[], &given) };
    let asking = Row { foreign: true, ..entry("c", &["c.b"], &[]) };
    assert_eq!(writes(&[foreign, asking, entry("b", &["b.b"], &[])]), ["b: b.b=240.240.0.2"]);
}

#[test]
fn unreadable_address_is_rewritten() {
    let given = [("a.b", "junk"), ("a.b", "240.240.0.5")];
    assert_eq!(writes(&[entry("a", &["a.b"], &given)]), ["a: a.b=240.240.0.5"]);
    let twice = [("a.b", "240.240.0.5"), ("a.b", "240.240.0.6")];
    assert_eq!(writes(&[entry("a", &["a.b"], &twice)]), ["a: a.b=240.240.0.5"]);
}

#[test]
fn exhausted_range_is_reported_for_each_entry() {
    let range = v4("10.0.0.0/30");
    let rows = [entry("a", &["a.b", "b.b"], &[]), entry("c", &["c.b"], &[])];
    let (writes, plan) = planned(&range, &rows);
    assert_eq!(writes, ["a: a.b=10.0.0.1 b.b=10.0.0.2"]);
    let [(name, problem)] = &*plan.short.iter().collect::<Vec<_>>() else { panic!("{:?}", plan.short) };
    assert_eq!((&*name.name, problem.code), ("c", Code::ADDRESSES_EXHAUSTED));
    assert_eq!(
        &*problem.message,
        "no address of 10.0.0.0/30 is left for host c.b; configure a larger range, or delete entries that are not needed"
    );
}

#[test]
fn plan_is_limited_to_the_requested_number() {
    let rows: Vec<_> = ["a", "b", "c"].map(|name| entry(name, &["x.b"], &[])).into();
    let claims: Vec<_> = rows.iter().map(|row| (ObjectName::new("shop", row.name), claim(row))).collect();
    let candidates =
        || claims.iter().map(|(name, claim)| Candidate { name, claim, in_flight: None, held: false });
    let made = plan(candidates(), &Ranges::default(), &mut Cursors::default(), 2);
    assert_eq!((made.writes.len(), made.whole), (2, false));
    let all = plan(candidates(), &Ranges::default(), &mut Cursors::default(), 3);
    assert_eq!((all.writes.len(), all.whole), (3, true));
}

#[test]
fn log_line_lists_new_and_old_addresses() {
    let hosts: Vec<String> = (0..40).map(|i| format!("h{i}.test")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let write = |row: &Row<'_>| {
        let (name, was) = (ObjectName::new("shop", row.name), claim(row));
        let addresses = was.hosts.iter().map(|host| (Arc::clone(host), "240.240.0.1".parse().unwrap()));
        Write { name, addresses: addresses.collect(), was: Arc::clone(&was) }
    };
    let moved = write(&Row { hosts: &["a.test"], given: &[("a.test", "240.240.0.9")], ..Row::default() });
    assert_eq!(
        (&*moved.old_addresses(), &*moved.new_addresses()),
        ("a.test 240.240.0.9", "a.test 240.240.0.1")
    );
    let many = write(&Row { hosts: &hosts, ..Row::default() });
    assert_eq!((many.old_addresses().len(), many.new_addresses().matches("240.240.0.1").count()), (0, SHOWN));
    assert!(many.new_addresses().ends_with(", …"), "{}", many.new_addresses());
}
