//! xDS requests and responses, and the gRPC frames that carry them.
//!
//! The transport and the sessions use it. Requests are parsed in place: names and versions stay ranges of the
//! received buffer, because one reconnect may list a hundred thousand of them. Responses are ropes: a
//! head per stream, then bytes that all streams share. No input from a peer causes a panic, and
//! every value that a peer can make large has a bound in [`limits`].

pub mod error;
pub mod grpc;
pub mod limits;
pub mod names;
pub mod node;
pub mod peer;
pub mod request;
pub mod response;
pub mod rope;
pub mod text;
pub mod wire;

pub use error::ProtoError;
pub use names::{Names, Pairs, Text};
pub use node::{Metadata, Node, Value};
pub use request::{DeltaRequest, ErrorDetail, Request, SotwRequest};
pub use response::{Record, ResponseHead, Template, Variant};
pub use rope::{Body, Rope, RopeBuilder};
