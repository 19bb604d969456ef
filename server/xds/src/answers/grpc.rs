//! LDS and RDS for proxyless gRPC clients (`xds.md` 5.4): one listener per target, one table per
//! xDS cluster.
//!
//! A target is `host:port`, possibly in a short form. The listener bears the name that was asked
//! for, letter by letter; its canonical form is shared, any other is made for the one who asks.

use std::sync::Arc;

use tributary_answer::vip::long_forms;
use tributary_answer::{ClientClass, grpc_route, names, resolve};
use tributary_model::{
    Catalog, EncodedResource, Hostname, ListenerInputs, PortNumber, PortView, Projection, Protocol,
    Resolution, ResourceInputs, RouteInputs,
};

use super::store::{Fresh, ResourceFamily, Store};
use super::{ClientClassKey, ResourceType};
use crate::encode;

/// LDS: one API listener per port.
pub(crate) struct Targets;

/// RDS: one table per port.
pub(crate) struct TargetRoutes;

impl ResourceFamily for Targets {
    type Facts = ListenerInputs;
    const KIND: ResourceType = ResourceType::Listener;

    fn facet(port: &PortView) -> &Arc<ResourceInputs<ListenerInputs>> {
        &port.listener.0
    }
    fn name(port: PortNumber, host: &Hostname) -> String {
        format!("{host}:{port}")
    }
    fn encode(facts: &ListenerInputs, _: &Projection) -> Option<Fresh> {
        let name = Self::name(facts.port, &facts.service.host);
        serves(facts).then(|| (name.clone(), api_listener(&name, facts)))
    }
    fn plans(port: &PortView, _: &ClientClass) -> bool {
        serves(&port.listener.inputs)
    }
}

impl ResourceFamily for TargetRoutes {
    type Facts = RouteInputs;
    const KIND: ResourceType = ResourceType::Route;

    fn facet(port: &PortView) -> &Arc<ResourceInputs<RouteInputs>> {
        &port.route.0
    }
    fn name(port: PortNumber, host: &Hostname) -> String {
        names::cluster_name(port, host)
    }
    fn encode(facts: &RouteInputs, projection: &Projection) -> Option<Fresh> {
        let plan = grpc_route(facts, projection)?;
        let body = encode::route::grpc_table(&plan.cluster, &plan);
        Some((plan.cluster, body))
    }
    fn plans(port: &PortView, class: &ClientClass) -> bool {
        grpc_route(&port.route.inputs, &class.project(port.route.dimensions)).is_some()
    }
}

/// Whether there is a table that the listener can lead to.
fn serves(facts: &ListenerInputs) -> bool {
    facts.protocol != Protocol::Udp && !matches!(facts.resolution, Resolution::Alias(_) | Resolution::Dynamic)
}

fn api_listener(name: &str, facts: &ListenerInputs) -> Vec<u8> {
    encode::listener::api_listener(name, &names::cluster_name(facts.port, &facts.service.host))
}

/// The listener of a target, under the name that the client gave it.
pub(crate) fn target(
    store: &Store,
    catalog: &Catalog,
    class: &ClientClassKey,
    name: &str,
) -> Option<Arc<EncodedResource>> {
    let port = port_of(catalog, class, name)?;
    let shared = Targets::fill(store, port, class)?;
    if *shared.name == *name {
        return Some(shared);
    }
    let body = api_listener(name, &port.listener.inputs);
    Some(Arc::new(EncodedResource::new(name.into(), body.into())))
}

/// The port that a target means: the host itself, else the first of its long forms that exists.
pub(crate) fn port_of<'c>(
    catalog: &'c Catalog,
    class: &ClientClassKey,
    target: &str,
) -> Option<&'c PortView> {
    let (host, port) = split(target)?;
    let found = long_forms(host, class.domain.as_deref())
        .into_iter()
        .find_map(|host| resolve(catalog, &host.to_ascii_lowercase(), class.namespace.as_ref(), &mut ()))?;
    found.port(port)
}

/// The host that a target is about, where it can be only one: short forms may come to mean another
/// with every generation.
pub(crate) fn host_of(class: &ClientClassKey, target: &str) -> Option<Hostname> {
    let (host, _) = split(target)?;
    let full = class.domain.as_deref().and_then(|domain| domain.split_once(".svc."));
    let only = full.is_none_or(|(_, suffix)| host.ends_with(suffix));
    Hostname::new(host).ok().filter(|_| only)
}

fn split(target: &str) -> Option<(&str, PortNumber)> {
    let (host, port) = target.rsplit_once(':')?;
    let port = PortNumber::new(port.parse().ok()?).ok()?;
    Some((host, port))
}
