//! LDS and RDS for proxyless gRPC clients (gRFC A27, docs/reference/xds.md#resource-names): one listener
//! per target, one table per xDS cluster.
//!
//! A target is `host:port`, possibly in a short form. The listener has exactly the requested name. The listener
//! of the canonical form is shared; any other is built for each request.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tributary_answer::vip::long_forms;
use tributary_answer::{ClusterName, PortSet, concrete, grpc_route, has_grpc_route, resolve};
use tributary_model::encoded_cache::Answers as Slot;
use tributary_model::{
    Catalog, ClientKind, EncodedResource, Hostname, PortNumber, PortView, Projection, ResourceInputs,
    RouteInputs,
};

use super::store::{NamedBody, ResourceFamily, Store, encode_names, named};
use super::{ClientClassKey, ResourceType};
use crate::encode;

/// LDS: one API listener per port.
pub(crate) struct Targets;

/// RDS: one table per port.
pub(crate) struct TargetRoutes;

impl ResourceFamily for Targets {
    type Inputs = RouteInputs;
    type Name = String;
    const KIND: ResourceType = ResourceType::Listener;

    /// A target has a listener if it has routes; the listener reads nothing else.
    fn inputs_of(port: &PortView) -> &Arc<ResourceInputs<RouteInputs>> {
        &port.route.0
    }
    fn names(inputs: &RouteInputs, _: Option<ClientKind>) -> SmallVec<[String; 1]> {
        smallvec![format!("{}:{}", inputs.service.host, inputs.port)]
    }
    fn encode(inputs: &RouteInputs, name: &String, _: &Projection) -> Option<Vec<u8>> {
        has_grpc_route(inputs).then(|| api_listener(name, inputs))
    }
    fn plans(inputs: &RouteInputs, _: &String, _: &Projection) -> bool {
        has_grpc_route(inputs)
    }
    fn of_type(slot: Slot) -> Slot {
        slot.first().cloned().into_iter().collect()
    }
    fn encode_all(inputs: &RouteInputs, projection: &Projection) -> Vec<(ResourceType, NamedBody)> {
        listener_and_routes(inputs, projection)
    }
}

impl ResourceFamily for TargetRoutes {
    type Inputs = RouteInputs;
    type Name = ClusterName;
    const KIND: ResourceType = ResourceType::Route;

    fn inputs_of(port: &PortView) -> &Arc<ResourceInputs<RouteInputs>> {
        &port.route.0
    }
    fn names(inputs: &RouteInputs, _: Option<ClientKind>) -> SmallVec<[ClusterName; 1]> {
        smallvec![ClusterName::new(inputs.port, &inputs.service.host)]
    }
    fn encode(inputs: &RouteInputs, name: &ClusterName, client: &Projection) -> Option<Vec<u8>> {
        let plan = grpc_route(inputs, client)?;
        Some(encode::route::grpc_table(&name.to_string(), &plan))
    }
    fn plans(inputs: &RouteInputs, _: &ClusterName, _: &Projection) -> bool {
        has_grpc_route(inputs)
    }
    fn of_type(slot: Slot) -> Slot {
        slot.iter().skip(1).cloned().collect()
    }
    fn encode_all(inputs: &RouteInputs, projection: &Projection) -> Vec<(ResourceType, NamedBody)> {
        listener_and_routes(inputs, projection)
    }
}

/// Encodes the listener of a target, then its routes: a client that requests one requests both.
fn listener_and_routes(inputs: &RouteInputs, projection: &Projection) -> Vec<(ResourceType, NamedBody)> {
    let listener = encode_names::<Targets>(inputs, projection);
    listener.into_iter().chain(encode_names::<TargetRoutes>(inputs, projection)).collect()
}

fn api_listener(name: &str, inputs: &RouteInputs) -> Vec<u8> {
    let routes = ClusterName::new(inputs.port, &inputs.service.host);
    encode::listener::api_listener(name, &routes.to_string())
}

/// Returns the listener of a target, under the requested name.
pub(crate) fn target(
    store: &Store,
    catalog: &Catalog,
    class: &ClientClassKey,
    name: &str,
) -> Option<Arc<EncodedResource>> {
    let port = port_of(catalog, class, name)?;
    let shared = Targets::fill(store, port, class);
    if shared.is_empty() {
        return None;
    }
    if let Some(canonical) = named(&shared, name) {
        return Some(Arc::clone(canonical));
    }
    let body = api_listener(name, &port.route.inputs);
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
    view.port(port).filter(|port| scope.admits(view, port, PortSet::Imported))
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
