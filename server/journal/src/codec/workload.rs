//! Workloads on disk.
//!
//! The codec calls it. The name is that of the key, and the labels with topology are stored as their
//! difference to the workload's own.

use std::sync::Arc;

use tributary_model::{Identity, Labels, Workload, WorkloadAddress, WorkloadKey, WorkloadKind};

use super::common::{Like, put_service, put_source, read_named_port, read_service, read_source};
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::{Fields, Value};
use super::{Fault, codes};

pub(crate) fn put(enc: &mut Encoder, key: &WorkloadKey, value: &Workload) {
    put_source(enc, 1, &value.source, &object_of(key, key.namespace.as_str().into()));
    for address in &*value.addresses {
        enc.nest(2, |enc| match address {
            WorkloadAddress::Ip(ip) => enc.ip(1, *ip),
            WorkloadAddress::Name(name) => enc.texts(2, [&**name]),
            WorkloadAddress::Unix(path) => enc.texts(3, [&**path]),
        });
    }
    for (name, number) in &*value.ports {
        enc.nest(3, |enc| {
            enc.text(1, name.as_str());
            enc.int(2, number.get());
        });
    }
    enc.labels(4, &value.labels);
    enc.labels_over(5, &value.augmented, &value.labels);
    enc.place(6, &value.topology);
    enc.opt_text(7, value.identity.as_ref().map(Identity::as_str));
    enc.text(8, &value.account);
    enc.int_but(9, codes::health(value.health), 0);
    enc.flag(10, value.mtls);
    enc.int_but(11, value.weight, 1);
    enc.text(12, &value.name);
    for service in &*value.listed {
        put_service(enc, 13, service);
    }
}

pub(crate) fn read(d: &mut Decoder, key: &WorkloadKey, mut fields: Fields<'_>) -> Result<Workload, Fault> {
    let (mut source, mut place, mut identity) = (None, None, None);
    let (mut addresses, mut ports, mut listed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut labels, mut augmented) = (Labels::default(), Labels::default());
    let (mut account, mut name) = (Arc::default(), Arc::default());
    let (mut health, mut mtls, mut weight) = (0, false, 1);
    let namespace = d.interner.id(key.namespace.as_str());
    let like = object_of(key, d.interner.text(namespace));
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => source = Some(read_source(d, value, &like)?),
            2 => addresses.push(read_address(d, value)?),
            3 => ports.push(read_port(d, value)?),
            4 => labels = d.labels(value)?,
            5 => augmented = d.labels(value)?,
            6 => place = Some(d.place(value)?),
            7 => identity = Some(d.identity(value)?),
            8 => account = d.shared(value)?,
            9 => health = value.int()?,
            10 => mtls = value.flag()?,
            11 => weight = value.narrow()?,
            12 => name = d.shared(value)?,
            13 => listed.push(read_service(d, value)?),
            _ => {}
        }
    }
    if !ports.is_sorted_by(|(a, _), (b, _)| a <= b) {
        return Err(Fault::Malformed("ports of a workload are not sorted"));
    }
    Ok(Workload {
        source: source.ok_or(Fault::Missing("source"))?,
        addresses: addresses.into(),
        ports: ports.into(),
        labels,
        augmented,
        topology: place.map_or_else(|| d.unknown_place(), Ok)?,
        identity,
        account,
        health: codes::read_health(health)?,
        mtls,
        weight,
        name,
        listed: listed.into(),
    })
}

fn object_of(key: &WorkloadKey, namespace: Arc<str>) -> Like {
    let kind = match key.kind {
        WorkloadKind::Pod => "Pod",
        WorkloadKind::Entry => "WorkloadEntry",
        WorkloadKind::Instance => "Instance",
    };
    Like { kind, namespace, name: key.name.clone() }
}

fn read_address(d: &mut Decoder, value: Value<'_>) -> Result<WorkloadAddress, Fault> {
    let mut found = None;
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        found = Some(match field {
            1 => WorkloadAddress::Ip(decode::ip(value)?),
            2 => WorkloadAddress::Name(d.fresh(value)?),
            3 => WorkloadAddress::Unix(d.fresh(value)?),
            _ => continue,
        });
    }
    found.ok_or(Fault::Missing("address"))
}

fn read_port(
    d: &mut Decoder,
    value: Value<'_>,
) -> Result<(tributary_model::PortName, tributary_model::PortNumber), Fault> {
    let (name, number) = read_named_port(d, value)?;
    Ok((name, number.ok_or(Fault::Missing("port"))?))
}
