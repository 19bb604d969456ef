//! Changes of a real directory by editors, mounts and accidents.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what goes wrong here is a failed test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tributary_model::{Completeness, SourceState};
use tributary_service_entry::source::{Change, DocumentSource, SourceEvent};
use tributary_service_entry::{Body, Directory, Timing};

/// A directory and the state that results from the events of its source.
struct Live {
    home: TempDir,
    source: Directory,
    served: BTreeMap<String, String>,
    /// Names of all objects that were ever removed.
    gone: BTreeSet<String>,
    bad: BTreeSet<String>,
    state: Option<SourceState>,
    listed: Option<Completeness>,
    looks: usize,
}

fn quick() -> Timing {
    Timing { rescan: Duration::from_secs(60), retry: Duration::from_millis(50), ..Timing::default() }
}

impl Live {
    fn new(timing: Timing, files: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("conf")).unwrap();
        let source = Directory::new(&home.path().join("conf"), timing).unwrap();
        let live = Self {
            home,
            source,
            served: BTreeMap::new(),
            gone: BTreeSet::new(),
            bad: BTreeSet::new(),
            state: None,
            listed: None,
            looks: 0,
        };
        for (name, text) in files {
            fs::write(live.path(name), text).unwrap();
        }
        live
    }
    /// A directory whose first list has ended.
    async fn listed(timing: Timing, files: &[(&str, &str)]) -> Self {
        let mut live = Self::new(timing, files);
        live.until("the list ends", |live| live.listed.is_some()).await;
        live
    }
    fn dir(&self) -> PathBuf {
        self.home.path().join("conf")
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }
    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !holds(self) {
                for event in self.source.next().await.unwrap() {
                    self.observe(event);
                }
            }
        };
        let came = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        assert!(came.is_ok(), "{what}: did not come; {:?} {:?} {:?}", self.served, self.bad, self.state);
    }
    async fn until_served(&mut self, want: &str) {
        self.until(want, |live| live.shown() == want).await;
    }
    fn observe(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Changed(_, Change::Updated { new, .. }) => {
                let Body::WorkloadEntry(entry) = &new.document.body else { panic!("no workload") };
                let address = entry.spec.address.as_ref().unwrap().value.to_string();
                self.served.insert(new.document.meta.name.to_string(), address);
            }
            SourceEvent::Changed(_, Change::Removed { old, .. }) => {
                self.served.remove(&*old.document.meta.name);
                self.gone.insert(old.document.meta.name.to_string());
            }
            SourceEvent::Problem(_, object, Some(_)) => drop(self.bad.insert(object.id.name.to_string())),
            SourceEvent::Problem(_, object, None) => drop(self.bad.remove(&*object.id.name)),
            SourceEvent::ListEnded(_, how) => self.listed = Some(how),
            SourceEvent::Status(_, status) => self.state = Some(status.state),
            SourceEvent::Confirmed(_) => self.looks += 1,
            SourceEvent::ListStarted(_) => {}
            other @ (SourceEvent::Excluded(..) | SourceEvent::Withheld(..) | SourceEvent::Identity(_)) => {
                panic!("unexpected event of a directory: {other:?}")
            }
        }
    }
    fn shown(&self) -> String {
        self.served.iter().map(|(name, address)| format!("{name}={address}")).collect::<Vec<_>>().join(" ")
    }
}

fn doc(name: &str, address: &str) -> String {
    format!(
        "---\napiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata:\n  name: {name}\nspec:\n  address: {address}\n"
    )
}

fn replace(path: &Path, text: &str) {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, text).unwrap();
    fs::rename(temporary, path).unwrap();
}

#[tokio::test]
async fn a_file_written_in_place_is_read_again() {
    let mut live = Live::listed(quick(), &[("a.yaml", &doc("a", "10.0.0.1"))]).await;
    fs::write(live.path("a.yaml"), doc("a", "10.0.0.2")).unwrap();
    live.until_served("a=10.0.0.2").await;
}

#[tokio::test]
async fn an_editor_that_renames_over_the_name_is_a_change() {
    let mut live = Live::listed(quick(), &[("a.yaml", &doc("a", "10.0.0.1"))]).await;
    for last in 2..6 {
        replace(&live.path("a.yaml"), &doc("a", &format!("10.0.0.{last}")));
        live.until_served(&format!("a=10.0.0.{last}")).await;
    }
    assert!(live.gone.is_empty());
}

#[tokio::test]
async fn an_editor_that_keeps_a_backup_is_a_change() {
    let mut live = Live::listed(quick(), &[("a.yaml", &doc("a", "10.0.0.1"))]).await;
    fs::rename(live.path("a.yaml"), live.path("a.yaml~")).unwrap();
    fs::write(live.path("a.yaml"), doc("a", "10.0.0.2")).unwrap();
    fs::remove_file(live.path("a.yaml~")).unwrap();
    live.until_served("a=10.0.0.2").await;
    assert!(live.gone.is_empty(), "{:?}", live.gone);
}

#[tokio::test]
async fn files_that_vanish_for_one_look_lose_nothing() {
    let patient = Timing { confirm: Duration::from_secs(10), ..quick() };
    let files = [("a.yaml", &*doc("a", "10.0.0.1")), ("b.yaml", &*doc("b", "10.0.0.2"))];
    let mut live = Live::new(patient, &files);
    live.until_served("a=10.0.0.1 b=10.0.0.2").await;
    fs::rename(live.path("a.yaml"), live.home.path().join("a")).unwrap();
    fs::rename(live.path("b.yaml"), live.home.path().join("b")).unwrap();
    fs::write(live.path("c.yaml"), doc("c", "10.0.0.3")).unwrap();
    live.until_served("a=10.0.0.1 b=10.0.0.2 c=10.0.0.3").await;
    fs::rename(live.home.path().join("a"), live.path("a.yaml")).unwrap();
    fs::rename(live.home.path().join("b"), live.path("b.yaml")).unwrap();
    replace(&live.path("c.yaml"), &doc("c", "10.0.0.4"));
    live.until_served("a=10.0.0.1 b=10.0.0.2 c=10.0.0.4").await;
    assert!(live.gone.is_empty(), "{:?}", live.gone);
}

#[tokio::test]
async fn deleted_file_is_removed_after_a_quarter_of_a_second() {
    let files = [("a.yaml", &*doc("a", "10.0.0.1")), ("b.yaml", &*doc("b", "10.0.0.2"))];
    let mut live = Live::listed(quick(), &files).await;
    let deleted = Instant::now();
    fs::remove_file(live.path("a.yaml")).unwrap();
    live.until_served("b=10.0.0.2").await;
    assert!(deleted.elapsed() >= Duration::from_millis(250), "{:?}", deleted.elapsed());
}

#[tokio::test]
async fn mounted_config_map_is_swapped_as_a_whole() {
    let mut live = Live::new(quick(), &[]);
    let version = |number: u32, text: &str| {
        let dir = live.path(&format!("..2024_{number}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a.yaml"), text).unwrap();
        dir
    };
    version(1, &doc("a", "10.0.0.1"));
    symlink("..2024_1", live.path("..data")).unwrap();
    symlink("..data/a.yaml", live.path("a.yaml")).unwrap();
    version(2, &doc("a", "10.0.0.2"));
    let third = version(3, &doc("a", "10.0.0.3"));
    fs::create_dir(third.join("sub")).unwrap();
    fs::write(third.join("sub/b.yaml"), doc("b", "10.0.0.9")).unwrap();
    live.until_served("a=10.0.0.1").await;
    for (number, want) in [(2, "a=10.0.0.2"), (3, "a=10.0.0.3")] {
        symlink(format!("..2024_{number}"), live.path("..data_tmp")).unwrap();
        fs::rename(live.path("..data_tmp"), live.path("..data")).unwrap();
        fs::remove_dir_all(live.path(&format!("..2024_{}", number - 1))).unwrap();
        live.until_served(want).await;
    }
    symlink("..data/sub", live.path("sub")).unwrap();
    live.until_served("a=10.0.0.3 b=10.0.0.9").await;
    assert!(live.gone.is_empty(), "{:?}", live.gone);
}

#[tokio::test]
async fn new_directories_are_read_and_watched() {
    let mut live = Live::listed(quick(), &[]).await;
    fs::create_dir_all(live.path("x/y")).unwrap();
    fs::write(live.path("x/y/a.yml"), doc("a", "10.0.0.1")).unwrap();
    live.until_served("a=10.0.0.1").await;
    replace(&live.path("x/y/a.yml"), &doc("a", "10.0.0.2"));
    live.until_served("a=10.0.0.2").await;
}

#[tokio::test]
async fn invalid_document_keeps_its_last_good_version() {
    let text = doc("a", "10.0.0.1") + &doc("b", "10.0.0.2");
    let mut live = Live::listed(quick(), &[("f.yaml", &text)]).await;
    replace(&live.path("f.yaml"), &text.replace("10.0.0.1", "[broken").replace("10.0.0.2", "10.0.0.7"));
    live.until_served("a=10.0.0.1 b=10.0.0.7").await;
    live.until("it is shown", |live| live.bad.contains("a")).await;
    replace(&live.path("f.yaml"), &text);
    live.until_served("a=10.0.0.1 b=10.0.0.2").await;
    live.until("it is good again", |live| live.bad.is_empty()).await;
}

#[tokio::test]
async fn a_removed_directory_is_stale_and_comes_back() {
    let mut live = Live::listed(quick(), &[("a.yaml", &doc("a", "10.0.0.1"))]).await;
    let away = live.home.path().join("away");
    fs::rename(live.dir(), &away).unwrap();
    live.until("it is unreachable", |live| live.state == Some(SourceState::Unreachable)).await;
    assert_eq!(live.shown(), "a=10.0.0.1");
    fs::rename(&away, live.dir()).unwrap();
    live.until("it is live", |live| live.state == Some(SourceState::Live)).await;
    replace(&live.path("a.yaml"), &doc("a", "10.0.0.2"));
    live.until_served("a=10.0.0.2").await;
}

#[tokio::test]
async fn file_instead_of_the_directory_removes_nothing() {
    let mut live = Live::listed(quick(), &[("a.yaml", &doc("a", "10.0.0.1"))]).await;
    fs::remove_dir_all(live.dir()).unwrap();
    fs::write(live.dir(), "a file").unwrap();
    live.until("it is broken", |live| live.state == Some(SourceState::Broken)).await;
    assert_eq!(live.shown(), "a=10.0.0.1");
    fs::remove_file(live.dir()).unwrap();
    fs::create_dir(live.dir()).unwrap();
    fs::write(live.path("a.yaml"), doc("a", "10.0.0.2")).unwrap();
    live.until_served("a=10.0.0.2").await;
    assert!(live.gone.is_empty(), "{:?}", live.gone);
}

#[tokio::test]
async fn different_directory_of_the_same_name_removes_nothing() {
    let files = [("a.yaml", &*doc("a", "10.0.0.1")), ("b.yaml", &*doc("b", "10.0.0.2"))];
    let mut live = Live::listed(quick(), &files).await;
    let other = live.home.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a.yaml"), doc("a", "10.9.9.9")).unwrap();
    fs::rename(live.dir(), live.home.path().join("away")).unwrap();
    fs::rename(&other, live.dir()).unwrap();
    live.until("it is broken", |live| live.state == Some(SourceState::Broken)).await;
    assert_eq!(live.shown(), "a=10.0.0.1 b=10.0.0.2");
    fs::write(live.path("b.yaml"), doc("b", "10.0.0.3")).unwrap();
    live.until_served("a=10.9.9.9 b=10.0.0.3").await;
    assert!(live.gone.is_empty(), "{:?}", live.gone);
}

#[tokio::test]
async fn a_directory_that_does_not_exist_yet_is_waited_for() {
    let mut live = Live::new(quick(), &[]);
    fs::remove_dir(live.dir()).unwrap();
    live.until("it is unreachable", |live| live.state == Some(SourceState::Unreachable)).await;
    assert_eq!(live.listed, None, "unknown is not empty");
    fs::create_dir(live.dir()).unwrap();
    fs::write(live.path("a.yaml"), doc("a", "10.0.0.1")).unwrap();
    live.until("the list ends", |live| live.listed == Some(Completeness::Complete)).await;
    assert_eq!(live.shown(), "a=10.0.0.1");
}

#[tokio::test]
async fn rescan_finds_changes_that_the_watch_missed() {
    let timing = Timing { rescan: Duration::from_millis(50), ..quick() };
    let mut live = Live::new(timing, &[]);
    let outside = live.home.path().join("outside.yaml");
    fs::write(&outside, doc("a", "10.0.0.1")).unwrap();
    symlink(&outside, live.path("a.yaml")).unwrap();
    live.until_served("a=10.0.0.1").await;
    replace(&outside, &doc("a", "10.0.0.2"));
    live.until_served("a=10.0.0.2").await;
}

#[tokio::test]
async fn link_to_nothing_in_place_of_a_file_keeps_what_it_held() {
    let files = [("a.yaml", &*doc("a", "10.0.0.1")), ("b.yaml", &*doc("b", "10.0.0.2"))];
    let mut live = Live::listed(quick(), &files).await;
    let name = live.path("a.yaml").to_string_lossy().to_string();
    fs::remove_file(live.path("b.yaml")).unwrap();
    fs::remove_file(live.path("a.yaml")).unwrap();
    symlink("/nonexistent", live.path("a.yaml")).unwrap();
    live.until_served("a=10.0.0.1").await;
    assert!(live.bad.contains(&name) && live.bad.contains("a"), "{:?}", live.bad);
    assert_eq!(live.state, Some(SourceState::Live));
    replace(&live.path("a.yaml"), &doc("a", "10.0.0.3"));
    live.until_served("a=10.0.0.3").await;
    assert!(live.bad.is_empty(), "{:?}", live.bad);
}

#[tokio::test]
async fn removed_target_of_a_link_keeps_what_it_held() {
    let timing = Timing { rescan: Duration::from_millis(50), ..quick() };
    let mut live = Live::new(timing, &[]);
    let (file, team) = (live.home.path().join("a"), live.home.path().join("b"));
    fs::write(&file, doc("a", "10.0.0.1")).unwrap();
    fs::create_dir(&team).unwrap();
    fs::write(team.join("b.yaml"), doc("b", "10.0.0.2")).unwrap();
    symlink(&file, live.path("a.yaml")).unwrap();
    symlink(&team, live.path("team")).unwrap();
    live.until_served("a=10.0.0.1 b=10.0.0.2").await;
    fs::remove_file(&file).unwrap();
    live.until("the file is shown", |live| live.bad.iter().any(|name| name.ends_with("a.yaml"))).await;
    fs::remove_dir_all(&team).unwrap();
    live.until("the directory is shown", |live| live.state == Some(SourceState::Unreachable)).await;
    let looks = live.looks;
    live.until("several looks agree", |live| live.looks > looks + 8).await;
    assert_eq!(live.shown(), "a=10.0.0.1 b=10.0.0.2");
    assert!(live.gone.is_empty(), "{:?}", live.gone);
}

#[tokio::test]
async fn link_to_nothing_is_shown_at_the_first_look() {
    let mut live = Live::new(quick(), &[]);
    symlink("/nonexistent", live.path("a.yaml")).unwrap();
    live.until("the list ends", |live| live.listed == Some(Completeness::ExceptInvalid)).await;
    assert!(live.bad.iter().any(|name| name.ends_with("a.yaml")), "{:?}", live.bad);
}

#[tokio::test]
async fn key_removed_from_a_mounted_config_map_is_removed() {
    let mut live = Live::new(quick(), &[]);
    let (one, two) = (live.path("..1"), live.path("..2"));
    for (dir, names) in [(&one, &["a", "b"][..]), (&two, &["a"])] {
        fs::create_dir(dir).unwrap();
        for name in names {
            fs::write(dir.join(name).with_extension("yaml"), doc(name, "10.0.0.1")).unwrap();
        }
    }
    symlink("..1", live.path("..data")).unwrap();
    symlink("..data/a.yaml", live.path("a.yaml")).unwrap();
    symlink("..data/b.yaml", live.path("b.yaml")).unwrap();
    live.until_served("a=10.0.0.1 b=10.0.0.1").await;
    // The name of a removed key stays for a moment after the swap.
    symlink("..2", live.path("..data_tmp")).unwrap();
    fs::rename(live.path("..data_tmp"), live.path("..data")).unwrap();
    live.until("the name leads to nothing", |live| live.bad.contains("b")).await;
    fs::remove_file(live.path("b.yaml")).unwrap();
    live.until_served("a=10.0.0.1").await;
    assert!(live.bad.is_empty(), "{:?}", live.bad);
}
