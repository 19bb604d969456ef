//! PeerAuthentications on disk.
//!
//! The codec of policies calls it. A mode that an older release does not know is a fault there; an absent one is inherited.

use std::collections::BTreeMap;

use tributary_model::{Labels, MtlsMode, PeerAuthentication, PortNumber};

use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::{Fields, Value};
use super::{Fault, codes};

pub(crate) fn put(enc: &mut Encoder, value: &PeerAuthentication) {
    enc.labels(1, &value.selector);
    put_mode(enc, value.mode);
    for (port, mode) in &value.ports {
        enc.nest(3, |enc| {
            enc.int(1, port.get());
            put_mode(enc, *mode);
        });
    }
    enc.texts(4, value.ignored.iter().map(|path| &**path));
}

pub(crate) fn read(d: &mut Decoder, mut fields: Fields<'_>) -> Result<PeerAuthentication, Fault> {
    let (mut selector, mut mode) = (Labels::default(), None);
    let (mut ports, mut ignored) = (BTreeMap::new(), Vec::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => selector = d.labels(value)?,
            2 => mode = Some(codes::read_mtls_mode(value.int()?)?),
            3 => {
                let (port, mode) = read_port(value)?;
                ports.insert(port, mode);
            }
            4 => ignored.push(d.fresh(value)?),
            _ => {}
        }
    }
    Ok(PeerAuthentication { selector, mode, ports, ignored: ignored.into() })
}

fn put_mode(enc: &mut Encoder, mode: Option<MtlsMode>) {
    if let Some(mode) = mode {
        enc.int(2, codes::mtls_mode(mode));
    }
}

fn read_port(value: Value<'_>) -> Result<(PortNumber, Option<MtlsMode>), Fault> {
    let (mut port, mut mode) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => port = Some(decode::port(value)?),
            2 => mode = Some(codes::read_mtls_mode(value.int()?)?),
            _ => {}
        }
    }
    Ok((port.ok_or(Fault::Missing("port"))?, mode))
}
