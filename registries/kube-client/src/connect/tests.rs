//! Runs before and after their connection opens.

use std::path::Path;
use std::time::Duration;

use tokio::sync::Notify;
use tributary_model::{ClusterId, Generation, ProviderId, RegistryId, Scope};
use tributary_registry_api::{ProcessClock, Run, UpdateReceiver, confirm_channel, update_channel};

use super::*;

fn name() -> RegistryName {
    RegistryName::new("k").unwrap()
}

fn factory(kubeconfig: &Path, build: BuildRun) -> ConnectingFactory {
    let id =
        RegistryId { name: name(), provider: ProviderId::KUBERNETES, cluster: ClusterId::new("c").unwrap() };
    let scopes = ["cluster", "gateways"].map(|scope| Scope::new(scope).unwrap());
    let spec = RegistrySpec::new(Arc::new(id), 0).configured(scopes);
    let options = ConnectOptions { kubeconfig: Some(kubeconfig.into()), context: None };
    ConnectingFactory::new(spec, Connector::new(name(), options, |_| None), 1, build)
}

fn channels() -> (RegistryIo, UpdateReceiver) {
    let run = Run { registry: name(), generation: Generation(1) };
    let clock = Arc::new(ProcessClock::starting_now());
    let (out, receiver) = update_channel(run, clock, Arc::new(Notify::new()));
    let (_, confirms) = confirm_channel();
    (RegistryIo { out, confirms, held: Arc::from([]) }, receiver)
}

fn statuses(receiver: &mut UpdateReceiver) -> Vec<(String, SourceStatus)> {
    let status = |update| match update {
        RegistryUpdate::Status(scope, status) => Some((scope.to_string(), status)),
        _ => None,
    };
    receiver.take().into_iter().filter_map(|update| status(update.value)).collect()
}

/// Run that reports the server it was built for.
struct Ends;

#[async_trait]
impl Registry for Ends {
    async fn run(self: Box<Self>, _: RegistryIo, _: CancellationToken) -> Result<(), RegistryError> {
        Ok(())
    }
}

#[tokio::test]
async fn run_waits_for_its_kubeconfig_and_reports_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let build: BuildRun = Box::new(|connection| {
        assert_eq!(connection.server(), "https://c.test/");
        Ok(Box::new(Ends))
    });
    let (io, mut receiver) = channels();
    let run = factory(&file, build).build().unwrap();
    let run = tokio::spawn(run.run(io, CancellationToken::new()));
    let missing = loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let statuses = statuses(&mut receiver);
        if !statuses.is_empty() {
            break statuses;
        }
    };
    let scopes: Vec<&str> = missing.iter().map(|(scope, _)| scope.as_str()).collect();
    assert_eq!(scopes, ["cluster", "gateways"]);
    for (_, status) in &missing {
        assert_eq!(status.state, SourceState::Unreachable);
        assert!(status.retry_in.is_some() && status.reason.contains("cannot be read"), "{status:?}");
    }
    let text = "{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], \
         clusters: [{name: c, cluster: {server: 'https://c.test'}}], users: [{name: u, user: {token: t}}]}";
    std::fs::write(&file, text).unwrap();
    run.await.unwrap().unwrap();
    assert!(statuses(&mut receiver).iter().all(|(_, status)| status.state == SourceState::Syncing));
}

#[tokio::test]
async fn stop_ends_a_run_that_has_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let run = factory(&folder.path().join("none"), Box::new(|_| Ok(Box::new(Ends)))).build().unwrap();
    let (io, _receiver) = channels();
    let stop = CancellationToken::new();
    let run = tokio::spawn(run.run(io, stop.clone()));
    stop.cancel();
    assert!(run.await.unwrap().is_ok());
}
