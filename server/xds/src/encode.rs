//! Encodes plans to bytes: deterministic, total, and pure.
//!
//! `answers` calls it to fill its caches. Equal plans give equal bytes in every process: the [`wire`] writer
//! encodes the hot path (assignments) and every map in order of key; other bodies come from
//! envoy-types, in which no map field with more than one key may be used.

mod access_log;
pub mod assignment;
pub mod authorization;
pub mod cluster;
pub mod defaults;
mod hash;
mod header_changes;
mod http_route;
pub mod listener;
pub mod mesh_tls;
mod retries;
pub mod route;
mod route_action;
mod route_filters;
mod route_match;
mod spans;
pub mod tls;
mod tokens;
mod traffic;

use std::time::Duration;

use envoy_types::pb::google::protobuf;
use prost::{Message, Name};
use tributary_proto::wire::Writer;

/// Wraps a message in an `Any`.
pub(crate) fn any<M: Message + Name>(message: &M) -> protobuf::Any {
    protobuf::Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

/// Longest duration that clients accept, rounded down.
const LONGEST: Duration = Duration::from_secs(9_000_000_000);

/// Converts a duration; a longer one than clients accept is the longest.
pub(crate) fn duration(value: Duration) -> protobuf::Duration {
    let value = value.min(LONGEST);
    protobuf::Duration {
        seconds: i64::try_from(value.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(value.subsec_nanos()).unwrap_or(0),
    }
}

/// Writes a duration as a field; a longer one than clients accept is the longest.
fn write_duration(wire: &mut Writer, field: u32, value: Duration) {
    let value = value.min(LONGEST);
    wire.message(field, |w| {
        w.number(1, value.as_secs());
        w.number(2, value.subsec_nanos().into());
    });
}

/// Returns a function that makes the sum of these weights fit 32 bits, as clients require, and none of them 0.
fn scaled(weights: impl Iterator<Item = u32>) -> impl Fn(u32) -> u32 {
    let total: u64 = weights.map(u64::from).sum();
    let above = total / u64::from(u32::MAX);
    let unit = if above == 0 { 1 } else { above + 2 };
    move |weight| u32::try_from(u64::from(weight) / unit).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests;
