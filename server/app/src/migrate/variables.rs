//! Environment variables of istiod, one row each: names and defaults are those of Istio's packages of features, bootstrap and CA.

use super::{Row, rows};

rows! {
    /// Variables of discovery: sources, clusters, process, xDS.
    DISCOVERY:
    "CLUSTER_ID" Honoured [] "`clusterId`";
    "POD_NAMESPACE" Honoured [] "`systemNamespace`";
    "POD_NAME" NoEffectNeeded [] "Leases are held under the host name";
    "SERVICE_ACCOUNT" NoEffectNeeded [] "the account of the pod is used";
    "KUBECONFIG" Honoured [] "kubeconfig files for a Kubernetes registry that names none; a missing file is an error here, so leave it out in a pod";
    "KUBERNETES_SERVICE_HOST" NoEffectNeeded [] "set by Kubernetes";
    "REVISION" OtherName [] "`revision`, `--revision`; leave it out for the default revision";
    "ISTIO_WATCH_NAMESPACE" Honoured [] "`registries[].namespaces`";
    "PILOT_REMOTE_CLUSTER_TIMEOUT" OtherName [] "`start.firstSyncTimeout`";
    "PILOT_MULTICLUSTER_KUBECONFIG_PATH" OtherName [] "`remotes.directory`";
    "PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS" Refused [""] "`remotes.allowKubeconfig` allows some; plugins and files named in a kubeconfig are never allowed";
    "LOCAL_CLUSTER_SECRET_WATCHER" Refused ["false"] "Secrets are read in the config cluster";
    "PILOT_ENABLE_REMOTE_CREDENTIALS_CONTROLLER" NoEffectNeeded [] "certificates of gateways are not served from any cluster";
    "EXTERNAL_ISTIOD" Refused ["false"] "every cluster is read, but none gets a CA or webhooks";
    "SHARED_MESH_CONFIG" Refused [""] "one ConfigMap is read; put the fields into it, or into `settings`";
    "ENABLE_MCS_SERVICE_DISCOVERY" Honoured [] "`registries[].mcs.discovery`";
    "ENABLE_MCS_HOST" Honoured [] "`registries[].mcs.host`";
    "ENABLE_MCS_CLUSTER_LOCAL" Honoured [] "`registries[].mcs.clusterLocal`";
    "ENABLE_MCS_AUTO_EXPORT" OtherName [] "`writes: [serviceExports]`";
    "MCS_API_GROUP" Honoured [] "`registries[].mcs.group`";
    "MCS_API_VERSION" Honoured ["v1alpha1"] "version v1alpha1 is read";
    "PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES" Honoured ["true"] "always on: Services select WorkloadEntries";
    "PILOT_ENABLE_SERVICEENTRY_SELECT_PODS" Honoured ["true"] "always on: ServiceEntries select pods";
    "PILOT_ENABLE_CROSS_CLUSTER_WORKLOAD_ENTRY" Honoured ["true"] "always on: WorkloadEntries of every cluster are read";
    "PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API" Honoured ["true"] "always on: gateway-api Gateways are gateways of networks";
    "RESOLVE_HOSTNAME_GATEWAYS" Honoured ["true"] "always on: host names of gateways are resolved";
    "PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE" Honoured ["true"] "always on: one precedence order selects the served service";
    "ISTIO_DUAL_STACK" Honoured ["true"] "always on: a client uses the IP families of its own addresses";
    "ISTIO_ENABLE_IPV4_OUTBOUND_LISTENER_FOR_IPV6_CLUSTERS" Refused ["false"] "a client has listeners of the families of its own addresses";
    "PILOT_ENABLE_IP_AUTOALLOCATE" OtherName [] "`writes: [addresses]`";
    "PILOT_IP_AUTOALLOCATE_IPV4_PREFIX" Refused ["240.240.0.0/16"] "addresses are of the default range";
    "PILOT_IP_AUTOALLOCATE_IPV6_PREFIX" Refused ["2001:2::/48"] "addresses are of the default range";
    "PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION" NoEffectNeeded [] "see the task `registration`";
    "PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS" NoEffectNeeded [] "see the task `registration`";
    "PILOT_WORKLOAD_ENTRY_GRACE_PERIOD" NoEffectNeeded [] "see the task `registration`";
    "ISTIO_WORKLOAD_ENTRY_VALIDATE_IDENTITY" NoEffectNeeded [] "see the task `registration`";
    "PILOT_IGNORE_RESOURCES" Refused [""] "every kind that is served is read; a right that is not granted leaves a kind out";
    "PILOT_INCLUDE_RESOURCES" Refused [""] "every kind that is served is read; a right that is not granted leaves a kind out";
    "PILOT_SEND_UNHEALTHY_ENDPOINTS" OtherName [] "publishNotReadyAddresses of a service; unhealthy endpoints are sent if the service requests it";
    "PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS" Refused ["false"] "unhealthy endpoints are sent if the service requests it";
    "PILOT_DRAINING_LABEL" Honoured ["istio.io/draining"] "the default label is read";
    "PILOT_PERSISTENT_SESSION_LABEL" Honoured ["istio.io/persistent-session"] "the default label keeps terminating endpoints; see also the filter";
    "PILOT_PERSISTENT_SESSION_HEADER_LABEL" Honoured ["istio.io/persistent-session-header"] "the default label keeps terminating endpoints; see also the filter";
    "PILOT_ENABLE_PERSISTENT_SESSION_FILTER" Refused ["false"] "the filter of sessions is not sent; an EnvoyFilter can add it";
    "ENABLE_PROXY_FIND_POD_BY_IP" NoEffectNeeded [] "a workload is found by the name or the addresses of its node";
    "ENABLE_MULTICLUSTER_HEADLESS" NoEffectNeeded [] "see the task `dns`";
    "LABEL_CANONICAL_SERVICES_FOR_MESH_EXTERNAL_SERVICE_ENTRIES" Refused ["false"] "metadata of telemetry is not sent";
    "ISTIO_DELTA_XDS" Honoured [] "a client chooses: delta and state of the world are both served, and delta sends changes alone";
    "ISTIO_GPRC_MAXSTREAMS" OtherName [] "`xds.maxConnections`";
    "ISTIO_GPRC_MAXRECVMSGSIZE" NoEffectNeeded [] "the size of a request is bounded";
    "PILOT_PUSH_THROTTLE" NoEffectNeeded [] "resources are encoded once for all clients of a class, so pushes need no limit";
    "PILOT_MAX_REQUESTS_PER_SECOND" NoEffectNeeded [] "requests are limited for each client";
    "PILOT_DEBOUNCE_AFTER" NoEffectNeeded [] "changes are sent at once; what arrives together is sent together";
    "PILOT_DEBOUNCE_MAX" NoEffectNeeded [] "changes are sent at once; what arrives together is sent together";
    "PILOT_ENABLE_EDS_DEBOUNCE" NoEffectNeeded [] "changes are sent at once; what arrives together is sent together";
    "PILOT_CONVERT_SIDECAR_SCOPE_CONCURRENCY" NoEffectNeeded [] "a scope is computed when a client needs it";
    "ENABLE_LAZY_SIDECAR_EVALUATION" NoEffectNeeded [] "a scope is computed when a client needs it";
    "PILOT_UNIFIED_SIDECAR_SCOPE" NoEffectNeeded [] "a switch for an older version of the same behaviour";
    "PILOT_XDS_CACHE_SIZE" NoEffectNeeded [] "the cache holds what clients use";
    "PILOT_XDS_CACHE_INDEX_CLEAR_INTERVAL" NoEffectNeeded [] "the cache holds what clients use";
    "PILOT_ENABLE_XDS_CACHE" NoEffectNeeded [] "the cache holds what clients use";
    "PILOT_ENABLE_CDS_CACHE" NoEffectNeeded [] "the cache holds what clients use";
    "PILOT_ENABLE_RDS_CACHE" NoEffectNeeded [] "the cache holds what clients use";
    "PILOT_XDS_CACHE_STATS" OtherName [] "`tributary_xds_cached_bytes` is always there";
    "PILOT_ENABLE_ROUTE_COLLAPSE_OPTIMIZATION" NoEffectNeeded [] "an optimization without an effect on requests";
    "PILOT_ENABLE_HEADLESS_FILTER_CHAIN_LISTENER" NoEffectNeeded [] "an optimization without an effect on connections";
    "ENABLE_VTPROTOBUF" NoEffectNeeded [] "an optimization of its own encoder";
    "MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP" Refused ["0"] "Envoy's own default, which has no limit; an EnvoyFilter can set it";
    "METRICS_LOCALHOST_ACCESS_ONLY" OtherName [] "leave `health.listen` out: `admin.listen` is loopback alone";
    "DEBUG_CONFIG_DUMP" NoEffectNeeded [] "a switch for tests of istiod";
    "SIMULATION_DEBUG" NoEffectNeeded [] "a switch for tests of istiod";
    "MUTEX_PROFILE_FRACTION" NoEffectNeeded [] "no profiles are served";
    "GRPC_KEEPALIVE_INTERVAL" NoEffectNeeded [] "keepalive of connections is fixed";
    "GRPC_KEEPALIVE_TIMEOUT" NoEffectNeeded [] "keepalive of connections is fixed";
    "ISTIO_KUBE_CLIENT_CONTENT_TYPE" NoEffectNeeded [] "the form in which an API server answers has no effect on what is served";
    "ENABLE_LEADER_ELECTION" Honoured ["true"] "always on: writes are made by the holder of a Lease";
    "PILOT_STATUS_MAX_WORKERS" NoEffectNeeded [] "no status of policies is written";
    "PILOT_ENABLE_ANALYSIS" Refused ["false"] "no status is written; `tributary analyze --live` reports instead";
    "PILOT_ANALYSIS_INTERVAL" NoEffectNeeded [] "no status is written; `tributary analyze --live` reports instead";
    "UNSAFE_PILOT_ENABLE_RUNTIME_ASSERTIONS" NoEffectNeeded [] "a switch for tests of istiod";
    "PLATFORM" NoEffectNeeded [] "chooses defaults of an installation";
    "CLOUD_PLATFORM" NoEffectNeeded [] "read by proxies";
    "GCP_METADATA" NoEffectNeeded [] "read by proxies";
    "GCP_QUOTA_PROJECT" NoEffectNeeded [] "read by proxies";
    "GCP_ZONE" NoEffectNeeded [] "read by proxies";
    "K_REVISION" NoEffectNeeded [] "set by Knative";
    "GOMEMLIMIT" NoEffectNeeded [] "a setting of Go";
    "GOMAXPROCS" NoEffectNeeded [] "a setting of Go";
    "GODEBUG" NoEffectNeeded [] "a setting of Go";
    "COMPLIANCE_POLICY" Refused [""] "TLS has no profile of a compliance policy";
    "HTTP_STRIP_FRAGMENT_FROM_PATH_UNSAFE_IF_DISABLED" NoEffectNeeded [] "read by proxies";
    "ISTIO_BOOTSTRAP" NoEffectNeeded [] "read by proxies";
    "ISTIO_BOOTSTRAP_OVERRIDE" NoEffectNeeded [] "read by proxies";
    "ISTIO_ENVOY_ENABLE_CORE_DUMP" NoEffectNeeded [] "read by proxies";
    "ISTIO_ENABLE_CONTROLLER_QUEUE_METRICS" NoEffectNeeded [] "there are no such queues; `tributary_runtime_events_total` counts work";
}

rows! {
    /// Variables of security, of the CA and of webhooks.
    SECURITY:
    "XDS_AUTH" Honoured ["true"] "always on: with TLS or tokens, every client proves its identity";
    "XDS_AUTH_PLAINTEXT" Refused ["false"] "plain text is for loopback alone";
    "PILOT_ENABLE_XDS_IDENTITY_CHECK" Honoured ["true"] "always on: the node must be that of the identity";
    "TOKEN_AUDIENCES" OtherName [] "`xds.tokens.audiences`, `--xds-tokens`";
    "JWT_RULE" Refused [""] "tokens are reviewed by the cluster of the client, not by a key set";
    "TOKEN_ISSUER" Refused [""] "tokens are reviewed by the cluster of the client";
    "AUDIENCE" OtherName [] "`xds.tokens.audiences`";
    "TRUSTED_GATEWAY_CIDR" Refused [""] "an identity in a header is not trusted";
    "ENABLE_DEBUG_ON_HTTP" Honoured [] "debug pages are served on loopback alone";
    "ENABLE_DEBUG_ENDPOINT_AUTH" Honoured ["true"] "debug pages are served on loopback alone";
    "DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES" Refused [""] "debug pages are served on loopback alone";
    "ENABLE_XDS_API_GENERATOR_AUTH" Honoured ["true"] "configuration is not served as xDS to anyone";
    "UNSAFE_ENABLE_ADMIN_ENDPOINTS" Refused ["false"] "there are no such pages";
    "PILOT_SKIP_VALIDATE_TRUST_DOMAIN" Refused ["false"] "`settings.trustDomainAliases` names further trust domains";
    "ISTIO_MULTIROOT_MESH" Refused ["false"] "roots are those of the certificates that the agent has";
    "PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS" Refused ["false"] "what a policy with CUSTOM matches is refused";
    "ENABLE_CA_SERVER" NoEffectNeeded [] "see the task `ca`";
    "PILOT_CERT_PROVIDER" NoEffectNeeded [] "see the task `ca`; `xds.tls` names the files of the server's certificate";
    "ISTIOD_CUSTOM_HOST" OtherName [] "put the host into the certificate of `xds.tls.certFile`";
    "CERT_SIGNER_DOMAIN" NoEffectNeeded [] "see the task `ca`";
    "USE_CACERTS_FOR_SELF_SIGNED_CA" NoEffectNeeded [] "see the task `ca`";
    "CA_TRUSTED_NODE_ACCOUNTS" NoEffectNeeded [] "see the task `ca`";
    "PILOT_CA_CERT_CONFIGMAP" NoEffectNeeded [] "see the task `ca`";
    "PILOT_CRL_CONFIGMAP" NoEffectNeeded [] "see the task `ca`";
    "PILOT_ENABLE_CA_CRL" NoEffectNeeded [] "see the task `ca`";
    "ENABLE_CLUSTER_TRUST_BUNDLE_API" NoEffectNeeded [] "see the task `ca`";
    "ROOT_CA_DIR" NoEffectNeeded [] "see the task `ca`";
    "USE_REMOTE_CERTS" NoEffectNeeded [] "see the task `ca`";
    "DEFAULT_WORKLOAD_CERT_TTL" NoEffectNeeded [] "see the task `ca`";
    "MAX_WORKLOAD_CERT_TTL" NoEffectNeeded [] "see the task `ca`";
    "CITADEL_SELF_SIGNED_CA_CERT_TTL" NoEffectNeeded [] "see the task `ca`";
    "CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL" NoEffectNeeded [] "see the task `ca`";
    "CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE" NoEffectNeeded [] "see the task `ca`";
    "CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR" NoEffectNeeded [] "see the task `ca`";
    "CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE" NoEffectNeeded [] "see the task `ca`";
    "EXTERNAL_CA" NoEffectNeeded [] "see the task `ca`";
    "K8S_SIGNER" NoEffectNeeded [] "see the task `ca`";
    "INJECT_ENABLED" NoEffectNeeded [] "see the task `injection`";
    "INJECTION_WEBHOOK_CONFIG_NAME" NoEffectNeeded [] "see the task `injection`";
    "ENABLE_NATIVE_SIDECARS" NoEffectNeeded [] "see the task `injection`";
    "VALIDATION_WEBHOOK_CONFIG_NAME" NoEffectNeeded [] "see the task `validation`";
    "PILOT_JWT_ENABLE_REMOTE_JWKS" Honoured ["true", "hybrid", "envoy"] "sidecars fetch key sets themselves; declare their hosts as services";
    "PILOT_JWT_PUB_KEY_REFRESH_INTERVAL" Refused ["", "20m", "20m0s"] "sidecars fetch key sets every five minutes";
    "JWKS_RESOLVER_INSECURE_SKIP_VERIFY" Refused ["false"] "sidecars fetch key sets; `tls` of a DestinationRule decides how";
    "BLOCKED_CIDRS_IN_JWKS_URIS" NoEffectNeeded [] "the server fetches no key sets";
}

rows! {
    /// Variables of what Envoy is sent, of telemetry, gateways and ambient mode.
    DATA_PLANE:
    "PILOT_HTTP10" Refused ["false"] "HTTP/1.0 is not accepted; an EnvoyFilter can set it";
    "PILOT_DNS_CARES_UDP_MAX_QUERIES" Refused [""] "Envoy's own default; an EnvoyFilter can set it";
    "PILOT_DNS_JITTER_DURATION" Refused [""] "Envoy's own default; an EnvoyFilter can set it";
    "PILOT_DISABLE_MX_ALPN" NoEffectNeeded [] "metadata of peers is not exchanged";
    "PILOT_ENABLE_ALPN_FILTER" NoEffectNeeded [] "protocols are detected without Istio's filter";
    "PILOT_ENABLE_METADATA_EXCHANGE" NoEffectNeeded [] "see the task `telemetry`";
    "PILOT_MX_ADDITIONAL_LABELS" NoEffectNeeded [] "see the task `telemetry`";
    "PILOT_ENABLE_TELEMETRY_LABEL" NoEffectNeeded [] "see the task `telemetry`";
    "PILOT_ENDPOINT_TELEMETRY_LABEL" NoEffectNeeded [] "see the task `telemetry`";
    "PILOT_AGENT_MERGE_ENVOY_STATS" NoEffectNeeded [] "read by the agent";
    "PILOT_TRACE_SAMPLING" OtherName [] "`settings.tracing.sampling`, or `defaultConfig.tracing.sampling` of the mesh configuration";
    "PILOT_ENVOY_FILTER_STATS" NoEffectNeeded [] "`tributary analyze` names patches without effect";
    "ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION" NoEffectNeeded [] "WasmPlugins are not served; see the kinds";
    "ISTIO_WASM_MAX_BINARY_SIZE_BYTES" NoEffectNeeded [] "WasmPlugins are not served; see the kinds";
    "BLOCKED_CIDRS_IN_WASM_FETCH" NoEffectNeeded [] "WasmPlugins are not served; see the kinds";
    "PILOT_ENABLE_MYSQL_FILTER" Refused ["false"] "the filter is not sent: connections are TCP; an EnvoyFilter can add it";
    "PILOT_ENABLE_REDIS_FILTER" Refused ["false"] "the filter is not sent: connections are TCP; an EnvoyFilter can add it";
    "PILOT_ENABLE_MONGO_FILTER" NoEffectNeeded [] "the filter is not sent: connections are TCP and lack its statistics; an EnvoyFilter can add it";
    "PILOT_SIDECAR_USE_REMOTE_ADDRESS" Refused ["false"] "an EnvoyFilter can set it";
    "PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES" Refused ["false"] "headless services keep the addresses that clients connect to";
    "PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN" NoEffectNeeded [] "host names with a dot at the end are matched as Envoy does";
    "PREFER_DESTINATIONRULE_TLS_FOR_EXTERNAL_SERVICES" Honoured ["true"] "always on: `tls` of a DestinationRule decides";
    "ENABLE_ENHANCED_DESTINATIONRULE_MERGE" Honoured ["true"] "always on: rules with different `exportTo` are separate";
    "ENABLE_TLS_ON_SIDECAR_INGRESS" Refused ["false"] "`tls` of ingress listeners of a Sidecar has no effect";
    "PILOT_ALLOW_SIDECAR_SERVICE_INBOUND_LISTENER_MERGE" Refused ["false"] "ingress listeners of a Sidecar replace those of services";
    "ENABLE_HCM_INTERNAL_NETWORKS" Refused ["false"] "an EnvoyFilter can set it";
    "ENABLE_100_CONTINUE_HEADERS" Refused ["false"] "Envoy answers `Expect: 100-continue` itself; an EnvoyFilter can change it";
    "ENABLE_LOCALITY_WEIGHTED_LB_CONFIG" Refused ["false"] "localities have weights where a rule or the mesh sets them";
    "DISABLE_SHADOW_HOST_SUFFIX" Honoured ["true"] "always on: mirrored requests keep their host";
    "DISABLE_TRACK_REMAINING_CB_METRICS" Refused ["true", "false"] "the remaining resources of circuit breakers are always tracked";
    "PILOT_ALLOW_ANY_DYNAMIC_DNS_MAX_HOSTS" NoEffectNeeded [] "ALLOW_ANY_DYNAMIC_DNS is served as ALLOW_ANY";
    "ENABLE_WILDCARD_HOST_SERVICE_ENTRIES_FOR_TLS" Refused ["false"] "a host that a client names is not resolved";
    "ENVOY_STATUS_PORT_ENABLE_PROXY_PROTOCOL" NoEffectNeeded [] "read for proxies' bootstraps";
    "PILOT_ENABLE_QUIC_LISTENERS" NoEffectNeeded [] "see the task `gateways`";
    "PILOT_SCOPE_GATEWAY_TO_NAMESPACE" Refused ["false"] "Gateways for routers apply in every namespace";
    "PILOT_FILTER_GATEWAY_CLUSTER_CONFIG" NoEffectNeeded [] "routers receive the xDS clusters that they use";
    "PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT" NoEffectNeeded [] "see the task `gateways`";
    "PILOT_ENABLE_STRICT_GATEWAY_MERGING" NoEffectNeeded [] "see the task `gateways`";
    "PILOT_ENABLE_GATEWAY_API" NoEffectNeeded [] "see the task `gateways`";
    "PILOT_ENABLE_ALPHA_GATEWAY_API" NoEffectNeeded [] "see the task `gateways`";
    "PILOT_ENABLE_GATEWAY_API_STATUS" NoEffectNeeded [] "see the task `gateways`";
    "PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER" NoEffectNeeded [] "see the task `gateways`";
    "PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER" NoEffectNeeded [] "see the task `gateways`";
    "PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS" NoEffectNeeded [] "see the task `gateways`";
    "PILOT_GATEWAY_API_DEFAULT_GATEWAYCLASS_NAME" NoEffectNeeded [] "see the task `gateways`";
    "PILOT_GATEWAY_API_CONTROLLER_NAME" NoEffectNeeded [] "see the task `gateways`";
    "ENABLE_GATEWAY_API_MANUAL_DEPLOYMENT" NoEffectNeeded [] "see the task `gateways`";
    "ENABLE_SELECTOR_BASED_K8S_GATEWAY_POLICY" NoEffectNeeded [] "see the task `gateways`";
    "ENABLE_GATEWAY_API_INFERENCE_EXTENSION" Refused ["false"] "InferencePools are not served";
    "PILOT_ENABLE_AGENTGATEWAY" Refused ["false"] "agentgateways are not served";
    "K8S_INGRESS_NS" NoEffectNeeded [] "see the task `gateways`";
    "PILOT_ENABLE_NODE_UNTAINT_CONTROLLERS" NoEffectNeeded [] "see the task `cni`";
    "PILOT_NODE_UNTAINT_CONTROLLERS_TAINT_NAME" NoEffectNeeded [] "see the task `cni`";
    "PILOT_ENABLE_AMBIENT" NoEffectNeeded [] "see the task `ambient`";
    "PILOT_ENABLE_AMBIENT_WAYPOINTS" NoEffectNeeded [] "see the task `ambient`";
    "PILOT_ENABLE_SENDING_HBONE" NoEffectNeeded [] "see the task `ambient`";
    "PILOT_ENABLE_SIDECAR_LISTENING_HBONE" NoEffectNeeded [] "see the task `ambient`";
    "PILOT_PREFER_SENDING_HBONE" NoEffectNeeded [] "see the task `ambient`";
    "PILOT_AUTO_ALLOW_WAYPOINT_POLICY" NoEffectNeeded [] "see the task `ambient`";
    "PILOT_HBONE_INITIAL_STREAM_WINDOW_SIZE" NoEffectNeeded [] "see the task `ambient`";
    "PILOT_HBONE_INITIAL_CONNECTION_WINDOW_SIZE" NoEffectNeeded [] "see the task `ambient`";
    "AMBIENT_ENABLE_STATUS" NoEffectNeeded [] "see the task `ambient`";
    "AMBIENT_ENABLE_MULTI_NETWORK" NoEffectNeeded [] "see the task `ambient`";
    "AMBIENT_ENABLE_MULTI_NETWORK_WAYPOINT" NoEffectNeeded [] "see the task `ambient`";
    "AMBIENT_ENABLE_MULTI_NETWORK_INGRESS" NoEffectNeeded [] "see the task `ambient`";
    "AMBIENT_ENABLE_BAGGAGE" NoEffectNeeded [] "see the task `ambient`";
    "AMBIENT_SCOPED_ADDRESS_PUSHES" NoEffectNeeded [] "see the task `ambient`";
    "AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY" NoEffectNeeded [] "see the task `ambient`";
    "ENABLE_INGRESS_WAYPOINT_ROUTING" NoEffectNeeded [] "see the task `ambient`";
    "ENABLE_LAYERED_WAYPOINT_AUTHORIZATION_POLICIES" NoEffectNeeded [] "see the task `ambient`";
}

/// Every table.
pub const TABLES: [&[Row]; 3] = [DISCOVERY, SECURITY, DATA_PLANE];

/// Returns the row of a variable.
#[must_use]
pub fn find(name: &str) -> Option<&'static Row> {
    TABLES.into_iter().flatten().find(|row| row.name == name)
}
