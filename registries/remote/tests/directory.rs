//! Looks at a directory of kubeconfigs, with the roster that reads them: when a cluster joins, rotates and leaves, and what removes
//! nothing.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::path::PathBuf;
use std::time::Duration;

use support::{PLANTED, assert_clean, mk_cluster, mk_kubeconfig};
use tributary_model::{ClusterId, Code, Mono};
use tributary_registry_api::Credential;
use tributary_remote::roster::{
    Action, ClaimObject, DigestKey, Event, Order, Outcome, Policy, Roster, RosterSettings, RosterStatus,
    SecretLabel, Source, SourceHealth, State, Verdict,
};
use tributary_remote::{Allowed, DirectoryFollower, FileContent, Look};

#[path = "support/kubeconfigs.rs"]
mod support;

const GRACE: Duration = Duration::from_secs(30);
const SECRETS: Source = Source::Secrets(SecretLabel::Istio);

/// Follower and roster at a time.
struct Lab {
    follower: DirectoryFollower,
    roster: Roster,
    now: Mono,
    /// Authority of every kubeconfig.
    cluster: String,
}

impl Lab {
    fn new() -> Self {
        let settings = RosterSettings {
            sources: [Source::Directory, SECRETS].into(),
            configured: [].into(),
            registries: [].into(),
            grace: GRACE,
        };
        let follower = DirectoryFollower::new(Allowed::default(), DigestKey::new(&[7; 32]));
        Self { follower, roster: Roster::new(settings), now: Mono::START, cluster: mk_cluster() }
    }
    /// Returns a lab with one cluster.
    fn joined() -> Self {
        let mut lab = Self::new();
        assert_eq!(lab.looks(&[("east.yaml", "token-a")]), ["join east"]);
        lab
    }
    fn take(&mut self, look: Look) -> Option<Vec<Order>> {
        let event = self.follower.take(look)?;
        Some(self.roster.apply(self.now, event))
    }
    /// Looks at files with kubeconfigs of these tokens.
    fn looks(&mut self, files: &[(&str, &str)]) -> Vec<String> {
        let look = self.look(files);
        self.take(look).unwrap_or_default().iter().map(named).collect()
    }
    fn look(&self, files: &[(&str, &str)]) -> Look {
        let text = |token: &str| mk_kubeconfig(&self.cluster, &format!("token: {token}"));
        let file = |(name, token): &(&str, &str)| (at(name), mk_content(&text(token)));
        Look::Listed(files.iter().map(file).collect())
    }
    /// Sets policies, and returns the orders, or nothing without an event.
    fn sets(&mut self, cluster: &str, policy: Policy) -> Option<Vec<String>> {
        let event = self.follower.set_policies([(ClusterId::new(cluster).unwrap(), policy)].into())?;
        Some(self.roster.apply(self.now, event).iter().map(named).collect())
    }
    fn wait(&mut self, span: Duration) -> Vec<String> {
        self.now = self.now.plus(span);
        self.roster.apply(self.now, Event::Tick).iter().map(named).collect()
    }
    fn status(&self) -> RosterStatus {
        self.roster.status()
    }
}

fn at(name: &str) -> PathBuf {
    PathBuf::from("/clusters").join(name)
}

fn mk_content(text: &str) -> FileContent {
    FileContent::Read(Credential::new(text.as_bytes().to_vec()))
}

fn mk_unread() -> FileContent {
    FileContent::Unread(Code::KUBECONFIG_UNREADABLE, "it cannot be read".to_owned())
}

fn named(order: &Order) -> String {
    let action = match order.action {
        Action::Join(_) => "join",
        Action::Rotate(_) => "rotate",
        Action::Pause => "pause",
        Action::Leave => "leave",
    };
    format!("{action} {}", order.cluster)
}

#[test]
fn file_is_a_cluster_named_after_it() {
    let mut lab = Lab::new();
    let files = ["a.yaml", "b.yml", "c.kubeconfig", "d.conf", "e", "f.prod"].map(|name| (name, "t"));
    let mut joined = lab.looks(&files);
    joined.sort();
    assert_eq!(joined, ["join a", "join b", "join c", "join d", "join e", "join f.prod"]);
    let status = lab.status();
    assert_eq!(status.clusters[0].claims[0].object, "/clusters/a.yaml");
    assert!(status.objects.is_empty(), "{:?}", status.objects);
}

#[test]
fn order_has_the_kubeconfig_that_it_rests_on() {
    let mut lab = Lab::new();
    let look = lab.look(&[("east.yaml", "token-a")]);
    let orders = lab.take(look).unwrap();
    let Action::Join(access) = &orders[0].action else { panic!("{orders:?}") };
    let east = ClusterId::new("east").unwrap();
    assert_eq!(lab.follower.kubeconfig(access, &east).unwrap().token().unwrap().expose(), b"token-a");
    assert_eq!(lab.looks(&[("east.yaml", "token-b")]), ["rotate east"]);
    assert_eq!(lab.follower.kubeconfig(access, &east), None, "the order rests on another credential");
}

#[test]
fn look_that_finds_nothing_new_is_no_event() {
    let mut lab = Lab::joined();
    let look = lab.look(&[("east.yaml", "token-a")]);
    assert!(lab.take(look).is_none());
    let comment = mk_kubeconfig(&lab.cluster, "token: token-a") + "# a comment\n";
    let look = Look::Listed([(at("east.yaml"), mk_content(&comment))].into());
    assert!(lab.take(look).is_none(), "a comment is no change");
}

#[test]
fn removed_file_leaves_after_the_grace_unless_it_returns() {
    let mut lab = Lab::joined();
    assert_eq!(lab.looks(&[]), [""; 0]);
    assert_eq!(lab.wait(GRACE / 2), [""; 0]);
    assert_eq!(lab.looks(&[("east.yaml", "token-a")]), [""; 0], "an equal credential is no event");
    assert_eq!(lab.wait(GRACE * 2), [""; 0]);
    assert_eq!(lab.looks(&[]), [""; 0]);
    assert_eq!(lab.wait(GRACE), ["leave east"]);
}

#[test]
fn directory_that_cannot_be_read_removes_nothing() {
    let mut lab = Lab::joined();
    let gone = || Look::Unreadable("/clusters: no such directory".to_owned());
    assert_eq!(lab.take(gone()).map(|orders| orders.len()), Some(0));
    assert!(lab.take(gone()).is_none(), "the same failure is no event");
    assert_eq!(lab.wait(GRACE * 100), [""; 0]);
    assert_eq!(lab.follower.error(), Some("/clusters: no such directory"));
    let health = |lab: &Lab| lab.status().sources[0].health;
    assert_eq!(health(&lab), SourceHealth::Failed);
    assert_eq!(lab.looks(&[("east.yaml", "token-a")]), [""; 0]);
    assert_eq!((lab.follower.error(), health(&lab)), (None, SourceHealth::Synced));

    // a grace that has begun waits for the directory
    assert_eq!(lab.looks(&[]), [""; 0]);
    lab.take(gone());
    assert_eq!(lab.wait(GRACE * 100), [""; 0]);
    assert_eq!(lab.looks(&[]), [""; 0]);
    assert_eq!(lab.wait(GRACE), ["leave east"]);
}

#[test]
fn file_that_cannot_be_read_or_is_refused_keeps_its_cluster() {
    let mut lab = Lab::joined();
    let look = |content| Look::Listed([(at("east.yaml"), content)].into());
    assert_eq!(lab.take(look(mk_unread())).map(|orders| orders.len()), Some(0));
    let status = lab.status();
    assert_eq!(
        (status.clusters[0].state, status.clusters[0].claims[0].outcome.clone()),
        (State::Joined, Outcome::Wins)
    );
    assert_eq!(status.objects[0].faults[0].code, Some(Code::KUBECONFIG_UNREADABLE));

    assert_eq!(lab.take(look(mk_content(&format!("token: {PLANTED}")))).map(|orders| orders.len()), Some(0));
    let status = lab.status();
    assert!(matches!(status.clusters[0].claims[0].outcome, Outcome::Refused(_)), "{status:?}");
    assert_eq!(status.clusters[0].state, State::Joined);
    assert_clean(&format!("{status:?} {:?}", lab.follower));
    assert_eq!(lab.wait(GRACE * 2), [""; 0]);

    // one that was never read is a claim that is refused
    let mut lab = Lab::new();
    assert_eq!(lab.take(look(mk_unread())).map(|orders| orders.len()), Some(0));
    assert_eq!(lab.status().clusters[0].state, State::Refused);
}

#[test]
fn name_that_is_no_cluster_id_is_a_fault_of_its_file() {
    let mut lab = Lab::new();
    assert_eq!(lab.looks(&[("a b.yaml", "t"), (".yaml", "t"), ("new\nline", "t")]), [""; 0]);
    let objects = lab.status().objects;
    assert_eq!(objects.len(), 3);
    assert!(objects.iter().all(|one| one.faults[0].code == Some(Code::FILE_REFUSED)), "{objects:?}");
    assert!(objects.iter().any(|one| one.object == "/clusters/new\\nline"), "{objects:?}");
}

#[test]
fn file_precedes_a_secret_and_the_first_name_another_file() {
    let mut lab = Lab::joined();
    let claims =
        [(ClusterId::new("east").unwrap(), Verdict::Vetted(DigestKey::new(&[7; 32]).of_bytes(b"s")))];
    let secret =
        ClaimObject { name: "system/east".to_owned(), claims: claims.into(), ..ClaimObject::default() };
    assert!(lab.roster.apply(lab.now, Event::List(SECRETS, vec![secret])).is_empty());
    assert_eq!(lab.looks(&[("east.yaml", "token-a"), ("east.conf", "token-b")]), ["rotate east"]);
    let objects =
        |lab: &Lab| lab.status().clusters[0].claims.iter().map(|one| one.object.clone()).collect::<Vec<_>>();
    assert_eq!(objects(&lab), ["/clusters/east.conf", "/clusters/east.yaml", "system/east"]);
    assert_eq!(lab.looks(&[]), ["rotate east"], "the Secret steps in");
    assert_eq!(objects(&lab), ["system/east"]);
}

#[test]
fn files_beyond_the_bound_are_counted_and_remove_nothing() {
    let mut lab = Lab::joined();
    let many: Vec<String> = (0..2_001).map(|at| format!("a{at:04}.yaml")).collect();
    let mut files: Vec<(PathBuf, FileContent)> = many.iter().map(|name| (at(name), mk_content(""))).collect();
    files.push((at("east.yaml"), mk_content("")));
    lab.take(Look::Listed(files.into_iter().collect()));
    assert_eq!((lab.status().sources[0].objects, lab.status().sources[0].beyond), (2_000, 2));
    assert_eq!(lab.wait(GRACE * 100), [""; 0], "a list that is cut proves nothing");
}

#[test]
fn policies_of_the_configuration_are_those_of_files() {
    let mut lab = Lab::joined();
    let paused = Policy { paused: true, ..Policy::default() };
    assert_eq!(lab.sets("west", paused.clone()), None, "no file is called so");
    assert_eq!(lab.sets("east", paused.clone()), Some(vec!["pause east".to_owned()]));
    assert_eq!(lab.sets("east", paused.clone()), None, "nothing changed");
    assert!(lab.looks(&[("east.yaml", "token-b")]).is_empty(), "another kubeconfig does not end a pause");
    assert_eq!(lab.sets("east", Policy::default()), Some(vec!["rotate east".to_owned()]));
    // while the directory cannot be read, the next look has them
    lab.take(Look::Unreadable("gone".to_owned()));
    assert_eq!(lab.sets("east", paused), None);
    assert_eq!(lab.looks(&[("east.yaml", "token-b")]), ["pause east"]);
    assert_eq!(
        lab.sets("east", Policy { remove: true, ..Policy::default() }),
        Some(vec!["leave east".to_owned()])
    );
}
