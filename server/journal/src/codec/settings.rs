//! Mesh-wide values on disk.
//!
//! The codec calls it. Each value is a field of its own; an unset one is absent. A list that is set and
//! empty differs from an unset one.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    AccessLog, EntryVisibility, HostPattern, HttpRetries, LogEncoding, Namespace, NetworkId, RequestTracing,
    SampledShare, Settings, SpanTag, SpanTagValue, Visibility,
};

use tributary_model::settings::MeshText;

use super::common::{put_duration, put_visibility, read_duration, read_visibility};
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::load_balancer::{put_locality, read_locality};
use super::wire::{Fields, Value};
use super::{Fault, codes};

/// Networks and their CIDRs.
type Network = (NetworkId, tributary_model::settings::Cidrs);

pub(crate) fn put(enc: &mut Encoder, value: &Settings) {
    if let Some(visibility) = &value.default_export {
        put_visibility(enc, 1, visibility);
    }
    enc.texts(2, value.trust_domain.as_deref());
    enc.texts(3, value.domain.as_deref());
    if let Some(timeout) = value.connect_timeout {
        put_duration(enc, 4, timeout);
    }
    enc.opt_int(5, value.block_unknown);
    if let Some(list) = &value.cluster_local {
        enc.nest(6, |enc| {
            for (pattern, local) in &**list {
                enc.nest(1, |enc| {
                    enc.text(1, pattern.as_str());
                    enc.flag(2, *local);
                });
            }
        });
    }
    if let Some(caps) = &value.entry_visibility {
        enc.nest(7, |enc| put_caps(enc, caps));
    }
    enc.opt_int(8, value.cross_network_direct);
    if let Some(networks) = &value.networks {
        enc.nest(9, |enc| put_networks(enc, networks));
    }
    enc.opt_int(10, value.merge_by_name.map(codes::merge));
    if let Some(aliases) = &value.trust_domain_aliases {
        enc.nest(11, |enc| enc.texts(1, aliases.iter().map(|alias| &**alias)));
    }
    enc.opt_text(12, value.root_namespace.as_ref().map(Namespace::as_str));
    if let Some(retries) = &value.http_retries {
        enc.nest(13, |enc| put_retries(enc, retries));
    }
    if let Some(log) = &value.access_log {
        enc.nest(14, |enc| {
            enc.text(1, &log.file);
            enc.flag(2, log.encoding == LogEncoding::Json);
            enc.texts(3, log.format.as_deref());
        });
    }
    if let Some(tracing) = &value.tracing {
        enc.nest(15, |enc| put_tracing(enc, tracing));
    }
    if let Some(locality) = &value.locality {
        enc.nest(16, |enc| put_locality(enc, locality));
    }
    enc.opt_int(18, value.auto_mtls);
    enc.opt_int(20, value.path_normalization.map(codes::paths));
    if let Some(clusters) = &value.sds_clusters {
        enc.nest(19, |enc| enc.texts(1, clusters.iter().map(|name| &**name)));
    }
    if let Some(text) = &value.mesh_text {
        enc.nest(17, |enc| {
            enc.text(1, &text.mesh);
            enc.text(2, &text.networks);
        });
    }
}

pub(crate) fn read(d: &mut Decoder, mut fields: Fields<'_>) -> Result<Settings, Fault> {
    let mut out = Settings::default();
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.default_export = Some(read_visibility(d, value)?),
            2 => out.trust_domain = Some(d.fresh(value)?),
            3 => out.domain = Some(d.fresh(value)?),
            4 => out.connect_timeout = Some(read_duration(value)?),
            5 => out.block_unknown = Some(value.flag()?),
            6 => out.cluster_local = Some(list(value, |value| read_local(d, value))?),
            7 => out.entry_visibility = Some(Arc::new(read_caps(d, value)?)),
            8 => out.cross_network_direct = Some(value.flag()?),
            9 => out.networks = Some(list(value, |value| read_network(d, value))?),
            10 => out.merge_by_name = Some(codes::read_merge(value.int()?)?),
            11 => out.trust_domain_aliases = Some(list(value, |value| d.fresh(value))?),
            12 => out.root_namespace = Some(d.namespace(value)?),
            13 => out.http_retries = Some(Arc::new(read_retries(d, value)?)),
            14 => out.access_log = Some(Arc::new(read_log(d, value)?)),
            15 => out.tracing = Some(Arc::new(read_tracing(d, value)?)),
            16 => out.locality = Some(Arc::new(read_locality(d, value)?)),
            18 => out.auto_mtls = Some(value.flag()?),
            19 => out.sds_clusters = Some(list(value, |value| d.fresh(value))?),
            20 => out.path_normalization = Some(codes::read_paths(value.int()?)?),
            17 => out.mesh_text = Some(Arc::new(read_mesh_text(d, value)?)),
            _ => {}
        }
    }
    Ok(out)
}

/// Reads the entries of a list, each nested as field 1.
fn list<T>(value: Value<'_>, mut read: impl FnMut(Value<'_>) -> Result<T, Fault>) -> Result<Arc<[T]>, Fault> {
    let mut out = Vec::new();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        if field == 1 {
            out.push(read(value)?);
        }
    }
    Ok(out.into())
}

pub(crate) fn put_retries(enc: &mut Encoder, retries: &HttpRetries) {
    enc.int(1, retries.attempts);
    enc.text(2, &retries.conditions);
    for code in &*retries.codes {
        enc.int(3, *code);
    }
    if let Some(timeout) = retries.per_try_timeout {
        put_duration(enc, 4, timeout);
    }
    if let Some(wait) = retries.backoff {
        put_duration(enc, 5, wait);
    }
    enc.flag(6, retries.remote_localities);
    enc.flag(7, retries.other_hosts);
}

pub(crate) fn read_retries(d: &mut Decoder, value: Value<'_>) -> Result<HttpRetries, Fault> {
    let mut codes = Vec::new();
    let mut out =
        HttpRetries { attempts: 0, conditions: "".into(), other_hosts: false, ..HttpRetries::default() };
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.attempts = value.narrow()?,
            2 => out.conditions = d.fresh(value)?,
            3 => codes.push(value.narrow()?),
            4 => out.per_try_timeout = Some(read_duration(value)?),
            5 => out.backoff = Some(read_duration(value)?),
            6 => out.remote_localities = value.flag()?,
            7 => out.other_hosts = value.flag()?,
            _ => {}
        }
    }
    Ok(HttpRetries { codes: codes.into(), ..out })
}

fn read_mesh_text(d: &mut Decoder, value: Value<'_>) -> Result<MeshText, Fault> {
    let mut out = MeshText::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.mesh = d.fresh(value)?,
            2 => out.networks = d.fresh(value)?,
            _ => {}
        }
    }
    Ok(out)
}

fn read_log(d: &mut Decoder, value: Value<'_>) -> Result<AccessLog, Fault> {
    let mut out = AccessLog { file: "".into(), encoding: LogEncoding::Text, format: None };
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.file = d.fresh(value)?,
            2 if value.flag()? => out.encoding = LogEncoding::Json,
            3 => out.format = Some(d.fresh(value)?),
            _ => {}
        }
    }
    Ok(out)
}

fn put_tracing(enc: &mut Encoder, tracing: &RequestTracing) {
    enc.flag(1, tracing.enabled);
    enc.int(2, tracing.sampling.millionths());
    enc.flag(3, tracing.proxy_tags);
    enc.opt_int(4, tracing.max_path);
    for tag in &*tracing.tags {
        enc.nest(5, |enc| put_tag(enc, tag));
    }
}

/// Writes a tag. The number of the second field is the kind of its value.
fn put_tag(enc: &mut Encoder, tag: &SpanTag) {
    enc.text(1, &tag.name);
    let default = match &tag.value {
        SpanTagValue::Literal(value) => {
            enc.texts(2, [&**value]);
            None
        }
        SpanTagValue::Environment(name, default) => {
            enc.texts(3, [&**name]);
            default.as_deref()
        }
        SpanTagValue::Header(name, default) => {
            enc.texts(4, [&**name]);
            default.as_deref()
        }
    };
    enc.texts(5, default);
}

fn read_tracing(d: &mut Decoder, value: Value<'_>) -> Result<RequestTracing, Fault> {
    let mut tags = Vec::new();
    let mut out =
        RequestTracing { enabled: false, proxy_tags: false, max_path: None, ..RequestTracing::default() };
    out.sampling = SampledShare::of_millionths(0);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.enabled = value.flag()?,
            2 => out.sampling = SampledShare::of_millionths(value.narrow()?),
            3 => out.proxy_tags = value.flag()?,
            4 => out.max_path = Some(value.narrow()?),
            5 => tags.push(read_tag(d, value)?),
            _ => {}
        }
    }
    Ok(RequestTracing { tags: tags.into(), ..out })
}

fn read_tag(d: &mut Decoder, value: Value<'_>) -> Result<SpanTag, Fault> {
    let (mut name, mut of, mut default) = (None, None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = Some(d.fresh(value)?),
            2..=4 => of = Some((field, d.fresh(value)?)),
            5 => default = Some(d.fresh(value)?),
            _ => {}
        }
    }
    let value = match of.ok_or(Fault::Missing("value of a tag"))? {
        (2, text) => SpanTagValue::Literal(text),
        (3, name) => SpanTagValue::Environment(name, default),
        (_, name) => SpanTagValue::Header(name, default),
    };
    Ok(SpanTag { name: name.unwrap_or_default(), value })
}

fn read_local(d: &mut Decoder, value: Value<'_>) -> Result<(HostPattern, bool), Fault> {
    let (mut pattern, mut local) = (None, false);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => pattern = Some(d.name(value, |text| HostPattern::new(text))?),
            2 => local = value.flag()?,
            _ => {}
        }
    }
    Ok((pattern.ok_or(Fault::Missing("host pattern"))?, local))
}

fn put_caps(enc: &mut Encoder, caps: &EntryVisibility) {
    for (namespace, cap) in &*caps.namespaces {
        enc.nest(1, |enc| {
            enc.text(1, namespace.as_str());
            put_visibility(enc, 2, cap);
        });
    }
    put_visibility(enc, 2, &caps.default);
}

fn read_caps(d: &mut Decoder, value: Value<'_>) -> Result<EntryVisibility, Fault> {
    let namespaces = list(value, |value| read_cap(d, value))?;
    if !namespaces.is_sorted_by(|(a, _), (b, _)| a <= b) {
        return Err(Fault::Malformed("caps on visibility are not sorted"));
    }
    let mut default = Visibility::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        if field == 2 {
            default = read_visibility(d, value)?;
        }
    }
    Ok(EntryVisibility { default, namespaces })
}

fn read_cap(d: &mut Decoder, value: Value<'_>) -> Result<(Namespace, Visibility), Fault> {
    let (mut namespace, mut cap) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => namespace = Some(d.namespace(value)?),
            2 => cap = Some(read_visibility(d, value)?),
            _ => {}
        }
    }
    Ok((namespace.ok_or(Fault::Missing("namespace"))?, cap.ok_or(Fault::Missing("visibility"))?))
}

fn put_networks(enc: &mut Encoder, networks: &[Network]) {
    for (network, cidrs) in networks {
        enc.nest(1, |enc| {
            enc.text(1, network.as_str());
            for cidr in &**cidrs {
                enc.nest(2, |enc| {
                    enc.ip(1, cidr.addr());
                    enc.int(2, cidr.prefix_len());
                });
            }
        });
    }
}

fn read_network(d: &mut Decoder, value: Value<'_>) -> Result<Network, Fault> {
    let (mut network, mut cidrs) = (None, Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => network = Some(d.network(value)?),
            2 => cidrs.push(read_cidr(value)?),
            _ => {}
        }
    }
    Ok((network.ok_or(Fault::Missing("network"))?, cidrs.into()))
}

fn read_cidr(value: Value<'_>) -> Result<ipnet::IpNet, Fault> {
    let (mut ip, mut prefix) = (None::<IpAddr>, 0);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => ip = Some(decode::ip(value)?),
            2 => prefix = value.narrow()?,
            _ => {}
        }
    }
    let ip = ip.ok_or(Fault::Missing("address"))?;
    ipnet::IpNet::new(ip, prefix).map_err(|_| Fault::Malformed("a prefix is longer than its address"))
}
