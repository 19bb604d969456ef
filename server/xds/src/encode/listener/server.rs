//! Listeners of gRPC servers (gRFC A36, docs/reference/xds.md#grpc-servers): one chain that takes either mesh TLS (A29) or plain text,
//! and RBAC filters (A41) that accept or refuse requests.

use envoy_types::pb::envoy::config::route::v3::{
    NonForwardingAction, Route, RouteMatch, VirtualHost, route::Action, route_match::PathSpecifier,
};
use tributary_answer::GrpcServer;

use super::*;
use crate::encode::{authorization, mesh_tls};

/// Encodes the listener of a gRPC server. The server compares its address with its own.
#[must_use]
pub fn grpc_server(server: &GrpcServer) -> Vec<u8> {
    let bind = ListenAddress { ip: server.at.ip(), additional: None };
    let mut body = base(&server.name, bind, server.at.port(), TrafficDirection::Inbound);
    let routes = RouteSpecifier::RouteConfig(every_request());
    let chain = managed(&manager(&server.name, routes, filters(server)));
    let transport_socket = server.is_meshed.then(mesh_tls::grpc_server);
    body.filter_chains = vec![pb::FilterChain { transport_socket, ..chain }];
    body.encode_to_vec()
}

/// Returns the filters of requests; the last one ends the list.
fn filters(server: &GrpcServer) -> Vec<hcm::HttpFilter> {
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
