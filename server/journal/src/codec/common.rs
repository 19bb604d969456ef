//! Codecs of parts that several kinds of facts have: objects, sources, services, visibility, durations.
//!
//! The codecs of the kinds call it. Parts of a value that equal its key are omitted.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    ClusterId, Evidence, ExportTo, Generation, Namespace, ObjectId, ObjectRef, ObjectVersion, PortName,
    PortNumber, Position, ServiceAddress, ServiceKey, Source, Timestamp, Visibility,
};

use super::Fault;
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::{Fields, Value, unzigzag, zigzag};

/// Reads a port's name and its optional number.
pub(crate) fn read_named_port(
    d: &mut Decoder,
    value: Value<'_>,
) -> Result<(PortName, Option<PortNumber>), Fault> {
    let (mut name, mut number) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = Some(d.port_name(value)?),
            2 => number = Some(decode::port(value)?),
            _ => {}
        }
    }
    Ok((name.map_or_else(|| d.no_port_name(), Ok)?, number))
}

/// Expected object of a value, derived from its key.
#[derive(Debug, Clone)]
pub(crate) struct Like {
    /// Kind.
    pub(crate) kind: &'static str,
    /// Namespace.
    pub(crate) namespace: Arc<str>,
    /// Name.
    pub(crate) name: Arc<str>,
}

impl Like {
    /// Expects no object.
    pub(crate) fn nothing() -> Self {
        Self { kind: "", namespace: Arc::default(), name: Arc::default() }
    }
    /// Expects this object.
    pub(crate) fn of(object: &ObjectId) -> Self {
        Self { kind: object.kind, namespace: object.namespace.clone(), name: object.name.clone() }
    }
}

/// Writes the parts of an object that differ from the expected one.
pub(crate) fn put_object(enc: &mut Encoder, field: u32, object: &ObjectId, like: &Like) {
    let same = object.kind == like.kind && object.namespace == like.namespace && object.name == like.name;
    if !same {
        enc.nest(field, |enc| put_object_fields(enc, object, like));
    }
}

pub(crate) fn put_object_fields(enc: &mut Encoder, object: &ObjectId, like: &Like) {
    let pairs =
        [(object.kind, like.kind), (&*object.namespace, &*like.namespace), (&*object.name, &*like.name)];
    for (field, (own, likely)) in (1..).zip(pairs) {
        if own != likely {
            enc.texts(field, [own]);
        }
    }
}

/// Reads one field of an object over the expected one.
pub(crate) fn read_object_field(
    d: &mut Decoder,
    object: &mut Like,
    (field, value): (u32, Value<'_>),
) -> Result<(), Fault> {
    match field {
        1 => object.kind = d.kind(value)?,
        2 => object.namespace = d.shared(value)?,
        3 => object.name = d.fresh(value)?,
        _ => {}
    }
    Ok(())
}

/// Returns the object that was read; an error if its kind is missing.
pub(crate) fn whole(object: Like) -> Result<ObjectId, Fault> {
    if object.kind.is_empty() {
        return Err(Fault::Missing("kind of an object"));
    }
    Ok(ObjectId { kind: object.kind, namespace: object.namespace, name: object.name })
}

pub(crate) fn read_object(d: &mut Decoder, value: Value<'_>, like: &Like) -> Result<ObjectId, Fault> {
    let mut object = like.clone();
    let mut fields = value.fields()?;
    while let Some(field) = fields.next()? {
        read_object_field(d, &mut object, field)?;
    }
    whole(object)
}

pub(crate) fn put_source(enc: &mut Encoder, field: u32, source: &Source, like: &Like) {
    enc.nest(field, |enc| {
        put_object(enc, 1, &source.object, like);
        enc.text(2, &source.position.text());
        enc.text(3, &source.version.0);
    });
}

pub(crate) fn read_source(d: &mut Decoder, value: Value<'_>, like: &Like) -> Result<Source, Fault> {
    let mut object = None;
    let (mut place, mut version) = (Position::default(), ObjectVersion::default());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => object = Some(read_object(d, value, like)?),
            2 => place = Position::new(d.fresh(value)?),
            3 => version.0 = d.fresh(value)?,
            _ => {}
        }
    }
    let object = object.map_or_else(|| whole(like.clone()), Ok)?;
    Ok(Source { object, position: place, version })
}

pub(crate) fn put_reference(enc: &mut Encoder, field: u32, reference: &ObjectRef, like: &Like) {
    enc.nest(field, |enc| {
        put_object(enc, 1, &reference.id, like);
        enc.text(2, &reference.position.text());
    });
}

pub(crate) fn read_reference(d: &mut Decoder, value: Value<'_>, like: &Like) -> Result<ObjectRef, Fault> {
    let (mut object, mut place) = (None, Position::default());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => object = Some(read_object(d, value, like)?),
            2 => place = Position::new(d.fresh(value)?),
            _ => {}
        }
    }
    Ok(ObjectRef { id: object.map_or_else(|| whole(like.clone()), Ok)?, position: place })
}

pub(crate) fn put_service(enc: &mut Encoder, field: u32, service: &ServiceKey) {
    enc.nest(field, |enc| {
        enc.text(1, service.host.as_str());
        enc.text(2, service.namespace.as_str());
    });
}

pub(crate) fn read_service(d: &mut Decoder, value: Value<'_>) -> Result<ServiceKey, Fault> {
    let (mut host, mut namespace) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => host = Some(d.host(value)?),
            2 => namespace = Some(d.namespace(value)?),
            _ => {}
        }
    }
    Ok(ServiceKey {
        host: host.ok_or(Fault::Missing("host"))?,
        namespace: namespace.ok_or(Fault::Missing("namespace"))?,
    })
}

pub(crate) fn put_visibility(enc: &mut Encoder, field: u32, visibility: &Visibility) {
    enc.nest(field, |enc| match visibility {
        Visibility::Public => enc.int(1, 1u64),
        Visibility::Namespaces(list) => {
            enc.int(1, 2u64);
            enc.texts(2, list.iter().map(Namespace::as_str));
        }
        Visibility::Own => enc.int(1, 3u64),
        Visibility::Hidden => enc.int(1, 4u64),
    });
}

pub(crate) fn read_visibility(d: &mut Decoder, value: Value<'_>) -> Result<Visibility, Fault> {
    let (mut kind, mut list) = (0, Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => kind = value.int()?,
            2 => list.push(d.namespace(value)?),
            _ => {}
        }
    }
    Ok(match kind {
        1 => Visibility::Public,
        2 if list.is_sorted() => Visibility::Namespaces(list.into()),
        3 => Visibility::Own,
        4 => Visibility::Hidden,
        _ => return Err(Fault::Unknown("visibility")),
    })
}

pub(crate) fn put_export(enc: &mut Encoder, field: u32, export: &ExportTo) {
    if let ExportTo::Set(visibility) = export {
        put_visibility(enc, field, visibility);
    }
}

pub(crate) fn put_duration(enc: &mut Encoder, field: u32, duration: Duration) {
    enc.nest(field, |enc| {
        enc.int(1, duration.as_secs());
        enc.int(2, duration.subsec_nanos());
    });
}

pub(crate) fn read_duration(value: Value<'_>) -> Result<Duration, Fault> {
    let (mut seconds, mut nanos) = (0, 0u32);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => seconds = value.int()?,
            2 => nanos = value.narrow()?,
            _ => {}
        }
    }
    if nanos >= 1_000_000_000 {
        return Err(Fault::Malformed("a duration has more nanoseconds than a second"));
    }
    Ok(Duration::new(seconds, nanos))
}

pub(crate) fn put_timestamp(enc: &mut Encoder, field: u32, at: Timestamp) {
    enc.nest(field, |enc| {
        enc.int(1, zigzag(at.as_second()));
        enc.int(2, zigzag(at.subsec_nanosecond().into()));
    });
}

pub(crate) fn read_timestamp(value: Value<'_>) -> Result<Timestamp, Fault> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => seconds = unzigzag(value.int()?),
            2 => nanos = unzigzag(value.int()?),
            _ => {}
        }
    }
    let nanos = i32::try_from(nanos).map_err(|_| Fault::Malformed("a time is out of range"))?;
    Timestamp::new(seconds, nanos).map_err(|_| Fault::Malformed("a time is out of range"))
}

pub(crate) fn put_service_address(enc: &mut Encoder, field: u32, address: &ServiceAddress) {
    enc.nest(field, |enc| {
        enc.opt_text(1, address.cluster.as_ref().map(ClusterId::as_str));
        enc.ip(2, address.ip);
        enc.int(3, address.prefix);
        enc.flag(4, address.allocated);
    });
}

pub(crate) fn read_service_address(d: &mut Decoder, value: Value<'_>) -> Result<ServiceAddress, Fault> {
    let (mut cluster, mut ip, mut prefix, mut allocated) = (None, None, 0, false);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => cluster = Some(d.cluster(value)?),
            2 => ip = Some(decode::ip(value)?),
            3 => prefix = value.narrow()?,
            4 => allocated = value.flag()?,
            _ => {}
        }
    }
    let ip = ip.ok_or(Fault::Missing("virtual address"))?;
    if prefix > if ip.is_ipv4() { 32 } else { 128 } {
        return Err(Fault::Malformed("a prefix is longer than its address"));
    }
    Ok(ServiceAddress { cluster, ip, prefix, allocated })
}

pub(crate) fn put_evidence(enc: &mut Encoder, field: u32, evidence: &Evidence) {
    enc.nest(field, |enc| match evidence {
        Evidence::Deleted(object) => put_reference(enc, 1, object, &Like::nothing()),
        Evidence::AbsentFromList => enc.int(2, 1u64),
        Evidence::Confirmed => enc.int(2, 2u64),
        Evidence::Operator => enc.int(2, 3u64),
        Evidence::Withdrawn => enc.int(2, 4u64),
        Evidence::Superseded(generation) => enc.int(3, generation.0),
        Evidence::Changed(object) => put_reference(enc, 4, object, &Like::nothing()),
        Evidence::Ended(reason) => enc.texts(5, [&**reason]),
    });
}

pub(crate) fn read_evidence(d: &mut Decoder, value: Value<'_>) -> Result<Evidence, Fault> {
    let mut found = None;
    let mut fields: Fields<'_> = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        found = Some(match field {
            1 => Evidence::Deleted(read_reference(d, value, &Like::nothing())?),
            2 => match value.int()? {
                1 => Evidence::AbsentFromList,
                2 => Evidence::Confirmed,
                3 => Evidence::Operator,
                4 => Evidence::Withdrawn,
                _ => return Err(Fault::Unknown("evidence")),
            },
            3 => Evidence::Superseded(Generation(value.int()?)),
            4 => Evidence::Changed(read_reference(d, value, &Like::nothing())?),
            5 => Evidence::Ended(d.fresh(value)?),
            _ => continue,
        });
    }
    found.ok_or(Fault::Unknown("evidence"))
}
