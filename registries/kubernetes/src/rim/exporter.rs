//! Writes a ServiceExport for every Service that is due one, while this replica leads.
//!
//! Owned and polled by the rim, so that it ends with the run. It creates and never changes: what somebody else
//! wrote is a conflict, and a conflict is as good as done. Its effect comes back through the watch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tributary_kube_client::{Connection, Failure, ObjectName, Resource, Writer};
use tributary_model::{Code, Delta, ObjectRef, Problem};
use tributary_registry_api::{Backoff, BackoffPolicy, SplitMix};

use crate::export::{Suspects, due};
use crate::input::{Input, Kind, Name};
use crate::inputs::Inputs;
use crate::options::Options;
use crate::plan::resource;

/// How long words of the watches are gathered before the Services are looked through again.
const GATHER: std::time::Duration = std::time::Duration::from_millis(200);

type Sent = BoxFuture<'static, (Name, Result<(), Failure>)>;

/// Exports Services while it leads.
pub(crate) struct Exporter {
    writer: Writer,
    service: Resource,
    export: Resource,
    leads: watch::Receiver<bool>,
    /// Whether the server knows the kind.
    served: bool,
    /// When to look through the suspects; nothing where nothing has changed.
    look: Option<Instant>,
    /// What has changed since the Services were last looked through.
    suspects: Suspects,
    queue: VecDeque<Name>,
    sent: Option<Sent>,
    again: Option<Instant>,
    backoff: Backoff,
    chance: SplitMix,
    told: BTreeMap<Name, Problem>,
    news: Vec<Delta>,
}

impl Exporter {
    pub(crate) fn new(
        connection: &Connection,
        options: &Options,
        leads: watch::Receiver<bool>,
        seed: u64,
    ) -> Self {
        Self {
            writer: Writer::new(connection.client()),
            service: resource(Kind::Service, options),
            export: resource(Kind::Export, options),
            leads,
            served: false,
            look: Some(Instant::now()),
            suspects: Suspects::All,
            queue: VecDeque::new(),
            sent: None,
            again: None,
            backoff: Backoff::new(BackoffPolicy::default()),
            chance: SplitMix::seeded(seed),
            told: BTreeMap::new(),
            news: Vec::new(),
        }
    }

    /// Hears what the index is told: any of these may make a Service due.
    pub(crate) fn hear(&mut self, input: &Input) {
        let (kind, name) = match input {
            Input::Put(object) => (object.kind(), Some(object.name())),
            Input::Gone(kind, name) => (*kind, Some(name)),
            Input::Listed(feed) | Input::Absent(feed) | Input::Withheld(feed) => {
                if feed.kind == Kind::Export {
                    self.served = matches!(input, Input::Listed(_));
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
        self.look.get_or_insert_with(|| Instant::now() + GATHER);
    }

    /// What has become wrong or right since this was asked last.
    pub(crate) fn news(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.news)
    }

    /// Works for a while. May be dropped while it waits: what is under way goes on. Before every list is
    /// complete nothing is written: what seems to lack an export may have one.
    pub(crate) async fn work(&mut self, inputs: &Inputs, complete: bool) {
        if !complete || !self.served || !*self.leads.borrow_and_update() {
            (self.queue, self.sent, self.suspects) = (VecDeque::new(), None, Suspects::All);
            self.look.get_or_insert_with(Instant::now);
            return changed(&mut self.leads).await;
        }
        if let Some(at) = self.again {
            sleep_until(at).await;
            self.again = None;
        }
        if self.sent.is_none() && self.queue.is_empty() {
            let Some(at) = self.look else { return changed(&mut self.leads).await };
            sleep_until(at).await;
            let suspects = std::mem::replace(&mut self.suspects, Suspects::Named(BTreeSet::new()));
            (self.look, self.queue) = (None, due(inputs, &suspects).into());
            self.forgive(inputs);
        }
        if self.sent.is_none() {
            self.sent = self.queue.pop_front().map(|name| self.send(name));
        }
        if let Some(sent) = &mut self.sent {
            let (name, done) = sent.await;
            self.sent = None;
            self.done(name, done);
        }
    }

    /// What could not be exported and is gone, or exported by somebody else by now, is no problem any more.
    fn forgive(&mut self, inputs: &Inputs) {
        let open = |name: &Name| inputs.services.contains_key(name) && !inputs.exports.contains_key(name);
        for (name, _) in self.told.extract_if(.., |name, _| !open(name)) {
            self.news.push(Delta::Problem(ObjectRef::new(name.object(Kind::Export)), None));
        }
    }

    fn send(&self, name: Name) -> Sent {
        let (writer, service, export) = (self.writer.clone(), self.service.clone(), self.export.clone());
        async move {
            let done = create(&writer, &service, &export, &name).await;
            (name, done)
        }
        .boxed()
    }

    fn done(&mut self, name: Name, done: Result<(), Failure>) {
        let object = || ObjectRef::new(name.object(Kind::Export));
        let Err(why) = done else {
            self.backoff.reset();
            if self.told.remove(&name).is_some() {
                self.news.push(Delta::Problem(object(), None));
            }
            return;
        };
        let message = format!("its Service could not be exported: {why}; it is tried again");
        let problem = Problem { code: Code::NOT_WRITTEN, message: message.into() };
        if self.told.get(&name) != Some(&problem) {
            self.news.push(Delta::Problem(object(), Some(problem.clone())));
            self.told.insert(name.clone(), problem);
        }
        self.suspects.add(&name);
        let again = Instant::now() + self.backoff.next(&mut self.chance);
        (self.again, self.look) = (Some(again), Some(again));
    }
}

/// A Service that is gone by now needs no export, and one that somebody exported has one. The export is owned
/// by its Service, so that it goes with it.
async fn create(writer: &Writer, service: &Resource, export: &Resource, name: &Name) -> Result<(), Failure> {
    let object = ObjectName::new(&name.namespace, &name.name);
    let owner = match writer.get(service, "v1", &object).await {
        Err(Failure::NotFound(_)) => return Ok(()),
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
            Err(failure @ Failure::NotFound(_)) => absent = Err(failure),
            Err(Failure::Conflict(_)) | Ok(_) => return Ok(()),
            Err(failure) => return Err(failure),
        }
    }
    absent
}

async fn changed(leads: &mut watch::Receiver<bool>) {
    if leads.changed().await.is_err() {
        // whoever decided has ended: nothing changes any more
        std::future::pending::<()>().await;
    }
}

/// The work of an exporter that there may not be.
pub(crate) async fn work(exporter: &mut Option<Exporter>, inputs: &Inputs, complete: bool) {
    match exporter {
        Some(exporter) => exporter.work(inputs, complete).await,
        None => std::future::pending().await,
    }
}
