//! Sits between the supervisor and the adapter: ends runs on request, and sends updates for runs that have
//! ended. Adapters need no crash or late sender of their own.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tributary_registry_api::{
    CancellationToken, Registry, RegistryError, RegistryFactory, RegistryIo, RegistrySpec, UpdateSender,
};

use crate::pace::{Between, Pace, Paces, cut_off};

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// With an error.
    Error,
    /// With a panic.
    Panic,
}

/// Controls the runs of an adapter.
#[derive(Debug)]
pub struct Tamper {
    crashes: watch::Sender<Option<(u64, Crash)>>,
    holds: watch::Sender<bool>,
    senders: Mutex<Vec<UpdateSender>>,
    paces: Arc<Paces>,
}

impl Tamper {
    /// Returns a tamper without effect.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let (crashes, holds) = (watch::Sender::new(None), watch::Sender::new(false));
        Arc::new(Self { crashes, holds, senders: Mutex::default(), paces: Arc::default() })
    }
    /// Ends all active runs.
    pub fn crash(&self, how: Crash) {
        self.crashes.send_modify(|crash| *crash = Some((crash.map_or(0, |(n, _)| n + 1), how)));
    }
    /// Makes runs that begin from now on wait.
    pub fn hold(&self) {
        self.holds.send_replace(true);
    }
    /// Lets waiting runs begin.
    pub fn let_go(&self) {
        self.holds.send_replace(false);
    }
    /// Sets how updates reach the core, for runs that begin from now on and for runs that are held back or
    /// split.
    pub fn pace(&self, pace: Pace) {
        self.paces.set(pace);
    }
    /// Returns how many runs were cut off.
    #[must_use]
    pub fn cuts(&self) -> usize {
        self.paces.cuts()
    }
    /// Returns the senders of all runs so far, including ended ones.
    pub fn senders(&self) -> Vec<UpdateSender> {
        self.senders.lock().clone()
    }
    /// Wraps the adapter's factory.
    pub fn around(self: &Arc<Self>, inner: Arc<dyn RegistryFactory>) -> Arc<dyn RegistryFactory> {
        Arc::new(Around { tamper: Arc::clone(self), inner })
    }
}

struct Around {
    tamper: Arc<Tamper>,
    inner: Arc<dyn RegistryFactory>,
}

impl RegistryFactory for Around {
    fn spec(&self) -> RegistrySpec {
        self.inner.spec()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        let crashes = self.tamper.crashes.subscribe();
        Ok(Box::new(Run { tamper: Arc::clone(&self.tamper), crashes, inner: self.inner.build()? }))
    }
}

struct Run {
    tamper: Arc<Tamper>,
    crashes: watch::Receiver<Option<(u64, Crash)>>,
    inner: Box<dyn Registry>,
}

#[async_trait]
impl Registry for Run {
    async fn run(mut self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        self.tamper.senders.lock().push(io.out.clone());
        let mut holds = self.tamper.holds.subscribe();
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = holds.wait_for(|holds| !holds) => {}
        }
        let between = self.tamper.paces.between(&io.out);
        let (out, between) = match between {
            Some((out, between)) => (out, Some(between)),
            None => (io.out.clone(), None),
        };
        let inner = self.inner.run(RegistryIo { out, ..io }, stop);
        tokio::select! {
            ended = inner => ended,
            all = pass(between) => {
                if all {
                    self.tamper.crash(Crash::Error);
                }
                Err(cut_off())
            }
            Ok(()) = self.crashes.changed() => match *self.crashes.borrow_and_update() {
                Some((_, Crash::Panic)) => panic!("the scenario wants a panic here"),
                _ => Err(RegistryError::retryable("the scenario wants an error here")),
            },
        }
    }
}

async fn pass(between: Option<Between>) -> bool {
    match between {
        Some(between) => between.pass().await,
        None => std::future::pending().await,
    }
}
