//! Specs of EnvoyFilters. Secrets in values are not shown.

use serde_json::{Map, Value, json};
use tributary_descriptors::Decoder;
use tributary_model::{
    ChainMatch, ClusterMatch, ConfigPatch, EnvoyFilter, ListenerMatch, ObjectMatch, PatchContext,
    RouteAction, RoutesMatch, VersionPattern, VirtualHostMatch,
};

use super::add;

/// Returns the spec of an EnvoyFilter.
pub(super) fn spec(filter: &EnvoyFilter) -> Value {
    let mut out = Map::new();
    if !filter.selector.is_empty() {
        let pairs = filter.selector.pairs().map(|(label, value)| (label.to_string(), json!(**value)));
        out.insert("workloadSelector".into(), json!({"labels": pairs.collect::<Map<_, _>>()}));
    }
    add(&mut out, "priority", (filter.priority != 0).then(|| json!(filter.priority)));
    let decoder = Decoder::shared();
    let patches: Vec<Value> = filter.patches.iter().map(|one| patch(one, decoder.as_ref())).collect();
    add(&mut out, "configPatches", (!patches.is_empty()).then(|| patches.into()));
    Value::Object(out)
}

fn patch(patch: &ConfigPatch, decoder: Option<&Decoder>) -> Value {
    let mut change = Map::from_iter([("operation".to_owned(), json!(patch.operation.as_str()))]);
    if let (Some(decoder), Some(value)) = (decoder, &patch.value) {
        change.insert("value".into(), decoder.decode(patch.apply_to.message(), value));
    }
    let mut out = Map::from_iter([("applyTo".to_owned(), json!(patch.apply_to.as_str()))]);
    let matched = matched(patch);
    add(&mut out, "match", (!matched.is_empty()).then_some(Value::Object(matched)));
    out.insert("patch".into(), Value::Object(change));
    Value::Object(out)
}

fn matched(patch: &ConfigPatch) -> Map<String, Value> {
    let mut out = Map::new();
    let context = patch.context;
    add(&mut out, "context", (context != PatchContext::Any).then(|| json!(context.as_str())));
    let mut proxy = Map::new();
    text(&mut proxy, "proxyVersion", patch.proxy.version.as_ref().map(VersionPattern::as_str));
    if !patch.proxy.metadata.is_empty() {
        proxy.insert("metadata".into(), json!(patch.proxy.metadata));
    }
    add(&mut out, "proxy", (!proxy.is_empty()).then_some(Value::Object(proxy)));
    match &patch.object {
        ObjectMatch::All => {}
        ObjectMatch::Listener(of) => drop(out.insert("listener".into(), listener(of))),
        ObjectMatch::Routes(of) => drop(out.insert("routeConfiguration".into(), routes(of))),
        ObjectMatch::Cluster(of) => drop(out.insert("cluster".into(), cluster(of))),
    }
    out
}

fn text(out: &mut Map<String, Value>, name: &str, value: Option<&str>) {
    add(out, name, value.map(|text| json!(text)));
}

fn listener(of: &ListenerMatch) -> Value {
    let mut out = Map::new();
    add(&mut out, "portNumber", of.port.map(Value::from));
    text(&mut out, "name", of.name.as_deref());
    text(&mut out, "listenerFilter", of.listener_filter.as_deref());
    add(&mut out, "filterChain", of.chain.as_ref().map(chain));
    Value::Object(out)
}

fn chain(of: &ChainMatch) -> Value {
    let mut out = Map::new();
    text(&mut out, "name", of.name.as_deref());
    text(&mut out, "sni", of.sni.as_deref());
    text(&mut out, "transportProtocol", of.transport.as_deref());
    let applications = (!of.applications.is_empty()).then(|| of.applications.join(","));
    text(&mut out, "applicationProtocols", applications.as_deref());
    add(&mut out, "destinationPort", of.port.map(Value::from));
    if let Some(name) = &of.filter {
        let mut filter = Map::from_iter([("name".to_owned(), json!(name))]);
        add(&mut filter, "subFilter", of.sub_filter.as_ref().map(|name| json!({"name": name})));
        out.insert("filter".into(), Value::Object(filter));
    }
    Value::Object(out)
}

fn routes(of: &RoutesMatch) -> Value {
    let mut out = Map::new();
    add(&mut out, "portNumber", of.port.map(Value::from));
    text(&mut out, "name", of.name.as_deref());
    add(&mut out, "vhost", of.host.as_ref().map(virtual_host));
    Value::Object(out)
}

fn virtual_host(of: &VirtualHostMatch) -> Value {
    let mut out = Map::new();
    text(&mut out, "name", of.name.as_deref());
    text(&mut out, "domainName", of.domain.as_deref());
    if let Some(route) = &of.route {
        let mut inner = Map::new();
        text(&mut inner, "name", route.name.as_deref());
        let action = route.action;
        add(&mut inner, "action", (action != RouteAction::Any).then(|| json!(action.as_str())));
        out.insert("route".into(), Value::Object(inner));
    }
    Value::Object(out)
}

fn cluster(of: &ClusterMatch) -> Value {
    let mut out = Map::new();
    text(&mut out, "name", of.name.as_deref());
    text(&mut out, "service", of.service.as_deref());
    add(&mut out, "portNumber", of.port.map(Value::from));
    text(&mut out, "subset", of.subset.as_deref());
    Value::Object(out)
}
