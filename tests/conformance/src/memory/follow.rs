//! The adapter of the registry in memory: lists each part, follows its change log and answers confirm requests.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tributary_model::{
    Completeness, EndEvidence, Evidence, FactKey, Fingerprint, RegistryUpdate, Scope, SourceState,
    SourceStatus, Withheld, WithheldCause,
};
use tributary_registry_api::{
    Backoff, BackoffPolicy, CancellationToken, Registry, RegistryError, RegistryIo, SplitMix, UpdateSender,
};

use super::source::{Bug, List, MemorySource, Position, Refusal};
use super::updates;

const PARTS: [usize; 2] = [0, 1];
const RETRY: Duration = Duration::from_millis(100);
/// Long, because a change of the source wakes the adapter, and tests let months pass.
const LONGEST_RETRY: Duration = Duration::from_secs(1800);

pub(super) struct MemoryRegistry {
    source: MemorySource,
    parts: Option<&'static [usize]>,
}

impl MemoryRegistry {
    /// Returns a run that follows these parts, or every part that discovery lists.
    pub(super) const fn new(source: MemorySource, parts: Option<&'static [usize]>) -> Self {
        Self { source, parts }
    }
    /// Reports the followed parts in two steps: those that discovery lists, then those that hold facts.
    fn follow(&self, held: &[Scope], out: &UpdateSender) -> Vec<usize> {
        let collections =
            |parts: &[usize]| parts.iter().flat_map(|part| updates::collections(*part)).collect();
        let configured = |part: &usize| self.parts.is_none_or(|parts| parts.contains(part));
        let listed: Vec<usize> = self.source.parts().into_iter().filter(configured).collect();
        let (required, optional) = (collections(&listed), Vec::new());
        out.send(RegistryUpdate::Follows { required, optional });
        let is_held = |part: &usize| !listed.contains(part) && held.contains(&updates::scope(*part));
        let also: Vec<usize> = PARTS.into_iter().filter(configured).filter(is_held).collect();
        if self.source.has(Bug::OmittedIsEnded) {
            let end = |part: &usize| {
                RegistryUpdate::End(updates::scope(*part), EndEvidence::Confirmed("it is not listed".into()))
            };
            out.send_all(also.iter().map(end));
        }
        if self.source.has(Bug::IgnoresHeld) || self.source.has(Bug::OmittedIsEnded) {
            return listed;
        }
        let all: Vec<usize> = listed.into_iter().chain(also).collect();
        out.send(RegistryUpdate::Follows { required: collections(&all), optional: Vec::new() });
        all
    }
}

#[async_trait]
impl Registry for MemoryRegistry {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let RegistryIo { out, mut confirms, held } = io;
        if !self.source.has(Bug::HidesIdentity)
            && let Ok(identity) = Fingerprint::new(self.source.identity())
        {
            out.send(RegistryUpdate::Identity(identity));
        }
        let followed = self.follow(&held, &out);
        let _parting =
            self.source.has(Bug::DropsWhenItEnds).then(|| Parting(self.source.clone(), out.clone()));
        if self.source.has(Bug::ClearsHeld) {
            let ends = followed.iter().flat_map(|part| updates::collections(*part));
            out.send_all(ends.clone().map(RegistryUpdate::ListStarted));
            out.send_all(ends.map(|c| RegistryUpdate::ListEnded(c, Completeness::Complete)));
        }
        let mut parts = JoinSet::new();
        for part in followed {
            let policy = BackoffPolicy { first: RETRY, cap: LONGEST_RETRY, ..BackoffPolicy::default() };
            let backoff = Backoff::new(policy);
            let random = SplitMix::seeded(part as u64);
            let follower = Part { part, source: self.source.clone(), out: out.clone(), backoff, random };
            parts.spawn(follower.run());
        }
        if self.source.has(Bug::LeavesTask) {
            tokio::spawn(std::future::pending::<()>());
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                key = confirms.next() => answer(&self.source, &out, &key),
                ended = parts.join_next() => {
                    return Err(RegistryError::retryable(format_args!("a part's task ended: {ended:?}")));
                }
            }
        }
        parts.shutdown().await;
        Ok(())
    }
}

/// Removes every fact when the run is dropped, as a faulty adapter would.
struct Parting(MemorySource, UpdateSender);

impl Drop for Parting {
    fn drop(&mut self) {
        for part in PARTS {
            let all = self.0.names(part).into_iter().flat_map(|name| updates::deleted(part, &name));
            self.1.send_all(all);
        }
    }
}

/// Reads the object again and reports the result. Reports nothing while the part cannot be read.
fn answer(source: &MemorySource, out: &UpdateSender, key: &FactKey) {
    let Some((part, name)) = updates::name_of(key) else { return };
    match source.read(part, &name) {
        None => {}
        Some(None) => {
            out.send_all(updates::removed(part, &name, &Evidence::Confirmed));
        }
        Some(Some(object)) => {
            out.send_all(updates::put(part, &name, &object));
        }
    }
}

struct Part {
    part: usize,
    source: MemorySource,
    out: UpdateSender,
    backoff: Backoff,
    random: SplitMix,
}

impl Part {
    async fn run(mut self) {
        let mut changed = self.source.watch();
        loop {
            match self.source.list(self.part) {
                Err(refusal) => self.cannot(refusal, &mut changed).await,
                Ok(list) => {
                    if let Some(from) = self.take_list(list).await {
                        self.follow(from, &mut changed).await;
                    }
                }
            }
        }
    }

    async fn cannot(&mut self, refusal: Refusal, changed: &mut watch::Receiver<u64>) {
        match refusal {
            Refusal::Refused(cause) => self.refused(cause, changed).await,
            Refusal::Ended => self.ended(changed).await,
            Refusal::Down | Refusal::Gone => self.down(changed).await,
        }
    }

    /// Reports that the part alone cannot be read, and waits for the next change.
    async fn refused(&self, cause: WithheldCause, changed: &mut watch::Receiver<u64>) {
        let withheld = Withheld { cause, why: "the part is refused".into() };
        let all = updates::collections(self.part).map(|c| RegistryUpdate::Withheld(c, withheld.clone()));
        self.out.send_all(all);
        self.status(SourceState::Forbidden, "the part is refused");
        if self.source.has(Bug::RefusalIsEmpty) {
            self.begin_list();
            self.end_list();
        }
        let _ = changed.changed().await;
        if self.source.has(Bug::ForgetsToList) && !self.source.refuses() {
            self.status(SourceState::Live, "");
            self.progress();
            std::future::pending::<()>().await;
        }
    }

    /// Reports the end of the part, and waits for the next change, which may create it again.
    async fn ended(&self, changed: &mut watch::Receiver<u64>) {
        if !self.source.has(Bug::MissesEnds) {
            let evidence = EndEvidence::Confirmed("the source reports that the part was removed".into());
            self.out.send(RegistryUpdate::End(updates::scope(self.part), evidence));
        }
        let _ = changed.changed().await;
    }

    /// Waits for the retry delay, or until the source changes if that is earlier.
    async fn down(&mut self, changed: &mut watch::Receiver<u64>) {
        self.status(SourceState::Unreachable, "the part is down");
        if self.source.has(Bug::ErrorIsEmpty) {
            self.begin_list();
            self.end_list();
        }
        let wait = self.backoff.next(&mut self.random);
        let _ = tokio::time::timeout(wait, changed.changed()).await;
    }

    /// Reports a list. Returns the position after it if the list was complete.
    async fn take_list(&self, list: List) -> Option<Position> {
        if !self.source.has(Bug::RestartsLate) {
            self.begin_list();
        }
        if self.source.has(Bug::SyncsEarly) {
            self.end_list();
            tokio::time::sleep(RETRY).await;
        }
        for (name, object) in &list.objects {
            if object.bad && self.source.has(Bug::BadIsGone) {
                continue;
            }
            self.out.send_all(updates::put(self.part, name, object));
            // real lists arrive in pieces, with batches between them
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if list.torn && !self.source.has(Bug::TornIsComplete) {
            self.status(SourceState::Unreachable, "the list broke off");
            tokio::time::sleep(RETRY).await;
            return None;
        }
        if self.source.has(Bug::RestartsLate) {
            self.begin_list();
        }
        self.end_list();
        self.status(SourceState::Live, "");
        Some(list.from)
    }

    /// Follows the log until the position is lost. A part that is down keeps its position.
    async fn follow(&mut self, mut from: Position, changed: &mut watch::Receiver<u64>) {
        let mut was_down = false;
        loop {
            changed.borrow_and_update();
            match self.source.since(self.part, from) {
                // a part that was refused is listed again: its facts are in doubt until then
                Err(Refusal::Gone | Refusal::Refused(_) | Refusal::Ended) => return,
                Err(Refusal::Down) => {
                    was_down = true;
                    self.down(changed).await;
                    continue;
                }
                Ok(_) if self.source.has(Bug::RefusalStopsRest) && self.source.refuses() => {}
                Ok((news, next)) => {
                    from = next;
                    self.backoff.reset();
                    for (name, object) in news {
                        self.report(&name, object.as_ref());
                    }
                    if std::mem::take(&mut was_down) {
                        self.status(SourceState::Live, "");
                        self.progress();
                    }
                }
            }
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    fn report(&self, name: &str, object: Option<&super::source::Object>) {
        let bad = object.is_some_and(|object| object.bad);
        let updates = match object {
            Some(_) if bad && self.source.has(Bug::BadIsGone) => updates::deleted(self.part, name),
            Some(object) => updates::put(self.part, name, object),
            None if self.source.has(Bug::MissesDeletes) => return,
            None => updates::deleted(self.part, name),
        };
        self.out.send_all(updates);
    }

    fn begin_list(&self) {
        self.out.send_all(updates::collections(self.part).map(RegistryUpdate::ListStarted));
    }
    fn end_list(&self) {
        let ends =
            updates::collections(self.part).map(|c| RegistryUpdate::ListEnded(c, Completeness::Complete));
        self.out.send_all(ends);
    }
    fn progress(&self) {
        self.out.send_all(updates::collections(self.part).map(RegistryUpdate::Progress));
    }
    fn status(&self, state: SourceState, reason: &str) {
        let retry_in = (state != SourceState::Live).then_some(RETRY);
        let status = SourceStatus { retry_in, ..SourceStatus::new(state, reason) };
        let parts = if self.source.has(Bug::FailsTogether) { PARTS.to_vec() } else { vec![self.part] };
        for part in parts {
            self.out.send(RegistryUpdate::Status(updates::scope(part), status.clone()));
        }
    }
}
