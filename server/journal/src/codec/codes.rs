//! Numbers of the variants of plain enums: part of the file format.
//!
//! The codecs of the kinds call it. The meaning of a number never changes; a variant that an older release
//! does not know is a fault there.

use tributary_model::{
    ApplyTo, CaptureMode, CollectionKind, DeclarationRole, GatewayMatch, Health, ListResult, MergeByName,
    MergeSide, MtlsMode, Operation, PatchContext, PathNormalization, PolicyKind, PoolHttp, Protocol,
    RouteAction, TrafficDistribution, WorkloadKind,
};

use super::Fault;

macro_rules! codes {
    ($($write:ident $read:ident $type:ident $what:literal { $($code:literal $variant:ident)* })*) => {$(
        /// Returns the number of a variant.
        pub(crate) const fn $write(value: $type) -> u64 {
            match value { $($type::$variant => $code,)* }
        }
        /// Returns the variant of a number.
        pub(crate) const fn $read(code: u64) -> Result<$type, Fault> {
            match code { $($code => Ok($type::$variant),)* _ => Err(Fault::Unknown($what)) }
        }
    )*};
}

codes! {
    apply_to read_apply_to ApplyTo "part of a patch" {
        1 Listener 2 FilterChain 3 ListenerFilter 4 NetworkFilter 5 HttpFilter 6 RouteConfiguration 7 VirtualHost
        8 HttpRoute 9 Cluster 10 ExtensionConfig 11 Bootstrap
    }
    collection read_collection CollectionKind "collection" {
        1 Services 2 Groups 3 Workloads 4 Gateways 5 Settings 6 Policies
    }
    gateways read_gateways GatewayMatch "gateways of a match" { 0 Undeclared 1 Mesh 2 Other }
    context read_context PatchContext "context of a patch" { 0 Any 1 Inbound 2 Outbound 3 Gateway 4 Waypoint }
    health read_health Health "health" { 0 Healthy 1 Draining 2 Unhealthy 3 Terminating }
    capture read_capture CaptureMode "capture mode" { 0 Default 1 Iptables 2 None }
    list_result read_list_result ListResult "result of a list" { 1 Withheld 2 Partial 3 Filtered 4 Complete }
    paths read_paths PathNormalization "normalization of paths" { 0 None 1 Base 2 MergeSlashes 3 DecodeAndMergeSlashes }
    merge read_merge MergeByName "way to merge by name" { 0 Off 1 Report 2 On }
    operation read_operation Operation "operation of a patch" {
        1 Merge 2 Add 3 Remove 4 InsertBefore 5 InsertAfter 6 InsertFirst 7 Replace
    }
    mtls_mode read_mtls_mode MtlsMode "mode of connections" { 1 Disable 2 Permissive 3 Strict }
    policy read_policy PolicyKind "kind of policy" {
        1 Sidecar 2 DestinationRule 3 VirtualService 4 EnvoyFilter 5 PeerAuthentication 6 AuthorizationPolicy
        7 RequestAuthentication 8 Gateway
    }
    pool_http read_pool_http PoolHttp "version of HTTP" { 0 OfPort 1 Upgrade 2 OfClient }
    declared_part read_declared_part DeclarationRole "part of a service" { 0 Whole 1 Offer 2 Import }
    merge_side read_merge_side MergeSide "side of a merge by name" { 0 Base 1 Joining }
    protocol read_protocol Protocol "protocol" {
        0 Unspecified 1 Http 2 Http2 3 Grpc 4 GrpcWeb 5 HttpProxy 6 Https 7 Tls 8 Tcp 9 Udp 10 Mongo 11 Redis
        12 Mysql
    }
    route_action read_route_action RouteAction "action of a route" { 0 Any 1 Route 2 Redirect 3 DirectResponse }
    traffic read_traffic TrafficDistribution "traffic distribution" { 0 Any 1 SameZone 2 SameNode }
    workload read_workload WorkloadKind "kind of workload" { 0 Pod 1 Entry 2 Instance }
}
