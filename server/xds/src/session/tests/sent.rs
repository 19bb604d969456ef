//! What a client was sent, resource by resource.

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
