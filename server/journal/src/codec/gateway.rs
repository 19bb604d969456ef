//! Gateway addresses on disk.
//!
//! The codec calls it.

use tributary_model::{Gateway, GatewayAddress, GatewayKey};

use super::Fault;
use super::common::{Like, put_source, read_source};
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::Fields;

pub(crate) fn put(enc: &mut Encoder, key: &GatewayKey, value: &Gateway) {
    put_source(enc, 1, &value.source, &Like::of(&key.object));
    match &value.address {
        Some(GatewayAddress::Ip(ip)) => enc.ip(2, *ip),
        Some(GatewayAddress::Name(name)) => enc.texts(3, [&**name]),
        None => {}
    }
    enc.opt_int(4, value.mtls_port.map(|port| port.get()));
    enc.opt_int(5, value.hbone_port.map(|port| port.get()));
}

pub(crate) fn read(d: &mut Decoder, key: &GatewayKey, mut fields: Fields<'_>) -> Result<Gateway, Fault> {
    let (mut source, mut address, mut mtls_port, mut hbone_port) = (None, None, None, None);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => source = Some(read_source(d, value, &Like::of(&key.object))?),
            2 => address = Some(GatewayAddress::Ip(decode::ip(value)?)),
            3 => address = Some(GatewayAddress::Name(d.fresh(value)?)),
            4 => mtls_port = Some(decode::port(value)?),
            5 => hbone_port = Some(decode::port(value)?),
            _ => {}
        }
    }
    Ok(Gateway { source: source.ok_or(Fault::Missing("source"))?, address, mtls_port, hbone_port })
}
