//! Status changes reach a reader without polling; other changes do not wake it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tributary_model::{
    Basis, ClusterId, DeclKey, Declaration, Fact, Namespace, ObjectId, ProviderId, RegistryId,
    RegistryUpdate, Scope, ServiceKey, Source, SourceState, SourceStatus,
};
use tributary_registry_api::RegistrySpec;
use tributary_runtime::{RuntimeConfig, StatusChanges};

use crate::support::{Fault, mk_faulty, mk_server, name, pay};

const LONG: Duration = Duration::from_secs(3600);

async fn names(changes: &mut StatusChanges) -> Vec<String> {
    let names = timeout(LONG, changes.next()).await.ok().flatten().unwrap_or_default();
    names.into_iter().map(|name| name.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn only_a_changed_status_wakes_a_reader() {
    let server = mk_server(RuntimeConfig::default());
    let id = RegistryId {
        name: name("push"),
        provider: ProviderId::MEMORY,
        cluster: ClusterId::new("c").unwrap(),
    };
    let source = server.handle.source(RegistrySpec::new(Arc::new(id), 0)).await.unwrap();
    let (scope, object) = (Scope::new("all").unwrap(), ObjectId::new("Service", "shop", "pay"));
    let service = ServiceKey { host: pay(), namespace: Namespace::new("shop").unwrap() };
    let declaration = Arc::new(Declaration::new(Source::new(object.clone())));
    let fact = Fact::Service(DeclKey { service, object }, declaration);
    let status =
        |reason: &str| RegistryUpdate::Status(scope.clone(), SourceStatus::new(SourceState::Live, reason));
    source.updates.send(status(""));
    sleep(Duration::from_secs(10)).await;
    let mut changes = server.handle.status_changes();
    assert_eq!(names(&mut changes).await, ["push"], "a new reader receives earlier changes");
    source.updates.send(RegistryUpdate::Put(scope.clone(), fact, Basis::Authoritative));
    source.updates.send(status(""));
    assert!(timeout(LONG, changes.next()).await.is_err(), "facts and equal statuses change no status");
    assert!(!server.handle.catalog().hosts.is_empty());
    source.updates.send(status("partial view"));
    assert_eq!(names(&mut changes).await, ["push"]);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_run_and_removed_registry_report_a_status() {
    let server = mk_server(RuntimeConfig::default());
    let mut changes = server.handle.status_changes();
    server.handle.add_registry(mk_faulty("faulty", Fault::RefusedForGood)).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(names(&mut changes).await, ["faulty"]);
    assert_eq!(server.handle.runs()[&name("faulty")].failures, 1, "a woken reader sees the change");
    server.handle.remove_registry(name("faulty")).await.unwrap();
    assert_eq!(names(&mut changes).await, ["faulty"]);
    server.runtime.stop().await;
}
