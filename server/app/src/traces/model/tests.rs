//! Tables of events and of the spans that they become.

use std::collections::BTreeMap;

use tributary_model::RegistryName;

use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn mk(share: f64, clients: usize) -> Model {
    Model::new(Identities::new(7), share, Limits { changes: 4, pushes: 2, open: 10, ..Limits::of(clients) })
}

/// Returns a publication with a batch of each registry, each 10 ms after the one before it.
fn published(generation: u64, registries: &[&str], at: u64) -> Event {
    let batch = |(n, registry): (usize, &&str)| AppliedBatch {
        registry: RegistryName::new(registry).unwrap(),
        reported: ms(at - 50),
        applied: ms(at - 30 + 10 * n as u64),
        updates: 3,
        facts: 2,
        removals: 1,
        lists: n > 0,
    };
    let batches: Vec<_> = registries.iter().enumerate().map(batch).collect();
    let began = batches.first().map_or_else(|| ms(at), |first| first.applied);
    Event::Published(Publication { generation, batches, more: 0, began, ended: ms(at) })
}

fn sent(generation: u64, (class, kind, nonce): (usize, ResourceType, u64), at: u64) -> Event {
    Event::Sent(SentResponse {
        generation,
        base: generation.checked_sub(1),
        kind,
        nonce,
        class,
        client: format!("client-{nonce}").into(),
        bytes: 100,
        resources: Some(2),
        began: ms(at - 5),
        ended: ms(at),
    })
}

fn answered(generation: u64, (kind, nonce): (ResourceType, u64), rejected: Option<&str>, at: u64) -> Event {
    Event::Answered(Answer { generation, kind, nonce, rejected: rejected.map(Into::into), at: ms(at) })
}

fn run(model: &mut Model, events: impl IntoIterator<Item = Event>) -> Vec<Span> {
    let mut out = Vec::new();
    events.into_iter().for_each(|event| model.take(event, &mut out));
    out
}

fn number(span: &Span, name: &str) -> u64 {
    match span.attributes.iter().find(|(own, _)| *own == name) {
        Some((_, Value::Number(number))) => *number,
        other => panic!("{name} is {other:?} in {span:?}"),
    }
}

/// Returns each span as its name and the names of its parents.
fn chains(spans: &[Span]) -> Vec<String> {
    let by_id: BTreeMap<SpanId, &Span> = spans.iter().map(|span| (span.id, span)).collect();
    let chain = |span: &Span| {
        let parents = std::iter::successors(Some(span), |one| Some(by_id[&one.parent?]));
        parents.map(|one| one.name).collect::<Vec<_>>().join(" < ")
    };
    spans.iter().map(chain).collect()
}

const EDS: ResourceType = ResourceType::Endpoints;

#[test]
fn change_is_one_chain_from_its_event_to_the_answers() {
    let mut model = mk(1.0, 8);
    let mut spans = run(
        &mut model,
        [
            published(3, &["a", "b"], 100),
            sent(3, (1, EDS, 1), 120),
            sent(3, (1, EDS, 2), 125),
            answered(3, (EDS, 1), None, 140),
            answered(3, (EDS, 2), Some("no"), 150),
        ],
    );
    model.expire(ms(1_149), &mut spans);
    assert_eq!(spans.len(), 6, "the push has not settled");
    model.expire(ms(1_150), &mut spans);
    let pushed = "push < encode < merge < registry.event";
    assert_eq!(
        chains(&spans),
        [
            "registry.event",
            "registry.event < registry.event",
            "merge < registry.event",
            "encode < merge < registry.event",
            &format!("ack < {pushed}"),
            &format!("ack < {pushed}"),
            pushed,
        ]
    );
    assert!(
        spans.iter().all(|span| span.trace == spans[0].trace && number(span, "tributary.generation") == 3)
    );
    let times: Vec<_> = spans.iter().map(|span| (span.began, span.ended)).collect();
    let expected = [(50, 70), (50, 80), (70, 100), (115, 120), (120, 140), (125, 150), (120, 150)];
    assert_eq!(times, expected.map(|(began, ended)| (ms(began), ms(ended))));
    let push = &spans[6];
    let counts = ["responses", "bytes", "acked", "rejected", "unanswered"];
    let counts = counts.map(|name| number(push, &format!("tributary.{name}")));
    assert_eq!(counts, [2, 200, 1, 1, 0]);
    let errors: Vec<_> = spans.iter().map(|span| span.error.as_deref()).collect();
    assert_eq!(errors[5..], [Some("no"), Some("clients rejected responses")]);
    assert!(errors[..5].iter().all(Option::is_none) && !model.has_open());
}

#[test]
fn generation_without_an_event_begins_with_its_merge() {
    let spans = run(&mut mk(1.0, 8), [published(3, &[], 100)]);
    assert_eq!((chains(&spans), spans[0].began), (vec!["merge".to_owned()], ms(100)));
}

#[test]
fn clients_beyond_the_bound_are_counted_and_rejections_are_shown() {
    let mut model = mk(1.0, 1);
    let mut spans = run(&mut model, [published(3, &["a"], 100)]);
    spans.extend(run(&mut model, (1..=5).map(|nonce| sent(3, (1, EDS, nonce), 120))));
    let errors = [None, None, Some("bad"), Some("bad"), None];
    let answers = errors.into_iter().zip(1..).map(|(error, nonce)| answered(3, (EDS, nonce), error, 130));
    let acks = run(&mut model, answers);
    let shown: Vec<_> = acks.iter().map(|span| span.attributes[2].1.clone()).collect();
    assert_eq!(shown, ["client-1", "client-3"].map(|name| Value::Text(name.to_owned())));
    let mut ended = Vec::new();
    model.end_all(&mut ended);
    assert_eq!((number(&ended[0], "tributary.acked"), number(&ended[0], "tributary.rejected")), (3, 2));
}

#[test]
fn classes_types_responses_and_generations_are_bounded() {
    let mut model = mk(1.0, 8);
    run(&mut model, [published(1, &["a"], 100)]);
    run(&mut model, (0..5).map(|class| sent(1, (class, EDS, class as u64), 120)));
    assert_eq!((model.changes[0].pushes.len(), model.left_out), (2, 3));
    run(&mut model, (10..100).map(|nonce| sent(1, (0, EDS, nonce), 120)));
    assert_eq!(model.open, 10);
    let spans = run(&mut model, (2..20).map(|generation| published(generation, &[], 200)));
    let pushes: Vec<_> = spans.iter().filter(|span| span.name == "push").collect();
    assert_eq!((model.changes.len(), model.open, pushes.len()), (4, 0, 2), "old generations end");
    assert_eq!(number(pushes[0], "tributary.unanswered"), 91);
    assert_eq!(run(&mut model, [sent(1, (9, EDS, 200), 300)]), [], "and are forgotten");
}

#[test]
fn push_without_an_answer_ends() {
    let mut model = mk(1.0, 8);
    run(&mut model, [published(1, &["a"], 100), sent(1, (1, EDS, 1), 120)]);
    let mut spans = Vec::new();
    model.expire(ms(10_000), &mut spans);
    assert_eq!((spans.len(), model.has_open()), (0, true));
    model.expire(ms(15_120), &mut spans);
    assert_eq!((number(&spans[0], "tributary.unanswered"), model.has_open(), model.open), (1, false, 0));
    let late = [answered(1, (EDS, 1), None, 16_000), sent(1, (1, EDS, 2), 16_000)];
    assert_eq!((run(&mut model, late), model.left_out), (vec![], 1));
}

#[test]
fn response_that_skips_generations_links_to_them() {
    let mut model = mk(1.0, 8);
    let merges = run(&mut model, [published(5, &[], 100), published(6, &[], 110), published(7, &[], 120)]);
    let Event::Sent(response) = sent(7, (1, EDS, 1), 130) else { panic!() };
    let spans = run(&mut model, [Event::Sent(SentResponse { base: Some(4), ..response })]);
    let expected: Vec<_> = [&merges[1], &merges[0]].map(|merge| (merge.trace, merge.id)).into();
    assert_eq!((spans[0].name, &spans[0].links), ("encode", &expected));
}

#[test]
fn changes_that_are_not_sampled_have_no_span() {
    let mut model = mk(0.0, 8);
    let events = [published(1, &["a"], 100), sent(1, (1, EDS, 1), 120), answered(1, (EDS, 1), None, 130)];
    assert_eq!((run(&mut model, events), model.has_open()), (vec![], false));
}

#[test]
fn texts_of_clients_are_bounded_and_escaped() {
    let mut model = mk(1.0, 8);
    let Event::Sent(response) = sent(1, (1, EDS, 1), 120) else { panic!() };
    let hostile = Event::Sent(SentResponse { client: "ä\n".repeat(10_000).into(), ..response });
    let answer = answered(1, (EDS, 1), Some(&"\u{1b}[31m".repeat(10_000)), 130);
    let spans = run(&mut model, [published(1, &["a"], 100), hostile, answer]);
    let ack = spans.last().unwrap();
    let Value::Text(client) = &ack.attributes[2].1 else { panic!("{ack:?}") };
    let error = ack.error.as_deref().unwrap();
    for text in [client, error] {
        assert!(text.len() <= 10 * TEXT && !text.contains(['\n', '\u{1b}']), "{text}");
    }
}
