//! Problems and statuses that result from watch events.

use tributary_model::Withheld;

use super::*;

fn mk_table(revision: Option<&str>) -> UnservedTable {
    let known = UnservedKind::find("Telemetry", "telemetry.istio.io/v1").unwrap();
    UnservedTable::new(Scope::new("telemetries").unwrap(), known, revision.map(Arc::from))
}

fn mk_known(revision: Option<&str>) -> UnservedTable {
    let mut table = mk_table(revision);
    table.set_context(&Arc::default());
    table
}

fn name(name: &str) -> ObjectName {
    ObjectName::new("shop", name)
}

fn put(of: &str, revision: Option<&str>) -> Event<UnservedObject> {
    Event::Apply(UnservedObject { name: name(of), revision: revision.map(Arc::from) })
}

fn shown(events: Vec<SourceEvent>) -> Vec<String> {
    let show = |event: SourceEvent| match event {
        SourceEvent::Problem(_, object, Some(problem)) => format!("{} {}", problem.code, object.id),
        SourceEvent::Problem(_, object, None) => format!("gone {}", object.id),
        SourceEvent::ListStarted(_) => "started".to_owned(),
        SourceEvent::ListEnded(_, how) => format!("{how:?}"),
        SourceEvent::Confirmed(_) => "confirmed".to_owned(),
        other => format!("{other:?}"),
    };
    events.into_iter().map(show).collect()
}

impl UnservedTable {
    fn feed(&mut self, events: impl IntoIterator<Item = Event<UnservedObject>>) -> Vec<String> {
        shown(events.into_iter().flat_map(|event| self.apply(event)).collect())
    }
}

#[test]
fn list_of_an_unserved_kind_is_complete_before_any_answer() {
    let mut table = mk_table(None);
    assert!(table.feed([Event::Init, put("a", None), Event::InitDone]).is_empty(), "no context yet");
    let withheld = Some(Withheld::forbidden("configmaps: 403"));
    let unknown = Arc::new(ClusterContext { withheld, ..ClusterContext::default() });
    assert!(table.set_context(&unknown).is_empty());
    let all = ["started", "Complete", "TRB0327 Telemetry shop/a"];
    assert_eq!(shown(table.set_context(&Arc::default())), all);
    assert!(table.set_context(&unknown).is_empty() && table.set_context(&Arc::default()).is_empty());
    assert_eq!(shown(mk_table(None).set_context(&Arc::default())), all[..2]);
}

#[test]
fn unserved_objects_are_shown_until_they_are_deleted() {
    let mut table = mk_known(None);
    let list = [Event::Init, put("a", None), put("b", None), Event::InitDone];
    assert_eq!(table.feed(list), ["TRB0327 Telemetry shop/a", "TRB0327 Telemetry shop/b", "confirmed"]);
    assert!(table.feed([put("a", None)]).is_empty(), "it is reported once");
    assert_eq!(table.feed([Event::Delete(name("a"))]), ["gone Telemetry shop/a"]);
    let again = [Event::Init, put("c", None), Event::Init, Event::Unchanged(name("c")), Event::InitDone];
    assert_eq!(table.feed(again), ["TRB0327 Telemetry shop/c", "gone Telemetry shop/b", "confirmed"]);
    assert_eq!(table.feed([Event::NotServed]), ["gone Telemetry shop/c", "confirmed"]);
}

#[test]
fn unreadable_unserved_object_disturbs_no_other() {
    let mut table = mk_known(None);
    let bad = |name| Event::Invalid(name, "labels: invalid type".into());
    let list = [Event::Init, bad(name("a")), bad(ObjectName::default()), put("b", None), Event::InitDone];
    assert_eq!(table.feed(list), ["TRB0327 Telemetry shop/a", "TRB0327 Telemetry shop/b", "confirmed"]);
}

#[test]
fn unserved_objects_of_other_revisions_and_namespaces_are_hidden() {
    let mut table = mk_known(Some("blue"));
    assert!(table.feed([put("a", Some("green"))]).is_empty());
    assert_eq!(table.feed([put("a", None)]), ["TRB0327 Telemetry shop/a"]);
    assert_eq!(table.feed([put("a", Some("green"))]), ["gone Telemetry shop/a"]);
    assert_eq!(table.feed([put("a", Some("blue"))]), ["TRB0327 Telemetry shop/a"]);
    let none = Arc::new(ClusterContext { selected: Some([].into()), ..ClusterContext::default() });
    assert_eq!(shown(table.set_context(&none)), ["gone Telemetry shop/a"]);
    assert!(table.feed([Event::Delete(name("a"))]).is_empty());
}

#[test]
fn refused_unserved_kind_keeps_its_objects_and_a_live_source() {
    let mut table = mk_known(None);
    table.feed([Event::Init, put("a", None), Event::InitDone]);
    assert!(table.feed([Event::Unavailable(Withheld::forbidden("403"))]).is_empty());
    let part = |state| SourcePart { state, reason: "403".into(), ..SourcePart::default() };
    let status = |table: &mut UnservedTable, state| match &*table.apply(Event::Status(part(state))) {
        [SourceEvent::Status(_, status)] => status.clone(),
        other => panic!("{other:?}"),
    };
    let refused = status(&mut table, SourceState::Forbidden);
    assert_eq!((refused.state, &*refused.reason, refused.is_partial()), (SourceState::Live, "", false));
    let part = &refused.parts[0];
    assert_eq!(part.state, SourceState::Forbidden);
    assert!(part.reason.starts_with("403; nothing that clients receive depends"), "{}", part.reason);
    assert_eq!(&*status(&mut table, SourceState::Live).parts[0].reason, "403", "a note stays as it is");
}

#[test]
fn number_of_unserved_objects_is_bounded() {
    let mut table = mk_known(None);
    let many = (0..UnservedTable::MOST + 3).map(|at| put(&format!("o{at}"), None));
    assert_eq!(table.feed(many).len(), UnservedTable::MOST);
    assert!(table.feed([Event::Delete(name(&format!("o{}", UnservedTable::MOST)))]).is_empty());
}
