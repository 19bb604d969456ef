//! Endpoints on disk: the most frequent kind of fact.
//!
//! The codec calls it. An address takes its IP, a few indexes and the suffix of its pod's name that differs from
//! the previous one; topologies, labels and identities are in the record's tables.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, EndpointGroup, EndpointGroupKey, GroupPort, Identity, Labels, Origin, PortSet,
    WeightUnit,
};

use super::common::{
    Like, put_object_fields, put_source, read_named_port, read_object_field, read_source, whole,
};
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::{Fields, Value};
use super::{Fault, codes};

pub(crate) fn put(enc: &mut Encoder, key: &EndpointGroupKey, value: &EndpointGroup) {
    put_source(enc, 1, &value.source, &Like::of(&key.object));
    for set in &*value.port_sets {
        enc.nest(2, |enc| put_port_set(enc, set));
    }
    enc.texts(3, value.names.iter().map(|name| &**name));
    enc.int_but(5, value.weight_unit.get(), 1);
    let pod = pod_of(key);
    for address in &*value.addresses {
        enc.nest(4, |enc| put_address(enc, address, &pod));
    }
}

pub(crate) fn read(
    d: &mut Decoder,
    key: &EndpointGroupKey,
    mut fields: Fields<'_>,
) -> Result<EndpointGroup, Fault> {
    let mut source = None;
    let (mut port_sets, mut names, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
    let (pod, mut unit) = (pod_of(key), WeightUnit::ONE);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => source = Some(read_source(d, value, &Like::of(&key.object))?),
            2 => port_sets.push(read_port_set(d, value)?),
            3 => names.push(d.fresh(value)?),
            4 => addresses.push(read_address(d, value, &pod)?),
            5 => unit = WeightUnit::new(value.narrow()?),
            _ => {}
        }
    }
    let count = addresses.len();
    let group = EndpointGroup::new(source.ok_or(Fault::Missing("source"))?, port_sets, names, addresses);
    if group.addresses.len() != count {
        return Err(Fault::Index("port set or name of an address"));
    }
    Ok(group.in_unit(unit))
}

/// Most addresses of a list are pods of its namespace.
fn pod_of(key: &EndpointGroupKey) -> Like {
    Like { kind: "Pod", namespace: key.object.namespace.clone(), name: Arc::default() }
}

fn put_port_set(enc: &mut Encoder, set: &PortSet) {
    for port in &**set {
        enc.nest(1, |enc| {
            enc.text(1, port.name.as_str());
            enc.opt_int(2, port.number.map(|number| number.get()));
        });
    }
}

fn read_port_set(d: &mut Decoder, value: Value<'_>) -> Result<PortSet, Fault> {
    let mut set = Vec::new();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        if field == 1 {
            let (name, number) = read_named_port(d, value)?;
            set.push(GroupPort { name, number });
        }
    }
    Ok(set.into())
}

fn put_address(enc: &mut Encoder, address: &Address, pod: &Like) {
    match address.at {
        AddressRef::Ip(ip @ IpAddr::V4(_)) | AddressRef::Ip(ip) => enc.ip(1, ip),
        AddressRef::Name(index) => enc.int(2, index),
        AddressRef::Unix(index) => enc.int(3, index),
    }
    enc.int_but(4, address.port_set, 0);
    enc.int_but(5, codes::health(address.health), 0);
    enc.flag(6, address.mtls);
    enc.int_but(7, address.weight, 1);
    enc.place(8, &address.topology);
    enc.labels(9, &address.labels);
    enc.opt_text(10, address.identity.as_ref().map(Identity::as_str));
    if let Some(origin) = &address.origin {
        enc.nest(11, |enc| {
            put_object_fields(enc, &origin.object, pod);
            enc.text(4, &origin.workload);
        });
    }
}

fn read_address(d: &mut Decoder, value: Value<'_>, pod: &Like) -> Result<Address, Fault> {
    let (mut at, mut place, mut origin, mut identity) = (None, None, None, None);
    let (mut port_set, mut health, mut mtls, mut weight) = (0, 0, false, 1);
    let mut labels = Labels::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => at = Some(AddressRef::Ip(decode::ip(value)?)),
            2 => at = Some(AddressRef::Name(value.narrow()?)),
            3 => at = Some(AddressRef::Unix(value.narrow()?)),
            4 => port_set = value.narrow()?,
            5 => health = value.int()?,
            6 => mtls = value.flag()?,
            7 => weight = value.narrow()?,
            8 => place = Some(d.place(value)?),
            9 => labels = d.labels(value)?,
            10 => identity = Some(d.identity(value)?),
            11 => origin = Some(Arc::new(read_origin(d, value, pod)?)),
            _ => {}
        }
    }
    let place = place.map_or_else(|| d.unknown_place(), Ok)?;
    let at = at.ok_or(Fault::Missing("address"))?;
    let health = codes::read_health(health)?;
    Ok(Address { at, port_set, health, mtls, weight, topology: place, labels, identity, origin })
}

fn read_origin(d: &mut Decoder, value: Value<'_>, pod: &Like) -> Result<Origin, Fault> {
    let (mut object, mut workload) = (pod.clone(), Arc::default());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            4 => workload = d.shared(value)?,
            _ => read_object_field(d, &mut object, (field, value))?,
        }
    }
    Ok(Origin { object: whole(object)?, workload })
}
