//! Sidecars on disk.
//!
//! The codec of policies calls it. Lists keep their order; an absent field has its default.

use std::net::IpAddr;

use tributary_model::{
    EgressListener, EgressProxy, HostImport, HostPattern, Hostname, ImportNamespace, IngressEndpoint,
    IngressListener, Labels, ListenerPort, Namespace, OutboundMode, Sidecar,
};

use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::{Fields, Value};
use super::{Fault, codes};

pub(crate) fn put(enc: &mut Encoder, value: &Sidecar) {
    enc.labels(1, &value.selector);
    for listener in &*value.egress {
        enc.nest(2, |enc| put_egress(enc, listener));
    }
    for listener in &*value.ingress {
        enc.nest(3, |enc| put_ingress(enc, listener));
    }
    put_outbound(enc, value.outbound.as_ref());
    enc.texts(5, value.ignored.iter().map(|path| &**path));
}

pub(crate) fn read(d: &mut Decoder, mut fields: Fields<'_>) -> Result<Sidecar, Fault> {
    let (mut selector, mut outbound, mut proxy) = (Labels::default(), None, None);
    let (mut egress, mut ingress, mut ignored) = (Vec::new(), Vec::new(), Vec::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => selector = d.labels(value)?,
            2 => egress.push(read_egress(d, value)?),
            3 => ingress.push(read_ingress(d, value)?),
            4 => outbound = Some(value.int()?),
            5 => ignored.push(d.fresh(value)?),
            6 => proxy = Some(read_proxy(d, value)?),
            _ => {}
        }
    }
    Ok(Sidecar {
        selector,
        egress: egress.into(),
        ingress: ingress.into(),
        outbound: read_outbound(outbound, proxy)?,
        ignored: ignored.into(),
    })
}

/// The number of a mode never changes. One that an older release does not know is a fault there.
fn put_outbound(enc: &mut Encoder, mode: Option<&OutboundMode>) {
    match mode {
        None => {}
        Some(OutboundMode::AllowAny) => enc.int(4, 1_u8),
        Some(OutboundMode::RegistryOnly) => enc.int(4, 2_u8),
        Some(OutboundMode::Proxy(proxy)) => {
            enc.int(4, 3_u8);
            enc.nest(6, |enc| {
                enc.text(1, proxy.host.as_str());
                enc.int(2, proxy.port.get());
            });
        }
    }
}

fn read_outbound(mode: Option<u64>, proxy: Option<EgressProxy>) -> Result<Option<OutboundMode>, Fault> {
    Ok(Some(match mode {
        None => return Ok(None),
        Some(1) => OutboundMode::AllowAny,
        Some(2) => OutboundMode::RegistryOnly,
        Some(3) => OutboundMode::Proxy(proxy.ok_or(Fault::Missing("egress proxy"))?),
        Some(_) => return Err(Fault::Unknown("outbound mode")),
    }))
}

fn read_proxy(d: &mut Decoder, value: Value<'_>) -> Result<EgressProxy, Fault> {
    let (mut host, mut port) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => host = Some(d.name(value, |text| Hostname::new(text))?),
            2 => port = Some(decode::port(value)?),
            _ => {}
        }
    }
    let host = host.ok_or(Fault::Missing("host of an egress proxy"))?;
    Ok(EgressProxy { host, port: port.ok_or(Fault::Missing("port of an egress proxy"))? })
}

fn put_egress(enc: &mut Encoder, value: &EgressListener) {
    if let Some(port) = &value.port {
        enc.nest(1, |enc| put_port(enc, port));
    }
    put_bind(enc, 2, value.bind);
    enc.int_but(3, codes::capture(value.capture), 0);
    value.hosts.iter().for_each(|import| put_import(enc, 4, import));
}

pub(super) fn put_import(enc: &mut Encoder, field: u32, import: &HostImport) {
    enc.nest(field, |enc| {
        enc.text(1, import.namespace.as_str());
        enc.text(2, import.host.as_str());
    });
}

fn read_egress(d: &mut Decoder, value: Value<'_>) -> Result<EgressListener, Fault> {
    let (mut port, mut bind, mut capture, mut hosts) = (None, None, 0, Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => port = Some(read_port(d, value)?),
            2 => bind = Some(decode::ip(value)?),
            3 => capture = value.int()?,
            4 => hosts.push(read_import(d, value)?),
            _ => {}
        }
    }
    Ok(EgressListener { port, bind, capture: codes::read_capture(capture)?, hosts: hosts.into() })
}

pub(super) fn read_import(d: &mut Decoder, value: Value<'_>) -> Result<HostImport, Fault> {
    let (mut namespace, mut host) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => namespace = Some(read_namespace(d, value)?),
            2 => host = Some(d.name(value, |text| HostPattern::new(text))?),
            _ => {}
        }
    }
    Ok(HostImport {
        namespace: namespace.ok_or(Fault::Missing("namespace"))?,
        host: host.ok_or(Fault::Missing("host pattern"))?,
    })
}

fn read_namespace(d: &mut Decoder, value: Value<'_>) -> Result<ImportNamespace, Fault> {
    d.name(value, |text| {
        Ok(match text {
            "*" => ImportNamespace::Any,
            "." => ImportNamespace::Own,
            "~" => ImportNamespace::None,
            name => ImportNamespace::Named(Namespace::new(name)?),
        })
    })
}

fn put_ingress(enc: &mut Encoder, value: &IngressListener) {
    enc.nest(1, |enc| put_port(enc, &value.port));
    put_bind(enc, 2, value.bind);
    enc.int_but(3, codes::capture(value.capture), 0);
    match &value.endpoint {
        None => {}
        Some(IngressEndpoint::Address(ip, port)) => enc.nest(4, |enc| {
            put_bind(enc, 1, *ip);
            enc.int(2, port.get());
        }),
        Some(IngressEndpoint::Unix(path)) => enc.texts(5, [&**path]),
    }
}

fn read_ingress(d: &mut Decoder, value: Value<'_>) -> Result<IngressListener, Fault> {
    let (mut port, mut bind, mut capture, mut endpoint) = (None, None, 0, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => port = Some(read_port(d, value)?),
            2 => bind = Some(decode::ip(value)?),
            3 => capture = value.int()?,
            4 => endpoint = Some(read_endpoint(value)?),
            5 => endpoint = Some(IngressEndpoint::Unix(d.fresh(value)?)),
            _ => {}
        }
    }
    let port = port.ok_or(Fault::Missing("port"))?;
    Ok(IngressListener { port, bind, capture: codes::read_capture(capture)?, endpoint })
}

fn read_endpoint(value: Value<'_>) -> Result<IngressEndpoint, Fault> {
    let (mut ip, mut port) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => ip = Some(decode::ip(value)?),
            2 => port = Some(decode::port(value)?),
            _ => {}
        }
    }
    Ok(IngressEndpoint::Address(ip, port.ok_or(Fault::Missing("port"))?))
}

fn put_port(enc: &mut Encoder, port: &ListenerPort) {
    enc.int(1, port.number.get());
    enc.int_but(2, codes::protocol(port.protocol), 0);
    enc.text(3, port.name.as_str());
}

fn read_port(d: &mut Decoder, value: Value<'_>) -> Result<ListenerPort, Fault> {
    let (mut number, mut protocol, mut name) = (None, 0, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => number = Some(decode::port(value)?),
            2 => protocol = value.int()?,
            3 => name = Some(d.port_name(value)?),
            _ => {}
        }
    }
    Ok(ListenerPort {
        number: number.ok_or(Fault::Missing("port"))?,
        protocol: codes::read_protocol(protocol)?,
        name: name.map_or_else(|| d.no_port_name(), Ok)?,
    })
}

pub(super) fn put_bind(enc: &mut Encoder, field: u32, ip: Option<IpAddr>) {
    if let Some(ip) = ip {
        enc.ip(field, ip);
    }
}
