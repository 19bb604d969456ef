//! Leader election among replicas: a Lease that its holder renews.
//!
//! The holder stops before another replica may begin: it gives up when its last renewal is older than the margin that
//! candidates grant. Clocks of different machines are not compared: each replica measures from its own observations.
//! The Lease of a dead holder expires within its duration.

mod claim;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tributary_model::{Mono, Timestamp};
use tributary_registry_api::{RandomSource, Reason, SplitMix};

use crate::resource::{ObjectName, Resource};
use crate::watch::ApiFailure;
use crate::write::Writer;
use claim::{LeaseClaim, LeaseStep, Record};

/// Duration of a Lease, and interval of its renewals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTiming {
    /// Time after which an unrenewed Lease expires.
    pub duration: Duration,
    /// Interval between renewals, and between reads of a candidate. At most a fifth of the duration is used.
    pub renew: Duration,
}

impl Default for LeaseTiming {
    fn default() -> Self {
        Self { duration: Duration::from_secs(15), renew: Duration::from_secs(2) }
    }
}

impl LeaseTiming {
    /// Shortens the interval so that an expired Lease passes on in time.
    fn bounded(self) -> Self {
        let renew = self.renew.min(self.duration / 5).max(Duration::from_millis(1));
        Self { renew, ..self }
    }
}

/// Observed state of the Lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held {
    /// Last known holder.
    pub holder: Option<Arc<str>>,
    /// Failure to read or write it.
    pub trouble: Option<Arc<str>>,
}

const LEASES: Resource = Resource {
    group: std::borrow::Cow::Borrowed("coordination.k8s.io"),
    versions: &["v1"],
    plural: "leases",
    kind: "Lease",
    namespaced: true,
    optional: false,
};

/// Candidate for one Lease.
pub struct Leadership {
    writer: Writer,
    name: ObjectName,
    identity: Arc<str>,
    timing: LeaseTiming,
    random: SplitMix,
    claim: LeaseClaim,
    start: Instant,
    leads: watch::Sender<bool>,
    held: watch::Sender<Held>,
}

impl Leadership {
    /// Creates a candidate named `identity`, which must be unique among replicas. Sends no request before
    /// [`Leadership::run`].
    #[must_use]
    pub fn new(
        client: kube::Client,
        name: ObjectName,
        identity: &str,
        timing: LeaseTiming,
        random: SplitMix,
    ) -> Self {
        let timing = timing.bounded();
        Self {
            writer: Writer::new(client),
            claim: LeaseClaim::new(identity, timing),
            name,
            identity: identity.into(),
            timing,
            random,
            start: Instant::now(),
            leads: watch::channel(false).0,
            held: watch::channel(Held::default()).0,
        }
    }
    /// Reports whether this replica holds the Lease.
    #[must_use]
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }
    /// Reports the observed state of the Lease.
    #[must_use]
    pub fn holder(&self) -> watch::Receiver<Held> {
        self.held.subscribe()
    }

    /// Competes forever. Dropping the future ends the leadership; the Lease then expires.
    pub async fn run(mut self) {
        loop {
            self.advance().await;
        }
    }
    /// Competes until `happens` resolves; the result can resign.
    pub async fn until(mut self, happens: impl Future) -> Self {
        let mut happens = std::pin::pin!(happens);
        loop {
            tokio::select! {
                biased;
                _ = &mut happens => return self,
                () = self.advance() => {}
            }
        }
    }

    /// Performs one step. A write that is cancelled in flight may still arrive; the next read finds it.
    async fn advance(&mut self) {
        let step = self.claim.next(self.now());
        self.publish();
        match step {
            LeaseStep::Wait(until) => {
                tokio::time::sleep_until(self.start + Duration::from_millis(until.0)).await;
            }
            LeaseStep::Look => self.look().await,
            LeaseStep::Write => self.write().await,
        }
        self.publish();
    }

    /// Releases a held Lease so that another replica takes it at once. For an orderly shutdown.
    pub async fn resign(mut self) {
        let was = self.claim.resign(self.now());
        self.publish();
        if let Some(record) = was {
            // if this write is lost, the next holder waits for the duration
            let _ = self.put(&record, "").await;
        }
    }

    fn now(&self) -> Mono {
        Mono::from_elapsed(self.start.elapsed())
    }

    /// Returns a random reduction of a pause, so that candidates do not act in step.
    fn early(&mut self) -> Duration {
        self.timing.renew.mul_f64(0.1 * self.random.unit())
    }

    async fn look(&mut self) {
        let got = self.within(self.writer.get(&LEASES, "v1", &self.name)).await;
        let (now, early) = (self.now(), self.early());
        match got {
            Ok(object) => self.claim.saw(Record::read(&object), now, early),
            Err(ApiFailure::NotFound(_)) => self.claim.saw(None, now, early),
            Err(failure) => self.failed(&failure, now, early),
        }
    }

    async fn write(&mut self) {
        let record = self.claim.record();
        let identity = Arc::clone(&self.identity);
        let begun = self.now();
        let put = self.put(&record, &identity).await;
        let (now, early) = (self.now(), self.early());
        match put {
            Ok(object) => self.claim.wrote(Record::read(&object), begun, now, early),
            Err(failure) => self.failed(&failure, now, early),
        }
    }

    async fn put(&self, record: &Record, holder: &str) -> Result<Value, ApiFailure> {
        let object = self.object(record, holder);
        match &record.version {
            Some(_) => self.within(self.writer.replace(&LEASES, "v1", &self.name, &object)).await,
            None => {
                let namespace = self.name.namespace.as_deref();
                self.within(self.writer.create(&LEASES, "v1", namespace, &object)).await
            }
        }
    }

    fn object(&self, record: &Record, holder: &str) -> Value {
        let taken = holder != record.holder;
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let acquired =
            if taken { now.clone() } else { record.acquired.clone().unwrap_or_else(|| now.clone()) };
        let mut metadata = json!({"name": self.name.name, "namespace": self.name.namespace});
        if let Some(version) = &record.version {
            metadata["resourceVersion"] = json!(version);
        }
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": self.timing.duration.as_secs().max(1),
                "acquireTime": acquired, "renewTime": now,
                "leaseTransitions": record.transitions + u32::from(taken),
            },
        })
    }

    /// Limits a request to the renewal interval.
    async fn within(
        &self,
        request: impl Future<Output = Result<Value, ApiFailure>>,
    ) -> Result<Value, ApiFailure> {
        let late = || ApiFailure::Unreachable("no answer in time".to_owned());
        tokio::time::timeout(self.timing.renew, request).await.unwrap_or_else(|_| Err(late()))
    }

    fn failed(&mut self, failure: &ApiFailure, now: Mono, early: Duration) {
        self.claim.failed(now, early);
        let request = format!("lease {}", self.name);
        let trouble = match failure {
            // a conflict is the regular outcome of a lost race
            ApiFailure::Conflict(_) => None,
            other => Some(Reason::new(format_args!("{request}: {other}")).shared()),
        };
        self.held.send_if_modified(|held| {
            let changed = held.trouble != trouble;
            held.trouble = trouble;
            changed
        });
    }

    fn publish(&self) {
        let leads = self.claim.leads(self.now());
        self.leads.send_if_modified(|leads_now| std::mem::replace(leads_now, leads) != leads);
        let holder = self.claim.holder().map(Arc::from);
        self.held.send_if_modified(|held| {
            let changed = held.holder != holder;
            if changed {
                *held = Held { holder, trouble: None };
            }
            changed
        });
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.leads.send_replace(false);
    }
}
