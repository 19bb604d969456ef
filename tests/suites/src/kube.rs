//! A real Kubernetes API server over a real etcd, for tests: started on free ports, killed, paused and started
//! again on the same ones, and spoken to through [`KubeApi`]. No controller runs in it: tests write slices, pods
//! and nodes themselves, which is the point.

pub mod api;
pub mod credentials;
pub mod objects;
pub mod server;

pub use api::{KubeApi, Named};
pub use credentials::{Login, Signer};
pub use objects::{With, mk_namespace, mk_node, mk_pod, mk_service, mk_slice};
pub use server::{ApiServer, ApiServerOptions};
