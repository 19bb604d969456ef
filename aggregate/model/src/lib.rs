//! Plain, immutable values that every other crate of Tributary speaks in.
//!
//! Facts come in as [`Delta`]s, leave as a [`Catalog`] of [`ServiceView`]s. Nothing here does I/O,
//! reads a clock or holds a queue. A value that can be built is valid: names, hosts and ports are
//! newtypes whose only constructors check them.

pub mod address;
pub mod catalog;
pub mod code;
pub mod declaration;
pub mod delta;
pub mod evidence;
pub mod export;
pub mod facet;
pub mod gateway;
pub mod group;
pub mod hash;
pub mod health;
pub mod hostname;
pub mod id;
pub mod labels;
pub mod left_out;
pub mod locality;
pub mod object;
pub mod pending;
pub mod port;
pub mod precedence;
pub mod protocol;
pub mod record;
pub mod registry;
pub mod same_name;
pub mod settings;
pub mod shared;
pub mod slot;
pub mod status;
pub mod sweep;
pub mod time;
pub mod trace;
pub mod view;
pub mod workload;

pub use address::{Address, At, Origin, Place};
pub use catalog::{Catalog, Changed, HostEntry, Observed, RegistryView, WorkloadView};
pub use code::Code;
pub use declaration::{
    Attributes, DeclKey, Declaration, Part, Remark, Resolution, Selector, ServiceAddress, ServiceKey,
    TrafficDistribution,
};
pub use delta::{Ask, Basis, Collection, CollectionKind, Completeness, Delta, Fact, Item, Key, Stamped};
pub use evidence::{EndEvidence, Evidence};
pub use export::{EntryVisibility, ExportTo, Visibility};
pub use facet::{Dims, Facet};
pub use gateway::{Gateway, GatewayAddress, GatewayKey};
pub use group::{Group, GroupKey, GroupPort, PortSet, Summary, WaitingAddress};
pub use hash::Version;
pub use health::Health;
pub use hostname::{HostPattern, Hostname};
pub use id::{
    ClusterId, Fingerprint, Generation, Identity, InvalidName, Namespace, NetworkId, NodeName, Provider,
    RegistryId, RegistryName, Scope,
};
pub use labels::Labels;
pub use left_out::{LeftOut, of_revision};
pub use locality::Locality;
pub use object::{ObjectId, ObjectRef, ObjectVersion, Source};
pub use pending::{Pending, PendingCause};
pub use port::{PortName, PortNumber, ServicePort, Target};
pub use precedence::Claim;
pub use protocol::Protocol;
pub use record::{HoldRecord, ListRecord, ListResult, ProblemRecord, Record};
pub use registry::{RegistrySpec, RestartMode, Scopes, StalePolicy};
pub use same_name::{Apart, MergeByName, NameOutcome, NamedService, SameName};
pub use settings::{Alias, AliasMember, Settings};
pub use shared::Shared;
pub use slot::{Answers, ClientKind, Encoded, Projection, Slots};
pub use status::{
    Freshness, Problem, SinceMono, SourcePart, SourceState, SourceStatus, Standing, Withheld, WithheldCause,
};
pub use sweep::Sweep;
pub use time::{Mono, Timestamp};
pub use trace::{Recorder, Stage, Step, Trace, Verdict};
pub use view::{
    AliasHost, ClusterFacts, Condition, DeclarationView, EndpointFacts, EndpointSource, Joined,
    ListenerFacts, PortView, RouteFacts, ServiceView, ShardRef,
};
pub use workload::{Workload, WorkloadAddress, WorkloadKey, WorkloadKind, WorkloadName};
