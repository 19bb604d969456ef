//! LDS for routers: a listener for each server of the Gateways that select them.
//!
//! Listeners read nothing of services, so that they stay while services come and go.

use std::sync::Arc;

use tributary_answer::vip::ListenAddress;
use tributary_model::{EncodedResource, ForwardingServer};

use super::ResourceType;
use super::fixed::any_address;
use super::fold::Fold;
use crate::encode::listener::forwarding;

/// Returns the listeners of a router. One whose address is of a family that the router does not use is left out.
pub(crate) fn listeners(fold: Fold<'_>) -> Vec<Arc<EncodedResource>> {
    let sidecar = fold.class.sidecar.as_deref();
    let servers = sidecar.and_then(|sidecar| sidecar.servers.as_deref()).unwrap_or_default();
    servers.iter().filter_map(|server| Some(listener(fold, server, address(fold, server)?))).collect()
}

/// Encodes the body of a listener again.
pub(crate) fn body(fold: Fold<'_>, name: &str) -> Option<Vec<u8>> {
    let again = listeners(fold).into_iter().find(|listener| *listener.name == *name)?;
    again.body().map(|body| body.to_vec())
}

fn listener(fold: Fold<'_>, server: &ForwardingServer, bind: ListenAddress) -> Arc<EncodedResource> {
    let name = tributary_answer::listener_name(bind.ip, server.port.get());
    let body = forwarding(server, bind, &fold.listener_defaults());
    fold.store.keep(ResourceType::Listener, (name, body))
}

fn address(fold: Fold<'_>, server: &ForwardingServer) -> Option<ListenAddress> {
    let (v4, v6) = fold.class.families;
    match server.bind {
        None => Some(any_address(fold.class)),
        Some(ip) if ip.is_ipv4() && v4 || ip.is_ipv6() && v6 => Some(ListenAddress::only(ip)),
        Some(_) => None,
    }
}
