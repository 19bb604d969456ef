//! Declarations of services on disk.
//!
//! The codec calls it. Fields have defaults, so common values take no space; a field that a later release
//! adds is skipped.

use std::sync::Arc;

use tributary_model::{
    Attributes, ClusterId, Code, DeclKey, Declaration, DeclarationWarning, ExportTo, Identity, MergeName,
    Resolution, Selector, ServicePort, Target,
};

use super::common::{
    Like, put_export, put_service_address, put_source, put_timestamp, read_service_address, read_source,
    read_timestamp, read_visibility,
};
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::{Fields, Value};
use super::{Fault, codes};

pub(crate) fn put(enc: &mut Encoder, key: &DeclKey, value: &Declaration) {
    put_source(enc, 1, &value.source, &Like::of(&key.object));
    if let Some(created) = value.created {
        put_timestamp(enc, 2, created);
    }
    for port in &*value.ports {
        enc.nest(3, |enc| put_port(enc, port));
    }
    for address in &*value.addresses {
        put_service_address(enc, 4, address);
    }
    put_resolution(enc, &value.resolution);
    if let Some(selector) = &value.selector {
        enc.nest(7, |enc| put_selector(enc, selector));
    }
    put_export(enc, 8, &value.export);
    if value.attributes != Attributes::default() {
        enc.nest(9, |enc| put_attributes(enc, &value.attributes));
    }
    if let Some(merge_name) = &value.merge_name {
        enc.nest(10, |enc| put_merge_name(enc, merge_name));
    }
}

pub(crate) fn read(d: &mut Decoder, key: &DeclKey, mut fields: Fields<'_>) -> Result<Declaration, Fault> {
    let (mut source, mut created, mut selector) = (None, None, None);
    let (mut ports, mut addresses) = (Vec::new(), Vec::new());
    let (mut resolution, mut alias) = (0, None);
    let (mut export, mut attributes) = (ExportTo::Default, Attributes::default());
    let mut merge_name = None;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => source = Some(read_source(d, value, &Like::of(&key.object))?),
            2 => created = Some(read_timestamp(value)?),
            3 => ports.push(read_port(d, value)?),
            4 => addresses.push(read_service_address(d, value)?),
            5 => resolution = value.int()?,
            6 => alias = Some(d.host(value)?),
            7 => selector = Some(read_selector(d, value)?),
            8 => export = ExportTo::Set(read_visibility(d, value)?),
            9 => attributes = read_attributes(d, value)?,
            10 => merge_name = Some(read_merge_name(d, value)?),
            _ => {}
        }
    }
    let resolution = match (resolution, alias) {
        (0, _) => Resolution::ClientSide,
        (1, _) => Resolution::DnsStrict,
        (2, _) => Resolution::DnsLogical,
        (3, _) => Resolution::Passthrough,
        (4, _) => Resolution::Dynamic,
        (5, Some(host)) => Resolution::Alias(host),
        _ => return Err(Fault::Unknown("resolution")),
    };
    Ok(Declaration {
        source: source.ok_or(Fault::Missing("source"))?,
        created,
        ports: ports.into(),
        addresses: addresses.into(),
        resolution,
        selector,
        export,
        attributes,
        merge_name,
    })
}

fn put_merge_name(enc: &mut Encoder, value: &MergeName) {
    enc.texts(1, [&*value.name]);
    enc.int(2, codes::merge_side(value.side));
    enc.text(3, value.host.as_str());
}

fn read_merge_name(d: &mut Decoder, value: Value<'_>) -> Result<MergeName, Fault> {
    let (mut name, mut side, mut host) = (None, 0, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = Some(d.fresh(value)?),
            2 => side = value.int()?,
            3 => host = Some(d.host(value)?),
            _ => {}
        }
    }
    let name = name.ok_or(Fault::Missing("merge name"))?;
    let host = host.ok_or(Fault::Missing("host of a merge name"))?;
    Ok(MergeName { name, side: codes::read_merge_side(side)?, host })
}

fn put_resolution(enc: &mut Encoder, resolution: &Resolution) {
    let code: u64 = match resolution {
        Resolution::ClientSide => return,
        Resolution::DnsStrict => 1,
        Resolution::DnsLogical => 2,
        Resolution::Passthrough => 3,
        Resolution::Dynamic => 4,
        Resolution::Alias(_) => 5,
    };
    enc.int(5, code);
    if let Resolution::Alias(host) = resolution {
        enc.text(6, host.as_str());
    }
}

fn put_port(enc: &mut Encoder, port: &ServicePort) {
    enc.int(1, port.number.get());
    enc.text(2, port.name.as_str());
    enc.int(3, codes::protocol(port.protocol));
    match &port.target {
        Target::Same => {}
        Target::Number(number) => enc.int(4, number.get()),
        Target::Name(name) => enc.texts(5, [name.as_str()]),
        Target::NamedOr(number) => enc.int(6, number.map_or(0, |number| number.get())),
    }
}

fn read_port(d: &mut Decoder, value: Value<'_>) -> Result<ServicePort, Fault> {
    let (mut number, mut name, mut protocol) = (None, None, 0);
    let mut target = Target::Same;
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => number = Some(decode::port(value)?),
            2 => name = Some(d.port_name(value)?),
            3 => protocol = value.int()?,
            4 => target = Target::Number(decode::port(value)?),
            5 => target = Target::Name(d.port_name(value)?),
            6 if value.int()? == 0 => target = Target::NamedOr(None),
            6 => target = Target::NamedOr(Some(decode::port(value)?)),
            _ => {}
        }
    }
    let name = name.map_or_else(|| d.no_port_name(), Ok)?;
    let number = number.ok_or(Fault::Missing("port"))?;
    Ok(ServicePort { number, name, protocol: codes::read_protocol(protocol)?, target })
}

fn put_selector(enc: &mut Encoder, selector: &Selector) {
    enc.labels(1, &selector.labels);
    for kind in &*selector.kinds {
        enc.int(2, codes::workload(*kind));
    }
    enc.opt_text(3, selector.cluster.as_ref().map(ClusterId::as_str));
    enc.flag(4, selector.names);
    enc.flag(5, selector.augmented);
}

fn read_selector(d: &mut Decoder, value: Value<'_>) -> Result<Selector, Fault> {
    let mut kinds = Vec::new();
    let mut out = Selector {
        labels: tributary_model::Labels::default(),
        kinds: Arc::default(),
        cluster: None,
        names: false,
        augmented: false,
    };
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.labels = d.labels(value)?,
            2 => kinds.push(codes::read_workload(value.int()?)?),
            3 => out.cluster = Some(d.cluster(value)?),
            4 => out.names = value.flag()?,
            5 => out.augmented = value.flag()?,
            _ => {}
        }
    }
    out.kinds = kinds.into();
    Ok(out)
}

fn put_attributes(enc: &mut Encoder, value: &Attributes) {
    enc.labels(1, &value.labels);
    enc.flag(2, value.mesh_external);
    enc.flag(3, value.node_local);
    enc.flag(4, value.cluster_local);
    enc.flag(5, value.own_cluster_only);
    enc.int(6, codes::traffic(value.traffic));
    enc.flag(7, value.publish_not_ready);
    enc.flag(8, value.persistent_sessions);
    enc.texts(9, value.identities.iter().map(Identity::as_str));
    enc.flag(10, value.race_connect);
    enc.flag(11, value.headless);
    for remark in &*value.warnings {
        enc.nest(12, |enc| put_note(enc, remark.code, &remark.message));
    }
    enc.int(13, codes::declared_part(value.role));
}

fn read_attributes(d: &mut Decoder, value: Value<'_>) -> Result<Attributes, Fault> {
    let mut out = Attributes::default();
    let (mut identities, mut warnings) = (Vec::new(), Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.labels = d.labels(value)?,
            2 => out.mesh_external = value.flag()?,
            3 => out.node_local = value.flag()?,
            4 => out.cluster_local = value.flag()?,
            5 => out.own_cluster_only = value.flag()?,
            6 => out.traffic = codes::read_traffic(value.int()?)?,
            7 => out.publish_not_ready = value.flag()?,
            8 => out.persistent_sessions = value.flag()?,
            9 => identities.push(d.identity(value)?),
            10 => out.race_connect = value.flag()?,
            11 => out.headless = value.flag()?,
            12 => {
                let (code, message) = read_note(d, value)?;
                warnings.push(DeclarationWarning { code, message });
            }
            13 => out.role = codes::read_declared_part(value.int()?)?,
            _ => {}
        }
    }
    (out.identities, out.warnings) = (identities.into(), warnings.into());
    Ok(out)
}

pub(crate) fn put_note(enc: &mut Encoder, code: Code, message: &str) {
    enc.int(1, code.number());
    enc.texts(2, [message]);
}

pub(crate) fn read_note(d: &mut Decoder, value: Value<'_>) -> Result<(Code, Arc<str>), Fault> {
    let (mut code, mut message) = (None, Arc::default());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => code = Code::from_number(value.narrow()?),
            2 => message = d.fresh(value)?,
            _ => {}
        }
    }
    Ok((code.ok_or(Fault::Unknown("code"))?, message))
}
