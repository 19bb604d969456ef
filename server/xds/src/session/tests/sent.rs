//! What a client was sent, resource by resource.

use super::rounds::mk_rejecting;
use super::*;

/// `name=body STATE` of each resource; a body that is no longer held is `?`.
fn shown(stream: &TestStream, kind: ResourceType) -> Vec<String> {
    let view = stream.session.status().sent(kind).unwrap();
    let line = |resource: crate::session::SentResource| {
        let body = view.body(&resource).map(|body| body_text(&body));
        let text = match (body, resource.version) {
            (Some(text), Some(_)) => text,
            (None, Some(_)) => format!("{}=?", resource.name),
            (_, None) => resource.name.to_string(),
        };
        let error = resource.error.map(|text| format!(": {text}")).unwrap_or_default();
        format!("{text} {}{error}", resource.state.as_str())
    };
    view.resources(&stream.catalog).into_iter().map(line).collect()
}

#[test]
fn resources_follow_sent_and_acknowledged_responses() {
    for mut stream in [
        TestStream::sotw(&[(C, "a", "1"), (C, "b", "1")]),
        TestStream::delta(&[(C, "a", "1"), (C, "b", "1")]),
    ] {
        assert!(stream.session.status().sent(C).is_none(), "not subscribed");
        let ack = |stream: &mut TestStream, nonce: &str| match stream.session.variant() {
            Variant::Sotw => stream.request(C, &[], nonce),
            Variant::Delta => stream.sub(C, &[], &[], nonce),
        };
        ack(&mut stream, "");
        assert_eq!(shown(&stream, C), Vec::<String>::new(), "nothing was sent");
        let first = stream.next().unwrap();
        assert_eq!(shown(&stream, C), ["a=1 STALE", "b=1 STALE"]);
        stream.all();
        ack(&mut stream, &first.nonce);
        assert_eq!(shown(&stream, C), ["a=1 SYNCED", "b=1 SYNCED"]);
        stream.set(C, "b", "2");
        assert_eq!(shown(&stream, C), ["a=1 SYNCED", "b=1 SYNCED"], "published, not sent");
        stream.all();
        let changed = shown(&stream, C);
        assert_eq!(changed[1], "b=2 STALE");
        let a = if stream.session.variant() == Variant::Delta { "a=1 SYNCED" } else { "a=1 STALE" };
        assert_eq!(changed[0], a);
    }
}

#[test]
fn rejection_marks_the_resources_that_its_text_names() {
    let mut stream = TestStream::sotw(&[(C, "a", "1"), (C, "b", "1")]);
    stream.request(C, &[], "");
    let first = stream.all().remove(0);
    stream.refuse(C, &[], &first.nonce, "cluster b: no");
    assert_eq!(shown(&stream, C), ["a=1 STALE", "b=1 ERROR: cluster b: no"]);
    stream.refuse(C, &[], &first.nonce, "no");
    assert_eq!(shown(&stream, C), ["a=1 ERROR: no", "b=1 ERROR: no"]);
}

#[test]
fn removed_resource_stays_until_its_removal_is_sent() {
    let mut stream = TestStream::delta(&[(C, "a", "1"), (L, "l", "1")]);
    stream.sub(C, &["*"], &[], "");
    stream.sub(L, &["*"], &[], "");
    stream.all();
    stream.change(|world| {
        world.remove(&(C, "a".to_owned()));
        world.insert((L, "l".into()), "2".into());
    });
    assert_eq!(stream.next().unwrap().text(), "lds l=2");
    assert_eq!(shown(&stream, C), ["a=1 STALE"]);
    stream.all();
    assert_eq!(shown(&stream, C), Vec::<String>::new());
}

#[test]
fn version_that_is_no_longer_held_has_no_body() {
    let mut stream = TestStream::delta(&[(E, "a", "1")]);
    stream.sub(E, &["a", "b"], &[], "");
    assert_eq!(shown(&stream, E), ["a NOT SENT", "b NOT SENT"]);
    stream.all();
    assert_eq!(shown(&stream, E), ["a=1 STALE", "b= STALE"]);
    stream.set(E, "a", "2");
    assert_eq!(shown(&stream, E), ["a=? STALE", "b= STALE"], "another version is not shown in its place");
}

#[test]
fn absent_and_held_back_names_are_distinguished() {
    let mut stream = TestStream::delta(&[(R, "r", "1")]);
    stream.sub(R, &["r", "x"], &[], "");
    stream.all();
    assert_eq!(shown(&stream, R), ["r=1 STALE", "x ABSENT"]);
    let mut stream = TestStream::delta(&[]);
    stream.complete(false);
    stream.claim(R, &["r"], &[("r", "00000000000000aa")]);
    stream.all();
    assert_eq!(shown(&stream, R), ["r HELD BACK"]);
}

/// What changes, how the client answers each response (empty: accepts, `-`: not at all, otherwise the error), what is
/// shown then, and whether the type counts as rejected.
type Step<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str], u64);

fn answer(stream: &mut TestStream, kind: ResourceType, names: &[&str], nonce: &str, text: &str) {
    match (stream.session.variant(), text) {
        (_, "-") => {}
        (Variant::Sotw, "") => stream.request(kind, names, nonce),
        (Variant::Sotw, text) => stream.refuse(kind, names, nonce, text),
        (Variant::Delta, "") => stream.sub(kind, &[], &[], nonce),
        (Variant::Delta, text) => {
            let error = Some(ErrorDetail { code: 3, message: text.into() });
            stream.send_delta(DeltaRequest { nonce: nonce.into(), error, ..mk_delta(kind) });
        }
    }
}

fn nacked(stream: &TestStream, kind: ResourceType) -> u64 {
    stream.env.counters.clients.nacked().into_iter().find(|(of, _)| *of == kind).unwrap().1
}

fn run(stream: &mut TestStream, kind: ResourceType, names: &[&str], steps: &[Step<'_>]) {
    for (at, (changes, answers, expected, count)) in steps.iter().enumerate() {
        stream.change(|world| {
            for &(name, body) in *changes {
                match body {
                    "" => drop(world.remove(&(kind, name.to_owned()))),
                    body => drop(world.insert((kind, name.to_owned()), body.to_owned())),
                }
            }
        });
        let sent = stream.all();
        assert_eq!(sent.len(), answers.len(), "step {at}: {sent:?}");
        for (response, text) in sent.iter().zip(*answers) {
            answer(stream, kind, names, &response.nonce, text);
        }
        assert_eq!(shown(stream, kind), *expected, "step {at} {changes:?}");
        assert_eq!(nacked(stream, kind), *count, "step {at} {changes:?}");
    }
}

#[test]
fn rejection_lasts_until_its_resource_is_accepted_or_removed() {
    let cases: &[&[Step<'_>]] = &[
        &[
            (&[("b", ""), ("c", "1")], &["no", ""], &["a=1 SYNCED", "c=1 ERROR: no"], 1),
            (&[("a", "")], &[""], &["c=1 ERROR: no"], 1),
            (&[("c", "2")], &["-"], &["c=2 STALE"], 1),
            (&[("c", "3")], &[""], &["c=3 SYNCED"], 0),
        ],
        &[
            (&[("c", "1")], &["no"], &["a=1 SYNCED", "b=1 SYNCED", "c=1 ERROR: no"], 1),
            (&[("c", "")], &[""], &["a=1 SYNCED", "b=1 SYNCED"], 0),
        ],
        &[
            (&[("a", "2")], &["bad"], &["a=2 ERROR: bad", "b=1 SYNCED"], 1),
            (&[("b", "2")], &["worse"], &["a=2 ERROR: bad", "b=2 ERROR: worse"], 1),
            (&[("b", "3")], &["worst"], &["a=2 ERROR: bad", "b=3 ERROR: worst"], 1),
            (&[("b", "4")], &[""], &["a=2 ERROR: bad", "b=4 SYNCED"], 1),
            (&[("a", "3")], &[""], &["a=3 SYNCED", "b=4 SYNCED"], 0),
        ],
        &[
            (&[("a", "2"), ("b", "2")], &["b: no"], &["a=2 STALE", "b=2 ERROR: b: no"], 1),
            (&[("a", "3")], &[""], &["a=3 SYNCED", "b=2 ERROR: b: no"], 1),
            (&[("b", "3")], &[""], &["a=3 SYNCED", "b=3 SYNCED"], 0),
        ],
        &[(&[("a", "")], &["no removal"], &["b=1 SYNCED"], 1), (&[("b", "2")], &[""], &["b=2 SYNCED"], 0)],
    ];
    for steps in cases {
        let mut stream = TestStream::delta(&[(L, "a", "1"), (L, "b", "1")]);
        stream.sub(L, &["*"], &[], "");
        let first = stream.all().remove(0);
        stream.sub(L, &[], &[], &first.nonce);
        run(&mut stream, L, &[], steps);
    }
}

#[test]
fn state_of_the_world_keeps_the_rejection_of_a_name() {
    let mut stream = TestStream::sotw(&[(E, "a", "1"), (E, "b", "1")]);
    stream.request(E, &["a", "b"], "");
    let first = stream.all().remove(0);
    stream.request(E, &["a", "b"], &first.nonce);
    let steps: &[(&str, &str, &str, u64)] =
        &[("a", "2", "no", 1), ("b", "2", "", 1), ("a", "3", "", 0), ("a", "4", "no", 1)];
    for &(name, body, text, count) in steps {
        stream.set(E, name, body);
        let sent = stream.all();
        answer(&mut stream, E, &["a", "b"], &sent[0].nonce, text);
        assert_eq!(nacked(&stream, E), count, "{name}={body}");
        let a = if count == 1 { "ERROR: no" } else { "SYNCED" };
        let states = shown(&stream, E);
        assert!(states[0].ends_with(a) && states[1].ends_with("SYNCED"), "{name}={body}: {states:?}");
    }
    let nonce = stream.session.status().statuses(stream.now)[0].nack.as_ref().unwrap().nonce.to_string();
    stream.request(E, &["b"], &nonce);
    assert_eq!(nacked(&stream, E), 0, "the client no longer wants the rejected name");
}

#[test]
fn removals_do_not_end_the_rejection_of_many_resources() {
    let names: Vec<String> = (0..100).map(|n| format!("l{n:02}")).collect();
    let world: Vec<_> = names.iter().map(|name| (L, name.as_str(), "1")).collect();
    let mut stream = TestStream::delta(&world);
    stream.sub(L, &["*"], &[], "");
    let first = stream.all().remove(0);
    answer(&mut stream, L, &[], &first.nonce, "no");
    for removed in [&names[..1], &names[1..80], &names[80..99]] {
        let removed: Vec<_> = removed.iter().map(|name| (L, name.as_str())).collect();
        stream.drop(&removed);
        let sent = stream.all().remove(0);
        answer(&mut stream, L, &[], &sent.nonce, "");
        assert!(shown(&stream, L).iter().all(|line| line.ends_with("=1 ERROR: no")));
        assert_eq!(nacked(&stream, L), 1);
    }
    stream.drop(&[(L, "l99")]);
    let sent = stream.all().remove(0);
    answer(&mut stream, L, &[], &sent.nonce, "");
    assert_eq!((shown(&stream, L), nacked(&stream, L)), (Vec::new(), 0));
}

#[test]
fn route_that_disappears_takes_its_rejection_along() {
    for names in [&["r", "s"][..], &["*many"][..]] {
        // many names make the session compare generations instead of names
        let many: Vec<String> = (0..2_000).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = match names {
            ["*many"] => ["r", "s"].into_iter().chain(many.iter().map(String::as_str)).collect(),
            few => few.to_vec(),
        };
        let mut stream = TestStream::sotw(&[(R, "r", "1"), (R, "s", "1")]);
        stream.request(R, &names, "");
        let first = stream.all().remove(0);
        stream.request(R, &names, &first.nonce);
        stream.set(R, "r", "2");
        let second = stream.all().remove(0);
        answer(&mut stream, R, &names, &second.nonce, "no");
        assert_eq!(
            (shown(&stream, R).remove(names.len() - 2), nacked(&stream, R)),
            ("r=2 ERROR: no".into(), 1)
        );
        stream.drop(&[(R, "r")]);
        assert_eq!(stream.responses(), Vec::<String>::new(), "the protocol cannot remove a route");
        let of_r = |stream: &TestStream| shown(stream, R).remove(names.len() - 2);
        assert_eq!((of_r(&stream), nacked(&stream, R)), ("r ABSENT".into(), 0));
        // the client answers after the route disappeared
        stream.set(R, "r", "3");
        let third = stream.all().remove(0);
        stream.drop(&[(R, "r")]);
        assert_eq!(stream.responses(), Vec::<String>::new());
        answer(&mut stream, R, &names, &third.nonce, "no");
        assert_eq!((of_r(&stream), nacked(&stream, R)), ("r ABSENT".into(), 0));
        // the same version again is news to the client
        stream.set(R, "r", "3");
        assert_eq!(stream.responses(), ["rds r=3"]);
    }
}

#[test]
fn removed_cluster_of_a_client_that_rejects_its_routes_is_kept() {
    let mut stream = mk_rejecting();
    stream.drop(&[(C, "b"), (E, "b")]);
    stream.all();
    let state =
        |stream: &TestStream, kind| shown(stream, kind).into_iter().find(|line| line.starts_with('b'));
    assert_eq!(state(&stream, C), Some("b KEPT".to_owned()));
    assert_eq!(state(&stream, E).map(|line| line.ends_with("KEPT")), Some(true));
    stream.set(R, "r", "3");
    let good = stream.all();
    stream.sub(R, &[], &[], &good[0].nonce);
    assert_eq!(stream.responses(), ["cds -b", "eds b="]);
    assert_eq!(state(&stream, C), None);
}
