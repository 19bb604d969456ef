//! Events that result from listings: served, missing, removed and invalid objects.

use super::*;
use std::fmt::Write as _;

const SECOND: u64 = 1_000;

/// A tree with its own clock.
struct Dir {
    tree: Tree,
    now: u64,
    files: BTreeMap<PathBuf, Seen>,
    faults: Vec<Fault>,
    id: u64,
}

impl Dir {
    fn new() -> Self {
        let confirm = Duration::from_millis(250);
        let tree = Tree::new("conf".into(), Scope::new("conf").unwrap(), confirm);
        Self { tree, now: 0, files: BTreeMap::new(), faults: Vec::new(), id: 1 }
    }
    /// A directory whose first list has ended.
    fn listed(files: &[(&str, &str)]) -> Self {
        let mut dir = Self::new();
        for (name, text) in files {
            dir.put(name, text);
        }
        dir.look();
        dir.later(250);
        dir
    }
    fn put(&mut self, name: &str, text: &str) {
        self.files.insert(name.into(), Seen::Text(text.into()));
    }
    fn remove(&mut self, name: &str) {
        self.files.remove(Path::new(name)).expect("it was there");
    }
    fn look(&mut self) -> Vec<String> {
        let walk = Walk {
            dir: DirId::new(self.id),
            files: self.files.clone(),
            faults: self.faults.clone(),
            stamps: Stamps::default(),
        };
        let step = self.tree.observe(Listing::Walked(walk), Mono(self.now));
        self.files.values_mut().for_each(|seen| *seen = Seen::Same);
        shown(&step)
    }
    fn later(&mut self, millis: u64) -> Vec<String> {
        self.now += millis;
        self.look()
    }
    fn unreadable(&mut self) -> Vec<String> {
        shown(
            &self.tree.observe(Listing::Unreadable(SourceState::Forbidden, "denied".into()), Mono(self.now)),
        )
    }
    fn served(&self) -> String {
        let mut out = String::new();
        for served in self.tree.served.values() {
            let crate::Body::WorkloadEntry(entry) = &served.object.document.body else {
                panic!("no workload")
            };
            let name = &served.object.document.meta.name;
            let address = &entry.spec.address.as_ref().unwrap().value;
            write!(out, "{name}={address} ").unwrap();
        }
        out.trim_end().to_owned()
    }
}

fn shown(step: &Step) -> Vec<String> {
    let show = |event: &SourceEvent| match event {
        SourceEvent::ListStarted(_) => "restart".to_owned(),
        SourceEvent::Changed(_, Change::Updated { old, new }) => {
            format!("{} {}", if old.is_some() { "changed" } else { "new" }, new.document.meta.name)
        }
        SourceEvent::Changed(_, Change::Removed { old, evidence }) => {
            assert_eq!(*evidence, Evidence::Confirmed);
            format!("gone {}", old.document.meta.name)
        }
        SourceEvent::Problem(_, object, Some(problem)) => format!("{} {}", problem.code, object.id),
        SourceEvent::Problem(_, object, None) => format!("good {}", object.id),
        SourceEvent::ListEnded(_, how) => format!("{how:?}"),
        SourceEvent::Confirmed(_) => "confirmed".to_owned(),
        SourceEvent::Status(_, status) => format!("{:?}", status.state),
        other @ (SourceEvent::Excluded(..) | SourceEvent::Withheld(..) | SourceEvent::Identity(_)) => {
            panic!("unexpected event of a directory: {other:?}")
        }
    };
    let mut out: Vec<String> = step.events.iter().map(show).collect();
    if step.again {
        out.push("again".into());
    }
    out
}

fn doc(name: &str, address: &str) -> String {
    format!(
        "---\napiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata:\n  name: {name}\nspec:\n  address: {address}\n"
    )
}

#[test]
fn the_first_list_ends_when_a_second_look_agrees() {
    let mut dir = Dir::new();
    dir.put("a.yaml", &doc("a", "10.0.0.1"));
    assert_eq!(dir.look(), ["restart", "new a", "Live", "again"]);
    dir.put("b.yaml", &doc("b", "10.0.0.2"));
    assert_eq!(dir.later(100), ["new b", "again"]);
    assert_eq!(dir.later(150), ["Complete"]);
    assert_eq!(dir.later(SECOND), ["confirmed"]);
}

#[test]
fn change_is_reported_at_once() {
    let mut dir = Dir::listed(&[("a.yaml", &doc("a", "10.0.0.1"))]);
    dir.put("a.yaml", &doc("a", "10.0.0.2"));
    assert_eq!(dir.later(1), ["changed a", "confirmed"]);
    dir.put("a.yaml", &format!("# note\n{}", doc("a", "10.0.0.2")));
    assert_eq!(dir.later(1), ["changed a", "confirmed"], "it moved");
    assert_eq!(&*dir.tree.served.values().next().unwrap().object.position, "conf/a.yaml:3:1");
}

#[test]
fn missing_file_is_removed_after_a_second_look_only() {
    let mut dir = Dir::listed(&[("a.yaml", &doc("a", "10.0.0.1")), ("b.yaml", &doc("b", "10.0.0.2"))]);
    dir.remove("a.yaml");
    assert_eq!(dir.later(SECOND), ["confirmed", "again"]);
    assert_eq!(dir.later(249), ["confirmed", "again"]);
    assert_eq!(dir.later(1), ["gone a", "confirmed"]);
    assert_eq!(dir.served(), "b=10.0.0.2");
}

#[test]
fn an_editor_may_take_the_file_away_for_a_moment() {
    let mut dir = Dir::listed(&[("a.yaml", &doc("a", "10.0.0.1"))]);
    dir.remove("a.yaml");
    dir.later(SECOND);
    dir.put("a.yaml", &doc("a", "10.0.0.9"));
    assert_eq!(dir.later(100), ["changed a", "confirmed"]);
    dir.remove("a.yaml");
    dir.later(1);
    assert_eq!(dir.later(249), ["confirmed", "again"], "the earlier absence does not count");
}

#[test]
fn a_truncated_file_loses_nothing_until_a_second_look() {
    let mut dir = Dir::listed(&[("a.yaml", &(doc("a", "10.0.0.1") + &doc("b", "10.0.0.2")))]);
    dir.put("a.yaml", "");
    assert_eq!(dir.later(1), ["confirmed", "again"]);
    dir.put("a.yaml", &(doc("a", "10.0.0.1") + &doc("b", "10.0.0.3")));
    assert_eq!(dir.later(10), ["changed b", "confirmed"]);
}

#[test]
fn a_renamed_file_moves_its_objects() {
    let mut dir = Dir::listed(&[("b.yaml", &doc("a", "10.0.0.1"))]);
    dir.remove("b.yaml");
    dir.put("c.yaml", &doc("a", "10.0.0.1"));
    assert_eq!(dir.later(1), ["changed a", "confirmed"], "it moved");
    assert_eq!(dir.later(SECOND), ["confirmed"]);
    dir.remove("c.yaml");
    dir.later(1);
    assert_eq!(dir.later(250), ["gone a", "confirmed"], "it is found by its new name");
}

#[test]
fn one_invalid_document_is_quarantined_alone() {
    let good = doc("a", "10.0.0.1") + &doc("b", "10.0.0.2");
    let mut dir = Dir::listed(&[("f.yaml", &good)]);
    for broken in ["adress: 10.0.0.9", "address: [", "address: 10.0.0.300", "address: {a: b"] {
        let text = doc("a", "10.0.0.1").replace("address: 10.0.0.1", broken) + &doc("b", "10.0.0.7");
        dir.put("f.yaml", &text);
        let events = dir.later(SECOND);
        assert!(
            events[0] == "changed b" && events[1].ends_with("WorkloadEntry default/a"),
            "{broken}: {events:?}"
        );
        assert_eq!(dir.later(SECOND), ["confirmed"], "{broken}");
        assert_eq!(dir.served(), "a=10.0.0.1 b=10.0.0.7", "{broken}");
        dir.put("f.yaml", &good);
        assert_eq!(dir.later(SECOND), ["changed b", "good WorkloadEntry default/a", "confirmed"], "{broken}");
    }
}

#[test]
fn unidentified_document_keeps_all_objects_of_its_file() {
    let mut dir = Dir::listed(&[
        ("f.yaml", &(doc("a", "10.0.0.1") + &doc("b", "10.0.0.2"))),
        ("g.yaml", &doc("c", "10.0.0.3")),
    ]);
    dir.put("f.yaml", &(doc("b", "10.0.0.2") + "---\n{]\n"));
    dir.remove("g.yaml");
    assert_eq!(
        dir.later(SECOND),
        [
            "changed b",
            "TRB0301 Document conf/f.yaml#1",
            "TRB0318 WorkloadEntry default/a",
            "confirmed",
            "again"
        ]
    );
    assert_eq!(dir.later(SECOND), ["gone c", "confirmed"], "the other file is clear");
    assert_eq!(dir.served(), "a=10.0.0.1 b=10.0.0.2");
    dir.put("f.yaml", &doc("b", "10.0.0.2"));
    assert_eq!(
        dir.later(1),
        ["good Document conf/f.yaml#1", "good WorkloadEntry default/a", "confirmed", "again"]
    );
    assert_eq!(dir.later(250), ["gone a", "confirmed"]);
}

#[test]
fn an_object_of_another_kind_in_the_file_keeps_nothing() {
    let mut dir = Dir::listed(&[("f.yaml", &doc("a", "10.0.0.1"))]);
    dir.put("f.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n");
    assert_eq!(dir.later(1), ["TRB0303 Document conf/f.yaml#0", "confirmed", "again"]);
    assert_eq!(dir.later(250), ["gone a", "confirmed"]);
}

#[test]
fn a_file_that_cannot_be_read_keeps_what_it_held() {
    let mut dir = Dir::listed(&[("a.yaml", &doc("a", "10.0.0.1"))]);
    dir.files.insert("a.yaml".into(), Seen::Failed(Code::FILE_UNREADABLE, "cannot be read".into()));
    let shown = ["TRB0317 File conf/a.yaml", "TRB0317 WorkloadEntry default/a", "confirmed"];
    assert_eq!(dir.later(SECOND), shown, "on the object too");
    assert_eq!(dir.served(), "a=10.0.0.1");
    dir.put("a.yaml", &doc("a", "10.0.0.1"));
    let good = ["good File conf/a.yaml", "good WorkloadEntry default/a", "confirmed"];
    assert_eq!(dir.later(SECOND), good);
}

#[test]
fn only_a_file_that_was_read_has_last_contents() {
    let mut dir = Dir::listed(&[("a.yaml", &doc("a", "10.0.0.1"))]);
    for name in ["a.yaml", "b.yaml"] {
        dir.files.insert(name.into(), Seen::Failed(Code::FILE_UNREADABLE, "cannot be read".into()));
    }
    dir.later(SECOND);
    let promised = |name: &str| {
        let problem = dir.tree.files[Path::new(name)].staleness().unwrap();
        problem.message.contains("its last contents stay served")
    };
    assert_eq!((promised("a.yaml"), promised("b.yaml")), (true, false));
}

#[test]
fn first_document_of_an_object_by_file_name_serves() {
    let mut dir = Dir::new();
    dir.put("b.yaml", &doc("a", "10.0.0.2"));
    dir.put("a.yaml", &doc("a", "10.0.0.1"));
    assert_eq!(dir.look(), ["restart", "new a", "TRB0312 WorkloadEntry default/a", "Live", "again"]);
    assert_eq!(dir.served(), "a=10.0.0.1");
    dir.later(250);
    dir.remove("a.yaml");
    assert_eq!(dir.later(1), ["good WorkloadEntry default/a", "confirmed", "again"]);
    assert_eq!(dir.served(), "a=10.0.0.1", "the second waits until the first is known to be removed");
    assert_eq!(dir.later(250), ["changed a", "confirmed"]);
    assert_eq!(dir.served(), "a=10.0.0.2");
}

#[test]
fn invalid_first_document_stays_before_a_second_one() {
    let mut dir = Dir::listed(&[("a.yaml", &doc("a", "10.0.0.1")), ("b.yaml", &doc("a", "10.0.0.2"))]);
    dir.put("a.yaml", &doc("a", "[]"));
    dir.later(SECOND);
    assert_eq!(dir.served(), "a=10.0.0.1");
    let mut fresh = Dir::listed(&[("a.yaml", &doc("a", "[]")), ("b.yaml", &doc("a", "10.0.0.2"))]);
    assert_eq!(fresh.served(), "a=10.0.0.2", "where the first was never good the second serves");
    fresh.put("a.yaml", &doc("a", "10.0.0.1"));
    fresh.later(1);
    assert_eq!(fresh.served(), "a=10.0.0.1");
}

#[test]
fn unreadable_directory_removes_nothing_and_is_reported() {
    let mut dir = Dir::listed(&[("a.yaml", &doc("a", "10.0.0.1")), ("b.yaml", &doc("b", "10.0.0.2"))]);
    dir.remove("b.yaml");
    dir.later(SECOND);
    assert_eq!(dir.unreadable(), ["Forbidden"]);
    assert!(dir.unreadable().is_empty(), "it is reported once");
    assert_eq!(dir.later(SECOND), ["Live", "Complete", "confirmed", "again"], "b must be missed again");
    assert_eq!(dir.later(250), ["gone b", "confirmed"]);
}

#[test]
fn directory_unreadable_at_the_start_is_unknown() {
    let mut dir = Dir::new();
    assert_eq!(dir.unreadable(), ["Forbidden"]);
    dir.put("a.yaml", &doc("a", "10.0.0.1"));
    assert_eq!(dir.later(SECOND), ["restart", "new a", "Live", "again"]);
}

#[test]
fn interrupted_first_list_begins_again() {
    let mut dir = Dir::new();
    dir.put("a.yaml", &doc("a", "10.0.0.1"));
    dir.look();
    dir.unreadable();
    assert_eq!(dir.later(SECOND), ["restart", "new a", "Live", "again"]);
    assert_eq!(dir.later(250), ["Complete"]);
}

#[test]
fn different_directory_of_the_same_name_removes_nothing() {
    let mut dir = Dir::listed(&[("a.yaml", &doc("a", "10.0.0.1")), ("b.yaml", &doc("b", "10.0.0.2"))]);
    dir.id = 2;
    dir.remove("b.yaml");
    dir.put("a.yaml", &doc("a", "10.9.9.9"));
    assert_eq!(dir.later(SECOND), ["Broken"]);
    assert!(dir.later(SECOND).is_empty());
    assert_eq!(dir.served(), "a=10.0.0.1 b=10.0.0.2", "none of its files is served");
    dir.put("a.yaml", &doc("a", "10.9.9.9"));
    dir.put("b.yaml", &doc("b", "10.0.0.2"));
    assert_eq!(
        dir.later(1),
        ["changed a", "Live", "Complete", "confirmed"],
        "with all files it counts as the same directory"
    );
}

#[test]
fn incomplete_listing_removes_nothing() {
    let mut dir = Dir::listed(&[("a.yaml", &doc("a", "10.0.0.1"))]);
    dir.remove("a.yaml");
    dir.faults.push(Fault { code: Code::FILE_UNREADABLE, state: SourceState::Forbidden, why: "sub".into() });
    assert_eq!(dir.later(SECOND), ["TRB0317 Directory conf#0", "Forbidden", "confirmed"]);
    assert_eq!(dir.later(SECOND), ["confirmed"]);
    dir.faults.clear();
    dir.later(SECOND);
    assert_eq!(dir.later(250), ["gone a", "confirmed"]);
}

#[test]
fn first_list_with_unclear_documents_keeps_only_what_they_may_be() {
    let mut dir = Dir::new();
    dir.put("a.yaml", "{]");
    dir.look();
    assert_eq!(dir.later(250), ["ExceptInvalid"]);
    dir.put("a.yaml", &doc("a", "10.0.0.1"));
    assert_eq!(dir.later(1), ["new a", "good Document conf/a.yaml#0", "Complete"]);
}

#[test]
fn several_problems_of_one_object_are_joined() {
    let mut dir = Dir::new();
    dir.put("a.yaml", &doc("a", "[]"));
    dir.put("b.yaml", &doc("a", "{}"));
    dir.look();
    let (_, problem) = dir.tree.problems.values().next().unwrap();
    assert_eq!(problem.code, Code::WRONG_TYPE);
    for part in ["conf/a.yaml:7:12", "conf/b.yaml:7:12", "declared already at conf/a.yaml:2:1"] {
        assert!(problem.message.contains(part), "{part} is not in {}", problem.message);
    }
}

/// Lists the policies of a directory as their action, with `!` if they stand in, and their label `app`.
fn policies(dir: &Dir) -> String {
    let shown = dir.tree.served.values().map(|served| {
        let crate::Body::AuthorizationPolicy(policy) = &served.object.document.body else {
            panic!("no policy")
        };
        let app = policy.selector.as_ref().and_then(|labels| labels.value.get("app")).unwrap_or("*");
        let action = if policy.is_stand_in { "!".to_owned() } else { format!("{:?}", policy.action()) };
        format!("{}={action} {app}", served.object.document.meta.name)
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn authorization(meta: &str, spec: &str) -> String {
    format!(
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata:\n  name: a\n{meta}spec:\n{spec}"
    )
}

const VALID: &str = "  selector: {matchLabels: {app: pay}}\n";
const INVALID: &str = "  selector: {matchLabels: {app: pay}}\n  action: NOPE\n";

#[test]
fn authorization_policy_without_a_valid_version_has_one_that_stands_in() {
    let mut dir = Dir::listed(&[("a.yaml", &authorization("", INVALID))]);
    assert_eq!(policies(&dir), "a=! pay");
    // another invalid version with other labels
    dir.put("a.yaml", &authorization("", &INVALID.replace("pay", "web")));
    let bad = "TRB0305 AuthorizationPolicy default/a";
    assert_eq!(dir.later(1), ["changed a", "confirmed"]);
    assert_eq!(policies(&dir), "a=! web");
    dir.put("a.yaml", &authorization("", VALID));
    assert_eq!(dir.later(1), ["changed a", "good AuthorizationPolicy default/a", "confirmed"]);
    assert_eq!(policies(&dir), "a=Allow pay");
    for text in [authorization("", INVALID), authorization("", "  [\n"), authorization("", VALID) + "x: [\n"]
    {
        dir.put("a.yaml", &text);
        assert_eq!(dir.later(1).first().map(|event| event.starts_with("changed")), Some(false), "{text}");
        assert_eq!(policies(&dir), "a=Allow pay", "the last valid version stays: {text}");
    }
    dir.remove("a.yaml");
    dir.later(1);
    assert!(dir.later(250).contains(&"gone a".to_owned()));
    dir.put("a.yaml", &authorization("", INVALID));
    assert!(dir.later(1).contains(&bad.to_owned()));
    assert_eq!(policies(&dir), "a=! pay");
    dir.remove("a.yaml");
    dir.later(1);
    assert!(dir.later(250).contains(&"gone a".to_owned()), "it goes with its document");
}

#[test]
fn what_stands_in_selects_at_least_the_workloads_of_the_document() {
    let other = authorization("", INVALID).replace("security.istio.io/v1", "policy.linkerd.io/v1alpha1");
    let version = authorization("", VALID).replace("security.istio.io/v1", "security.istio.io/v9");
    let target = "{kind: Pod, name: b}";
    let cases = [
        (authorization("", "  selector: {matchLabels: {app: pay, b: \"*\", c: 1}}\n"), "a=! pay"),
        (authorization("", "  selector: {matchLabel: {app: pay}}\n"), "a=! *"),
        (authorization("", "  selector: [a]\n"), "a=! *"),
        (authorization("", "  selector: {\n"), "a=! *"),
        (authorization("", &format!("{VALID}  targetRef: {target}\n")), "a=! pay"),
        (version, "a=! pay"),
        // they refuse nothing, or belong to another program
        (authorization("", "  action: AUDIT\n  rules: none\n"), ""),
        (authorization("  annotations: {istio.io/dry-run: \"true\"}\n", INVALID), ""),
        (authorization("", &format!("  targetRef: {target}\n")), ""),
        (other, ""),
        (authorization("", INVALID).replace("name: a", "name: A"), ""),
    ];
    for (text, want) in cases {
        let dir = Dir::listed(&[("a.yaml", &text)]);
        assert_eq!(policies(&dir), want, "{text}");
    }
}

#[test]
fn valid_document_precedes_what_stands_in_for_another_one() {
    let mut dir = Dir::listed(&[("a.yaml", &authorization("", INVALID))]);
    dir.put("b.yaml", &authorization("", VALID));
    dir.later(1);
    assert_eq!(policies(&dir), "a=Allow pay");
    // moved and broken at once: what is served stays
    let mut dir = Dir::listed(&[("a.yaml", &authorization("", VALID))]);
    dir.remove("a.yaml");
    dir.put("b.yaml", &authorization("", INVALID));
    dir.later(1);
    dir.later(SECOND);
    assert_eq!(policies(&dir), "a=Allow pay");
    // what stands in moves with its document
    let mut dir = Dir::listed(&[("a.yaml", &authorization("", INVALID))]);
    dir.remove("a.yaml");
    dir.put("b.yaml", &authorization("", INVALID));
    dir.later(1);
    dir.later(SECOND);
    assert_eq!(policies(&dir), "a=! pay");
}
