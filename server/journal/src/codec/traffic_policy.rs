//! Traffic policies on disk: connections, ejection and TLS. Load balancers have a codec of their own.
//!
//! The codec of DestinationRules calls it. An absent field has its default.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{ClientTls, ConnectionPool, Keepalive, OutlierDetection, TlsSettings, TrafficPolicy};

use super::common::{put_duration, read_duration};
use super::decode::Decoder;
use super::encode::Encoder;
use super::wire::Value;
use super::{Fault, codes, load_balancer};

pub(crate) fn put(enc: &mut Encoder, value: &TrafficPolicy) {
    if let Some(balancer) = &value.balancer {
        enc.nest(1, |enc| load_balancer::put(enc, balancer));
    }
    if let Some(pool) = &value.pool {
        enc.nest(2, |enc| put_pool(enc, pool));
    }
    if let Some(outliers) = &value.outliers {
        enc.nest(3, |enc| put_outliers(enc, outliers));
    }
    if let Some(tls) = &value.tls {
        enc.nest(4, |enc| put_tls(enc, tls));
    }
}

pub(crate) fn read(d: &mut Decoder, value: Value<'_>) -> Result<TrafficPolicy, Fault> {
    let mut out = TrafficPolicy::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.balancer = Some(Arc::new(load_balancer::read(d, value)?)),
            2 => out.pool = Some(Arc::new(read_pool(value)?)),
            3 => out.outliers = Some(Arc::new(read_outliers(value)?)),
            4 => out.tls = Some(Arc::new(read_tls(d, value)?)),
            _ => {}
        }
    }
    Ok(out)
}

pub(crate) fn put_span(enc: &mut Encoder, field: u32, duration: Option<Duration>) {
    if let Some(duration) = duration {
        put_duration(enc, field, duration);
    }
}

fn put_pool(enc: &mut Encoder, value: &ConnectionPool) {
    enc.opt_int(1, value.max_connections);
    put_span(enc, 2, value.connect_timeout);
    if let Some(keepalive) = &value.keepalive {
        enc.nest(3, |enc| {
            enc.opt_int(1, keepalive.probes);
            put_span(enc, 2, keepalive.time);
            put_span(enc, 3, keepalive.interval);
        });
    }
    put_span(enc, 4, value.max_duration);
    put_span(enc, 5, value.idle_timeout);
    put_span(enc, 6, value.tcp_idle_timeout);
    enc.opt_int(7, value.max_pending);
    enc.opt_int(8, value.max_requests);
    enc.opt_int(9, value.max_requests_per_connection);
    enc.opt_int(10, value.max_retries);
    enc.opt_int(11, value.max_streams);
    enc.int_but(12, codes::pool_http(value.http), 0);
}

fn read_pool(value: Value<'_>) -> Result<ConnectionPool, Fault> {
    let mut out = ConnectionPool::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.max_connections = Some(value.narrow()?),
            2 => out.connect_timeout = Some(read_duration(value)?),
            3 => out.keepalive = Some(read_keepalive(value)?),
            4 => out.max_duration = Some(read_duration(value)?),
            5 => out.idle_timeout = Some(read_duration(value)?),
            6 => out.tcp_idle_timeout = Some(read_duration(value)?),
            7 => out.max_pending = Some(value.narrow()?),
            8 => out.max_requests = Some(value.narrow()?),
            9 => out.max_requests_per_connection = Some(value.narrow()?),
            10 => out.max_retries = Some(value.narrow()?),
            11 => out.max_streams = Some(value.narrow()?),
            12 => out.http = codes::read_pool_http(value.int()?)?,
            _ => {}
        }
    }
    Ok(out)
}

fn read_keepalive(value: Value<'_>) -> Result<Keepalive, Fault> {
    let mut out = Keepalive::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.probes = Some(value.narrow()?),
            2 => out.time = Some(read_duration(value)?),
            3 => out.interval = Some(read_duration(value)?),
            _ => {}
        }
    }
    Ok(out)
}

fn put_outliers(enc: &mut Encoder, value: &OutlierDetection) {
    enc.opt_int(1, value.server_errors);
    enc.opt_int(2, value.gateway_errors);
    enc.opt_int(3, value.local_failures);
    enc.flag(4, value.splits_local);
    put_span(enc, 5, value.interval);
    put_span(enc, 6, value.ejection_time);
    enc.opt_int(7, value.max_ejected);
    enc.int_but(8, value.min_healthy, 0);
}

fn read_outliers(value: Value<'_>) -> Result<OutlierDetection, Fault> {
    let mut out = OutlierDetection::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.server_errors = Some(value.narrow()?),
            2 => out.gateway_errors = Some(value.narrow()?),
            3 => out.local_failures = Some(value.narrow()?),
            4 => out.splits_local = value.flag()?,
            5 => out.interval = Some(read_duration(value)?),
            6 => out.ejection_time = Some(read_duration(value)?),
            7 => out.max_ejected = Some(value.narrow()?),
            8 => out.min_healthy = value.narrow()?,
            _ => {}
        }
    }
    Ok(out)
}

/// The number of a mode never changes. One that an older release does not know is a fault there.
fn put_tls(enc: &mut Encoder, value: &ClientTls) {
    let (mode, settings) = match value {
        ClientTls::Disable => (1_u8, None),
        ClientTls::Simple(settings) => (2, Some(settings)),
        ClientTls::Mutual(settings, ..) => (3, Some(settings)),
        ClientTls::IstioMutual(settings) => (4, Some(settings)),
    };
    enc.int(1, mode);
    if let Some(settings) = settings {
        enc.texts(2, settings.authorities.as_deref());
        enc.texts(3, settings.revoked.as_deref());
        enc.texts(4, settings.names.iter().map(|name| &**name));
        enc.texts(5, settings.sni.as_deref());
        enc.flag(6, settings.insecure);
    }
    if let ClientTls::Mutual(_, certificate, key) = value {
        enc.texts(7, [&**certificate]);
        enc.texts(8, [&**key]);
    }
}

fn read_tls(d: &mut Decoder, value: Value<'_>) -> Result<ClientTls, Fault> {
    let (mut mode, mut certificate, mut key) = (0, None, None);
    let (mut settings, mut names) = (TlsSettings::default(), Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => mode = value.int()?,
            2 => settings.authorities = Some(d.fresh(value)?),
            3 => settings.revoked = Some(d.fresh(value)?),
            4 => names.push(d.fresh(value)?),
            5 => settings.sni = Some(d.fresh(value)?),
            6 => settings.insecure = value.flag()?,
            7 => certificate = Some(d.fresh(value)?),
            8 => key = Some(d.fresh(value)?),
            _ => {}
        }
    }
    settings.names = names.into();
    Ok(match mode {
        1 => ClientTls::Disable,
        2 => ClientTls::Simple(settings),
        3 => {
            let certificate = certificate.ok_or(Fault::Missing("client certificate"))?;
            ClientTls::Mutual(settings, certificate, key.ok_or(Fault::Missing("key of a client"))?)
        }
        4 => ClientTls::IstioMutual(settings),
        _ => return Err(Fault::Unknown("mode of TLS")),
    })
}
