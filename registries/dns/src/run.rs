//! The loop around [`Names`]: waits for gateways, answers and times, asks, and reports.
//!
//! The application spawns it once, as a task that ends when the sender of names ends. It holds no state of its own but the lookups that
//! run; each ends by itself after a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tributary_model::{Mono, RegistryUpdate};
use tributary_registry_api::Clock;

use crate::answer::Answer;
use crate::lookup::Lookup;
use crate::names::{Names, Wanted};

/// Longest time of one lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest sleep, when nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

/// Resolves the wanted names, and passes on what is to be reported.
pub async fn run(
    mut names: Names,
    mut wanted: watch::Receiver<Wanted>,
    (lookup, clock): (Arc<dyn Lookup>, Arc<dyn Clock>),
    report: impl Fn(Vec<RegistryUpdate>) + Send,
) {
    let mut running = Running::default();
    wanted.mark_changed();
    loop {
        let now = clock.now();
        report(names.forget(now));
        for name in names.due(now) {
            running.ask(name, Arc::clone(&lookup));
        }
        let sleep = names.next().map_or(IDLE, |at: Mono| at.since(clock.now())).min(IDLE);
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                let new = wanted.borrow_and_update().clone();
                report(names.want(clock.now(), &new));
            }
            Some((name, answer)) = running.next() => report(names.answer(clock.now(), &name, &answer)),
            () = tokio::time::sleep(sleep.max(Duration::from_millis(1))) => {}
        }
    }
}

/// Lookups that run. Dropping them ends them.
#[derive(Default)]
struct Running {
    tasks: JoinSet<Answer>,
    names: HashMap<Id, Arc<str>>,
}

impl Running {
    fn ask(&mut self, name: Arc<str>, lookup: Arc<dyn Lookup>) {
        let asked = Arc::clone(&name);
        let task = self.tasks.spawn(async move {
            let answer = tokio::time::timeout(LOOKUP_TIMEOUT, lookup.lookup(&asked)).await;
            answer.unwrap_or_else(|_| Answer::failed("no DNS server answered in time"))
        });
        self.names.insert(task.id(), name);
    }
    /// Returns the next answer; `None` if no lookup runs.
    async fn next(&mut self) -> Option<(Arc<str>, Answer)> {
        let (id, answer) = match self.tasks.join_next_with_id().await? {
            Ok(done) => done,
            Err(error) => (JoinError::id(&error), Answer::failed("the lookup failed inside the server")),
        };
        Some((self.names.remove(&id)?, answer))
    }
}

#[cfg(test)]
mod tests;
