//! Converts a Gateway to a policy.

use std::sync::Arc;

use tributary_model::{
    DeclaredPolicy, Fact, ForwardingGateway, ForwardingServer, Policy, PolicyKey, PolicyKind,
};

use super::endpoints::number_of;
use crate::document::gateway::{self, Server, host};
use crate::document::{Meta, Object};

/// The policy of a document.
pub(super) fn fact(object: &Object, meta: &Meta, document: &gateway::Gateway) -> Fact {
    let key = PolicyKey {
        kind: PolicyKind::Gateway,
        namespace: meta.namespace.clone(),
        name: Arc::clone(&meta.name),
    };
    let mut ignored: Vec<Arc<str>> = document.ignored.iter().map(|path| Arc::clone(&path.value)).collect();
    ignored.sort();
    let others = document.servers.iter().enumerate().filter(|(_, server)| !server.forwards());
    let policy = Policy::Gateway(ForwardingGateway {
        selector: document.selector.as_ref().map(|labels| labels.value.clone()).unwrap_or_default(),
        servers: document.servers.iter().filter_map(server).collect(),
        unserved: others.map(|(i, server)| unserved(i, server)).collect(),
        ignored: ignored.into(),
    });
    Fact::Policy(key, Arc::new(DeclaredPolicy { source: object.source(), created: meta.created, policy }))
}

fn server(server: &Server) -> Option<ForwardingServer> {
    let port = server.port.as_ref().filter(|_| server.forwards())?;
    Some(ForwardingServer {
        port: number_of(port.number.value)?,
        bind: server.bind.as_ref().and_then(|text| text.value.parse().ok()),
        hosts: server.hosts.iter().filter_map(|text| host(&text.value).ok()).collect(),
    })
}

fn unserved(i: usize, server: &Server) -> Arc<str> {
    let port = server.port.as_ref().map_or(0, |port| port.number.value);
    let mode = if server.mode.value.is_empty() { "no TLS" } else { &*server.mode.value };
    format!("spec.servers[{i}] (port {port}, {mode})").into()
}
