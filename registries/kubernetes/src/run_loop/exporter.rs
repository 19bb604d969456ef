//! Writer of a ServiceExport for every Service that needs one, while this replica leads.
//!
//! Owned and polled by the run loop, so that it ends with the run. It creates and never changes objects: a conflict
//! means that the export exists. Its effect returns through the watch.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::json;
use tokio::sync::watch;
use tributary_kube_client::{
    ApiFailure, Connection, Event, LeaderWorkQueue, ObjectName, Outcome, QueueEvent, QueuePolicy, Resource,
    Sends, Writer,
};
use tributary_model::{Code, ObjectRef, Problem, RegistryUpdate, Scope};
use tributary_registry_api::SplitMix;

use super::watch_plan::resource;
use crate::collections::Part;
use crate::derive::exports::{Suspects, due};
use crate::kind::{Kind, Name};
use crate::options::Options;
use crate::project::ObjectEvent;
use crate::state::ClusterObjects;

/// One write at a time, since exports are not urgent; a refusal usually applies to all of them.
const PACE: QueuePolicy =
    QueuePolicy { gather: Duration::from_millis(200), at_once: 1, left: 0, halts: true };

/// Exporter of Services while this replica leads.
pub(crate) struct Exporter {
    queue: LeaderWorkQueue<Name>,
    /// Whether the server serves the kind.
    served: bool,
    /// Services that changed since the last plan.
    suspects: Suspects,
    reported: BTreeMap<Name, Problem>,
    updates: Vec<RegistryUpdate>,
}

impl Exporter {
    pub(crate) fn new(
        connection: &Connection,
        options: &Options,
        leads: watch::Receiver<bool>,
        seed: u64,
    ) -> Self {
        Self {
            queue: LeaderWorkQueue::new(PACE, leads, sends(connection, options), SplitMix::seeded(seed)),
            served: false,
            suspects: Suspects::All,
            reported: BTreeMap::new(),
            updates: Vec::new(),
        }
    }

    /// Observes an event of a kind: it may make a Service due.
    pub(crate) fn observe(&mut self, kind: Kind, event: &ObjectEvent) {
        let name = match event {
            Event::Apply(object) => Some(object.name()),
            Event::Delete(name) => Some(name),
            Event::InitDone | Event::NotServed | Event::Unavailable(_) | Event::Resumed => None,
            _ => return,
        };
        if kind == Kind::Export && name.is_none() {
            self.served = matches!(event, Event::InitDone | Event::Resumed);
        }
        match (kind, name) {
            (Kind::Service | Kind::Export, Some(name)) => self.suspects.add(name),
            (Kind::Namespace, Some(name)) => self.suspects.add_namespace(&name.name),
            (Kind::Service | Kind::Export | Kind::Namespace | Kind::MeshConfig, _) => {
                self.suspects = Suspects::All;
            }
            _ => return,
        }
        self.queue.plan_soon();
    }

    /// Returns the new and resolved problems since the last call.
    pub(crate) fn take_updates(&mut self) -> Vec<RegistryUpdate> {
        std::mem::take(&mut self.updates)
    }

    /// Performs the next step; cancel-safe. Writes nothing before every list is complete, because a Service without a known
    /// export may have one.
    pub(crate) async fn work(&mut self, objects: &ClusterObjects, complete: bool) {
        match self.queue.next(complete && self.served).await {
            QueueEvent::Plan => {
                let suspects = std::mem::replace(&mut self.suspects, Suspects::none());
                self.queue.add(due(objects, &suspects));
                self.resolve(objects);
            }
            // the refused write is among the suspects
            QueueEvent::Again => {}
            QueueEvent::Done(name, outcome) => self.done(objects.options.scope(Part::Cluster), name, outcome),
            QueueEvent::Resigned => self.suspects = Suspects::All,
        }
    }

    /// Resolves problems of Services that are deleted, or exported by another writer.
    fn resolve(&mut self, objects: &ClusterObjects) {
        let open = |name: &Name| objects.services.contains_key(name) && !objects.exports.contains_key(name);
        for (name, _) in self.reported.extract_if(.., |name, _| !open(name)) {
            self.updates.push(RegistryUpdate::Problem(
                objects.options.scope(Part::Cluster).clone(),
                ObjectRef::new(name.object(Kind::Export)),
                None,
            ));
        }
    }

    fn done(&mut self, scope: &Scope, name: Name, outcome: Outcome) {
        let object = || ObjectRef::new(name.object(Kind::Export));
        let Err(why) = outcome else {
            if self.reported.remove(&name).is_some() {
                self.updates.push(RegistryUpdate::Problem(scope.clone(), object(), None));
            }
            return;
        };
        let message = format!("the export of its Service failed: {why}; it is retried");
        let problem = Problem { code: Code::NOT_WRITTEN, message: message.into() };
        if self.reported.get(&name) != Some(&problem) {
            self.updates.push(RegistryUpdate::Problem(scope.clone(), object(), Some(problem.clone())));
            self.reported.insert(name.clone(), problem);
        }
        self.suspects.add(&name);
    }
}

/// Returns a function that exports a Service of the connected cluster.
fn sends(connection: &Connection, options: &Options) -> Sends<Name> {
    let writer = Writer::new(connection.client());
    let (service, export) = (resource(Kind::Service, options), resource(Kind::Export, options));
    Box::new(move |name| {
        let (writer, service, export, name) = (writer.clone(), service.clone(), export.clone(), name.clone());
        async move { create(&writer, &service, &export, &name).await }.boxed()
    })
}

/// Creates an export, owned by its Service so that it is deleted with it. A deleted Service needs no export, and an
/// existing export is enough.
async fn create(writer: &Writer, service: &Resource, export: &Resource, name: &Name) -> Outcome {
    let object = ObjectName::new(&name.namespace, &name.name);
    let owner = match writer.get(service, "v1", &object).await {
        Err(ApiFailure::NotFound(_)) => return Ok(()),
        owner => owner?,
    };
    let owner = json!({
        "apiVersion": "v1", "kind": "Service", "name": &*name.name, "uid": owner["metadata"]["uid"],
    });
    let mut absent = Ok(());
    for version in export.versions {
        let body = json!({
            "apiVersion": format!("{}/{version}", export.group), "kind": export.kind,
            "metadata": {"name": &*name.name, "namespace": &*name.namespace, "ownerReferences": [owner]},
        });
        match writer.create(export, version, Some(&name.namespace), &body).await {
            Err(failure @ ApiFailure::NotFound(_)) => absent = Err(failure),
            Err(ApiFailure::Conflict(_)) | Ok(_) => return Ok(()),
            Err(failure) => return Err(failure),
        }
    }
    absent
}

/// Runs the exporter, if there is one.
pub(crate) async fn work(exporter: &mut Option<Exporter>, objects: &ClusterObjects, complete: bool) {
    match exporter {
        Some(exporter) => exporter.work(objects, complete).await,
        None => std::future::pending().await,
    }
}
