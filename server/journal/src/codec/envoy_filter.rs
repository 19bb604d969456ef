//! EnvoyFilters on disk. A value is the encoded message of Envoy's API, whose fields never change their numbers.
//!
//! The codec of policies calls it. Lists keep their order; an absent field has its default.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    ChainMatch, ClusterMatch, ConfigPatch, EnvoyFilter, Labels, ListenerMatch, ObjectMatch, PatchContext,
    ProxyMatch, RouteAction, RouteMatch, RoutesMatch, VersionPattern, VirtualHostMatch,
};

use super::decode::Decoder;
use super::encode::Encoder;
use super::wire::{Fields, Value};
use super::{Fault, codes};

type Text = Option<Arc<str>>;

pub(crate) fn put(enc: &mut Encoder, value: &EnvoyFilter) {
    enc.labels(1, &value.selector);
    enc.int_but(2, value.priority.cast_unsigned(), 0);
    enc.flag(3, value.has_targets);
    for patch in &*value.patches {
        enc.nest(4, |enc| put_patch(enc, patch));
    }
    enc.texts(5, value.ignored.iter().map(|path| &**path));
}

pub(crate) fn read(d: &mut Decoder, mut fields: Fields<'_>) -> Result<EnvoyFilter, Fault> {
    let (mut selector, mut priority, mut has_targets) = (Labels::default(), 0_u32, false);
    let (mut patches, mut ignored) = (Vec::new(), Vec::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => selector = d.labels(value)?,
            2 => priority = value.narrow()?,
            3 => has_targets = value.flag()?,
            4 => patches.push(read_patch(d, value)?),
            5 => ignored.push(d.fresh(value)?),
            _ => {}
        }
    }
    Ok(EnvoyFilter {
        selector,
        priority: priority.cast_signed(),
        has_targets,
        patches: patches.into(),
        ignored: ignored.into(),
    })
}

fn put_patch(enc: &mut Encoder, patch: &ConfigPatch) {
    enc.int(1, codes::apply_to(patch.apply_to));
    enc.int_but(2, codes::context(patch.context), 0);
    enc.int(3, codes::operation(patch.operation));
    put_text(enc, 4, patch.proxy.version.as_ref().map(VersionPattern::as_str));
    for (key, value) in &patch.proxy.metadata {
        enc.nest(5, |enc| enc.texts(1, [&**key, &**value]));
    }
    match &patch.object {
        ObjectMatch::All => {}
        ObjectMatch::Listener(listener) => enc.nest(6, |enc| put_listener(enc, listener)),
        ObjectMatch::Routes(routes) => enc.nest(7, |enc| put_routes(enc, routes)),
        ObjectMatch::Cluster(cluster) => enc.nest(8, |enc| put_cluster(enc, cluster)),
    }
    if let Some(value) = &patch.value {
        enc.bytes(9, value);
    }
}

fn read_patch(d: &mut Decoder, value: Value<'_>) -> Result<ConfigPatch, Fault> {
    let (mut apply_to, mut context, mut operation) = (None, PatchContext::Any, None);
    let (mut version, mut metadata) = (None, BTreeMap::new());
    let (mut object, mut bytes) = (ObjectMatch::All, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => apply_to = Some(codes::read_apply_to(value.int()?)?),
            2 => context = codes::read_context(value.int()?)?,
            3 => operation = Some(codes::read_operation(value.int()?)?),
            4 => {
                let text = d.fresh(value)?;
                version = Some(VersionPattern::new(&text).map_err(|_| Fault::Malformed("a pattern"))?);
            }
            5 => {
                let (key, value) = read_pair(d, value)?;
                metadata.insert(key, value);
            }
            6 => object = ObjectMatch::Listener(Box::new(read_listener(d, value)?)),
            7 => object = ObjectMatch::Routes(Box::new(read_routes(d, value)?)),
            8 => object = ObjectMatch::Cluster(read_cluster(d, value)?),
            9 => bytes = Some(Arc::from(value.bytes()?)),
            _ => {}
        }
    }
    Ok(ConfigPatch {
        apply_to: apply_to.ok_or(Fault::Missing("changed part"))?,
        context,
        proxy: ProxyMatch { version, metadata },
        object,
        operation: operation.ok_or(Fault::Missing("operation"))?,
        value: bytes,
    })
}

/// Writes an optional text, also an empty one.
fn put_text(enc: &mut Encoder, field: u32, text: Option<&str>) {
    enc.texts(field, text);
}

fn read_pair(d: &mut Decoder, value: Value<'_>) -> Result<(Arc<str>, Arc<str>), Fault> {
    let mut texts = Vec::new();
    let mut fields = value.fields()?;
    while let Some((_, value)) = fields.next()? {
        texts.push(d.fresh(value)?);
    }
    let [key, value] = <[Arc<str>; 2]>::try_from(texts).map_err(|_| Fault::Malformed("a pair of texts"))?;
    Ok((key, value))
}

fn put_listener(enc: &mut Encoder, listener: &ListenerMatch) {
    enc.opt_int(1, listener.port);
    put_text(enc, 2, listener.name.as_deref());
    put_text(enc, 3, listener.listener_filter.as_deref());
    if let Some(chain) = &listener.chain {
        enc.nest(4, |enc| put_chain(enc, chain));
    }
}

fn read_listener(d: &mut Decoder, value: Value<'_>) -> Result<ListenerMatch, Fault> {
    let mut out = ListenerMatch::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.port = Some(value.narrow()?),
            2 => out.name = Some(d.fresh(value)?),
            3 => out.listener_filter = Some(d.fresh(value)?),
            4 => out.chain = Some(read_chain(d, value)?),
            _ => {}
        }
    }
    Ok(out)
}

fn put_chain(enc: &mut Encoder, chain: &ChainMatch) {
    put_text(enc, 1, chain.name.as_deref());
    put_text(enc, 2, chain.sni.as_deref());
    put_text(enc, 3, chain.transport.as_deref());
    enc.texts(4, chain.applications.iter().map(|one| &**one));
    enc.opt_int(5, chain.port);
    put_text(enc, 6, chain.filter.as_deref());
    put_text(enc, 7, chain.sub_filter.as_deref());
}

fn read_chain(d: &mut Decoder, value: Value<'_>) -> Result<ChainMatch, Fault> {
    let (mut out, mut applications) = (ChainMatch::default(), Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.name = Some(d.fresh(value)?),
            2 => out.sni = Some(d.fresh(value)?),
            3 => out.transport = Some(d.fresh(value)?),
            4 => applications.push(d.fresh(value)?),
            5 => out.port = Some(value.narrow()?),
            6 => out.filter = Some(d.fresh(value)?),
            7 => out.sub_filter = Some(d.fresh(value)?),
            _ => {}
        }
    }
    Ok(ChainMatch { applications: applications.into(), ..out })
}

fn put_routes(enc: &mut Encoder, routes: &RoutesMatch) {
    enc.opt_int(1, routes.port);
    put_text(enc, 2, routes.name.as_deref());
    let Some(host) = &routes.host else { return };
    enc.nest(3, |enc| {
        put_text(enc, 1, host.name.as_deref());
        put_text(enc, 2, host.domain.as_deref());
        if let Some(route) = &host.route {
            enc.nest(3, |enc| {
                put_text(enc, 1, route.name.as_deref());
                enc.int_but(2, codes::route_action(route.action), 0);
            });
        }
    });
}

fn read_routes(d: &mut Decoder, value: Value<'_>) -> Result<RoutesMatch, Fault> {
    let mut out = RoutesMatch::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.port = Some(value.narrow()?),
            2 => out.name = Some(d.fresh(value)?),
            3 => out.host = Some(read_host(d, value)?),
            _ => {}
        }
    }
    Ok(out)
}

fn read_host(d: &mut Decoder, value: Value<'_>) -> Result<VirtualHostMatch, Fault> {
    let mut out = VirtualHostMatch::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.name = Some(d.fresh(value)?),
            2 => out.domain = Some(d.fresh(value)?),
            3 => out.route = Some(read_route(d, value)?),
            _ => {}
        }
    }
    Ok(out)
}

fn read_route(d: &mut Decoder, value: Value<'_>) -> Result<RouteMatch, Fault> {
    let mut out = RouteMatch { name: None, action: RouteAction::Any };
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.name = Some(d.fresh(value)?),
            2 => out.action = codes::read_route_action(value.int()?)?,
            _ => {}
        }
    }
    Ok(out)
}

fn put_cluster(enc: &mut Encoder, cluster: &ClusterMatch) {
    put_text(enc, 1, cluster.name.as_deref());
    put_text(enc, 2, cluster.service.as_deref());
    enc.opt_int(3, cluster.port);
    put_text(enc, 4, cluster.subset.as_deref());
}

fn read_cluster(d: &mut Decoder, value: Value<'_>) -> Result<ClusterMatch, Fault> {
    let (mut name, mut service, mut port, mut subset): (Text, Text, _, Text) = (None, None, None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = Some(d.fresh(value)?),
            2 => service = Some(d.fresh(value)?),
            3 => port = Some(value.narrow()?),
            4 => subset = Some(d.fresh(value)?),
            _ => {}
        }
    }
    Ok(ClusterMatch { name, service, port, subset })
}
