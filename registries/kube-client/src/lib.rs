//! Client for a Kubernetes API server: credentials, a classified watch, and writes under a Lease.
//!
//! A registry's runs connect, reconnect and lead through [`ConnectingFactory`] and [`lead`]. The Kubernetes registry and
//! the custom resources of the ServiceEntry registry use it; it knows no service and no endpoint. A consumer holds one
//! [`Watch`] per kind and awaits its [`Event`]s. A watch never fails: it reports the state of its kind by
//! [`Event::Status`].

pub mod cluster_context;
pub mod connect;
pub mod connection;
pub mod event;
pub mod forward;
pub mod identity;
pub mod lead;
pub mod leader_work_queue;
pub mod lease;
pub mod live;
pub mod preflight;
mod reconnect;
pub mod resource;
pub mod seed;
pub mod token;
pub mod token_review;
pub mod watch;
pub mod write;

pub use cluster_context::{
    ClusterContext, ClusterContextReceiver, ClusterContextSender, cluster_context_channel,
};
pub use connect::{BuildRun, ConnectingFactory, Connector};
pub use connection::{
    AddressCheck, ConnectError, ConnectOptions, Connection, Env, Login, Presented, Refusal, Target,
};
pub use event::{Event, Projection};
pub use forward::{Forwarded, PodFound, Pods};
pub use identity::{ClusterIdentity, Found};
pub use leader_work_queue::{LeaderWorkQueue, Outcome, QueueEvent, QueuePolicy, Sends};
pub use lease::{Held, Leadership, LeaseTiming};
pub use live::LiveConnections;
pub use preflight::{Preflight, exists, not_served, preflight};
pub use resource::{ObjectName, Resource};
pub use seed::seed;
pub use token::IssuedToken;
pub use token_review::{ReviewedToken, TokenUser};
pub use watch::{ApiFailure, Timing, Watch, WatchSpec};
pub use write::{PatchOperation, Right, Writer};
