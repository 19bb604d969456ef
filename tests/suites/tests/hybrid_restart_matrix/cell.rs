//! One cell: a server over a copy of the state directory, and the checks of what it serves and shows.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tributary_suites::ads::{EDS, node};
use tributary_suites::{AdsClient, Follower, TestServer, Variant, eventually};

use crate::journal::LATER_FORMAT;
use crate::lab::{Assignments, Lab};
use crate::origin::{MARK, MARKED, Origin, SERVICES, host};
use crate::table::{Journal, Row, Serves, Source};

pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Exit code for a partial answer because a registry has not synced.
const PARTIAL: i32 = 7;

/// A running cell.
pub(crate) struct Cell<'l, O> {
    lab: &'l Lab<O>,
    row: Row,
    journal: Journal,
    server: TestServer,
    state: PathBuf,
    launched: Instant,
    /// Records from the time when the server is ready.
    recorder: Option<Follower>,
}

impl<'l, O: Origin> Cell<'l, O> {
    /// Starts the server.
    pub(crate) fn start(lab: &'l Lab<O>, row: Row, journal: Journal, place: usize) -> Result<Self> {
        let launched = Instant::now();
        let (server, state) = lab.launch(row.source, journal, place)?;
        Ok(Self { lab, row, journal, server, state, launched, recorder: None })
    }
    /// Adds the cell's name to an error.
    pub(crate) fn name(&self) -> String {
        format!("{} {:?} {:?}", self.lab.origin.registry(), self.row.source, self.journal)
    }
    /// Waits until the server serves and shows what the row expects.
    pub(crate) async fn check(&mut self) -> Result<()> {
        let registry = self.lab.origin.registry();
        if self.row.serves == Serves::Before {
            self.serves_what_was_served().await?;
        }
        let states = self.row.state.split(", else ");
        let is = |one: &Value| one["name"] == registry && states.clone().any(|state| one["state"] == state);
        self.server.shows("registries", SOON, |all| all.iter().any(is)).await?;
        match self.outcome().await? {
            Serves::Before if self.recorder.is_some() => self.is_as_old_as_it_is().await?,
            Serves::Before if self.is_short().await? => self.is_as_old_as_it_is().await?,
            Serves::Before => {
                self.serves_what_was_served().await?;
                self.is_as_old_as_it_is().await?;
            }
            Serves::Unknown | Serves::BeforeOrUnknown => self.is_unknown().await?,
            Serves::Withheld | Serves::BeforeOrWithheld => self.answers_that_it_is_unknown().await?,
            Serves::Listed => self.serves_what_was_served().await?,
            Serves::Emptied | Serves::BeforeOrEmptied => self.is_known_to_be_empty().await?,
        }
        self.shows_its_journal().await
    }
    /// Restores the source: everything is followed, and no assignment ever differed.
    pub(crate) async fn ends_whole(&mut self) -> Result<()> {
        let registry = self.lab.origin.registry();
        self.server.registry_is(registry, "Live", &[], SOON * 2).await?;
        if self.recorder.is_none() || self.row.source == Source::Empty {
            self.server.ready(SOON).await?;
            let mut recorder = self.lab.follow(&self.server).await?;
            let whole = |now: &Follower| (assignments(now).ok()? == self.lab.before).then_some(());
            recorder.until("everything to be served again", SOON, whole).await?;
            recorder.forget();
            self.recorder = Some(recorder);
        }
        Ok(())
    }
    /// Waits for the last change of the test; every assignment before it was unchanged.
    pub(crate) async fn has_not_flapped(&mut self) -> Result<()> {
        let name = self.lab.origin.assignment(MARK);
        let recorder = self.recorder.as_mut().context("nothing was recorded")?;
        recorder.has_endpoints(&name, &[host(MARKED[1])], SOON).await?;
        for answer in recorder.answers() {
            ensure!(answer.removed.is_empty(), "{:?} were taken away", answer.removed);
            for (name, version) in answer.versions().into_iter().filter(|(of, _)| *of != name) {
                let was = self.lab.before.get(&name).map(|(version, _)| version);
                ensure!(was == Some(&version), "{name} moved from {was:?} to {version}");
            }
        }
        Ok(())
    }

    /// Returns the row's outcome if it is unique; else the outcome that this server found: all or nothing.
    async fn outcome(&self) -> Result<Serves> {
        let (serves, with_memory) = (self.row.serves, self.row.serves.with_memory());
        if serves == with_memory {
            return Ok(serves);
        }
        let found = self.endpoints().await?;
        ensure!(found == 0 || found == self.lab.endpoints, "{found} endpoints are a part of what was served");
        Ok(if found == 0 { serves } else { with_memory })
    }
    /// Returns true if the services were found but something else that was remembered was not: then the server
    /// waits for it.
    async fn is_short(&mut self) -> Result<bool> {
        let waits = self.row.serves != Serves::Before && !self.server.is_ready().await?;
        let log = self.server.process().output();
        ensure!(!waits || log.contains("is not restored"), "it is not ready, and found everything: {log}");
        Ok(waits)
    }

    /// Asserts that it is ready at once, with the same endpoints under the same versions.
    async fn serves_what_was_served(&mut self) -> Result<()> {
        self.server.ready(SOON).await?;
        let mut recorder = self.lab.follow(&self.server).await?;
        let served = held(&mut recorder, self.lab.before.len()).await?;
        ensure!(served == self.lab.before, "it serves {served:?} instead of {:?}", self.lab.before);
        self.recorder = Some(recorder);
        Ok(())
    }
    /// Asserts ages: live facts were confirmed since the start, others are stale since the previous server was
    /// killed.
    async fn is_as_old_as_it_is(&self) -> Result<()> {
        // The server computes ages after this, and the answer may take long on a busy machine.
        let since_killed = self.lab.killed.elapsed();
        let item = self.shown("registries").await?;
        let age = Duration::from_millis(item["confirmedMillisAgo"].as_u64().context("it has no age")?);
        if self.row.source == Source::Up {
            ensure!(age <= self.launched.elapsed(), "{age:?} old: {item}");
            return Ok(());
        }
        let slack = Duration::from_millis(5);
        ensure!(age + slack >= since_killed, "only {age:?} old: {item}");
        ensure!(age <= self.lab.launched.elapsed() + slack, "{age:?} old: {item}");
        let lists = item["collections"].as_array().context("no collections")?;
        let with_facts = || lists.iter().filter(|list| list["facts"].as_u64() > Some(0));
        let is_stale =
            |list: &Value| list["freshness"].as_str().is_some_and(|text| text.starts_with("Stale"));
        ensure!(with_facts().count() > 0 && with_facts().all(is_stale), "{item}");
        Ok(())
    }
    /// Asserts that no client gets an answer.
    async fn is_unknown(&self) -> Result<()> {
        self.answers_that_it_is_unknown().await?;
        ensure!(!self.server.is_ready().await?, "it is ready without its source");
        Ok(())
    }
    /// Asserts that unknown is not reported as empty.
    async fn answers_that_it_is_unknown(&self) -> Result<()> {
        ensure!(self.endpoints().await? == 0, "a part is served");
        let (exit, out, _) = self.server.command(&["get", "services"]).await?;
        ensure!(exit.code() == Some(PARTIAL), "get services ends with {exit}: {out}");
        Ok(())
    }
    async fn is_known_to_be_empty(&mut self) -> Result<()> {
        self.server.ready(SOON).await?;
        eventually("everything to go", SOON, || async {
            let served = self.endpoints().await?;
            ensure!(served == 0, "{served} endpoints are served");
            Ok(())
        })
        .await?;
        let (exit, out, _) = self.server.command(&["get", "services"]).await?;
        ensure!(exit.code() == Some(0), "get services ends with {exit}: {out}");
        Ok(())
    }
    /// Asserts that `state show` reports that a restart would find everything, or why it would not.
    async fn shows_its_journal(&mut self) -> Result<()> {
        eventually("the journal to be written, or to fail", SOON, || async {
            let state = self.server.debug("state").await?;
            let journal = &state["journal"];
            let fails = journal["open"] == false && journal["lastError"] != Value::Null;
            let written = journal["open"] == true && journal["pendingKeys"] == 0;
            ensure!(if self.journal == Journal::DeadDisk { fails } else { fails || written }, "{state}");
            // the registry beside it may still report changes
            let (exit, shown, _) = self.server.command(&["state", "show"]).await?;
            ensure!(
                exit.success() && self.shows_the_journals_fault(&shown),
                "state show ends with {exit}: {shown}"
            );
            Ok(())
        })
        .await?;
        if self.journal == Journal::Newer { self.keeps_the_newer_journal() } else { Ok(()) }
    }
    fn shows_the_journals_fault(&self, shown: &str) -> bool {
        let rows = || shown.lines().skip(2);
        let fails = rows().all(|row| row.contains("not whole: ") && row.contains("File too large"));
        // the run may be refused a kind that no run has read
        let is_kept = |row: &str| row.contains("whole") || row.contains("never read");
        let whole = rows().all(|row| is_kept(row) && !row.contains("not whole"));
        match self.journal {
            Journal::DeadDisk => fails,
            // Small changes fit into free pages.
            Journal::FullDisk => fails || whole,
            _ => whole,
        }
    }
    /// The newer journal stays for the release that wrote it, beside a new one.
    fn keeps_the_newer_journal(&mut self) -> Result<()> {
        let log = self.server.process().output();
        ensure!(log.contains("which only a later release can read"), "{log}");
        let kept = self.state.join(format!("journal.redb.format-{LATER_FORMAT}"));
        ensure!(kept.exists(), "there is no {}", kept.display());
        Ok(())
    }
    /// Returns the registry as a list of the command line shows it.
    async fn shown(&self, list: &str) -> Result<Value> {
        let args = ["get", list, self.lab.origin.registry(), "-o", "json"];
        let (_, out, err) = self.server.command(&args).await?;
        let all: Value = serde_json::from_str(&out).with_context(|| format!("{args:?}: {out}{err}"))?;
        Ok(all["items"][0].clone())
    }
    async fn endpoints(&self) -> Result<usize> {
        endpoints(&self.server, &self.lab.origin).await
    }
}

/// Returns how many endpoints of the services are served.
pub(crate) async fn endpoints(server: &TestServer, origin: &impl Origin) -> Result<usize> {
    let suffix = format!(".{}", origin.domain());
    let ours = |one: &&Value| {
        let name = one["host"].as_str().and_then(|host| host.strip_suffix(&suffix));
        name.is_some_and(|name| name == MARK || SERVICES.iter().any(|(own, _)| *own == name))
    };
    Ok(server.items("endpoints").await?.iter().filter(ours).count())
}

/// Opens a stream that requests these assignments.
pub(crate) async fn follow(server: &TestServer, names: &[String]) -> Result<Follower> {
    let client = AdsClient::connect(server.xds(), Variant::Delta, node("recorder")).await?;
    let mut follower = Follower::over(client, Variant::Delta);
    follower.subscribe(EDS, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok(follower)
}

/// Returns the recorder's assignments when it holds this many.
pub(crate) async fn held(recorder: &mut Follower, count: usize) -> Result<Assignments> {
    while recorder.versions(EDS).len() < count {
        recorder.next(SOON).await?;
    }
    assignments(recorder)
}

fn assignments(recorder: &Follower) -> Result<Assignments> {
    let one = |(name, version): (String, String)| {
        let endpoints = recorder.endpoints(&name)?;
        Ok((name, (version, endpoints)))
    };
    recorder.versions(EDS).into_iter().map(one).collect()
}
