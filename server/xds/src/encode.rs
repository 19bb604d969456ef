//! From plain plans to bytes: deterministic, total, and pure.
//!
//! Called by `answers` to fill slots. Equal plans give equal bytes in every process: the hot path
//! (assignments) and every map are written by our own [`wire`] writer in order of key; cold bodies
//! come from envoy-types, in which no map field with more than one key may be used.

pub mod assignment;
pub mod cluster;
pub mod listener;
pub mod route;
pub mod wire;

use std::time::Duration;

use envoy_types::pb::google::protobuf;
use prost::{Message, Name};

/// A message in an `Any`.
pub(crate) fn any<M: Message + Name>(message: &M) -> protobuf::Any {
    protobuf::Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

/// A duration; what does not fit is the longest that does.
pub(crate) fn duration(value: Duration) -> protobuf::Duration {
    protobuf::Duration {
        seconds: i64::try_from(value.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(value.subsec_nanos()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
