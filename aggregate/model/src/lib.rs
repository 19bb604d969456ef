//! Plain, immutable values that every other crate of Tributary exchanges.
//!
//! Adapters report facts as [`RegistryUpdate`]s; the core publishes a [`Catalog`] of [`ServiceView`]s. No
//! module does I/O, reads a clock or holds a queue. Constructors check their input, so every value is valid:
//! names, hosts and ports are newtypes without unchecked constructors.

pub mod address;
pub mod authorization;
pub mod by_namespace;
pub mod catalog;
pub mod certificates;
pub mod closed_ports;
pub mod code;
pub mod declaration;
pub mod destination_rule;
pub mod encoded_cache;
pub mod endpoint_group;
pub mod envoy_filter;
pub mod evidence;
pub mod excluded_object;
pub mod export;
pub mod forwarding;
pub mod gateway;
pub mod gateway_name;
pub mod hash;
pub mod health;
pub mod hostname;
pub mod http_match;
pub mod http_route;
pub mod id;
pub mod identity_set;
pub mod kubernetes_names;
pub mod l4_route;
pub mod labels;
pub mod locality;
pub mod locality_setting;
pub mod merge_name;
pub mod named_values;
pub mod network_ranges;
pub mod object;
pub mod peer_authentication;
pub mod peer_modes;
pub mod pending;
pub mod policy;
pub mod port;
pub mod precedence;
pub mod preference;
pub mod protocol;
pub mod record;
pub mod registry;
pub mod request_authentication;
pub mod request_tracing;
pub mod requests;
pub mod resource_inputs;
pub mod route_candidate;
pub mod route_choice;
pub mod separate;
pub mod settings;
pub mod shared;
pub mod sidecar;
pub mod stale_set;
pub mod status;
pub mod subset;
pub mod time;
pub mod trace;
pub mod traffic_policy;
pub mod unread;
pub mod update;
pub mod view;
pub mod virtual_service;
pub mod weight;
pub mod workload;

pub use address::{Address, AddressRef, Origin, Topology};
pub use authorization::{
    Attribute, AttributeMatch, AuthorizationAction, AuthorizationPolicy, AuthorizationRule, ValueMatch,
};
pub use by_namespace::{ByClient, ByNamespace};
pub use catalog::{Catalog, CatalogChanges, HostEntry, ObservedSince, RegistryView, WorkloadView};
pub use certificates::{CertificateFiles, CertificateSource};
pub use closed_ports::{ClosedPorts, PortClosed};
pub use code::Code;
pub use declaration::{
    Attributes, DeclKey, Declaration, DeclarationRole, DeclarationWarning, Resolution, Selector,
    ServiceAddress, ServiceKey, TrafficDistribution,
};
pub use destination_rule::{
    ClusterPolicy, ConnectionPolicy, DestinationRule, EndpointPolicy, EndpointUse, SubsetRule,
};
pub use encoded_cache::{Answers, ClientKind, EncodedCache, EncodedResource, Projection};
pub use endpoint_group::{EndpointGroup, EndpointGroupKey, GroupPort, PortSet, Summary, WaitingAddress};
pub use envoy_filter::{
    ApplyTo, ChainMatch, ClusterMatch, ConfigPatch, EnvoyFilter, ListenerMatch, ObjectMatch, Operation,
    PatchContext, ProxyMatch, RouteAction, RouteMatch, RoutesMatch, VersionPattern, VirtualHostMatch,
};
pub use evidence::{EndEvidence, Evidence};
pub use excluded_object::{ExcludedObject, of_revision};
pub use export::{EntryVisibility, ExportTo, Visibility};
pub use forwarding::{ForwardingGateway, ForwardingServer};
pub use gateway::{GatedNetwork, Gateway, GatewayAddress, GatewayKey, GatewaySocket};
pub use gateway_name::{NameFailure, ResolvedName};
pub use hash::{Version, VersionSum};
pub use health::Health;
pub use hostname::{HostPattern, Hostname};
pub use http_match::{ClientMatch, GatewayMatch, HttpMatch, TextMatch};
pub use http_route::{
    AbortStatus, Cors, DirectResponse, FaultAbort, FaultDelay, FaultInjection, GRPC_STATUSES, HeaderChanges,
    HeaderOperations, HttpAction, HttpRoute, Mirror, Mirroring, PathRewrite, Redirect, RedirectPath,
    RedirectPort, RequestShare, ResponseBody, Rewrite, RoutePosition, RouteRetries, RouteSettings,
    WeightedDestination,
};
pub use id::{
    ClusterId, Fingerprint, Generation, Identity, InvalidName, Namespace, NetworkId, NodeName, ProviderId,
    RegistryId, RegistryName, Scope,
};
pub use identity_set::{IdentitySet, SocketKey};
pub use l4_route::{L4Destination, L4Match, TcpRoute, TlsMatch, TlsRoute};
pub use labels::Labels;
pub use locality::Locality;
pub use locality_setting::LocalitySetting;
pub use merge_name::{MergeName, MergeSide};
pub use named_values::{LabelValues, NamedLabels, NamedOrder, NamedValues, Parts, Places};
pub use object::{ObjectId, ObjectRef, ObjectVersion, Position, Source};
pub use peer_authentication::{MtlsMode, PeerAuthentication};
pub use peer_modes::{PeerModes, PeerScopes};
pub use pending::{Pending, PendingCause};
pub use policy::{DeclaredPolicy, Policy, PolicyKey, PolicyKind, PolicyView};
pub use port::{PortName, PortNumber, ServicePort, Target};
pub use precedence::{Precedence, PrecedenceKey};
pub use preference::Preference;
pub use protocol::Protocol;
pub use record::{HoldRecord, ListRecord, ListResult, ProblemRecord, Record};
pub use registry::{RegistrySpec, RestartMode, Scopes, StalePolicy};
pub use request_authentication::{
    ClaimHeader, KeysUri, RequestAuthentication, TokenHeader, TokenKeys, TokenRule,
};
pub use request_tracing::{RequestTracing, SampledShare, SpanTag, SpanTagValue};
pub use requests::{AccessLog, HttpRetries, LogEncoding};
pub use resource_inputs::{ClientDimensions, ResourceInputs};
pub use route_candidate::{
    ConnectionTarget, HttpCandidate, L4Candidate, L4Routes, ResolvedDestination, RouteCandidate, RouteOwner,
};
pub use route_choice::RouteChoice;
pub use separate::{MergeByName, NameOutcome, NamedService, SameName, SeparateReason};
pub use settings::{FederatedMember, FederatedService, PathNormalization, Settings};
pub use shared::Shared;
pub use sidecar::{
    CaptureMode, EgressListener, EgressProxy, HostImport, ImportNamespace, IngressEndpoint, IngressListener,
    ListenerPort, OutboundMode, Sidecar,
};
pub use stale_set::StaleSet;
pub use status::{
    DetailValue, Freshness, OverallState, OverallStatus, Problem, ShardPriority, SinceMono, SourceDetail,
    SourceMode, SourcePart, SourceState, SourceStatus, Withheld, WithheldCause,
};
pub use subset::Subset;
pub use time::{Mono, Timestamp};
pub use trace::{Recorder, Stage, StepTime, Trace, TraceStep, Verdict};
pub use traffic_policy::{
    Algorithm, ClientTls, ConnectionPool, Distribution, FailoverLabel, HashCookie, HashKey, Keepalive,
    LoadBalancer, LocalityBalancing, OutlierDetection, PoolHttp, PortPolicies, TlsSettings, TrafficPolicy,
    Warmup,
};
pub use unread::UnreadCollection;
pub use update::{
    Basis, Collection, CollectionKind, Completeness, ConfirmRequest, Fact, FactId, FactKey, RegistryUpdate,
    Stamped,
};
pub use view::{
    AudienceView, ClusterInputs, Condition, DeclarationView, EndpointInputs, EndpointSource, FederationInfo,
    ListenerInputs, PortView, RouteInputs, ServiceView, ShardRef,
};
pub use virtual_service::{DelegateRef, RouteDestination, VirtualService};
pub use weight::{WeightUnit, common_divisor};
pub use workload::{Workload, WorkloadAddress, WorkloadKey, WorkloadKind, WorkloadName};
