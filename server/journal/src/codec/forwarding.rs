//! Gateways on disk.
//!
//! The codec of policies calls it. Lists keep their order; an absent field has its default.

use tributary_model::{ForwardingGateway, ForwardingServer, Labels};

use super::Fault;
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::sidecar::{put_bind, put_import, read_import};
use super::wire::{Fields, Value};

pub(crate) fn put(enc: &mut Encoder, value: &ForwardingGateway) {
    enc.labels(1, &value.selector);
    for server in &*value.servers {
        enc.nest(2, |enc| {
            enc.int(1, server.port.get());
            put_bind(enc, 2, server.bind);
            server.hosts.iter().for_each(|import| put_import(enc, 3, import));
        });
    }
    enc.texts(3, value.unserved.iter().map(|text| &**text));
    enc.texts(4, value.ignored.iter().map(|path| &**path));
}

pub(crate) fn read(d: &mut Decoder, mut fields: Fields<'_>) -> Result<ForwardingGateway, Fault> {
    let mut selector = Labels::default();
    let (mut servers, mut unserved, mut ignored) = (Vec::new(), Vec::new(), Vec::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => selector = d.labels(value)?,
            2 => servers.push(read_server(d, value)?),
            3 => unserved.push(d.fresh(value)?),
            4 => ignored.push(d.fresh(value)?),
            _ => {}
        }
    }
    let (servers, unserved, ignored) = (servers.into(), unserved.into(), ignored.into());
    Ok(ForwardingGateway { selector, servers, unserved, ignored })
}

fn read_server(d: &mut Decoder, value: Value<'_>) -> Result<ForwardingServer, Fault> {
    let (mut port, mut bind, mut hosts) = (None, None, Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => port = Some(decode::port(value)?),
            2 => bind = Some(decode::ip(value)?),
            3 => hosts.push(read_import(d, value)?),
            _ => {}
        }
    }
    Ok(ForwardingServer { port: port.ok_or(Fault::Missing("port"))?, bind, hosts: hosts.into() })
}
