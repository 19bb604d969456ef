//! Events that result from watch events, and independence of their order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::value::RawValue;
use tributary_kube_client::Projection;
use tributary_model::{NetworkId, SourceState};

use super::*;

fn mk_table(revision: Option<&str>) -> ResourceTable {
    let scope = Scope::new("workloadentries").unwrap();
    ResourceTable::new(scope, "WorkloadEntry", revision.map(Arc::from), Some(Arc::default()))
}

fn name(name: &str) -> ObjectName {
    ObjectName::new("shop", name)
}

fn mk(text: &str) -> Event<Fetched> {
    Event::Apply(Fetched::decode(&RawValue::from_string(text.to_owned()).unwrap()).unwrap())
}

fn labelled(name: &str, labels: &str, spec: &str) -> Event<Fetched> {
    mk(&format!(
        r#"{{"apiVersion":"networking.istio.io/v1","kind":"WorkloadEntry","metadata":{{"name":"{name}","namespace":"shop","resourceVersion":"1","labels":{{{labels}}}}},"spec":{spec}}}"#
    ))
}

fn put(name: &str, address: &str) -> Event<Fetched> {
    labelled(name, "", &format!(r#"{{"address":"{address}"}}"#))
}

fn bad(name: &str) -> Event<Fetched> {
    labelled(name, "", r#"{"address":[]}"#)
}

fn shown(events: Vec<SourceEvent>) -> Vec<String> {
    let show = |event: SourceEvent| match event {
        SourceEvent::ListStarted(_) => "restart".to_owned(),
        SourceEvent::Changed(_, Change::Updated { old, new }) => {
            format!("{} {}", if old.is_some() { "changed" } else { "new" }, new.document.meta.name)
        }
        SourceEvent::Changed(_, Change::Removed { old, evidence }) => {
            let how = format!("{evidence:?}");
            format!("gone {} {}", old.document.meta.name, how.split('(').next().unwrap_or_default())
        }
        SourceEvent::Problem(_, object, Some(problem)) => format!("{} {}", problem.code, object.id.name),
        SourceEvent::Problem(_, object, None) => format!("good {}", object.id.name),
        SourceEvent::Excluded(_, list) => {
            let list = list.iter().map(|left| format!("{} {}", left.object.id.name, left.code));
            format!("excluded [{}]", list.collect::<Vec<_>>().join(", "))
        }
        SourceEvent::Withheld(_, why) => format!("withheld {:?}", why.cause),
        SourceEvent::Identity(identity) => format!("identity {identity}"),
        SourceEvent::ListEnded(_, how) => format!("{how:?}"),
        SourceEvent::Confirmed(_) => "confirmed".to_owned(),
        SourceEvent::Status(_, status) => format!("{:?}", status.state),
    };
    events.into_iter().map(show).collect()
}

impl ResourceTable {
    fn feed(&mut self, events: impl IntoIterator<Item = Event<Fetched>>) -> Vec<String> {
        let all = events.into_iter().flat_map(|event| self.apply(event)).collect();
        shown(all)
    }
    fn served(&self) -> String {
        let mut out = String::new();
        for row in self.rows.values() {
            let Some(object) = &row.served else { continue };
            let crate::document::Body::WorkloadEntry(entry) = &object.document.body else {
                panic!("not one")
            };
            let address = &entry.spec.address.as_ref().unwrap().value;
            out.push_str(&format!("{}={address} ", object.document.meta.name));
        }
        out.trim_end().to_owned()
    }
}

#[test]
fn first_list_is_reported_from_start_to_end() {
    let mut table = mk_table(None);
    assert_eq!(table.feed([Event::Init, put("a", "1.1.1.1")]), ["restart", "new a"]);
    assert!(!table.is_listed());
    assert_eq!(table.feed([Event::InitDone]), ["Complete"]);
    assert!(table.is_listed());
}

#[test]
fn followed_kind_shows_why_nothing_of_it_is_reported() {
    let context = |withheld| Arc::new(ClusterContext { withheld, ..ClusterContext::default() });
    let reason = |events: &[SourceEvent]| match events {
        [SourceEvent::Status(_, status)] => (status.state, status.reason.to_string()),
        other => panic!("{other:?}"),
    };
    let scope = Scope::new("workloadentries").unwrap();
    let mut table = ResourceTable::new(scope, "WorkloadEntry", None, None);
    let absent =
        SourcePart { state: SourceState::Live, reason: "not served".into(), ..SourcePart::default() };
    let events = table.apply(Event::Status(absent));
    assert_eq!(reason(&events), (SourceState::Live, String::new()), "a kind that is not installed is normal");
    let [SourceEvent::Status(_, status)] = &events[..] else { panic!() };
    assert_eq!(&*status.parts[0].reason, "not served", "the part has it");
    let unknown = || context(Some(Withheld::forbidden("the mesh configuration is unknown")));
    let list = table.set_context(unknown());
    assert_eq!(reason(&list), (SourceState::Live, "the mesh configuration is unknown".to_owned()));
    assert!(table.set_context(unknown()).is_empty(), "once");
    assert_eq!(reason(&table.set_context(context(None))), (SourceState::Live, String::new()));
}

#[test]
fn relist_reports_differences_and_confirms_the_rest() {
    let mut table = mk_table(None);
    table.feed([Event::Init, put("a", "1.1.1.1"), put("b", "2.2.2.2"), put("c", "3.3.3.3"), Event::InitDone]);
    let again =
        [Event::Init, Event::Unchanged(name("a")), put("b", "2.2.2.2"), put("d", "4.4.4.4"), Event::InitDone];
    assert_eq!(table.feed(again), ["new d", "gone c AbsentFromList", "confirmed"]);
    assert_eq!(table.served(), "a=1.1.1.1 b=2.2.2.2 d=4.4.4.4");
}

#[test]
fn interrupted_list_removes_nothing() {
    let mut table = mk_table(None);
    table.feed([Event::Init, put("a", "1.1.1.1"), put("b", "2.2.2.2"), Event::InitDone]);
    assert!(table.feed([Event::Init, put("a", "1.1.1.1"), Event::Init]).is_empty());
    assert_eq!(table.feed([put("b", "2.2.2.2"), Event::InitDone]), ["gone a AbsentFromList", "confirmed"]);
}

#[test]
fn invalid_version_keeps_the_last_good_one() {
    let mut table = mk_table(None);
    table.feed([Event::Init, put("a", "1.1.1.1"), put("b", "2.2.2.2"), Event::InitDone]);
    assert_eq!(table.feed([bad("a")]), ["TRB0305 a"]);
    assert!(table.feed([bad("a")]).is_empty(), "it is reported once");
    assert_eq!(table.served(), "a=1.1.1.1 b=2.2.2.2");
    assert_eq!(table.feed([Event::Invalid(name("b"), "metadata is torn".into())]), ["TRB0321 b"]);
    assert_eq!(
        table.feed([Event::Init, bad("a"), Event::Unchanged(name("b")), Event::InitDone]),
        ["confirmed"]
    );
    assert_eq!(table.feed([put("a", "1.1.1.9")]), ["changed a", "good a"]);
    assert_eq!(table.feed([Event::Delete(name("b"))]), ["gone b Deleted", "good b"]);
}

#[test]
fn an_object_that_was_never_good_is_shown_and_not_served() {
    let mut table = mk_table(None);
    assert_eq!(table.feed([Event::Init, bad("a"), Event::InitDone]), ["restart", "TRB0305 a", "Complete"]);
    assert_eq!(table.feed([Event::Delete(name("a"))]), ["good a"]);
}

#[test]
fn absent_kind_is_a_complete_empty_list() {
    let mut table = mk_table(None);
    assert_eq!(table.feed([Event::NotServed]), ["restart", "Complete"]);
    assert_eq!(table.feed([Event::NotServed]), ["confirmed"]);
    assert_eq!(table.feed([Event::Init, put("a", "1.1.1.1"), Event::InitDone]), ["new a", "confirmed"]);
    assert_eq!(table.feed([Event::NotServed]), ["gone a Confirmed", "confirmed"]);
}

fn part(state: SourceState) -> Event<Fetched> {
    Event::Status(SourcePart { state, ..SourcePart::default() })
}

fn forbidden() -> Event<Fetched> {
    Event::Unavailable(Withheld::forbidden("403"))
}
fn failing() -> Event<Fetched> {
    Event::Unavailable(Withheld::failing("500"))
}

impl ResourceTable {
    fn withheld(&mut self, others: bool) -> Vec<String> {
        shown(self.withhold(others).into_iter().collect())
    }
}

#[test]
fn refused_kind_is_withheld_and_keeps_its_objects() {
    let mut table = mk_table(None);
    assert_eq!(table.feed([forbidden(), part(SourceState::Forbidden)]), ["Forbidden"]);
    assert_eq!(table.withheld(false), ["withheld Forbidden"]);
    assert_eq!(table.withheld(true), [""; 0], "it is reported once");
    assert_eq!(
        table.feed([Event::Init, put("a", "1.1.1.1"), Event::InitDone]),
        ["restart", "new a", "Complete"]
    );
    table.feed([forbidden(), part(SourceState::Forbidden)]);
    assert_eq!(table.withheld(false), ["withheld Forbidden"], "while running as well");
    assert_eq!(table.feed([Event::Confirmed]), [""; 0], "a watch that continues confirms nothing");
    assert_eq!(table.served(), "a=1.1.1.1");
    assert_eq!(table.feed([Event::Resumed]), ["Complete"], "without a new list");
    assert_eq!(table.feed([Event::Confirmed]), ["confirmed"]);
}

#[test]
fn failing_kind_is_withheld_only_where_another_is_followed() {
    let mut table = mk_table(None);
    table.feed([Event::Init, part(SourceState::Unreachable), failing()]);
    assert_eq!(table.withheld(false), [""; 0], "a failing server proves nothing about its objects");
    assert_eq!(table.withheld(true), ["withheld Failing"]);
    assert_eq!(table.feed([Event::Init, Event::InitDone]), ["Complete"]);
    assert_eq!(table.withheld(true), [""; 0]);
}

#[test]
fn interrupted_and_withheld_list_is_continued() {
    let mut table = mk_table(None);
    assert_eq!(table.feed([Event::Init, put("a", "1.1.1.1"), forbidden()]), ["restart", "new a"]);
    assert_eq!(table.withheld(false), ["withheld Forbidden"]);
    // A second list start would exclude objects that are only marked as present.
    assert_eq!(table.feed([Event::Init, Event::Unchanged(name("a")), Event::InitDone]), ["Complete"]);
}

#[test]
fn objects_are_withheld_while_their_context_is_unreadable() {
    let unknown = ClusterContext {
        withheld: Some(Withheld::forbidden("configmaps: 403")),
        ..ClusterContext::default()
    };
    let mut table = mk_table(None);
    table.context = None;
    table.feed([Event::Init, put("a", "1.1.1.1"), Event::InitDone]);
    assert!(shown(table.set_context(Arc::new(unknown.clone()))).is_empty());
    assert_eq!(table.withheld(true), ["withheld Forbidden"]);
    assert_eq!(table.feed([put("b", "2.2.2.2")]), [""; 0]);
    assert_eq!(shown(table.set_context(Arc::default())), ["restart", "new a", "new b", "Complete"]);
    assert!(shown(table.set_context(Arc::new(unknown))).is_empty());
    assert_eq!(table.withheld(true), [""; 0], "a known context stays valid");
}

#[test]
fn objects_of_a_different_revision_are_excluded_once() {
    let mut table = mk_table(Some("blue"));
    let green = || labelled("b", r#""istio.io/rev":"green""#, r#"{"address":"2.2.2.2"}"#);
    let blue = labelled("c", r#""istio.io/rev":"blue""#, r#"{"address":"3.3.3.3"}"#);
    assert_eq!(
        table.feed([Event::Init, put("a", "1.1.1.1"), green(), blue, Event::InitDone]),
        ["restart", "new a", "new c", "Complete", "excluded [b TRB0209]"]
    );
    assert!(table.feed([Event::Init, put("a", "1.1.1.1"), green()]).is_empty(), "it is reported once");
    assert_eq!(table.feed([put("b", "2.2.2.2")]), ["new b", "excluded []"]);
    assert_eq!(table.feed([green()]), ["gone b Changed", "excluded [b TRB0209]"]);
    assert_eq!(table.feed([Event::Delete(name("b"))]), ["excluded []"]);
}

#[test]
fn nothing_is_reported_before_the_context_is_known() {
    let mut table = mk_table(None);
    table.context = None;
    assert!(table.feed([Event::Init, put("a", "1.1.1.1"), bad("b"), Event::InitDone]).is_empty());
    assert_eq!(
        shown(table.set_context(Arc::default())),
        ["restart", "new a", "TRB0305 b", "Complete"],
        "then everything is reported"
    );
}

#[test]
fn deselected_namespace_excludes_its_objects() {
    let mut table = mk_table(None);
    table.feed([Event::Init, put("a", "1.1.1.1"), Event::InitDone]);
    let none = Arc::new(ClusterContext { selected: Some([].into()), ..ClusterContext::default() });
    assert_eq!(shown(table.set_context(none.clone())), ["gone a Changed", "excluded [a TRB0208]"]);
    assert!(shown(table.set_context(none)).is_empty());
    assert!(table.feed([put("a", "1.1.1.2")]).is_empty());
    assert_eq!(shown(table.set_context(Arc::default())), ["new a", "excluded []"]);
    assert_eq!(table.served(), "a=1.1.1.2");
}

#[test]
fn new_context_changes_every_object() {
    let mut table = mk_table(None);
    table.feed([Event::Init, put("a", "1.1.1.1"), Event::InitDone]);
    let network = NetworkId::new("n").ok();
    let context = Arc::new(ClusterContext { network: network.clone(), ..ClusterContext::default() });
    let events = table.set_context(context);
    let [SourceEvent::Changed(_, Change::Updated { old: Some(old), new })] = &*events else {
        panic!("{events:?}")
    };
    assert_eq!((&old.cluster_context.network, &new.cluster_context.network), (&None, &network));
}

/// An action on one of three objects of the server.
#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    Bad(u8),
    Gone(u8),
    /// A list of all objects; interrupted after the first if false.
    Relist(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_u8, 0..3_u8).prop_map(|(name, address)| Step::Put(name, address)),
        (0..3_u8).prop_map(Step::Bad),
        (0..3_u8).prop_map(Step::Gone),
        any::<bool>().prop_map(Step::Relist),
    ]
}

fn event(name: u8, address: Option<u8>) -> Event<Fetched> {
    let name = format!("w{name}");
    address.map_or_else(|| bad(&name), |address| put(&name, &format!("1.1.1.{address}")))
}

proptest! {
    #[test]
    fn any_events_end_in_the_last_good_version_of_each_object(steps in proptest::collection::vec(any_step(), 0..40)) {
        let mut table = mk_table(None);
        table.feed([Event::Init, Event::InitDone]);
        // The objects of the server, each with its last good address.
        let mut there: BTreeMap<u8, (Option<u8>, Option<u8>)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put(name, address) => {
                    there.insert(name, (Some(address), Some(address)));
                    table.feed([event(name, Some(address))]);
                }
                Step::Bad(name) => {
                    there.entry(name).or_default().0 = None;
                    table.feed([event(name, None)]);
                }
                Step::Gone(gone) => {
                    there.remove(&gone);
                    table.feed([Event::Delete(name(&format!("w{gone}")))]);
                }
                Step::Relist(whole) => {
                    table.feed([Event::Init]);
                    let shown = there.iter().take(if whole { 3 } else { 1 });
                    for (name, (now, _)) in shown { table.feed([event(*name, *now)]); }
                    if whole { table.feed([Event::InitDone]); }
                }
            }
        }
        table.feed([Event::Init]);
        for (name, (now, _)) in &there { table.feed([event(*name, *now)]); }
        table.feed([Event::InitDone]);
        let expected: Vec<String> = there.iter()
            .filter_map(|(name, (_, good))| good.map(|address| format!("w{name}=1.1.1.{address}")))
            .collect();
        prop_assert_eq!(table.served(), expected.join(" "));
    }
}
