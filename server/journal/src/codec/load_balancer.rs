//! Load balancers of traffic policies on disk.
//!
//! The codec of traffic policies calls it. Lists keep their order; an absent field has its default.

use std::sync::Arc;

use tributary_model::{
    Algorithm, Distribution, FailoverLabel, HashCookie, HashKey, LoadBalancer, LocalityBalancing, Warmup,
};

use super::Fault;
use super::common::{put_duration, read_duration};
use super::decode::Decoder;
use super::encode::Encoder;
use super::traffic_policy::put_span;
use super::wire::Value;

type Texts = (Arc<str>, Arc<str>);

/// The number of an algorithm never changes. One that an older release does not know is a fault there.
pub(crate) fn put(enc: &mut Encoder, value: &LoadBalancer) {
    let (algorithm, hash) = match &value.algorithm {
        Algorithm::Usual => (0_u8, None),
        Algorithm::LeastRequest => (1, None),
        Algorithm::Random => (2, None),
        Algorithm::RoundRobin => (3, None),
        Algorithm::Passthrough => (4, None),
        Algorithm::RingHash(key, size) => (5, Some((key, size))),
        Algorithm::Maglev(key, size) => (6, Some((key, size))),
    };
    enc.int_but(1, algorithm, 0);
    if let Some((key, size)) = hash {
        enc.nest(2, |enc| put_key(enc, key));
        enc.opt_int(3, *size);
    }
    if let Some(locality) = &value.locality {
        enc.nest(4, |enc| put_locality(enc, locality));
    }
    if let Some(warmup) = &value.warmup {
        enc.nest(5, |enc| {
            put_duration(enc, 1, warmup.duration);
            enc.opt_int(2, warmup.minimum);
            enc.opt_int(3, warmup.aggression);
        });
    }
}

pub(crate) fn read(d: &mut Decoder, value: Value<'_>) -> Result<LoadBalancer, Fault> {
    let (mut algorithm, mut key, mut size) = (0, None, None);
    let mut out = LoadBalancer::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => algorithm = value.int()?,
            2 => key = Some(read_key(d, value)?),
            3 => size = Some(value.int()?),
            4 => out.locality = Some(read_locality(d, value)?),
            5 => out.warmup = Some(read_warmup(value)?),
            _ => {}
        }
    }
    out.algorithm = read_algorithm(algorithm, key, size)?;
    Ok(out)
}

fn read_algorithm(number: u64, key: Option<HashKey>, size: Option<u64>) -> Result<Algorithm, Fault> {
    let key = || key.ok_or(Fault::Missing("key of a hash"));
    Ok(match number {
        0 => Algorithm::Usual,
        1 => Algorithm::LeastRequest,
        2 => Algorithm::Random,
        3 => Algorithm::RoundRobin,
        4 => Algorithm::Passthrough,
        5 => Algorithm::RingHash(key()?, size),
        6 => Algorithm::Maglev(key()?, size),
        _ => return Err(Fault::Unknown("load balancer")),
    })
}

fn put_key(enc: &mut Encoder, key: &HashKey) {
    match key {
        HashKey::Header(name) => enc.texts(1, [&**name]),
        HashKey::Cookie(cookie) => enc.nest(2, |enc| {
            enc.texts(1, [&*cookie.name]);
            enc.texts(2, [&*cookie.path]);
            put_span(enc, 3, cookie.ttl);
            put_pairs(enc, 4, &cookie.attributes);
        }),
        HashKey::SourceIp => enc.flag(3, true),
        HashKey::Query(name) => enc.texts(4, [&**name]),
    }
}

fn read_key(d: &mut Decoder, value: Value<'_>) -> Result<HashKey, Fault> {
    let mut key = None;
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => key = Some(HashKey::Header(d.fresh(value)?)),
            2 => key = Some(HashKey::Cookie(read_cookie(d, value)?)),
            3 => key = Some(HashKey::SourceIp),
            4 => key = Some(HashKey::Query(d.fresh(value)?)),
            _ => {}
        }
    }
    key.ok_or(Fault::Unknown("key of a hash"))
}

fn read_cookie(d: &mut Decoder, value: Value<'_>) -> Result<HashCookie, Fault> {
    let (mut name, mut path, mut ttl, mut attributes) = (None, None, None, Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = Some(d.fresh(value)?),
            2 => path = Some(d.fresh(value)?),
            3 => ttl = Some(read_duration(value)?),
            4 => attributes.push(read_pair(d, value)?),
            _ => {}
        }
    }
    Ok(HashCookie {
        name: name.ok_or(Fault::Missing("name of a cookie"))?,
        path: path.ok_or(Fault::Missing("path of a cookie"))?,
        ttl,
        attributes: attributes.into(),
    })
}

pub(crate) fn put_pairs(enc: &mut Encoder, field: u32, pairs: &[Texts]) {
    for (one, other) in pairs {
        enc.nest(field, |enc| {
            enc.texts(1, [&**one]);
            enc.texts(2, [&**other]);
        });
    }
}

pub(crate) fn read_pair(d: &mut Decoder, value: Value<'_>) -> Result<Texts, Fault> {
    match read_optional_pair(d, value)? {
        (one, Some(other)) => Ok((one, other)),
        (_, None) => Err(Fault::Missing("second text of a pair")),
    }
}

fn read_optional_pair(d: &mut Decoder, value: Value<'_>) -> Result<(Arc<str>, Option<Arc<str>>), Fault> {
    let (mut one, mut other) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => one = Some(d.fresh(value)?),
            2 => other = Some(d.fresh(value)?),
            _ => {}
        }
    }
    Ok((one.ok_or(Fault::Missing("first text of a pair"))?, other))
}

pub(super) fn put_locality(enc: &mut Encoder, value: &LocalityBalancing) {
    match value {
        LocalityBalancing::Off => {}
        LocalityBalancing::Failover { regions, labels } => {
            enc.int(1, 1_u8);
            put_pairs(enc, 2, regions);
            for label in &**labels {
                enc.nest(3, |enc| {
                    enc.texts(1, [&*label.key]);
                    enc.texts(2, label.value.as_deref());
                });
            }
        }
        LocalityBalancing::Distribute(shares) => {
            enc.int(1, 2_u8);
            for share in &**shares {
                enc.nest(4, |enc| put_share(enc, share));
            }
        }
    }
}

pub(super) fn read_locality(d: &mut Decoder, value: Value<'_>) -> Result<LocalityBalancing, Fault> {
    let (mut kind, mut regions, mut labels, mut shares) = (0, Vec::new(), Vec::new(), Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => kind = value.int()?,
            2 => regions.push(read_pair(d, value)?),
            3 => {
                let (key, value) = read_optional_pair(d, value)?;
                labels.push(FailoverLabel { key, value });
            }
            4 => shares.push(read_share(d, value)?),
            _ => {}
        }
    }
    Ok(match kind {
        0 => LocalityBalancing::Off,
        1 => LocalityBalancing::Failover { regions: regions.into(), labels: labels.into() },
        2 => LocalityBalancing::Distribute(shares.into()),
        _ => return Err(Fault::Unknown("balancing by locality")),
    })
}

fn put_share(enc: &mut Encoder, share: &Distribution) {
    enc.texts(1, [&*share.from]);
    for (place, percent) in &*share.to {
        enc.nest(2, |enc| {
            enc.texts(1, [&**place]);
            enc.int(2, *percent);
        });
    }
}

fn read_share(d: &mut Decoder, value: Value<'_>) -> Result<Distribution, Fault> {
    let (mut from, mut to) = (None, Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => from = Some(d.fresh(value)?),
            2 => to.push(read_place(d, value)?),
            _ => {}
        }
    }
    Ok(Distribution { from: from.ok_or(Fault::Missing("place of clients"))?, to: to.into() })
}

fn read_place(d: &mut Decoder, value: Value<'_>) -> Result<(Arc<str>, u32), Fault> {
    let (mut place, mut percent) = (None, 0);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => place = Some(d.fresh(value)?),
            2 => percent = value.narrow()?,
            _ => {}
        }
    }
    Ok((place.ok_or(Fault::Missing("place of endpoints"))?, percent))
}

fn read_warmup(value: Value<'_>) -> Result<Warmup, Fault> {
    let (mut duration, mut minimum, mut aggression) = (None, None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => duration = Some(read_duration(value)?),
            2 => minimum = Some(value.narrow()?),
            3 => aggression = Some(value.narrow()?),
            _ => {}
        }
    }
    Ok(Warmup { duration: duration.ok_or(Fault::Missing("duration of a warm-up"))?, minimum, aggression })
}
