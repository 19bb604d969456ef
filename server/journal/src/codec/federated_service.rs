//! Federated services on disk.
//!
//! The codec calls it.

use std::sync::Arc;

use tributary_model::{ExportTo, FederatedMember, FederatedService, Namespace, PortNumber, RegistryName};

use super::Fault;
use super::common::{put_duration, put_export, read_duration, read_visibility};
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::{Fields, Value};

pub(crate) fn put(enc: &mut Encoder, value: &FederatedService) {
    enc.text(1, value.namespace.as_str());
    put_export(enc, 2, &value.export);
    for member in &*value.members {
        enc.nest(3, |enc| put_member(enc, member));
    }
    enc.opt_int(4, value.min_healthy_active);
    if let Some(silence) = value.standby_after_stale {
        put_duration(enc, 5, silence);
    }
    enc.flag(6, value.by_name);
}

pub(crate) fn read(d: &mut Decoder, mut fields: Fields<'_>) -> Result<FederatedService, Fault> {
    let (mut namespace, mut members) = (None, Vec::new());
    let mut export = ExportTo::Default;
    let (mut healthy, mut silence, mut by_name) = (None, None, false);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => namespace = Some(d.namespace(value)?),
            2 => export = ExportTo::Set(read_visibility(d, value)?),
            3 => members.push(read_member(d, value)?),
            4 => healthy = Some(value.narrow()?),
            5 => silence = Some(read_duration(value)?),
            6 => by_name = value.flag()?,
            _ => {}
        }
    }
    if members.len() > FederatedService::MAX_MEMBERS {
        return Err(Fault::Malformed("a federated service has too many members"));
    }
    Ok(FederatedService {
        namespace: namespace.ok_or(Fault::Missing("namespace"))?,
        export,
        members: members.into(),
        min_healthy_active: healthy,
        standby_after_stale: silence,
        by_name,
    })
}

fn put_member(enc: &mut Encoder, member: &FederatedMember) {
    enc.text(1, member.host.as_str());
    enc.opt_text(2, member.registry.as_ref().map(RegistryName::as_str));
    enc.opt_text(3, member.namespace.as_ref().map(Namespace::as_str));
    for (own, theirs) in &*member.ports {
        enc.nest(4, |enc| {
            enc.int(1, own.get());
            enc.int(2, theirs.get());
        });
    }
    enc.opt_int(5, member.weight);
    enc.flag(6, member.standby);
}

fn read_member(d: &mut Decoder, value: Value<'_>) -> Result<FederatedMember, Fault> {
    let (mut host, mut registry, mut namespace, mut ports) = (None, None, None, Vec::new());
    let (mut weight, mut standby) = (None, false);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => host = Some(d.host(value)?),
            2 => registry = Some(d.name(value, |text| RegistryName::new(text))?),
            3 => namespace = Some(d.namespace(value)?),
            4 => ports.push(read_ports(value)?),
            5 => weight = Some(value.narrow()?),
            6 => standby = value.flag()?,
            _ => {}
        }
    }
    let ports: Arc<[_]> = ports.into();
    Ok(FederatedMember {
        host: host.ok_or(Fault::Missing("host"))?,
        registry,
        namespace,
        ports,
        weight,
        standby,
    })
}

fn read_ports(value: Value<'_>) -> Result<(PortNumber, PortNumber), Fault> {
    let (mut own, mut theirs) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => own = Some(decode::port(value)?),
            2 => theirs = Some(decode::port(value)?),
            _ => {}
        }
    }
    Ok((own.ok_or(Fault::Missing("port"))?, theirs.ok_or(Fault::Missing("port"))?))
}
