//! LDS for routers: a listener for each server of the Gateways that select them.
//!
//! Listeners read nothing of services, so that they stay while services come and go.

use std::sync::Arc;

use tributary_answer::{forwarding_listeners, listener_name};
use tributary_model::EncodedResource;

use super::ResourceType;
use super::fold::Fold;
use super::store::NamedBody;
use crate::encode::listener::forwarding;

/// Returns the listeners of a router.
pub(crate) fn listeners(fold: Fold<'_>) -> Vec<Arc<EncodedResource>> {
    encoded(fold).map(|named| fold.store.keep(ResourceType::Listener, named)).collect()
}

/// Encodes the body of a listener again.
pub(crate) fn body(fold: Fold<'_>, name: &str) -> Option<Vec<u8>> {
    encoded(fold).find(|(own, _)| own == name).map(|(_, body)| body)
}

fn encoded(fold: Fold<'_>) -> impl Iterator<Item = NamedBody> {
    forwarding_listeners(fold.class).map(move |(bind, server)| {
        let body = forwarding(server, bind, &fold.listener_defaults());
        (listener_name(bind.ip, server.port.get()), body)
    })
}
