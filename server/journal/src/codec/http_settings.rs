//! Settings of HTTP routes on disk: rewrites, headers, retries, deliberate errors, mirrors, cross-origin requests.
//!
//! The codec of HTTP routes calls it. Lists keep their order; an absent field has its default.

use std::sync::Arc;

use tributary_model::{
    AbortStatus, Cors, FaultAbort, FaultDelay, FaultInjection, HeaderChanges, HeaderOperations, HttpRetries,
    Mirror, Mirroring, PathRewrite, RequestShare, Rewrite, RouteRetries, RouteSettings,
};

use super::Fault;
use super::common::{put_duration, read_duration};
use super::decode::Decoder;
use super::encode::Encoder;
use super::http_route::{put_text_match, read_text_match};
use super::load_balancer::{put_pairs, read_pair};
use super::settings::{put_retries, read_retries};
use super::traffic_policy::put_span;
use super::virtual_service::{put_destination, read_destination};
use super::wire::Value;

pub(crate) fn put_settings(enc: &mut Encoder, of: &RouteSettings) {
    if let Some(rewrite) = &of.rewrite {
        enc.nest(1, |enc| put_rewrite(enc, rewrite));
    }
    if let Some(headers) = &of.headers {
        enc.nest(2, |enc| put_headers(enc, headers));
    }
    put_span(enc, 3, of.timeout);
    if let Some(of) = &of.retries {
        enc.nest(4, |enc| {
            enc.nest(1, |enc| put_retries(enc, &of.retries));
            enc.flag(2, of.declares_other_hosts);
        });
    }
    if let Some(fault) = &of.fault {
        enc.nest(5, |enc| put_fault(enc, fault));
    }
    if let Some(mirroring) = &of.mirroring {
        enc.nest(6, |enc| put_mirroring(enc, mirroring));
    }
    if let Some(cors) = &of.cors {
        enc.nest(7, |enc| put_cors(enc, cors));
    }
}

pub(crate) fn read_settings(d: &mut Decoder, value: Value<'_>) -> Result<RouteSettings, Fault> {
    let mut out = RouteSettings::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.rewrite = Some(Arc::new(read_rewrite(d, value)?)),
            2 => out.headers = Some(Arc::new(read_headers(d, value)?)),
            3 => out.timeout = Some(read_duration(value)?),
            4 => out.retries = Some(Arc::new(read_route_retries(d, value)?)),
            5 => out.fault = Some(Arc::new(read_fault(value)?)),
            6 => out.mirroring = Some(Arc::new(read_mirroring(d, value)?)),
            7 => out.cors = Some(Arc::new(read_cors(d, value)?)),
            _ => {}
        }
    }
    Ok(out)
}

fn put_rewrite(enc: &mut Encoder, of: &Rewrite) {
    match &of.path {
        None => {}
        Some(PathRewrite::Prefix(uri)) => enc.texts(1, [&**uri]),
        Some(PathRewrite::Regex(of, to)) => enc.texts(2, [&**of, &**to]),
    }
    enc.texts(3, of.authority.as_deref());
}

fn read_rewrite(d: &mut Decoder, value: Value<'_>) -> Result<Rewrite, Fault> {
    let (mut prefix, mut regex, mut authority) = (None, Vec::new(), None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => prefix = Some(PathRewrite::Prefix(d.fresh(value)?)),
            2 => regex.push(d.fresh(value)?),
            3 => authority = Some(d.fresh(value)?),
            _ => {}
        }
    }
    let path = match <[Arc<str>; 2]>::try_from(regex) {
        Ok([of, to]) => Some(PathRewrite::Regex(of, to)),
        Err(other) if other.is_empty() => prefix,
        Err(_) => return Err(Fault::Malformed("a rewrite has other than two texts")),
    };
    Ok(Rewrite { path, authority })
}

pub(crate) fn put_headers(enc: &mut Encoder, of: &HeaderChanges) {
    enc.texts(1, of.authority.as_deref());
    for (field, operations) in [(2, &of.request), (3, &of.response)] {
        if *operations != HeaderOperations::default() {
            enc.nest(field, |enc| {
                put_pairs(enc, 1, &operations.set);
                put_pairs(enc, 2, &operations.add);
                enc.texts(3, operations.remove.iter().map(|name| &**name));
            });
        }
    }
}

pub(crate) fn read_headers(d: &mut Decoder, value: Value<'_>) -> Result<HeaderChanges, Fault> {
    let mut out = HeaderChanges::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.authority = Some(d.fresh(value)?),
            2 => out.request = read_operations(d, value)?,
            3 => out.response = read_operations(d, value)?,
            _ => {}
        }
    }
    Ok(out)
}

fn read_operations(d: &mut Decoder, value: Value<'_>) -> Result<HeaderOperations, Fault> {
    let (mut set, mut add, mut remove) = (Vec::new(), Vec::new(), Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => set.push(read_pair(d, value)?),
            2 => add.push(read_pair(d, value)?),
            3 => remove.push(d.fresh(value)?),
            _ => {}
        }
    }
    Ok(HeaderOperations { set: set.into(), add: add.into(), remove: remove.into() })
}

fn read_route_retries(d: &mut Decoder, value: Value<'_>) -> Result<RouteRetries, Fault> {
    let (mut retries, mut declares_other_hosts) = (HttpRetries::default(), false);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => retries = read_retries(d, value)?,
            2 => declares_other_hosts = value.flag()?,
            _ => {}
        }
    }
    Ok(RouteRetries { retries, declares_other_hosts })
}

fn put_fault(enc: &mut Encoder, of: &FaultInjection) {
    if let Some(delay) = of.delay {
        enc.nest(1, |enc| {
            put_duration(enc, 1, delay.duration);
            enc.int_but(2, delay.share.millionths(), 0);
        });
    }
    if let Some(abort) = of.abort {
        enc.nest(2, |enc| {
            match abort.status {
                AbortStatus::Http(status) => enc.int(1, status),
                AbortStatus::Grpc(status) => enc.int(2, status),
            }
            enc.opt_int(3, abort.share.map(RequestShare::millionths));
        });
    }
}

fn read_fault(value: Value<'_>) -> Result<FaultInjection, Fault> {
    let (mut delay, mut abort) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => delay = Some(read_delay(value)?),
            2 => abort = Some(read_abort(value)?),
            _ => {}
        }
    }
    Ok(FaultInjection { delay, abort })
}

fn read_delay(value: Value<'_>) -> Result<FaultDelay, Fault> {
    let (mut duration, mut share) = (None, RequestShare::NONE);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => duration = Some(read_duration(value)?),
            2 => share = read_share(value)?,
            _ => {}
        }
    }
    Ok(FaultDelay { duration: duration.ok_or(Fault::Missing("duration of a delay"))?, share })
}

fn read_abort(value: Value<'_>) -> Result<FaultAbort, Fault> {
    let (mut status, mut share) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => status = Some(AbortStatus::Http(value.narrow()?)),
            2 => status = Some(AbortStatus::Grpc(value.narrow()?)),
            3 => share = Some(read_share(value)?),
            _ => {}
        }
    }
    Ok(FaultAbort { status: status.ok_or(Fault::Missing("status of an abort"))?, share })
}

fn read_share(value: Value<'_>) -> Result<RequestShare, Fault> {
    RequestShare::new(value.narrow()?).ok_or(Fault::Malformed("a share is more than all"))
}

fn put_mirroring(enc: &mut Encoder, of: &Mirroring) {
    if let Some(first) = &of.first {
        enc.nest(1, |enc| put_mirror(enc, first));
    }
    enc.opt_int(2, of.share.map(RequestShare::millionths));
    if let Some(others) = &of.others {
        enc.nest(3, |enc| others.iter().for_each(|mirror| enc.nest(1, |enc| put_mirror(enc, mirror))));
    }
}

fn read_mirroring(d: &mut Decoder, value: Value<'_>) -> Result<Mirroring, Fault> {
    let mut out = Mirroring::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.first = Some(read_mirror(d, value)?),
            2 => out.share = Some(read_share(value)?),
            3 => {
                let (mut all, mut fields) = (Vec::new(), value.fields()?);
                while let Some((_, value)) = fields.next()? {
                    all.push(read_mirror(d, value)?);
                }
                out.others = Some(all.into());
            }
            _ => {}
        }
    }
    Ok(out)
}

fn put_mirror(enc: &mut Encoder, of: &Mirror) {
    enc.nest(1, |enc| put_destination(enc, &of.destination));
    enc.int_but(2, of.share.millionths(), RequestShare::ALL.millionths().into());
}

fn read_mirror(d: &mut Decoder, value: Value<'_>) -> Result<Mirror, Fault> {
    let (mut destination, mut share) = (None, RequestShare::ALL);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => destination = Some(read_destination(d, value)?),
            2 => share = read_share(value)?,
            _ => {}
        }
    }
    Ok(Mirror { destination: destination.ok_or(Fault::Missing("destination of a mirror"))?, share })
}

fn put_cors(enc: &mut Encoder, of: &Cors) {
    of.origins.iter().for_each(|origin| enc.nest(1, |enc| put_text_match(enc, origin)));
    for (field, texts) in [(2, &of.methods), (3, &of.headers), (4, &of.exposed)] {
        enc.texts(field, texts.iter().map(|text| &**text));
    }
    put_span(enc, 5, of.max_age);
    enc.opt_int(6, of.credentials);
    enc.flag(7, of.forwards_unmatched);
}

fn read_cors(d: &mut Decoder, value: Value<'_>) -> Result<Cors, Fault> {
    let (mut origins, mut methods, mut headers, mut exposed) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut max_age, mut credentials, mut forwards_unmatched) = (None, None, false);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => origins.push(read_text_match(d, value)?),
            2 => methods.push(d.fresh(value)?),
            3 => headers.push(d.fresh(value)?),
            4 => exposed.push(d.fresh(value)?),
            5 => max_age = Some(read_duration(value)?),
            6 => credentials = Some(value.flag()?),
            7 => forwards_unmatched = value.flag()?,
            _ => {}
        }
    }
    Ok(Cors {
        origins: origins.into(),
        methods: methods.into(),
        headers: headers.into(),
        exposed: exposed.into(),
        max_age,
        credentials,
        forwards_unmatched,
    })
}
