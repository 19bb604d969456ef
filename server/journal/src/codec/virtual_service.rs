//! VirtualServices on disk: hosts, destinations, and routes of TLS and TCP. HTTP routes have a codec of their own.
//!
//! The codec of policies calls it. Lists keep their order; an absent field has its default.

use std::sync::Arc;

use ipnet::IpNet;
use tributary_model::{
    ClientMatch, DelegateRef, ExportTo, GatewayMatch, HostPattern, L4Destination, L4Match, Namespace,
    RouteDestination, Subset, TcpRoute, TlsMatch, TlsRoute, VirtualService,
};

use super::common::{put_export, read_visibility};
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::{Fields, Value};
use super::{Fault, codes, http_route};

pub(crate) fn put(enc: &mut Encoder, value: &VirtualService) {
    enc.texts(1, value.hosts.iter().map(HostPattern::as_str));
    put_export(enc, 2, &value.export);
    enc.flag(3, value.mesh);
    value.http.iter().for_each(|route| enc.nest(4, |enc| http_route::put(enc, route)));
    for route in &*value.tls {
        enc.nest(5, |enc| {
            route.matches.iter().for_each(|found| enc.nest(1, |enc| put_tls_match(enc, found)));
            put_destinations(enc, 2, &route.destinations);
        });
    }
    for route in &*value.tcp {
        enc.nest(6, |enc| {
            route.matches.iter().for_each(|found| enc.nest(1, |enc| put_l4_match(enc, found)));
            put_destinations(enc, 2, &route.destinations);
        });
    }
    enc.texts(7, value.ignored.iter().map(|path| &**path));
}

pub(crate) fn read(d: &mut Decoder, mut fields: Fields<'_>) -> Result<VirtualService, Fault> {
    let (mut hosts, mut export, mut mesh) = (Vec::new(), ExportTo::Default, false);
    let (mut http, mut tls, mut tcp, mut ignored) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => hosts.push(d.name(value, |text| HostPattern::new(text))?),
            2 => export = ExportTo::Set(read_visibility(d, value)?),
            3 => mesh = value.flag()?,
            4 => http.push(http_route::read(d, value, http.len())?),
            5 => tls.push(read_tls(d, value)?),
            6 => tcp.push(read_tcp(d, value)?),
            7 => ignored.push(d.fresh(value)?),
            _ => {}
        }
    }
    Ok(VirtualService {
        hosts: hosts.into(),
        export,
        mesh,
        http: http.into(),
        tls: tls.into(),
        tcp: tcp.into(),
        ignored: ignored.into(),
    })
}

fn put_tls_match(enc: &mut Encoder, found: &TlsMatch) {
    enc.texts(1, found.names.iter().map(HostPattern::as_str));
    enc.nest(2, |enc| put_l4_match(enc, &found.connection));
}

fn read_tls(d: &mut Decoder, value: Value<'_>) -> Result<TlsRoute, Fault> {
    let (mut matches, mut destinations) = (Vec::new(), Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => matches.push(read_tls_match(d, value)?),
            2 => destinations.push(read_weighted(d, value)?),
            _ => {}
        }
    }
    Ok(TlsRoute { matches: matches.into(), destinations: destinations.into() })
}

fn read_tls_match(d: &mut Decoder, value: Value<'_>) -> Result<TlsMatch, Fault> {
    let (mut names, mut connection) = (Vec::new(), L4Match::default());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => names.push(d.name(value, |text| HostPattern::new(text))?),
            2 => connection = read_l4_match(d, value)?,
            _ => {}
        }
    }
    Ok(TlsMatch { names: names.into(), connection })
}

fn read_tcp(d: &mut Decoder, value: Value<'_>) -> Result<TcpRoute, Fault> {
    let (mut matches, mut destinations) = (Vec::new(), Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => matches.push(read_l4_match(d, value)?),
            2 => destinations.push(read_weighted(d, value)?),
            _ => {}
        }
    }
    Ok(TcpRoute { matches: matches.into(), destinations: destinations.into() })
}

fn put_l4_match(enc: &mut Encoder, found: &L4Match) {
    for subnet in &*found.subnets {
        enc.nest(1, |enc| {
            enc.ip(1, subnet.addr());
            enc.int_but(2, subnet.prefix_len(), 0);
        });
    }
    enc.opt_int(2, found.port.map(|port| port.get()));
    put_clients(enc, 3, &found.clients);
}

fn read_l4_match(d: &mut Decoder, value: Value<'_>) -> Result<L4Match, Fault> {
    let (mut subnets, mut port, mut clients) = (Vec::new(), None, ClientMatch::default());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => subnets.push(read_subnet(value)?),
            2 => port = Some(decode::port(value)?),
            3 => clients = read_clients(d, value)?,
            _ => {}
        }
    }
    Ok(L4Match { subnets: subnets.into(), port, clients })
}

fn read_subnet(value: Value<'_>) -> Result<IpNet, Fault> {
    let (mut ip, mut length) = (None, 0);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => ip = Some(decode::ip(value)?),
            2 => length = value.narrow()?,
            _ => {}
        }
    }
    let ip = ip.ok_or(Fault::Missing("address of a range"))?;
    IpNet::new(ip, length).map_err(|_| Fault::Malformed("a range is longer than its address"))
}

/// Writes the conditions on clients; omits none.
pub(crate) fn put_clients(enc: &mut Encoder, field: u32, clients: &ClientMatch) {
    if *clients == ClientMatch::default() {
        return;
    }
    enc.nest(field, |enc| {
        enc.labels(1, &clients.labels);
        enc.opt_text(2, clients.namespace.as_ref().map(Namespace::as_str));
        enc.int_but(3, codes::gateways(clients.gateways), codes::gateways(GatewayMatch::default()));
    });
}

pub(crate) fn read_clients(d: &mut Decoder, value: Value<'_>) -> Result<ClientMatch, Fault> {
    let mut out = ClientMatch::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.labels = d.labels(value)?,
            2 => out.namespace = Some(d.namespace(value)?),
            3 => out.gateways = codes::read_gateways(value.int()?)?,
            _ => {}
        }
    }
    Ok(out)
}

fn put_destinations(enc: &mut Encoder, field: u32, all: &[L4Destination]) {
    for of in all {
        enc.nest(field, |enc| {
            enc.nest(1, |enc| put_destination(enc, &of.destination));
            enc.int_but(2, of.weight, 0);
        });
    }
}

fn read_weighted(d: &mut Decoder, value: Value<'_>) -> Result<L4Destination, Fault> {
    let (mut destination, mut weight) = (None, 0);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => destination = Some(read_destination(d, value)?),
            2 => weight = value.narrow()?,
            _ => {}
        }
    }
    Ok(L4Destination { destination: destination.ok_or(Fault::Missing("destination"))?, weight })
}

pub(crate) fn put_destination(enc: &mut Encoder, of: &RouteDestination) {
    enc.text(1, of.host.as_str());
    enc.opt_text(2, of.subset.as_ref().map(Subset::as_str));
    enc.opt_int(3, of.port.map(|port| port.get()));
}

pub(crate) fn read_destination(d: &mut Decoder, value: Value<'_>) -> Result<RouteDestination, Fault> {
    let (mut host, mut subset, mut port) = (None, None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => host = Some(d.host(value)?),
            2 => subset = Some(d.fresh(value)?),
            3 => port = Some(decode::port(value)?),
            _ => {}
        }
    }
    let subset =
        subset.map(|name: Arc<str>| Subset::new(&name).ok_or(Fault::Malformed("a subset has no name")));
    Ok(RouteDestination {
        host: host.ok_or(Fault::Missing("host of a destination"))?,
        subset: subset.transpose()?,
        port,
    })
}

pub(crate) fn put_delegate(enc: &mut Encoder, of: &DelegateRef) {
    enc.texts(1, [&*of.name]);
    enc.text(2, of.namespace.as_str());
}

pub(crate) fn read_delegate(d: &mut Decoder, value: Value<'_>) -> Result<DelegateRef, Fault> {
    let (mut name, mut namespace) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = Some(d.fresh(value)?),
            2 => namespace = Some(d.namespace(value)?),
            _ => {}
        }
    }
    Ok(DelegateRef {
        name: name.ok_or(Fault::Missing("name of a delegate"))?,
        namespace: namespace.ok_or(Fault::Missing("namespace of a delegate"))?,
    })
}
