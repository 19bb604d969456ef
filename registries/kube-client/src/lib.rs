//! How Tributary speaks to a Kubernetes API server: which credential, a classified watch, writes under a Lease.
//!
//! Not an adapter: it knows no service and no endpoint. The Kubernetes registry and the custom resources of
//! the ServiceEntry registry both stand on it. A consumer holds one [`Watch`] per kind and asks it for the
//! [`Event`]s that came; it never fails, and says by [`Event::Status`] how its kind is doing.

pub mod connection;
pub mod event;
pub mod identity;
pub mod leader_work_queue;
pub mod lease;
pub mod resource;
pub mod watch;
pub mod write;

pub use connection::{ConnectError, ConnectOptions, Connection, Env, Login, Refusal};
pub use event::{Event, Projection};
pub use identity::{ClusterIdentity, Found};
pub use leader_work_queue::{LeaderWorkQueue, Outcome, QueueEvent, QueuePolicy, Sends};
pub use lease::{Held, Leadership, LeaseTiming};
pub use resource::{ObjectName, Resource};
pub use watch::{ApiFailure, Timing, Watch, WatchSpec};
pub use write::{PatchOperation, Right, Writer};
