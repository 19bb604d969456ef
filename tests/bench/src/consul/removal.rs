//! Mass removal: many services vanish one after another within seconds, and return. What each costs must not depend
//! on how many they are, so the bench removes a few, then many, and compares the counts per service.

use std::time::{Duration, Instant};

use anyhow::Result;
use tributary_core::Counters;

use super::process::Counted;
use super::{Bench, PATIENCE, REQUESTS};
use crate::{ALLOCATOR, usage};

/// Removals per second.
const RATE: f64 = 1_000.0;
/// Requests with which the long poll of a removed service moves to another one: a read and a poll.
const MOVED: f64 = 2.0;
/// Reads of the lists of names and checks while a removal is followed, however many services it removes: each list is
/// read about once a second.
const LISTS: f64 = 20.0;
/// Growth of a count per service from the small removal to the large one that is accepted: a quadratic cost grows by
/// their ratio, which is four.
const GROWTH: f64 = 2.0;

/// What the removal of one service cost, on average.
#[derive(Debug, Clone, Copy)]
struct Cost {
    requests: f64,
    bytes: f64,
    /// Updates that the core applied, with the confirm requests that it sent.
    updates: f64,
    /// Views that the core built.
    views: f64,
    /// Bytes that this process allocated, freed or not.
    allocated: f64,
    /// CPU time of this process, in microseconds.
    cpu: f64,
}

/// Counters at the beginning of a change.
struct Begin {
    core: Counters,
    allocated: usize,
    cpu: Duration,
    at: Instant,
}

impl Bench<'_> {
    /// Removes a few services, then four times as many, each time until none is served, and returns them.
    pub(super) async fn removals(&mut self) -> Result<()> {
        let many = self.plan.removed;
        let few = self.remove(many / 4).await?;
        let all = self.remove(many).await?;
        for ((figure, _, few, least), (_, _, all, _)) in self.counts(few).into_iter().zip(self.counts(all)) {
            let figure = format!("{figure} per service, removal of {many} compared with {}", many / 4);
            self.budgets.at_most(figure, all, GROWTH * few + least);
        }
        Ok(())
    }

    /// Returns the counts of a cost: name, unit, value, and a difference without meaning.
    fn counts(&self, cost: Cost) -> [(&'static str, &'static str, f64, f64); 5] {
        [
            ("requests", "", cost.requests, 1.0),
            ("bytes", "B", cost.bytes, self.service_bytes),
            ("updates and confirm requests", "", cost.updates, 1.0),
            ("built views", "", cost.views, 1.0),
            ("allocated bytes", "B", cost.allocated, self.service_bytes),
        ]
    }

    async fn remove(&mut self, count: usize) -> Result<Cost> {
        let whole = self.plan.shape.all();
        let begin = self.begin().await?;
        self.source.remove(count, RATE).await?;
        let removed = Instant::now();
        self.follower.serves(whole - count * self.plan.shape.instances, PATIENCE).await?;
        let gone = removed.elapsed();
        self.at_rest(count).await?;
        let cost = self.cost(count, begin).await?;
        let what = format!("removal of {count}");
        let aim = count as f64 / f64::from(self.plan.rate) + 5.0;
        self.add(&format!("{what}: until none is served (aim {aim:.1})"), "s", gone.as_secs_f64());
        self.budgets.at_most(format!("{what}: until none is served"), gone.as_secs_f64(), aim * 10.0);
        let most = REQUESTS + MOVED + LISTS / count as f64;
        self.budgets.at_most(format!("{what}: requests per service"), cost.requests, most);
        for (figure, unit, value, _) in self.counts(cost) {
            self.add(&format!("{what}: {figure} per service"), unit, value);
        }
        self.add(&format!("{what}: CPU per service"), "us", cost.cpu);
        self.bring_back(count).await?;
        Ok(cost)
    }

    async fn bring_back(&mut self, count: usize) -> Result<()> {
        let begin = self.begin().await?;
        self.source.bring_back(count, RATE).await?;
        let registered = Instant::now();
        self.follower.serves(self.plan.shape.all(), PATIENCE).await?;
        let served = registered.elapsed();
        self.at_rest(0).await?;
        let cost = self.cost(count, begin).await?;
        let what = format!("return of {count}");
        self.add(&format!("{what}: until all are served"), "s", served.as_secs_f64());
        self.promise(&format!("{what}: requests per service"), "", cost.requests, REQUESTS);
        self.add(&format!("{what}: bytes per service"), "B", cost.bytes);
        self.add(&format!("{what}: CPU per service"), "us", cost.cpu);
        Ok(())
    }

    async fn begin(&mut self) -> Result<Begin> {
        let core = self.follower.counters().await?;
        self.source.reset().await?;
        Ok(Begin { core, allocated: ALLOCATOR.total_allocated(), cpu: usage::cpu(), at: Instant::now() })
    }

    /// Returns the cost per service since then, without the requests that are sent while nothing changes.
    async fn cost(&mut self, count: usize, begin: Begin) -> Result<Cost> {
        let counted: Counted = self.source.counts().await?;
        let core = self.follower.counters().await?;
        let per = |value: f64| value / count as f64;
        let idle = self.idle_rate * begin.at.elapsed().as_secs_f64();
        self.budgets.equal("hosts that lost their endpoints without evidence", core.unexplained_empty, 0);
        let updates = core.updates - begin.core.updates + core.confirms - begin.core.confirms;
        Ok(Cost {
            requests: per((counted.requests as f64 - idle).max(0.0)),
            bytes: per(counted.bytes as f64),
            updates: per(updates as f64),
            views: per((core.views - begin.core.views) as f64),
            allocated: per((ALLOCATOR.total_allocated() - begin.allocated) as f64),
            cpu: per((usage::cpu() - begin.cpu).as_secs_f64() * 1e6),
        })
    }
}
