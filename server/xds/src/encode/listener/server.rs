//! Listeners of gRPC servers (gRFC A36, docs/reference/xds.md#grpc-servers): one chain that takes either mesh TLS (A29) or plain text,
//! and RBAC filters (A41) that accept or refuse requests.

use envoy_types::pb::envoy::config::route::v3::{
    NonForwardingAction, Route, RouteMatch, VirtualHost, route::Action, route_match::PathSpecifier,
};
use tributary_answer::GrpcServer;

use super::*;
use crate::encode::{authorization, mesh_tls};

/// Most bytes of a listener. A gRPC client ends a stream with a message of more than 4 MiB, and one may have several listeners.
const MOST_BYTES: usize = 1 << 20;

/// Encodes the listener of a gRPC server. The server compares its address with its own. One that would be too large refuses every
/// request.
#[must_use]
pub fn grpc_server(server: &GrpcServer) -> Vec<u8> {
    let body = encoded(server, filters(server));
    if body.len() > MOST_BYTES {
        encoded(server, vec![authorization::grpc_refusal(), router()])
    } else {
        body
    }
}

/// Whether a gRPC server refuses every request because its policies make a listener too large.
#[must_use]
pub fn is_too_large(server: &GrpcServer) -> bool {
    encoded(server, filters(server)).len() > MOST_BYTES
}

fn encoded(server: &GrpcServer, filters: Vec<hcm::HttpFilter>) -> Vec<u8> {
    let bind = ListenAddress { ip: server.at.ip(), additional: None };
    let mut body = base(&server.name, bind, server.at.port(), TrafficDirection::Inbound);
    let routes = RouteSpecifier::RouteConfig(every_request());
    let chain = managed(&manager(&server.name, routes, filters));
    let transport_socket = server.is_meshed.then(mesh_tls::grpc_server);
    body.filter_chains = vec![pb::FilterChain { transport_socket, ..chain }];
    body.encode_to_vec()
}

/// Returns the filters of requests; the last one ends the list.
fn filters(server: &GrpcServer) -> Vec<hcm::HttpFilter> {
    if server.refuses {
        return vec![authorization::grpc_refusal(), router()];
    }
    let trust = server.is_meshed.then(|| authorization::grpc_trust(&server.domains));
    let of = server.authorization.iter();
    let decisions = of.flat_map(|of| authorization::grpc_filters(&of.policies, &of.domains));
    trust.into_iter().chain(decisions).chain([router()]).collect()
}

/// Returns the routes of a server, which answers every request itself.
fn every_request() -> RouteConfiguration {
    let any =
        RouteMatch { path_specifier: Some(PathSpecifier::Prefix(String::new())), ..RouteMatch::default() };
    let action = Some(Action::NonForwardingAction(NonForwardingAction {}));
    let host = VirtualHost {
        name: "inbound".into(),
        domains: vec!["*".into()],
        routes: vec![Route { r#match: Some(any), action, ..Route::default() }],
        ..VirtualHost::default()
    };
    RouteConfiguration { name: "inbound".into(), virtual_hosts: vec![host], ..RouteConfiguration::default() }
}

#[cfg(test)]
mod tests;
