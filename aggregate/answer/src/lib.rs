//! Computes what one client may see: pure functions from immutable views to plain plans.
//!
//! Depends on the model only. xds encodes the plans; explain puts the core's trace before the steps
//! recorded here. Every function reads a client only through its [`Projection`]: it cannot read an
//! attribute outside the declared dimensions, so equal projections give equal answers.
//! Every function that decides takes a [`Recorder`]: explain and why-not call the same functions
//! with a trace.
//!
//! [`Projection`]: tributary_model::Projection
//! [`Recorder`]: tributary_model::Recorder

pub mod authorization;
pub mod claims;
pub mod client;
pub mod cluster;
pub mod compose;
pub mod conditions;
pub mod egress;
pub mod endpoints;
pub mod explain;
mod forwarding;
pub mod grpc_route;
pub mod http_route;
pub mod inbound;
pub mod key;
mod l4_route;
pub mod listener;
pub mod members;
pub mod names;
pub mod patches;
pub mod peer_modes;
mod policies;
pub mod policy_conditions;
pub mod resolve;
pub mod route;
pub mod scope;
pub mod selected;
mod shares;
pub mod tokens;
pub mod transport;
pub mod vip;
pub mod virtual_service;

mod steps;

pub use authorization::{AppliedAuthorization, AuthorizationChain, authorization_of, grpc_checks};
pub use claims::{
    HostClaim, RouteClaim, host_claims, route_claims, wildcard_claim, wildcards_beside, without_service,
};
pub use client::{Client, ClientClass, Takes, project};
pub use cluster::{ClusterPlan, Discovery, LoadBalancing, UpstreamHttp, cluster};
pub use compose::{Conflict, Listener, claim_order, compose_listeners, compose_routes, precedence};
pub use conditions::{conditions, contested, contested_by_service};
pub use egress::{Egress, PortSet};
pub use endpoints::{Assignment, Destination, Endpoint, LocalityEndpoints, endpoints, endpoints_of, inline};
pub use explain::{
    AppliedRoutes, AppliedRule, Carrier, Explanation, Query, StepDocument, WhyNot, applied_routes,
    applied_rules, carrier, connection_targets, connection_tls, endpoint_freshness, explain, explain_with,
    grpc_declared, is_in_subset, leading_listeners, leading_parts, leading_resources, longest_wildcard,
    lost_destination, not_listed, received_subsets, requested_addresses, subsets_with, why_not, why_not_in,
};
pub use forwarding::{forwarding_listeners, forwarding_to};
pub use grpc_route::{GrpcGap, grpc_routes};
pub use http_route::{RouteContext, RoutePlan, Routes, Target, http_routes};
pub use inbound::{
    GrpcServer, InboundAuthorization, InboundPath, InboundPort, InboundSecurity, InboundTarget, InboundTls,
    OwnSide, grpc_server, inbound_modes, inbound_security, listens_at, own_workload, received,
    unread_policies, withholds_inbound,
};
pub use key::key;
pub use listener::{ListenerPlan, Match, Serves, listener, listener_name, route_table_name, scoped_listener};
pub use members::{Difference, differing, members, overlay};
pub use names::ClusterName;
pub use patches::{ClientPatches, ProxyFacts, SelectedFilters, filters_of};
pub use peer_modes::{Peer, peer_policies};
pub use policy_conditions::{Beside, PolicyConditions, Selectable, policy_conditions};
pub use resolve::{concrete, own_routes, resolve, visible};
pub use route::{VirtualHostPlan, grpc_route, has_grpc_route, names_of, route};
pub use scope::trace::not_routed;
pub use scope::{ClientSidecar, Scope, attach};
pub use selected::SelectedPolicies;
pub use steps::named;
pub use tokens::{KeyServers, TokenChecks, token_checks};
pub use transport::{MeshTls, PeerNames, PlainReason, Transport};
pub use virtual_service::{Chosen, chosen};

#[cfg(test)]
mod fixtures;
