//! What a kind's words come to, one word after another, and that their order does not matter.

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

fn shown(events: Vec<ConfigEvent>) -> Vec<String> {
    let show = |event: ConfigEvent| match event {
        ConfigEvent::Restart(_) => "restart".to_owned(),
        ConfigEvent::Changed(_, Change::Is { old, new }) => {
            format!("{} {}", if old.is_some() { "changed" } else { "new" }, new.document.meta.name)
        }
        ConfigEvent::Changed(_, Change::Gone { old, evidence }) => {
            let how = format!("{evidence:?}");
            format!("gone {} {}", old.document.meta.name, how.split('(').next().unwrap_or_default())
        }
        ConfigEvent::Problem(_, object, Some(problem)) => format!("{} {}", problem.code, object.id.name),
        ConfigEvent::Problem(_, object, None) => format!("good {}", object.id.name),
        ConfigEvent::LeftOut(_, list) => {
            let said = list.iter().map(|left| format!("{} {}", left.object.id.name, left.code));
            format!("left out [{}]", said.collect::<Vec<_>>().join(", "))
        }
        ConfigEvent::Withheld(_, why) => format!("withheld {:?}", why.cause),
        ConfigEvent::Identity(identity) => format!("identity {identity}"),
        ConfigEvent::Listed(_, how) => format!("{how:?}"),
        ConfigEvent::Confirmed(_) => "confirmed".to_owned(),
        ConfigEvent::Status(_, status) => format!("{:?}", status.state),
    };
    events.into_iter().map(show).collect()
}

impl ResourceTable {
    fn say(&mut self, events: impl IntoIterator<Item = Event<Fetched>>) -> Vec<String> {
        let all = events.into_iter().flat_map(|event| self.take(event)).collect();
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
fn a_first_list_is_said_from_its_start_to_its_end() {
    let mut table = mk_table(None);
    assert_eq!(table.say([Event::Init, put("a", "1.1.1.1")]), ["restart", "new a"]);
    assert!(!table.is_listed());
    assert_eq!(table.say([Event::InitDone]), ["Complete"]);
    assert!(table.is_listed());
}

#[test]
fn followed_kind_shows_why_nothing_of_it_is_reported() {
    let around = |withheld| Arc::new(ClusterContext { withheld, ..ClusterContext::default() });
    let reason = |events: &[ConfigEvent]| match events {
        [ConfigEvent::Status(_, status)] => (status.state, status.reason.to_string()),
        other => panic!("{other:?}"),
    };
    let scope = Scope::new("workloadentries").unwrap();
    let mut table = ResourceTable::new(scope, "WorkloadEntry", None, None);
    let live = Event::Status(SourcePart { state: SourceState::Live, ..SourcePart::default() });
    assert_eq!(reason(&table.take(live)), (SourceState::Live, String::new()));
    let unknown = || around(Some(Withheld::forbidden("the mesh configuration is unknown")));
    let said = table.surround(unknown());
    assert_eq!(reason(&said), (SourceState::Live, "the mesh configuration is unknown".to_owned()));
    assert!(table.surround(unknown()).is_empty(), "once");
    assert_eq!(reason(&table.surround(around(None))), (SourceState::Live, String::new()));
}

#[test]
fn a_relist_says_what_differs_and_confirms_the_rest() {
    let mut table = mk_table(None);
    table.say([Event::Init, put("a", "1.1.1.1"), put("b", "2.2.2.2"), put("c", "3.3.3.3"), Event::InitDone]);
    let again =
        [Event::Init, Event::Unchanged(name("a")), put("b", "2.2.2.2"), put("d", "4.4.4.4"), Event::InitDone];
    assert_eq!(table.say(again), ["new d", "gone c AbsentFromList", "confirmed"]);
    assert_eq!(table.served(), "a=1.1.1.1 b=2.2.2.2 d=4.4.4.4");
}

#[test]
fn a_list_that_breaks_off_takes_nothing_away_and_forgets_nothing() {
    let mut table = mk_table(None);
    table.say([Event::Init, put("a", "1.1.1.1"), put("b", "2.2.2.2"), Event::InitDone]);
    assert!(table.say([Event::Init, put("a", "1.1.1.1"), Event::Init]).is_empty());
    assert_eq!(table.say([put("b", "2.2.2.2"), Event::InitDone]), ["gone a AbsentFromList", "confirmed"]);
}

#[test]
fn a_bad_version_leaves_the_last_good_one_and_is_shown_alone() {
    let mut table = mk_table(None);
    table.say([Event::Init, put("a", "1.1.1.1"), put("b", "2.2.2.2"), Event::InitDone]);
    assert_eq!(table.say([bad("a")]), ["TRB0305 a"]);
    assert!(table.say([bad("a")]).is_empty(), "it is said once");
    assert_eq!(table.served(), "a=1.1.1.1 b=2.2.2.2");
    assert_eq!(table.say([Event::Invalid(name("b"), "metadata is torn".into())]), ["TRB0321 b"]);
    assert_eq!(
        table.say([Event::Init, bad("a"), Event::Unchanged(name("b")), Event::InitDone]),
        ["confirmed"]
    );
    assert_eq!(table.say([put("a", "1.1.1.9")]), ["changed a", "good a"]);
    assert_eq!(table.say([Event::Delete(name("b"))]), ["gone b Deleted", "good b"]);
}

#[test]
fn an_object_that_was_never_good_is_shown_and_not_served() {
    let mut table = mk_table(None);
    assert_eq!(table.say([Event::Init, bad("a"), Event::InitDone]), ["restart", "TRB0305 a", "Complete"]);
    assert_eq!(table.say([Event::Delete(name("a"))]), ["good a"]);
}

#[test]
fn a_kind_that_is_absent_is_a_complete_list_of_nothing_and_appears_later() {
    let mut table = mk_table(None);
    assert_eq!(table.say([Event::NotServed]), ["restart", "Complete"]);
    assert_eq!(table.say([Event::NotServed]), ["confirmed"]);
    assert_eq!(table.say([Event::Init, put("a", "1.1.1.1"), Event::InitDone]), ["new a", "confirmed"]);
    assert_eq!(table.say([Event::NotServed]), ["gone a Confirmed", "confirmed"]);
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
fn refused_kind_is_withheld_and_what_was_listed_stays() {
    let mut table = mk_table(None);
    assert_eq!(table.say([forbidden(), part(SourceState::Forbidden)]), ["Forbidden"]);
    assert_eq!(table.withheld(false), ["withheld Forbidden"]);
    assert_eq!(table.withheld(true), [""; 0], "it is reported once");
    assert_eq!(
        table.say([Event::Init, put("a", "1.1.1.1"), Event::InitDone]),
        ["restart", "new a", "Complete"]
    );
    table.say([forbidden(), part(SourceState::Forbidden)]);
    assert_eq!(table.withheld(false), ["withheld Forbidden"], "while running as well");
    assert_eq!(table.say([Event::Confirmed]), [""; 0], "the watch that goes on confirms nothing");
    assert_eq!(table.served(), "a=1.1.1.1");
    assert_eq!(table.say([Event::Resumed]), ["Complete"], "without a new list");
    assert_eq!(table.say([Event::Confirmed]), ["confirmed"]);
}

#[test]
fn failing_kind_is_withheld_only_where_another_is_followed() {
    let mut table = mk_table(None);
    table.say([Event::Init, part(SourceState::Unreachable), failing()]);
    assert_eq!(table.withheld(false), [""; 0], "the server fails, which proves nothing of what it has");
    assert_eq!(table.withheld(true), ["withheld Failing"]);
    assert_eq!(table.say([Event::Init, Event::InitDone]), ["Complete"]);
    assert_eq!(table.withheld(true), [""; 0]);
}

#[test]
fn list_that_breaks_off_and_is_withheld_is_continued_and_not_begun_again() {
    let mut table = mk_table(None);
    assert_eq!(table.say([Event::Init, put("a", "1.1.1.1"), forbidden()]), ["restart", "new a"]);
    assert_eq!(table.withheld(false), ["withheld Forbidden"]);
    // another `restart` would leave out what is only seen, and end it
    assert_eq!(table.say([Event::Init, Event::Unchanged(name("a")), Event::InitDone]), ["Complete"]);
}

#[test]
fn objects_are_withheld_while_their_surroundings_cannot_be_read() {
    let unknown = ClusterContext {
        withheld: Some(Withheld::forbidden("configmaps: 403")),
        ..ClusterContext::default()
    };
    let mut table = mk_table(None);
    table.around = None;
    table.say([Event::Init, put("a", "1.1.1.1"), Event::InitDone]);
    assert!(shown(table.surround(Arc::new(unknown.clone()))).is_empty());
    assert_eq!(table.withheld(true), ["withheld Forbidden"]);
    assert_eq!(table.say([put("b", "2.2.2.2")]), [""; 0]);
    assert_eq!(shown(table.surround(Arc::default())), ["restart", "new a", "new b", "Complete"]);
    assert!(shown(table.surround(Arc::new(unknown))).is_empty());
    assert_eq!(table.withheld(true), [""; 0], "what was known still holds");
}

#[test]
fn objects_of_another_revision_are_left_out_and_the_reason_is_said() {
    let mut table = mk_table(Some("blue"));
    let green = || labelled("b", r#""istio.io/rev":"green""#, r#"{"address":"2.2.2.2"}"#);
    let blue = labelled("c", r#""istio.io/rev":"blue""#, r#"{"address":"3.3.3.3"}"#);
    assert_eq!(
        table.say([Event::Init, put("a", "1.1.1.1"), green(), blue, Event::InitDone]),
        ["restart", "new a", "new c", "Complete", "left out [b TRB0209]"]
    );
    assert!(table.say([Event::Init, put("a", "1.1.1.1"), green()]).is_empty(), "it is said once");
    assert_eq!(table.say([put("b", "2.2.2.2")]), ["new b", "left out []"]);
    assert_eq!(table.say([green()]), ["gone b Changed", "left out [b TRB0209]"]);
    assert_eq!(table.say([Event::Delete(name("b"))]), ["left out []"]);
}

#[test]
fn nothing_is_said_before_the_surroundings_are_known() {
    let mut table = mk_table(None);
    table.around = None;
    assert!(table.say([Event::Init, put("a", "1.1.1.1"), bad("b"), Event::InitDone]).is_empty());
    assert_eq!(
        shown(table.surround(Arc::default())),
        ["restart", "new a", "TRB0305 b", "Complete"],
        "then all of it is"
    );
}

#[test]
fn a_namespace_that_is_deselected_takes_its_objects_along_and_brings_them_back() {
    let mut table = mk_table(None);
    table.say([Event::Init, put("a", "1.1.1.1"), Event::InitDone]);
    let none = Arc::new(ClusterContext { selected: Some([].into()), ..ClusterContext::default() });
    assert_eq!(shown(table.surround(none.clone())), ["gone a Changed", "left out [a TRB0208]"]);
    assert!(shown(table.surround(none)).is_empty());
    assert!(table.say([put("a", "1.1.1.2")]).is_empty());
    assert_eq!(shown(table.surround(Arc::default())), ["new a", "left out []"]);
    assert_eq!(table.served(), "a=1.1.1.2");
}

#[test]
fn other_surroundings_are_a_change_of_every_object() {
    let mut table = mk_table(None);
    table.say([Event::Init, put("a", "1.1.1.1"), Event::InitDone]);
    let network = NetworkId::new("n").ok();
    let around = Arc::new(ClusterContext { network: network.clone(), ..ClusterContext::default() });
    let events = table.surround(around);
    let [ConfigEvent::Changed(_, Change::Is { old: Some(old), new })] = &*events else {
        panic!("{events:?}")
    };
    assert_eq!((&old.cluster_context.network, &new.cluster_context.network), (&None, &network));
}

/// What a server may do to one of three objects.
#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    Bad(u8),
    Gone(u8),
    /// A relist, which shows what there is; with the first of it only, where it breaks off.
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
    fn any_words_end_in_the_last_good_version_of_what_there_is(steps in proptest::collection::vec(any_step(), 0..40)) {
        let mut table = mk_table(None);
        table.say([Event::Init, Event::InitDone]);
        // what there is, and of each its last good address
        let mut there: BTreeMap<u8, (Option<u8>, Option<u8>)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put(name, address) => {
                    there.insert(name, (Some(address), Some(address)));
                    table.say([event(name, Some(address))]);
                }
                Step::Bad(name) => {
                    there.entry(name).or_default().0 = None;
                    table.say([event(name, None)]);
                }
                Step::Gone(gone) => {
                    there.remove(&gone);
                    table.say([Event::Delete(name(&format!("w{gone}")))]);
                }
                Step::Relist(whole) => {
                    table.say([Event::Init]);
                    let shown = there.iter().take(if whole { 3 } else { 1 });
                    for (name, (now, _)) in shown { table.say([event(*name, *now)]); }
                    if whole { table.say([Event::InitDone]); }
                }
            }
        }
        table.say([Event::Init]);
        for (name, (now, _)) in &there { table.say([event(*name, *now)]); }
        table.say([Event::InitDone]);
        let expected: Vec<String> = there.iter()
            .filter_map(|(name, (_, good))| good.map(|address| format!("w{name}=1.1.1.{address}")))
            .collect();
        prop_assert_eq!(table.served(), expected.join(" "));
    }
}
