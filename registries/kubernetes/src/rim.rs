//! The rim: the watches of one run, the index that they feed, and the inlet that takes what it says.
//!
//! One task. Whatever watch has something is heard, its inputs are applied in order, and when no more are at
//! hand the index is flushed: what belongs together reaches the core in one turn. Until every first list is
//! complete the index is flushed only when a list ends, since nothing can be said before.

mod exporter;
mod feed;
mod status;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use futures::{Future, FutureExt};
use tributary_model::{Delta, SourceState, SourceStatus};
use tributary_registry_api::{Inlet, SurroundingsSender};

use crate::index::Index;
use crate::input::{Feed, Input};
use feed::{Source, Word};
use status::Standing;

pub(crate) use exporter::Exporter;
pub(crate) use feed::Feeds;

/// So many batches of words are applied before the core is told, however many more are at hand.
const MOST_BATCHES: usize = 64;

type Heard = Pin<Box<dyn Future<Output = (Box<dyn Source>, Vec<Word>)> + Send>>;

/// A run at work.
pub(crate) struct Rim {
    index: Index,
    standing: Standing,
    watches: FuturesUnordered<Heard>,
    told: Option<SourceStatus>,
    /// Whether a first list ended since the index was last flushed, or all have.
    ripe: bool,
    /// Feeds whose first list has not ended.
    waiting: BTreeSet<Feed>,
    /// Where other registries of the cluster listen.
    surroundings: Option<Arc<SurroundingsSender>>,
    /// Writes exports, where that is asked for.
    exporter: Option<Exporter>,
}

impl Rim {
    /// Over an index that knows nothing, with the watches that feed it.
    pub(crate) fn new(index: Index, feeds: Feeds, surroundings: Option<Arc<SurroundingsSender>>) -> Self {
        let standing = Standing::new(&feeds);
        let waiting = feeds.planned.iter().map(|planned| planned.feed.clone()).collect();
        let watches: FuturesUnordered<Heard> = feeds.sources.into_iter().map(heard).collect();
        Self { index, standing, watches, told: None, ripe: true, waiting, surroundings, exporter: None }
    }
    /// Exporting Services while it leads.
    pub(crate) fn exporting(mut self, exporter: Option<Exporter>) -> Self {
        self.exporter = exporter;
        self
    }

    /// Runs until nobody listens.
    pub(crate) async fn run(mut self, out: &Inlet) {
        while self.flush(out) {
            // what is marked while a first list is under way is said when a list ends, so that waiting for it
            // to be said before a watch is heard again would be waiting for ever
            if self.ripe && self.index.is_behind() {
                tokio::task::yield_now().await;
                continue;
            }
            let first = tokio::select! {
                first = self.watches.next() => first,
                () = exporter::work(&mut self.exporter, self.index.inputs(), self.waiting.is_empty()) => continue,
            };
            let Some(first) = first else { return };
            self.take(first);
            for _ in 1..MOST_BATCHES {
                match self.watches.next().now_or_never() {
                    Some(Some(more)) => self.take(more),
                    _ => break,
                }
            }
        }
    }

    fn take(&mut self, (source, words): (Box<dyn Source>, Vec<Word>)) {
        let feed = source.feed().clone();
        self.watches.push(heard(source));
        for word in words {
            match word {
                Word::Input(input) => self.apply(input),
                Word::Status(part) => self.standing.say(&feed, part),
                Word::Healed(lost) => {
                    tracing::warn!(
                        kind = feed.kind.as_str(),
                        lost,
                        "an audit healed events that a watch had lost"
                    );
                    self.standing.healed(lost);
                }
            }
        }
    }

    fn apply(&mut self, input: Input) {
        if let Input::Listed(feed) | Input::Absent(feed) | Input::Withheld(feed) = &input {
            self.waiting.remove(feed);
            self.ripe = true;
        }
        if let Some(exporter) = &mut self.exporter {
            exporter.hear(&input);
        }
        self.index.apply(input);
    }

    /// Tells other registries of this cluster what surrounds its objects, where that is something else.
    fn surround(&mut self) {
        let Some(say) = &self.surroundings else { return };
        let Some(around) = self.index.surroundings().map(Arc::new) else { return };
        say.send_if_modified(|known| {
            let other = known.as_ref() != Some(&around);
            *known = Some(around);
            other
        });
    }

    /// Tells the core what there is to tell; false when nobody listens.
    fn flush(&mut self, out: &Inlet) -> bool {
        let mut deltas = Vec::new();
        if self.ripe {
            deltas = self.index.flush();
            self.ripe = self.waiting.is_empty() || self.index.is_behind();
            self.surround();
        }
        deltas.extend(self.exporter.iter_mut().flat_map(Exporter::news));
        let details = self.index.details();
        let status = self.standing.status(details.clone());
        if status.state != SourceState::Live {
            // watches that go on do not make up for a credential or a right that was lost
            deltas.retain(|delta| !matches!(delta, Delta::Progress(_)));
        }
        if self.told.as_ref() != Some(&status) {
            let now = self.standing.now(details);
            deltas.push(Delta::Status(self.index.inputs().options.scope.clone(), now));
            self.told = Some(status);
        }
        if deltas.is_empty() { !out.is_closed() } else { out.send_all(deltas) }
    }
}

fn heard(mut source: Box<dyn Source>) -> Heard {
    Box::pin(async move {
        let words = source.next().await;
        (source, words)
    })
}
