//! Encodes plans to bytes: deterministic, total, and pure.
//!
//! `answers` calls it to fill its caches. Equal plans give equal bytes in every process: the [`wire`] writer
//! encodes the hot path (assignments) and every map in order of key; other bodies come from
//! envoy-types, in which no map field with more than one key may be used.

mod access_log;
pub mod assignment;
pub mod cluster;
pub mod defaults;
mod hash;
pub mod listener;
mod retries;
pub mod route;
pub mod tls;
mod traffic;

use std::time::Duration;

use envoy_types::pb::google::protobuf;
use prost::{Message, Name};

/// Wraps a message in an `Any`.
pub(crate) fn any<M: Message + Name>(message: &M) -> protobuf::Any {
    protobuf::Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

/// Converts a duration; saturates.
pub(crate) fn duration(value: Duration) -> protobuf::Duration {
    protobuf::Duration {
        seconds: i64::try_from(value.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(value.subsec_nanos()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
