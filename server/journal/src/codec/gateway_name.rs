//! Addresses of host names of gateways on disk.
//!
//! The codec calls it.

use tributary_model::{NameFailure, ResolvedName};

use super::Fault;
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::Fields;

pub(crate) fn put(enc: &mut Encoder, value: &ResolvedName) {
    for ip in value.addresses.iter() {
        enc.ip(1, *ip);
    }
    if let Some(failure) = &value.failure {
        enc.time(2, failure.since);
        enc.text(3, &failure.reason);
    }
}

pub(crate) fn read(d: &mut Decoder, mut fields: Fields<'_>) -> Result<ResolvedName, Fault> {
    let (mut addresses, mut since, mut reason) = (Vec::new(), None, None);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => addresses.push(decode::ip(value)?),
            2 => since = Some(d.time(value)?),
            3 => reason = Some(d.fresh(value)?),
            _ => {}
        }
    }
    let failure = since.map(|since| NameFailure { since, reason: reason.unwrap_or_default() });
    Ok(ResolvedName { failure, ..ResolvedName::new(addresses) })
}
