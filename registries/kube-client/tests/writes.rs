//! Leases, guarded writes and access reviews, against a scripted API server under a paused clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: a panic is a failed test"
)]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tributary_kube_client::{
    ApiFailure, Held, Leadership, LeaseTiming, ObjectName, PatchOperation, Resource, Right, Writer, lead,
};
use tributary_model::{Generation, RegistryName};
use tributary_registry_api::{
    CancellationToken, ProcessClock, Registry, RegistryError, RegistryIo, Run, SplitMix, confirm_channel,
    update_channel,
};
use tributary_scripted_api::{Answer, ApiServer, Kind, Verb};

const LEASES: Kind =
    Kind { group: "coordination.k8s.io", version: "v1", plural: "leases", kind: "Lease", namespaced: true };
const ENTRIES: Kind =
    Kind { group: "entries.test", version: "v1", plural: "entries", kind: "Entry", namespaced: true };
const ENTRY_KIND: Resource = Resource {
    group: std::borrow::Cow::Borrowed("entries.test"),
    versions: &["v1"],
    plural: "entries",
    kind: "Entry",
    namespaced: true,
    optional: false,
};
const DURATION: Duration = Duration::from_secs(15);

struct Replica {
    leads: watch::Receiver<bool>,
    held: watch::Receiver<Held>,
    task: JoinHandle<()>,
}

fn lease() -> ObjectName {
    ObjectName::new("system", "addresses")
}

fn replica(server: &ApiServer, name: &str, seed: u64) -> Replica {
    let timing = LeaseTiming { duration: DURATION, ..LeaseTiming::default() };
    let one = Leadership::new(server.client(), lease(), name, timing, SplitMix::seeded(seed));
    let (leads, held) = (one.leads(), one.holder());
    Replica { leads, held, task: tokio::spawn(one.run()) }
}

impl Replica {
    async fn leading(&mut self) {
        let waited = tokio::time::timeout(Duration::from_secs(600), self.leads.wait_for(|leads| *leads));
        waited.await.expect("never leads").unwrap();
    }
    fn is_leading(&self) -> bool {
        *self.leads.borrow()
    }
}

fn spec(server: &ApiServer) -> Value {
    server.get("leases", "system", "addresses").unwrap()["spec"].clone()
}

#[tokio::test(start_paused = true)]
async fn one_of_several_replicas_leads_and_keeps_the_lease() {
    let server = ApiServer::new(&[LEASES]);
    let mut replicas: Vec<Replica> = (0..3_u64).map(|n| replica(&server, &format!("r{n}"), n)).collect();
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(replicas.iter().filter(|one| one.is_leading()).count(), 1);
    }
    assert_eq!(spec(&server)["leaseTransitions"], 1, "the Lease never passed on");
    assert_eq!(spec(&server)["leaseDurationSeconds"], 15);
    let leader = replicas.iter().position(Replica::is_leading).unwrap();
    let other = &mut replicas[(leader + 1) % 3];
    assert_eq!(other.held.borrow_and_update().holder.as_deref(), Some(format!("r{leader}").as_str()));
}

#[tokio::test(start_paused = true)]
async fn lease_of_a_killed_holder_passes_within_its_duration() {
    for killed_after in [0, 700, 1_300, 1_999, 5_000, 60_123] {
        let server = ApiServer::new(&[LEASES]);
        let mut first = replica(&server, "first", 1);
        first.leading().await;
        let mut second = replica(&server, "second", 2);
        tokio::time::sleep(Duration::from_millis(killed_after)).await;
        assert!(first.is_leading() && !second.is_leading());
        first.task.abort();
        let killed = Instant::now();
        second.leading().await;
        assert!(killed.elapsed() <= DURATION, "killed after {killed_after} ms: {:?}", killed.elapsed());
        assert!(!first.is_leading(), "a killed holder does not lead");
    }
}

#[tokio::test(start_paused = true)]
async fn holder_that_cannot_renew_stops_before_the_next_begins() {
    let server = ApiServer::new(&[LEASES]);
    let mut first = replica(&server, "first", 1);
    first.leading().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    // the first cannot write; the second can, and reads what the first wrote last
    server.answer("leases", Some(Verb::Write), usize::MAX, Answer::Silence);
    let cut = Instant::now();
    first.leads.wait_for(|leads| !leads).await.unwrap();
    let stopped = cut.elapsed();
    assert!(stopped < DURATION - Duration::from_secs(4), "a candidate may take it then: {stopped:?}");
    assert!(first.held.borrow().trouble.as_ref().unwrap().contains("no answer in time"));
    server.heal();
    first.leading().await;
}

#[tokio::test(start_paused = true)]
async fn resigned_lease_is_taken_at_the_next_read() {
    let server = ApiServer::new(&[LEASES]);
    let timing = LeaseTiming { duration: DURATION, ..LeaseTiming::default() };
    let first = Leadership::new(server.client(), lease(), "first", timing, SplitMix::seeded(1));
    let mut leads = first.leads();
    {
        let mut running = Box::pin(first.until(leads.wait_for(|leads| *leads)));
        let first = (&mut running).await;
        let mut second = replica(&server, "second", 2);
        tokio::time::sleep(Duration::from_secs(3)).await;
        first.resign().await;
        let resigned = Instant::now();
        second.leading().await;
        assert!(resigned.elapsed() <= timing.renew, "{:?}", resigned.elapsed());
    }
    assert!(!*leads.borrow());
}

/// Run that ends after it has led for a while.
struct LedRun(watch::Receiver<bool>);

#[async_trait::async_trait]
impl Registry for LedRun {
    async fn run(mut self: Box<Self>, _: RegistryIo, _: CancellationToken) -> Result<(), RegistryError> {
        self.0.wait_for(|leads| *leads).await.map_err(RegistryError::retryable)?;
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn run_leads_until_it_ends_and_then_resigns() {
    let server = ApiServer::new(&[LEASES]);
    let timing = LeaseTiming { duration: DURATION, ..LeaseTiming::default() };
    let one = Leadership::new(server.client(), lease(), "one", timing, SplitMix::seeded(1));
    let run = lead::while_running(Box::new(LedRun(one.leads())), Some(one));
    let run_of = Run { registry: RegistryName::new("k").unwrap(), generation: Generation(1) };
    let clock = Arc::new(ProcessClock::starting_now());
    let (out, _receiver) = update_channel(run_of, clock, Arc::new(Notify::new()));
    let (_sender, confirms) = confirm_channel();
    let io = RegistryIo { out, confirms, held: Arc::from([]) };
    let run = tokio::spawn(run.run(io, CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(spec(&server)["holderIdentity"], "one");
    run.await.unwrap().unwrap();
    assert_eq!(spec(&server)["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn missing_right_to_a_lease_is_reported() {
    let server = ApiServer::new(&[LEASES]);
    server.answer("leases", None, usize::MAX, Answer::Status(403, "no right"));
    let mut one = replica(&server, "one", 1);
    let held = one.held.wait_for(|held| held.trouble.is_some()).await.unwrap().clone();
    assert!(held.trouble.unwrap().contains("lease system/addresses: the right is missing (403)"));
    server.heal();
    one.leading().await;
}

fn entry(addresses: &[&str]) -> Value {
    json!({"metadata": {"namespace": "shop", "name": "pay"}, "status": {"addresses": addresses}})
}

#[tokio::test(start_paused = true)]
async fn patch_applies_only_where_its_test_holds() {
    let server = ApiServer::new(&[ENTRIES]);
    server.put("entries", entry(&[]));
    let writer = Writer::new(server.client());
    let name = ObjectName::new("shop", "pay");
    let steps = |was: &[&str], now: &[&str]| {
        let path = || "/status/addresses".to_owned();
        [
            PatchOperation::Test { path: path(), value: json!(was) },
            PatchOperation::Replace { path: path(), value: json!(now) },
        ]
    };
    let patch = |steps: [PatchOperation; 2]| {
        let (writer, name) = (writer.clone(), name.clone());
        async move { writer.patch(&ENTRY_KIND, "v1", &name, Some("status"), &steps).await }
    };
    patch(steps(&[], &["240.0.0.1"])).await.unwrap();
    let late = patch(steps(&[], &["240.0.0.2"])).await.unwrap_err();
    assert!(matches!(late, ApiFailure::Conflict(_)), "{late:?}");
    let held = server.get("entries", "shop", "pay").unwrap();
    assert_eq!(held["status"]["addresses"], json!(["240.0.0.1"]), "no write is overwritten");
    let unguarded = [PatchOperation::Remove { path: "/status".to_owned() }];
    let refused = writer.patch(&ENTRY_KIND, "v1", &name, None, &unguarded).await.unwrap_err();
    assert!(matches!(refused, ApiFailure::Invalid(..)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn object_is_created_once() {
    let server = ApiServer::new(&[ENTRIES]);
    let writer = Writer::new(server.client());
    let create = || async { writer.create(&ENTRY_KIND, "v1", Some("shop"), &entry(&[])).await };
    assert_eq!(create().await.unwrap()["metadata"]["name"], "pay");
    assert!(matches!(create().await, Err(ApiFailure::Conflict(_))));
}

#[tokio::test(start_paused = true)]
async fn review_returns_the_servers_decision() {
    let server = ApiServer::new(&[ENTRIES]);
    let writer = Writer::new(server.client());
    let right = |resource: &str| Right {
        verb: "patch".to_owned(),
        group: "entries.test".to_owned(),
        resource: resource.to_owned(),
        namespace: None,
        name: None,
    };
    server.answer("secrets", None, usize::MAX, Answer::Status(403, "no"));
    assert!(writer.review(&right("entries/status")).await.unwrap());
    assert!(!writer.review(&right("secrets")).await.unwrap());
    server.answer("selfsubject", None, 1, Answer::Status(500, "etcd is away"));
    assert!(matches!(writer.review(&right("entries")).await, Err(ApiFailure::Server(500, _))));
}
