//! Watches of a run: one per planned watch, each of which emits events with objects of any kind.

use async_trait::async_trait;
use tributary_kube_client::{ClusterIdentity, Connection, Event, Projection, Timing, Watch, WatchSpec};
use tributary_model::Version;
use tributary_registry_api::SplitMix;

use super::watch_plan::{Planned, watch_plan};
use crate::kind::{Kind, Name, WatchScope};
use crate::options::Options;
use crate::project::{
    Export, Gateway, Import, MeshConfig, Namespace, Node, Object, ObjectEvent, Pod, Service, Slice,
};

/// Watch of any kind.
#[async_trait]
pub(crate) trait Source: Send {
    fn scope(&self) -> &WatchScope;
    /// Marks that facts that depend on the kind are held from earlier runs.
    fn hold(&mut self);
    async fn next(&mut self) -> Vec<ObjectEvent>;
}

/// Watches of a run.
pub(crate) struct WatchSet {
    pub(crate) sources: Vec<Box<dyn Source>>,
    pub(crate) planned: Vec<Planned>,
    /// Identity that all of them confirm.
    pub(crate) cluster: ClusterIdentity,
    /// Description of the credential, for the status.
    pub(crate) credential: String,
    pub(crate) server: String,
}

impl WatchSet {
    /// Creates a watch for each planned one; none has started.
    pub(crate) fn new(connection: &Connection, options: &Options, timing: Timing, seed: u64) -> Self {
        let planned = watch_plan(options);
        let cluster = ClusterIdentity::new(connection.client());
        let builder = WatchBuilder { client: connection.client(), cluster: cluster.clone(), timing, seed };
        Self {
            sources: planned.iter().map(|planned| builder.source(planned)).collect(),
            cluster,
            credential: connection.described().to_owned(),
            server: connection.server().to_owned(),
            planned,
        }
    }
}

/// Parameters that the watches of a run share.
struct WatchBuilder {
    client: kube::Client,
    cluster: ClusterIdentity,
    timing: Timing,
    seed: u64,
}

impl WatchBuilder {
    fn source(&self, planned: &Planned) -> Box<dyn Source> {
        match planned.scope.kind {
            Kind::Namespace => self.watch::<Namespace>(planned),
            Kind::Service => self.watch::<Service>(planned),
            Kind::Slice => self.watch::<Slice>(planned),
            Kind::Pod => self.watch::<Pod>(planned),
            Kind::Node => self.watch::<Node>(planned),
            Kind::Export => self.watch::<Export>(planned),
            Kind::Import => self.watch::<Import>(planned),
            Kind::Gateway => self.watch::<Gateway>(planned),
            Kind::MeshConfig => self.watch::<MeshConfig>(planned),
        }
    }

    fn watch<P: Projection + Into<Object>>(&self, planned: &Planned) -> Box<dyn Source> {
        let scope = planned.scope.clone();
        let spec = WatchSpec {
            namespace: scope.namespace.as_ref().map(ToString::to_string),
            label_selector: planned.label_selector.clone(),
            field_selector: planned.field_selector.clone(),
            ..WatchSpec::all(planned.resource.clone(), self.timing)
        };
        // different seeds, so that watches do not pause in step
        let own = format!("{}/{}", planned.resource.plural, spec.namespace.as_deref().unwrap_or_default());
        let random = SplitMix::seeded(self.seed ^ Version::of(own.as_bytes()).0);
        let watch = Watch::new(self.client.clone(), spec, random).of_cluster(self.cluster.clone());
        Box::new(Typed::<P> { watch, scope })
    }
}

struct Typed<P> {
    scope: WatchScope,
    watch: Watch<P>,
}

#[async_trait]
impl<P: Projection + Into<Object>> Source for Typed<P> {
    fn scope(&self) -> &WatchScope {
        &self.scope
    }
    fn hold(&mut self) {
        self.watch.hold();
    }
    async fn next(&mut self) -> Vec<ObjectEvent> {
        let events = self.watch.next().await.into_iter();
        events
            .map(|event| event.map(|object| Event::Apply(object.into()), |name| Name::from(&name)))
            .collect()
    }
}
