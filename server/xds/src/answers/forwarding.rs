//! LDS for routers: a listener for each server of the Gateways that select them.
//!
//! Listeners read nothing of services, so that they stay while services come and go.

use std::sync::Arc;

use tributary_answer::listener_name;
use tributary_answer::vip::ListenAddress;
use tributary_model::{EncodedResource, ForwardingServer};

use super::ResourceType;
use super::fixed::any_address;
use super::fold::Fold;
use super::store::NamedBody;
use crate::encode::listener::forwarding;

/// Returns the listeners of a router. One whose address is of a family that the router does not use is left out.
pub(crate) fn listeners(fold: Fold<'_>) -> Vec<Arc<EncodedResource>> {
    encoded(fold).map(|named| fold.store.keep(ResourceType::Listener, named)).collect()
}

/// Encodes the body of a listener again.
pub(crate) fn body(fold: Fold<'_>, name: &str) -> Option<Vec<u8>> {
    encoded(fold).find(|(own, _)| own == name).map(|(_, body)| body)
}

fn encoded(fold: Fold<'_>) -> impl Iterator<Item = NamedBody> {
    let servers = fold.class.sidecar.as_deref().and_then(|of| of.servers.as_deref()).unwrap_or_default();
    servers.iter().filter_map(move |server| {
        let bind = address(fold, server)?;
        let body = forwarding(server, bind, &fold.listener_defaults());
        Some((listener_name(bind.ip, server.port.get()), body))
    })
}

fn address(fold: Fold<'_>, server: &ForwardingServer) -> Option<ListenAddress> {
    let (v4, v6) = fold.class.families;
    match server.bind {
        None => Some(any_address(fold.class)),
        Some(ip) if ip.is_ipv4() && v4 || ip.is_ipv6() && v6 => Some(ListenAddress::only(ip)),
        Some(_) => None,
    }
}
