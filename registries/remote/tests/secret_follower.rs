//! Events of a watch of Secrets, with the roster that reads them: when a cluster joins, rotates and leaves, and what removes nothing.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tributary_kube_client::{Event, ObjectName, Projection as _};
use tributary_model::{ClusterId, Code, Mono, SourcePart, SourceState, Withheld};
use tributary_remote::roster::{Action, DigestKey, Order, Roster, RosterSettings, SecretLabel, Source};
use tributary_remote::{Allowed, Secret, SecretFollower, StoredSecret};

const SOURCE: Source = Source::Secrets(SecretLabel::Istio);
const GRACE: Duration = Duration::from_secs(30);
const HIDDEN: &str = "hunter2";

/// Follower and roster at a time.
struct Lab {
    follower: SecretFollower,
    roster: Roster,
    now: Mono,
}

impl Lab {
    fn new() -> Self {
        let settings = RosterSettings {
            sources: [SOURCE].into(),
            configured: [].into(),
            registries: [].into(),
            grace: GRACE,
        };
        let follower = SecretFollower::new(SOURCE, Allowed::default(), DigestKey::new(&[7; 32]));
        Self { follower, roster: Roster::new(settings), now: Mono::START }
    }
    fn take(&mut self, event: Event<Secret>) -> Vec<Order> {
        let event = self.follower.take(event);
        event.map(|event| self.roster.apply(self.now, event)).unwrap_or_default()
    }
    fn actions(&mut self, events: impl IntoIterator<Item = Event<Secret>>) -> Vec<&'static str> {
        events.into_iter().flat_map(|event| self.take(event)).map(|order| named(&order)).collect()
    }
    fn wait(&mut self, span: Duration) -> Vec<&'static str> {
        self.now = self.now.plus(span);
        let orders = self.roster.apply(self.now, tributary_remote::roster::Event::Tick);
        orders.iter().map(named).collect()
    }
    /// Returns a lab with one cluster.
    fn joined() -> Self {
        let mut lab = Self::new();
        assert_eq!(lab.actions([Event::Init, Event::Apply(mk("token-a")), Event::InitDone]), ["join"]);
        lab
    }
}

fn named(order: &Order) -> &'static str {
    match order.action {
        Action::Join(_) => "join",
        Action::Rotate(_) => "rotate",
        Action::Pause => "pause",
        Action::Leave => "leave",
    }
}

fn kubeconfig(token: &str) -> String {
    let authority = rcgen::generate_simple_self_signed(["east.test".to_owned()]).unwrap().cert.pem();
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", "certificate-authority-data": STANDARD.encode(authority)}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    })
    .to_string()
}

fn mk_object(data: &Value, annotations: &Value) -> Secret {
    let object = json!({
        "metadata": {"namespace": "system", "name": "east", "annotations": annotations,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "data": data,
    });
    Secret::decode(&RawValue::from_string(object.to_string()).unwrap()).unwrap()
}

fn mk(token: &str) -> Secret {
    mk_object(&json!({"east": STANDARD.encode(kubeconfig(token))}), &json!({}))
}

fn name() -> ObjectName {
    ObjectName::new("system", "east")
}

fn status(state: SourceState) -> Event<Secret> {
    let (none, lasted) = (Arc::from(""), Duration::ZERO);
    Event::Status(SourcePart { name: "secrets".into(), state, reason: none, lasted, retry_in: None })
}

#[test]
fn cluster_joins_when_the_list_is_complete() {
    let mut lab = Lab::new();
    assert_eq!(
        lab.actions([Event::Init, Event::Apply(mk("token-a"))]),
        [""; 0],
        "half a list does not count"
    );
    let orders = lab.take(Event::InitDone);
    let Action::Join(access) = &orders[0].action else { panic!("{orders:?}") };
    let east = ClusterId::new("east").unwrap();
    let found = lab.follower.kubeconfig(access, &east).unwrap();
    assert_eq!(found.token().unwrap().expose(), b"token-a");
    lab.take(Event::Apply(mk("token-b")));
    assert_eq!(lab.follower.kubeconfig(access, &east), None, "the order rests on another credential");
}

#[test]
fn changed_credential_rotates_and_an_equal_one_does_nothing() {
    let mut lab = Lab::new();
    let first = mk("token-a");
    lab.actions([Event::Init, Event::Apply(first.clone()), Event::InitDone]);
    assert_eq!(lab.actions([Event::Apply(first)]), [""; 0]);
    assert_eq!(lab.actions([Event::Apply(mk("token-b"))]), ["rotate"]);
    let garbage = mk_object(&json!({"east": STANDARD.encode("garbage")}), &json!({}));
    assert_eq!(lab.actions([Event::Apply(garbage)]), [""; 0], "the cluster keeps its connection");
    assert_eq!(lab.wait(GRACE * 9), [""; 0]);
}

#[test]
fn deleted_secret_leaves_after_the_grace_unless_it_returns() {
    let mut lab = Lab::new();
    let secret = mk("token-a");
    lab.actions([Event::Init, Event::Apply(secret.clone()), Event::InitDone]);
    assert_eq!(lab.actions([Event::Delete(name())]), [""; 0]);
    assert_eq!(lab.wait(GRACE / 2), [""; 0]);
    assert_eq!(lab.actions([Event::Apply(secret)]), [""; 0], "an equal credential is no event");
    assert_eq!(lab.wait(GRACE * 2), [""; 0]);
    lab.actions([Event::Delete(name())]);
    assert_eq!(lab.wait(GRACE), ["leave"]);
}

#[test]
fn only_a_complete_list_removes_a_secret() {
    for broken in [
        vec![Event::Init],
        vec![Event::Init, Event::Init],
        vec![Event::Init, Event::Delete(name())],
        vec![Event::Init, status(SourceState::Live)],
        vec![Event::NotServed],
        vec![Event::Unavailable(Withheld::forbidden("403"))],
        vec![status(SourceState::Forbidden)],
        vec![status(SourceState::AuthFailed)],
        vec![status(SourceState::Unreachable)],
        vec![status(SourceState::Broken)],
    ] {
        let mut lab = Lab::joined();
        let shown = format!("{broken:?}");
        assert_eq!(lab.actions(broken), [""; 0], "{shown}");
        assert_eq!(lab.wait(GRACE * 100), [""; 0], "{shown}");
        lab.actions([Event::Init, Event::InitDone]);
        assert_eq!(lab.wait(GRACE), ["leave"], "{shown}");
    }
}

#[test]
fn grace_does_not_end_while_the_secrets_cannot_be_read() {
    let mut lab = Lab::joined();
    lab.actions([Event::Delete(name()), status(SourceState::Forbidden)]);
    assert_eq!(lab.wait(GRACE * 10), [""; 0]);
    lab.actions([status(SourceState::Live)]);
    assert_eq!(lab.wait(GRACE), ["leave"], "the grace goes on");
}

#[test]
fn watch_that_fails_keeps_its_last_error() {
    let mut lab = Lab::joined();
    assert_eq!(lab.follower.error(), None);
    let failed = |lab: &mut Lab, event| {
        lab.take(event);
        lab.follower.error().map(ToOwned::to_owned)
    };
    assert_eq!(failed(&mut lab, Event::Unavailable(Withheld::forbidden("403"))).as_deref(), Some("403"));
    assert_eq!(failed(&mut lab, Event::Init).as_deref(), Some("403"), "a new try is no success");
    assert_eq!(failed(&mut lab, Event::InitDone), None);
    let event = lab.follower.fail("no kubeconfig");
    assert_eq!(lab.roster.apply(lab.now, event), []);
    assert_eq!(lab.follower.error(), Some("no kubeconfig"));
    assert_eq!(failed(&mut lab, Event::Resumed), None);
}

#[test]
fn unchanged_and_unreadable_secrets_keep_their_claims() {
    let mut lab = Lab::joined();
    assert_eq!(lab.actions([Event::Init, Event::Unchanged(name()), Event::InitDone]), [""; 0]);
    let invalid = || Event::Invalid(name(), "no".into());
    assert_eq!(lab.actions([Event::Init, invalid(), Event::InitDone, invalid()]), [""; 0]);
    assert_eq!(lab.wait(GRACE * 2), [""; 0]);
    let faults = &lab.roster.status().objects[0].faults;
    assert_eq!((faults.len(), faults[0].code), (1, Some(Code::SECRET_REFUSED)));
}

#[test]
fn secret_of_a_list_that_broke_off_counts_when_the_next_names_it_as_unchanged() {
    let mut lab = Lab::new();
    // the watch reports an object once: the second list repeats only that it is there
    lab.actions([Event::Init, Event::Apply(mk("token-a"))]);
    assert_eq!(lab.actions([Event::Init, Event::Unchanged(name()), Event::InitDone]), ["join"]);

    lab.actions([Event::Init, Event::Apply(mk("token-b")), Event::Init]);
    assert_eq!(lab.actions([Event::Init, Event::Unchanged(name()), Event::InitDone]), ["rotate"]);

    lab.actions([Event::Init, Event::Apply(mk("token-c"))]);
    lab.actions([Event::Init, Event::InitDone]);
    assert_eq!(lab.wait(GRACE), ["leave"], "a complete list without it removes it");
}

#[test]
fn faults_of_a_secret_name_fields_and_no_value() {
    let data = json!({
        "no/id": STANDARD.encode(HIDDEN), "plain": HIDDEN.to_owned() + "!", "east": STANDARD.encode(kubeconfig("t")),
    });
    let annotations = json!({
        "tributary.dev/paused": "true", "tributary.dev/renew": "true", "tributary.dev/accept-rights": "true",
        "tributary.dev/found-uid": "uid-1",
        "tributary.dev/priority": HIDDEN,
        "other.dev/x": HIDDEN,
    });
    let secret = mk_object(&data, &annotations);
    let declared = secret.declare(&Allowed::default(), &DigestKey::new(&[7; 32]));
    let texts: Vec<&str> = declared.object.faults.iter().map(|fault| &*fault.text).collect();
    assert_eq!(
        texts,
        [
            "annotation tributary.dev/priority is not a whole number",
            "data.(name not valid) is not a cluster ID; use letters, digits, `-` and `.` as the key",
            "annotation tributary.dev/found-uid has no effect in a Secret of several clusters; remove it, or split the Secret",
        ]
    );
    assert_eq!((declared.object.claims.len(), declared.kubeconfigs.len()), (2, 1));
    let policy = &declared.object.policy;
    assert!(policy.paused && policy.accept_rights && policy.renew);
    assert!(policy.found_uid.is_none(), "a policy without effect is not carried out");
    let shown = format!("{declared:?}");
    assert!(!shown.contains(HIDDEN), "{shown}");
}

/// Another credential could read still less: it is compared again.
#[test]
fn fewer_rights_are_accepted_of_one_credential() {
    let [first, second] = ["a", "b"].map(|token| STANDARD.encode(kubeconfig(token)));
    let declared = |token: &str, value: &str| {
        let data = json!({"east": if token == "a" { &first } else { &second }});
        let secret = mk_object(&data, &json!({"tributary.dev/accept-rights": value}));
        let object = secret.declare(&Allowed::default(), &DigestKey::new(&[7; 32])).object;
        (object.policy.accept_rights, object.faults.len())
    };
    let stored = json!({
        "metadata": {"namespace": "system", "name": "remote"}, "data": {"east": first},
    });
    let stored = StoredSecret::read(stored.to_string().as_bytes()).unwrap();
    let checksum = stored.checksum("east").unwrap();
    assert_eq!(declared("a", &checksum), (true, 0));
    assert_eq!(declared("b", &checksum), (false, 0), "of another credential");
    assert_eq!((declared("b", "true"), declared("a", "false")), ((true, 0), (false, 0)));
    assert_eq!(declared("a", "sha256:1"), (false, 1), "no checksum");
}

#[test]
fn object_of_another_form_is_refused_without_its_content() {
    for text in [
        r#"{"metadata": {"name": "a"}, "data": "hunter2"}"#,
        r#"{"data": {"a": "hunter2"}}"#,
        r#"["hunter2"]"#,
    ] {
        let error = Secret::decode(&RawValue::from_string(text.to_owned()).unwrap()).unwrap_err();
        assert!(!error.contains(HIDDEN), "{error}");
    }
}
