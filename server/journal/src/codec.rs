//! Encodes facts and their state to bytes that later releases can read, and decodes them.
//!
//! The writer, the restore and the inspection call it. Fields are tagged, unknown ones skipped; texts,
//! label sets and topologies are in a table per record. Decoding is total: hostile lengths, names and
//! indexes are faults. A checksum covers key and value: the content hash of the model, which a test
//! there pins; it costs a tenth of decoding. It detects accidental damage; it does not protect
//! against an attacker who may write the file.

mod authorization_policy;
mod codes;
mod common;
mod decode;
mod destination_rule;
mod encode;
pub(crate) mod entry;
mod envoy_filter;
mod federated_service;
mod forwarding;
mod gateway;
mod gateway_name;
mod group;
mod http_route;
mod http_settings;
mod intern;
mod load_balancer;
pub(crate) mod member;
mod peer_authentication;
mod policy;
mod preset;
mod request_authentication;
mod service;
mod settings;
mod sidecar;
mod state;
#[cfg(test)]
mod tests;
pub(crate) mod time;
mod traffic_policy;
mod virtual_service;
mod wire;
mod workload;

use std::sync::Arc;

use tributary_model::{Fact, FactId, InvalidName, Version};

pub(crate) use decode::Decoder;
pub(crate) use encode::Encoder;
use entry::{EntryKey, EntryValue};
pub use member::{Member, MemberOrigin};
pub use time::Now;

/// Reason why a record cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Key and value do not match their checksum.
    #[error("its checksum does not match")]
    Checksum,
    /// The record ends too early.
    #[error("it ends too early")]
    Truncated,
    /// The record violates the format.
    #[error("{0}")]
    Malformed(&'static str),
    /// A field is absent.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// An index is outside its table.
    #[error("index of a {0} is outside its table")]
    Index(&'static str),
    /// A number that this release does not support.
    #[error("{0} is not supported by this release")]
    Unknown(&'static str),
    /// An invalid name.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

/// Length of a checksum.
const CHECKSUM: usize = 8;

/// Prepends the checksum of key and value to a value.
pub(crate) fn seal(key: &[u8], record: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(CHECKSUM + record.len());
    out.extend_from_slice(&checksum(key, record).to_le_bytes());
    out.extend_from_slice(record);
    out
}

/// Returns the record of a value; an error if its checksum is wrong.
pub(crate) fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], Fault> {
    let (sum, record) = value.split_first_chunk::<CHECKSUM>().ok_or(Fault::Truncated)?;
    if u64::from_le_bytes(*sum) != checksum(key, record) {
        return Err(Fault::Checksum);
    }
    Ok(record)
}

fn checksum(key: &[u8], record: &[u8]) -> u64 {
    let mut both = [0; 2 * CHECKSUM];
    both[..CHECKSUM].copy_from_slice(&Version::of(key).0.to_le_bytes());
    both[CHECKSUM..].copy_from_slice(&Version::of(record).0.to_le_bytes());
    Version::of(&both).0
}

/// Encodes a value; omits parts that its key contains.
pub(crate) fn encode(enc: &mut Encoder, value: &EntryValue) -> Vec<u8> {
    enc.body(|enc| match value {
        EntryValue::Header(header) => state::put_header(enc, header),
        EntryValue::Ended(evidence, at) => state::put_ended(enc, evidence, *at),
        EntryValue::List(list) => state::put_list(enc, list),
        EntryValue::Problem(problem) => state::put_problem(enc, problem),
        EntryValue::Hold(hold) => state::put_hold(enc, hold),
        EntryValue::Fact(fact) => put_fact(enc, fact),
    })
}

fn put_fact(enc: &mut Encoder, fact: &Fact) {
    match fact {
        Fact::Service(key, value) => service::put(enc, key, value),
        Fact::Group(key, value) => group::put(enc, key, value),
        Fact::Workload(key, value) => workload::put(enc, key, value),
        Fact::Gateway(key, value) => gateway::put(enc, key, value),
        Fact::Settings(value) => settings::put(enc, value),
        Fact::FederatedService(_, value) => federated_service::put(enc, value),
        Fact::Policy(key, value) => policy::put(enc, key, value),
        Fact::GatewayName(_, value) => gateway_name::put(enc, value),
        Fact::Waiting(..) => {}
    }
}

/// Decodes a value whose key and checksum were read before.
pub(crate) fn decode(d: &mut Decoder, key: &EntryKey, record: &[u8]) -> Result<EntryValue, Fault> {
    let fields = d.open(record)?;
    Ok(match key {
        EntryKey::Header => EntryValue::Header(state::read_header(d, fields)?),
        EntryKey::Ended => {
            let (evidence, at) = state::read_ended(d, fields)?;
            EntryValue::Ended(evidence, at)
        }
        EntryKey::List(_) => EntryValue::List(state::read_list(d, fields)?),
        EntryKey::Problem(object) => EntryValue::Problem(state::read_problem(d, object, fields)?),
        EntryKey::Hold(_) => EntryValue::Hold(state::read_hold(d, fields)?),
        EntryKey::Fact(item) => EntryValue::Fact(match item {
            FactId::Service(key) => Fact::Service(key.clone(), Arc::new(service::read(d, key, fields)?)),
            FactId::Group(key) => Fact::Group(key.clone(), Arc::new(group::read(d, key, fields)?)),
            FactId::Workload(key) => Fact::Workload(key.clone(), Arc::new(workload::read(d, key, fields)?)),
            FactId::Gateway(key) => Fact::Gateway(key.clone(), Arc::new(gateway::read(d, key, fields)?)),
            FactId::Settings => Fact::Settings(Arc::new(settings::read(d, fields)?)),
            FactId::FederatedService(host) => {
                Fact::FederatedService(host.clone(), Arc::new(federated_service::read(d, fields)?))
            }
            FactId::Policy(key) => Fact::Policy(key.clone(), Arc::new(policy::read(d, key, fields)?)),
            FactId::GatewayName(name) => {
                Fact::GatewayName(Arc::clone(name), Arc::new(gateway_name::read(d, fields)?))
            }
            FactId::Waiting(_) => return Err(Fault::Unknown("kind of record")),
        }),
    })
}

/// Encodes a member.
pub(crate) fn encode_member(enc: &mut Encoder, member: &Member) -> Vec<u8> {
    enc.body(|enc| member::put(enc, member))
}

/// Decodes a member.
pub(crate) fn decode_member(d: &mut Decoder, record: &[u8]) -> Result<Member, Fault> {
    d.begin();
    member::read(d, record)
}
