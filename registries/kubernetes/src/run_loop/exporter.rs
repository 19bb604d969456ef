//! Writes a ServiceExport for every Service that is due one, while this replica leads.
//!
//! Owned and polled by the rim, so that it ends with the run. It creates and never changes: what somebody else
//! wrote is a conflict, and a conflict is as good as done. Its effect comes back through the watch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::json;
use tokio::sync::watch;
use tributary_kube_client::{
    ApiFailure, Connection, LeaderWorkQueue, ObjectName, Outcome, QueueEvent, QueuePolicy, Resource, Sends,
    Writer,
};
use tributary_model::{Code, ObjectRef, Problem, RegistryUpdate, Scope};
use tributary_registry_api::SplitMix;

use crate::export::{Suspects, due};
use crate::input::{Input, Kind, Name};
use crate::objects::ClusterObjects;
use crate::options::Options;
use crate::part::Part;
use crate::plan::resource;

/// One by one, since nobody waits for an export; what is refused to one is most often refused to all.
const PACE: QueuePolicy =
    QueuePolicy { gather: Duration::from_millis(200), at_once: 1, left: 0, halts: true };

/// Exports Services while it leads.
pub(crate) struct Exporter {
    duty: LeaderWorkQueue<Name>,
    /// Whether the server knows the kind.
    served: bool,
    /// What has changed since the Services were last looked through.
    suspects: Suspects,
    told: BTreeMap<Name, Problem>,
    news: Vec<RegistryUpdate>,
}

impl Exporter {
    pub(crate) fn new(
        connection: &Connection,
        options: &Options,
        leads: watch::Receiver<bool>,
        seed: u64,
    ) -> Self {
        Self {
            duty: LeaderWorkQueue::new(PACE, leads, sends(connection, options), SplitMix::seeded(seed)),
            served: false,
            suspects: Suspects::All,
            told: BTreeMap::new(),
            news: Vec::new(),
        }
    }

    /// Hears what the index is told: any of these may make a Service due.
    pub(crate) fn hear(&mut self, input: &Input) {
        let (kind, name) = match input {
            Input::Put(object) => (object.kind(), Some(object.name())),
            Input::Gone(kind, name) => (*kind, Some(name)),
            Input::Listed(feed) | Input::Absent(feed) | Input::Withheld(feed, _) | Input::Resumed(feed) => {
                if feed.kind == Kind::Export {
                    self.served = matches!(input, Input::Listed(_) | Input::Resumed(_));
                }
                (feed.kind, None)
            }
            _ => return,
        };
        match (kind, name) {
            (Kind::Service | Kind::Export, Some(name)) => self.suspects.add(name),
            (Kind::Service | Kind::Export | Kind::Namespace | Kind::MeshConfig, _) => {
                self.suspects = Suspects::All;
            }
            _ => return,
        }
        self.duty.plan_soon();
    }

    /// What has become wrong or right since this was asked last.
    pub(crate) fn news(&mut self) -> Vec<RegistryUpdate> {
        std::mem::take(&mut self.news)
    }

    /// Works for a while. May be dropped while it waits: what is under way goes on. Before every list is
    /// complete nothing is written: what seems to lack an export may have one.
    pub(crate) async fn work(&mut self, inputs: &ClusterObjects, complete: bool) {
        match self.duty.next(complete && self.served).await {
            QueueEvent::Plan => {
                let suspects = std::mem::replace(&mut self.suspects, Suspects::Named(BTreeSet::new()));
                self.duty.add(due(inputs, &suspects));
                self.forgive(inputs);
            }
            // what was refused is a suspect
            QueueEvent::Again => {}
            QueueEvent::Done(name, outcome) => self.done(inputs.options.scope(Part::Cluster), name, outcome),
            QueueEvent::Resigned => self.suspects = Suspects::All,
        }
    }

    /// What could not be exported and is gone, or exported by somebody else by now, is no problem any more.
    fn forgive(&mut self, inputs: &ClusterObjects) {
        let open = |name: &Name| inputs.services.contains_key(name) && !inputs.exports.contains_key(name);
        for (name, _) in self.told.extract_if(.., |name, _| !open(name)) {
            self.news.push(RegistryUpdate::Problem(
                inputs.options.scope(Part::Cluster).clone(),
                ObjectRef::new(name.object(Kind::Export)),
                None,
            ));
        }
    }

    fn done(&mut self, scope: &Scope, name: Name, outcome: Outcome) {
        let object = || ObjectRef::new(name.object(Kind::Export));
        let Err(why) = outcome else {
            if self.told.remove(&name).is_some() {
                self.news.push(RegistryUpdate::Problem(scope.clone(), object(), None));
            }
            return;
        };
        let message = format!("its Service could not be exported: {why}; it is tried again");
        let problem = Problem { code: Code::NOT_WRITTEN, message: message.into() };
        if self.told.get(&name) != Some(&problem) {
            self.news.push(RegistryUpdate::Problem(scope.clone(), object(), Some(problem.clone())));
            self.told.insert(name.clone(), problem);
        }
        self.suspects.add(&name);
    }
}

/// Exports Services of the cluster behind this connection.
fn sends(connection: &Connection, options: &Options) -> Sends<Name> {
    let writer = Writer::new(connection.client());
    let (service, export) = (resource(Kind::Service, options), resource(Kind::Export, options));
    Box::new(move |name| {
        let (writer, service, export, name) = (writer.clone(), service.clone(), export.clone(), name.clone());
        async move { create(&writer, &service, &export, &name).await }.boxed()
    })
}

/// A Service that is gone by now needs no export, and one that somebody exported has one. The export is owned
/// by its Service, so that it goes with it.
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

/// The work of an exporter that there may not be.
pub(crate) async fn work(exporter: &mut Option<Exporter>, inputs: &ClusterObjects, complete: bool) {
    match exporter {
        Some(exporter) => exporter.work(inputs, complete).await,
        None => std::future::pending().await,
    }
}
