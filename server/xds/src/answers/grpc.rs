//! LDS and RDS for proxyless gRPC clients (gRFC A27, docs/reference/xds.md#resource-names): one listener
//! per target, one table per xDS cluster.
//!
//! A target is `host:port`, possibly in a short form. The listener has exactly the requested name. The listener
//! of the canonical form is shared; any other is built for each request.

use std::sync::Arc;

use tributary_answer::vip::long_forms;
use tributary_answer::{ClientClass, Surface, concrete, grpc_route, key, names, resolve};
use tributary_model::{
    Catalog, EncodedResource, Hostname, ListenerInputs, PortNumber, PortView, Projection, Protocol,
    Resolution, ResourceInputs, RouteInputs,
};

use super::store::{NamedBody, ResourceFamily, Store};
use super::{ClientClassKey, ResourceType};
use crate::encode;

/// LDS: one API listener per port.
pub(crate) struct Targets;

/// RDS: one table per port.
pub(crate) struct TargetRoutes;

impl ResourceFamily for Targets {
    type Inputs = ListenerInputs;
    const KIND: ResourceType = ResourceType::Listener;

    fn inputs_of(port: &PortView) -> &Arc<ResourceInputs<ListenerInputs>> {
        &port.listener.0
    }
    fn name(port: PortNumber, host: &Hostname) -> String {
        format!("{host}:{port}")
    }
    fn encode(inputs: &ListenerInputs, _: &Projection) -> Option<NamedBody> {
        let name = Self::name(inputs.port, &inputs.service.host);
        serves(inputs).then(|| (name.clone(), api_listener(&name, inputs)))
    }
    fn plans(port: &PortView, _: &ClientClass) -> bool {
        serves(&port.listener.inputs)
    }
}

impl ResourceFamily for TargetRoutes {
    type Inputs = RouteInputs;
    const KIND: ResourceType = ResourceType::Route;

    fn inputs_of(port: &PortView) -> &Arc<ResourceInputs<RouteInputs>> {
        &port.route.0
    }
    fn name(port: PortNumber, host: &Hostname) -> String {
        names::cluster_name(port, host)
    }
    fn encode(inputs: &RouteInputs, projection: &Projection) -> Option<NamedBody> {
        let plan = grpc_route(inputs, projection)?;
        let body = encode::route::grpc_table(&plan.cluster, &plan);
        Some((plan.cluster, body))
    }
    fn plans(port: &PortView, class: &ClientClass) -> bool {
        grpc_route(&port.route.inputs, &key(&port.route, class)).is_some()
    }
}

/// Whether the listener has a route table.
fn serves(inputs: &ListenerInputs) -> bool {
    inputs.protocol != Protocol::Udp
        && !matches!(inputs.resolution, Resolution::Alias(_) | Resolution::Dynamic)
}

fn api_listener(name: &str, inputs: &ListenerInputs) -> Vec<u8> {
    encode::listener::api_listener(name, &names::cluster_name(inputs.port, &inputs.service.host))
}

/// Returns the listener of a target, under the requested name.
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

/// Returns the port that a target means: of the host itself, else of its first existing long form. An alias means the
/// service that it leads to.
pub(crate) fn port_of<'c>(
    catalog: &'c Catalog,
    class: &ClientClassKey,
    target: &str,
) -> Option<&'c PortView> {
    let (host, port) = split(target)?;
    let scope = class.scope();
    let found = long_forms(host, class.domain.as_deref())
        .into_iter()
        .find_map(|host| resolve(catalog, &host.to_ascii_lowercase(), scope, &mut ()))?;
    let view = concrete(catalog, found, scope, &mut ())?;
    view.port(port).filter(|port| scope.admits(view, port, Surface::Clusters))
}

/// Returns the host that a target is about, if only one is possible: a short form may mean a different
/// host in each generation.
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
