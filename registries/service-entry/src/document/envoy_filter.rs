//! EnvoyFilter of `networking.istio.io`: changes of the resources that clients receive.

use std::sync::Arc;

use tributary_model::{ApplyTo, ClusterMatch, Labels, ListenerMatch, Operation, PatchContext, RoutesMatch};

use super::{Located, Text};

/// Changes of the resources that clients receive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnvoyFilter {
    /// Position of `spec`, or of the document without one.
    pub at: Located<()>,
    /// Labels of the clients that it concerns; all clients if absent.
    pub selector: Option<Located<Labels>>,
    /// Whether it names target resources.
    pub has_targets: bool,
    /// Position among filters.
    pub priority: Option<Located<i64>>,
    /// The changes.
    pub patches: Vec<ConfigPatch>,
    /// Paths of fields that have no effect, with their positions.
    pub ignored: Vec<Text>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigPatch {
    /// Position.
    pub at: Located<()>,
    /// Kind of the changed part.
    pub apply_to: Option<Located<ApplyTo>>,
    /// Clients and directions.
    pub context: Option<Located<PatchContext>>,
    /// Pattern of proxy versions.
    pub version: Option<Text>,
    /// Metadata of proxies.
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
    /// Matches of objects, of which a patch may have one.
    pub objects: Vec<Located<ObjectMatch>>,
    /// Position of the change, if it has one.
    pub patch: Option<Located<()>>,
    /// What is done.
    pub operation: Option<Located<Operation>>,
    /// Encoded message of the part, or nothing if it is not read.
    pub value: Option<Located<PatchValue>>,
}

/// Value of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchValue {
    /// Encoded message.
    Message(Arc<[u8]>),
    /// Not read, because no client receives it.
    Unread,
}

/// Match of an object. A name that is required and missing is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectMatch {
    /// Part of listeners.
    Listener(ListenerMatch),
    /// Part of route configurations.
    Routes(RoutesMatch),
    /// Cluster.
    Cluster(ClusterMatch),
    /// Part of waypoints, which are not served.
    Waypoint,
}

impl ObjectMatch {
    /// Name of the field.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Listener(_) => "listener",
            Self::Routes(_) => "routeConfiguration",
            Self::Cluster(_) => "cluster",
            Self::Waypoint => "waypoint",
        }
    }
}

impl ConfigPatch {
    /// Whether it concerns waypoints alone.
    pub(crate) fn is_for_waypoints(&self) -> bool {
        self.context.is_some_and(|context| context.value == PatchContext::Waypoint)
    }
    /// Whether it removes parts.
    pub(crate) fn removes(&self) -> bool {
        self.operation.is_some_and(|operation| operation.value == Operation::Remove)
    }
}
