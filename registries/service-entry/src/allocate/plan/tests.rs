//! Who gets which address, row by row of `registries.md` 4.5.

use tributary_model::Timestamp;

use super::*;

/// An entry of a table: name, age, hosts, what its status names, what its spec names.
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
        ours: !row.foreign,
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
    let parties = claims.iter().map(|(name, claim)| Party { name, claim, flying: None, held: false });
    let plan = plan(parties, ranges, &mut Cursors::default(), 100);
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
fn each_host_is_given_one_address_of_each_family_from_the_start_of_its_range() {
    let (writes, _) = planned(&Ranges::default(), &[entry("a", &["x.b", "w.b"], &[])]);
    assert_eq!(writes, ["a: x.b=240.240.0.1 x.b=2001:2::1 w.b=240.240.0.2 w.b=2001:2::2"]);
}

#[test]
fn what_is_given_is_kept_before_anything_is_given_out() {
    let older = Row { created: Some(1), ..entry("a", &["a.b"], &[]) };
    let younger = Row { created: Some(2), ..entry("b", &["b.b"], &[("b.b", "240.240.0.1")]) };
    assert_eq!(writes(&[older, younger]), ["a: a.b=240.240.0.2"]);
}

#[test]
fn an_entry_keeps_what_an_istio_gave_it_in_whatever_order_and_outside_the_range() {
    let given = [("a.b", "2001:2::7"), ("a.b", "10.9.9.9")];
    let (writes, _) = planned(&Ranges::default(), &[entry("a", &["a.b"], &given)]);
    assert!(writes.is_empty(), "{writes:?}");
    let half = [("a.b", "240.240.3.3")];
    let (writes, _) = planned(&Ranges::default(), &[entry("a", &["a.b"], &half)]);
    assert_eq!(writes, ["a: a.b=240.240.3.3 a.b=2001:2::1"], "only what is missing is added");
}

#[test]
fn of_two_hosts_with_one_address_the_older_entrys_keeps_it() {
    let given_a = [("a.b", "240.240.0.1")];
    let given_b = [("b.b", "240.240.0.1")];
    let a = Row { created: Some(2), ..entry("a", &["a.b"], &given_a) };
    let b = Row { created: Some(1), ..entry("b", &["b.b"], &given_b) };
    assert_eq!(writes(&[a.clone(), b.clone()]), ["a: a.b=240.240.0.2"]);
    assert_eq!(writes(&[b.clone(), a.clone()]), ["a: a.b=240.240.0.2"], "in whatever order they are read");
    let unknown = Row { created: None, ..b };
    assert_eq!(writes(&[a, unknown]), ["b: b.b=240.240.0.2"], "an age that is not known is the youngest");
}

#[test]
fn an_address_that_a_person_wrote_is_that_persons() {
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
fn an_entry_that_is_no_longer_eligible_is_cleared_and_its_address_waits_for_that() {
    let given = [("a.b", "240.240.0.1")];
    let was = entry("a", &[], &given);
    assert_eq!(writes(&[was, entry("b", &["b.b"], &[])]), ["a:", "b: b.b=240.240.0.2"]);
    assert_eq!(writes(&[entry("b", &["b.b"], &[])]), ["b: b.b=240.240.0.1"], "then it is free");
}

#[test]
fn a_host_taken_off_an_entry_loses_its_address_and_the_others_keep_theirs() {
    let given = [("a.b", "240.240.0.1"), ("c.d", "240.240.0.2")];
    assert_eq!(writes(&[entry("a", &["c.d"], &given)]), ["a: c.d=240.240.0.2"]);
}

#[test]
fn entries_of_one_host_are_given_the_same_address_and_keep_different_ones_that_they_have() {
    let given = [("x.b", "240.240.0.9")];
    assert_eq!(
        writes(&[entry("a", &["x.b"], &[]), entry("b", &["x.b"], &given), entry("c", &["x.b"], &[])]),
        ["a: x.b=240.240.0.9", "c: x.b=240.240.0.9"]
    );
    let other = [("x.b", "240.240.0.8")];
    assert!(writes(&[entry("a", &["x.b"], &other), entry("b", &["x.b"], &given)]).is_empty());
}

#[test]
fn what_is_not_ours_to_write_keeps_its_address_and_is_not_written() {
    let given = [("a.b", "240.240.0.1")];
    let foreign = Row { foreign: true, created: Some(9), ..entry("a", &[], &given) };
    let asking = Row { foreign: true, ..entry("c", &["c.b"], &[]) };
    assert_eq!(writes(&[foreign, asking, entry("b", &["b.b"], &[])]), ["b: b.b=240.240.0.2"]);
}

#[test]
fn an_address_that_cannot_be_read_is_written_anew() {
    let given = [("a.b", "junk"), ("a.b", "240.240.0.5")];
    assert_eq!(writes(&[entry("a", &["a.b"], &given)]), ["a: a.b=240.240.0.5"]);
    let twice = [("a.b", "240.240.0.5"), ("a.b", "240.240.0.6")];
    assert_eq!(writes(&[entry("a", &["a.b"], &twice)]), ["a: a.b=240.240.0.5"]);
}

#[test]
fn a_range_that_is_used_up_is_said_of_each_entry_that_goes_without() {
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
fn no_more_is_planned_than_there_is_room_for() {
    let rows: Vec<_> = ["a", "b", "c"].map(|name| entry(name, &["x.b"], &[])).into();
    let claims: Vec<_> = rows.iter().map(|row| (ObjectName::new("shop", row.name), claim(row))).collect();
    let parties = || claims.iter().map(|(name, claim)| Party { name, claim, flying: None, held: false });
    let made = plan(parties(), &Ranges::default(), &mut Cursors::default(), 2);
    assert_eq!((made.writes.len(), made.whole), (2, false));
    let all = plan(parties(), &Ranges::default(), &mut Cursors::default(), 3);
    assert_eq!((all.writes.len(), all.whole), (3, true));
}

#[test]
fn what_is_written_is_told_with_what_was_there() {
    let hosts: Vec<String> = (0..40).map(|i| format!("h{i}.test")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let write = |row: &Row<'_>| {
        let (name, was) = (ObjectName::new("shop", row.name), claim(row));
        let addresses = was.hosts.iter().map(|host| (Arc::clone(host), "240.240.0.1".parse().unwrap()));
        Write { name, addresses: addresses.collect(), was: Arc::clone(&was) }
    };
    let moved = write(&Row { hosts: &["a.test"], given: &[("a.test", "240.240.0.9")], ..Row::default() });
    assert_eq!((&*moved.was_given(), &*moved.gives()), ("a.test 240.240.0.9", "a.test 240.240.0.1"));
    let many = write(&Row { hosts: &hosts, ..Row::default() });
    assert_eq!((many.was_given().len(), many.gives().matches("240.240.0.1").count()), (0, TOLD));
    assert!(many.gives().ends_with(", …"), "{}", many.gives());
}
