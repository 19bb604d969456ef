//! Who of several replicas does what only one may do: a Lease that its holder renews.
//!
//! The holder stops before anybody else may begin: it gives up when its last renewal is older than the lead
//! that candidates leave it. Clocks of machines are not compared: everyone counts from what they themselves
//! have seen. A Lease whose holder died passes within its duration.

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

/// How long a Lease is held, and how often it is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTiming {
    /// A Lease that is not renewed passes within this.
    pub duration: Duration,
    /// Between two renewals, and between two looks of a candidate. At most a fifth of the duration is used.
    pub renew: Duration,
}

impl Default for LeaseTiming {
    fn default() -> Self {
        Self { duration: Duration::from_secs(15), renew: Duration::from_secs(2) }
    }
}

impl LeaseTiming {
    /// With looks that are close enough for the Lease to pass in time.
    fn bounded(self) -> Self {
        let renew = self.renew.min(self.duration / 5).max(Duration::from_millis(1));
        Self { renew, ..self }
    }
}

/// What is known of the Lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held {
    /// Who holds it, as far as is known.
    pub holder: Option<Arc<str>>,
    /// What is wrong with reading or writing it.
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

/// A candidate for one Lease.
pub struct Leadership {
    writer: Writer,
    name: ObjectName,
    identity: Arc<str>,
    timing: LeaseTiming,
    chance: SplitMix,
    claim: LeaseClaim,
    start: Instant,
    leads: watch::Sender<bool>,
    held: watch::Sender<Held>,
}

impl Leadership {
    /// A candidate that calls itself `identity`, which no other replica may. Nothing is asked before
    /// [`Leadership::run`].
    #[must_use]
    pub fn new(
        client: kube::Client,
        name: ObjectName,
        identity: &str,
        timing: LeaseTiming,
        chance: SplitMix,
    ) -> Self {
        let timing = timing.bounded();
        Self {
            writer: Writer::new(client),
            claim: LeaseClaim::new(identity, timing),
            name,
            identity: identity.into(),
            timing,
            chance,
            start: Instant::now(),
            leads: watch::channel(false).0,
            held: watch::channel(Held::default()).0,
        }
    }
    /// Whether this replica holds the Lease.
    #[must_use]
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }
    /// What is known of the Lease.
    #[must_use]
    pub fn holder(&self) -> watch::Receiver<Held> {
        self.held.subscribe()
    }

    /// Competes for ever. Dropped, it no longer leads; the Lease passes when it runs out.
    pub async fn run(mut self) {
        loop {
            self.advance().await;
        }
    }
    /// Competes until something happens, and can be resigned then.
    pub async fn until(mut self, happens: impl Future) -> Self {
        let mut happens = std::pin::pin!(happens);
        loop {
            tokio::select! {
                _ = &mut happens => return self,
                () = self.advance() => {}
            }
        }
    }

    /// One step. Dropped within it, a write may have been made that is not known of; the next look finds it.
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

    /// Gives the Lease up, if it is held, so that another takes it at once. For an orderly end.
    pub async fn resign(mut self) {
        let was = self.claim.resign(self.now());
        self.publish();
        if let Some(record) = was {
            // whoever is next waits for the duration if this does not arrive
            let _ = self.put(&record, "").await;
        }
    }

    fn now(&self) -> Mono {
        Mono::from_elapsed(self.start.elapsed())
    }

    /// A part of a pause that is left out, so that candidates do not look in step.
    fn early(&mut self) -> Duration {
        self.timing.renew.mul_f64(0.1 * self.chance.unit())
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

    /// No answer is waited for longer than until the next renewal is due.
    async fn within(
        &self,
        ask: impl Future<Output = Result<Value, ApiFailure>>,
    ) -> Result<Value, ApiFailure> {
        let late = || ApiFailure::Unreachable("no answer in time".to_owned());
        tokio::time::timeout(self.timing.renew, ask).await.unwrap_or_else(|_| Err(late()))
    }

    fn failed(&mut self, failure: &ApiFailure, now: Mono, early: Duration) {
        self.claim.failed(now, early);
        let asked = format!("lease {}", self.name);
        let trouble = match failure {
            // that somebody else was first is how it works
            ApiFailure::Conflict(_) => None,
            other => Some(Reason::new(format_args!("{asked}: {other}")).shared()),
        };
        self.held.send_if_modified(|held| {
            let news = held.trouble != trouble;
            held.trouble = trouble;
            news
        });
    }

    fn publish(&self) {
        let leads = self.claim.leads(self.now());
        self.leads.send_if_modified(|told| std::mem::replace(told, leads) != leads);
        let holder = self.claim.holder().map(Arc::from);
        self.held.send_if_modified(|held| {
            let news = held.holder != holder;
            if news {
                *held = Held { holder, trouble: None };
            }
            news
        });
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.leads.send_replace(false);
    }
}
