//! The fields of an EnvoyFilter. Values are read into messages of Envoy's API at once, so that one that is not valid is refused
//! on its object.

use std::sync::Arc;

use tributary_descriptors::{Step, Types, ValuePath};
use tributary_model::{
    ApplyTo, ChainMatch, ClusterMatch, Code, Labels, ListenerMatch, Operation, PatchContext, RouteAction,
    RouteMatch, RoutesMatch, VirtualHostMatch,
};

use super::fields::Fields;
use crate::document::envoy_filter::{ConfigPatch, EnvoyFilter, ObjectMatch, PatchValue};
use crate::document::{Located, Text};
use crate::read::fault::{Faults, Pos};
use crate::read::node::{Node, Value};

/// Most patches of one filter, whose values are read.
pub(crate) const MOST_PATCHES: usize = 1_000;
/// Most bytes of all values of one filter.
const MOST_BYTES: usize = 1 << 20;

pub(super) fn decode(spec: &Node, path: String, faults: &mut Faults) -> EnvoyFilter {
    let at = Located::new(spec.at, ());
    let Some(mut fields) = Fields::open(spec, path, faults) else {
        return EnvoyFilter { at, ..EnvoyFilter::default() };
    };
    let mut ignored = Vec::new();
    let targets = fields.list("targetRefs", faults);
    let mut left = MOST_BYTES;
    let filter = EnvoyFilter {
        at,
        selector: selector(&mut fields, faults),
        has_targets: !targets.is_empty(),
        priority: fields.int("priority", faults),
        patches: {
            let all = fields.list("configPatches", faults).into_iter();
            // one more than the limit, so that validation sees that there are too many
            let all = all.take(MOST_PATCHES + 1);
            all.map(|(path, node)| patch(node, path, &mut left, &mut ignored, faults)).collect()
        },
        ignored,
    };
    fields.finish(faults);
    filter
}

fn selector(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Located<Labels>> {
    let (path, node) = fields.get("workloadSelector")?;
    let mut inner = Fields::open(node, path, faults)?;
    let labels = inner.labels("labels", faults).unwrap_or_default().value;
    inner.finish(faults);
    Some(Located::new(node.at, labels))
}

fn patch(
    node: &Node,
    path: String,
    left: &mut usize,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) -> ConfigPatch {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return ConfigPatch { at, ..ConfigPatch::default() };
    };
    let mut out = ConfigPatch { at, ..ConfigPatch::default() };
    out.apply_to = choice(&mut fields, "applyTo", ApplyTo::NAMES, faults);
    if let Some((path, node)) = fields.get("match") {
        object_match(node, path, &mut out, ignored, faults);
    }
    if let Some((path, node)) = fields.get("patch") {
        change(node, path, &mut out, left, ignored, faults);
    }
    fields.finish(faults);
    out
}

/// Takes the name of a part or an operation; `INVALID` counts as missing.
fn choice<T: Copy>(
    fields: &mut Fields<'_>,
    name: &'static str,
    names: &[(&'static str, T)],
    faults: &mut Faults,
) -> Option<Located<T>> {
    let is_missing = fields.get(name).is_some_and(|(_, node)| node.text() == Some("INVALID"));
    if is_missing { None } else { fields.choice(name, names, faults) }
}

fn object_match(
    node: &Node,
    path: String,
    out: &mut ConfigPatch,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) {
    let Some(mut fields) = Fields::open(node, path, faults) else { return };
    out.context = fields.choice("context", PatchContext::NAMES, faults);
    if let Some((path, node)) = fields.get("proxy")
        && let Some(mut proxy) = Fields::open(node, path, faults)
    {
        out.version = proxy.text("proxyVersion", faults).filter(|text| !text.value.is_empty());
        out.metadata = proxy.text_map("metadata", faults).into_iter().collect();
        proxy.finish(faults);
    }
    let add = |node: &Node, object| Located::new(node.at, object);
    if let Some((path, node)) = fields.get("listener") {
        out.objects.push(add(node, ObjectMatch::Listener(listener(node, path, ignored, faults))));
    }
    if let Some((path, node)) = fields.get("routeConfiguration") {
        out.objects.push(add(node, ObjectMatch::Routes(routes(node, path, ignored, faults))));
    }
    if let Some((path, node)) = fields.get("cluster") {
        out.objects.push(add(node, ObjectMatch::Cluster(cluster(node, path, faults))));
    }
    if let Some((_, node)) = fields.get("waypoint") {
        out.objects.push(add(node, ObjectMatch::Waypoint));
    }
    fields.finish(faults);
}

/// Text that is not empty.
fn name(fields: &mut Fields<'_>, name: &'static str, faults: &mut Faults) -> Option<Arc<str>> {
    fields.text(name, faults).map(|text| text.value).filter(|text| !text.is_empty())
}

/// A number of a port; 0 counts as absent.
fn port(fields: &mut Fields<'_>, name: &'static str, faults: &mut Faults) -> Option<u32> {
    let number = fields.int(name, faults).filter(|number| number.value != 0)?;
    let port = u32::try_from(number.value).ok();
    if port.is_none() {
        let message = format!("{} {} is not a port; write 1 to 65535", fields.path(name), number.value);
        faults.refuse(Code::INVALID_PORT, number.at, message);
    }
    port
}

fn listener(node: &Node, path: String, ignored: &mut Vec<Text>, faults: &mut Faults) -> ListenerMatch {
    let Some(mut fields) = Fields::open(node, path, faults) else { return ListenerMatch::default() };
    fields.ignored("portName", ignored);
    let chain = fields.get("filterChain");
    let out = ListenerMatch {
        port: port(&mut fields, "portNumber", faults),
        name: name(&mut fields, "name", faults),
        listener_filter: name(&mut fields, "listenerFilter", faults),
        chain: chain.map(|(path, node)| self::chain(node, path, faults)),
    };
    fields.finish(faults);
    out
}

fn chain(node: &Node, path: String, faults: &mut Faults) -> ChainMatch {
    let Some(mut fields) = Fields::open(node, path, faults) else { return ChainMatch::default() };
    let mut out = ChainMatch {
        name: name(&mut fields, "name", faults),
        sni: name(&mut fields, "sni", faults),
        transport: name(&mut fields, "transportProtocol", faults),
        applications: name(&mut fields, "applicationProtocols", faults)
            .map(|text| text.split(',').map(|one| Arc::from(one.trim())).collect())
            .unwrap_or_default(),
        port: port(&mut fields, "destinationPort", faults),
        ..ChainMatch::default()
    };
    if let Some((path, node)) = fields.get("filter")
        && let Some(mut filter) = Fields::open(node, path, faults)
    {
        out.filter = Some(name(&mut filter, "name", faults).unwrap_or_default());
        if let Some((path, node)) = filter.get("subFilter")
            && let Some(mut sub) = Fields::open(node, path, faults)
        {
            out.sub_filter = Some(name(&mut sub, "name", faults).unwrap_or_default());
            sub.finish(faults);
        }
        filter.finish(faults);
    }
    fields.finish(faults);
    out
}

fn routes(node: &Node, path: String, ignored: &mut Vec<Text>, faults: &mut Faults) -> RoutesMatch {
    let Some(mut fields) = Fields::open(node, path, faults) else { return RoutesMatch::default() };
    fields.ignored("portName", ignored);
    fields.ignored("gateway", ignored);
    let host = fields.get("vhost");
    let out = RoutesMatch {
        port: port(&mut fields, "portNumber", faults),
        name: name(&mut fields, "name", faults),
        host: host.map(|(path, node)| virtual_host(node, path, faults)),
    };
    fields.finish(faults);
    out
}

fn virtual_host(node: &Node, path: String, faults: &mut Faults) -> VirtualHostMatch {
    let Some(mut fields) = Fields::open(node, path, faults) else { return VirtualHostMatch::default() };
    let route = fields.get("route");
    let out = VirtualHostMatch {
        name: name(&mut fields, "name", faults),
        domain: name(&mut fields, "domainName", faults),
        route: route.and_then(|(path, node)| {
            let mut fields = Fields::open(node, path, faults)?;
            let route = RouteMatch {
                name: name(&mut fields, "name", faults),
                action: fields
                    .choice("action", RouteAction::NAMES, faults)
                    .map_or(RouteAction::Any, |action| action.value),
            };
            fields.finish(faults);
            Some(route)
        }),
    };
    fields.finish(faults);
    out
}

fn cluster(node: &Node, path: String, faults: &mut Faults) -> ClusterMatch {
    let Some(mut fields) = Fields::open(node, path, faults) else { return ClusterMatch::default() };
    let out = ClusterMatch {
        name: name(&mut fields, "name", faults),
        service: name(&mut fields, "service", faults),
        port: port(&mut fields, "portNumber", faults),
        subset: name(&mut fields, "subset", faults),
    };
    fields.finish(faults);
    out
}

fn change(
    node: &Node,
    path: String,
    out: &mut ConfigPatch,
    left: &mut usize,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) {
    out.patch = Some(Located::new(node.at, ()));
    let Some(mut fields) = Fields::open(node, path, faults) else { return };
    out.operation = choice(&mut fields, "operation", Operation::NAMES, faults);
    fields.ignored("filterClass", ignored);
    if let Some((path, node)) = fields.get("value") {
        if out.removes() {
            ignored.push(Located::new(node.at, path.as_str().into()));
        } else if let Some(apply_to) = out.apply_to {
            let rules = Rules::of(out);
            out.value = value(node, &path, (apply_to.value, rules), out.is_for_waypoints(), left, faults);
        }
    }
    fields.finish(faults);
}

/// Rules of Envoy's API that a value is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// None: the patch is applied to no client.
    Unchecked,
    /// Those of the fields that it has, because it is merged.
    Merged,
    /// All.
    Whole,
}

impl Rules {
    fn of(patch: &ConfigPatch) -> Self {
        let is_of_gateways = patch.context.as_ref().is_some_and(|of| of.value == PatchContext::Gateway);
        let apply_to = patch.apply_to.as_ref().map(|of| of.value);
        match patch.operation.as_ref().map(|of| of.value) {
            _ if is_of_gateways => Self::Unchecked,
            _ if matches!(apply_to, Some(ApplyTo::Bootstrap | ApplyTo::ExtensionConfig)) => Self::Unchecked,
            Some(Operation::Merge) => Self::Merged,
            Some(_) => Self::Whole,
            None => Self::Unchecked,
        }
    }
}

fn value(
    node: &Node,
    path: &str,
    (of, rules): (ApplyTo, Rules),
    is_unread: bool,
    left: &mut usize,
    faults: &mut Faults,
) -> Option<Located<PatchValue>> {
    if !matches!(node.value, Value::Map(_)) {
        let message = format!("{path} is {}; it must be a map of fields", node.value.what());
        faults.refuse(Code::WRONG_TYPE, node.at, message);
        return None;
    }
    if is_unread {
        return Some(Located::new(node.at, PatchValue::Unread));
    }
    let Ok(types) = Types::shared() else {
        faults.refuse(Code::PATCH_VALUE_INVALID, node.at, format!("{path}: Envoy's types cannot be read"));
        return None;
    };
    let read = types.read(of.message(), &json(node));
    let check = |bytes: &[u8]| match rules {
        Rules::Unchecked => Ok(()),
        rules => types.check(of.message(), bytes, rules == Rules::Whole),
    };
    let checked = read.and_then(|read| check(&read.bytes).map(|()| read));
    let read = match checked {
        Ok(read) => read,
        Err(error) => {
            let at = place(node, &error.at);
            faults.refuse(Code::PATCH_VALUE_INVALID, at, format!("{} {}", below(path, &error.at), error.why));
            return None;
        }
    };
    for unknown in &read.unknown {
        let message = format!(
            "{} is not a field of Envoy's API and is left out; remove it or correct its name",
            below(path, unknown)
        );
        faults.warn(Code::PATCH_FIELD_UNKNOWN, place(node, unknown), message);
    }
    if read.bytes.len() > *left {
        let message =
            format!("{path}: all values of a filter together have more than 1 MiB; split the filter");
        faults.refuse(Code::DOCUMENT_TOO_LARGE, node.at, message);
        return None;
    }
    *left -= read.bytes.len();
    Some(Located::new(node.at, PatchValue::Message(read.bytes.into())))
}

fn below(path: &str, value: &ValuePath) -> String {
    if value.0.is_empty() { path.to_owned() } else { format!("{path}.{value}") }
}

/// Returns the position of a part of a value, or of the innermost part around it that is there.
fn place(node: &Node, path: &ValuePath) -> Pos {
    let (mut at, mut of) = (node.at, Some(node));
    for step in &path.0 {
        of = of.and_then(|node| match step {
            Step::Field(name) => node.get(name),
            Step::Item(i) => match &node.value {
                Value::List(items) => items.get(*i),
                _ => None,
            },
        });
        at = of.map_or(at, |node| node.at);
    }
    at
}

fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(it) => (*it).into(),
        Value::Int(it) => match (i64::try_from(*it), u64::try_from(*it)) {
            (Ok(it), _) => it.into(),
            (_, Ok(it)) => it.into(),
            _ => (*it as f64).into(),
        },
        Value::Float(it) => (*it).into(),
        Value::Text(it) => it.as_str().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, node)| (key.name.clone(), json(node)));
            serde_json::Value::Object(entries.collect())
        }
    }
}
