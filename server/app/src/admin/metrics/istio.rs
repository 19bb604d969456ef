//! Names that users of Istio know: each beside our metric of equal meaning, and the names that have none.
//!
//! The backend adds the samples if `metrics.istioNames` is on, from values that it has read already. A name is served only where its value
//! means what it means in Istio; [`REFUSED`] gives the reason for the others. `docs/reference/metrics.md` is generated from both.

use super::metrics;

metrics! {
    /// Metrics under names of Istio.
    TABLE "":
    XDS Gauge "pilot_xds" [] "Connected streams; without the label `version`";
    SERVICES Gauge "pilot_services" [] "Hosts of the catalog; a host of two namespaces counts once";
    XDS_PUSHES Untyped "pilot_xds_pushes" ["type"] "Responses that the transport accepted";
    XDS_PUSH_TIME Histogram "pilot_xds_push_time" ["type"] "Time from the start of building a response until the transport accepted all of it, in seconds; other buckets";
    CONVERGENCE Histogram "pilot_proxy_convergence_time" [] "Time from a source's report of a change until a response with that change, in seconds; each response counts, in other buckets";
    CONFIG_SIZE Histogram "pilot_xds_config_size_bytes" ["type"] "Size of responses, in bytes; the type is its URL";
    REJECTS Untyped "pilot_total_xds_rejects" ["type"] "Responses that clients rejected";
    CDS_REJECT Untyped "pilot_xds_cds_reject" [] "Rejected responses of CDS; without the labels `node` and `err`";
    EDS_REJECT Untyped "pilot_xds_eds_reject" [] "Rejected responses of EDS; without the labels `node` and `err`";
    LDS_REJECT Untyped "pilot_xds_lds_reject" [] "Rejected responses of LDS; without the labels `node` and `err`";
    RDS_REJECT Untyped "pilot_xds_rds_reject" [] "Rejected responses of RDS; without the labels `node` and `err`";
    EXPIRED_NONCE Untyped "pilot_xds_expired_nonce" [] "Requests with a nonce other than that of the last response";
    CLUSTERS Gauge "istiod_managed_clusters" ["cluster_type"] "Clusters: `local` is the config cluster, `remote` all others";
}

/// Our metric beside each row of the table, in its order.
pub const BESIDE: &[(&str, &str)] = &[
    ("pilot_xds", "tributary_xds_clients"),
    ("pilot_services", "tributary_services"),
    ("pilot_xds_pushes", "tributary_xds_push_duration_seconds_count"),
    ("pilot_xds_push_time", "tributary_xds_push_duration_seconds"),
    ("pilot_proxy_convergence_time", "tributary_convergence_seconds"),
    ("pilot_xds_config_size_bytes", "tributary_xds_response_bytes"),
    ("pilot_total_xds_rejects", "tributary_xds_nacks_total"),
    ("pilot_xds_cds_reject", "tributary_xds_nacks_total"),
    ("pilot_xds_eds_reject", "tributary_xds_nacks_total"),
    ("pilot_xds_lds_reject", "tributary_xds_nacks_total"),
    ("pilot_xds_rds_reject", "tributary_xds_nacks_total"),
    ("pilot_xds_expired_nonce", "tributary_xds_events_total"),
    ("istiod_managed_clusters", "tributary_cluster_state"),
];

/// Names that are not served, and why.
pub const REFUSED: &[(&str, &str)] = &[
    (
        "pilot_push_triggers",
        "its types are steps of istiod; `tributary_xds_push_triggers_total` has the kinds of change",
    ),
    (
        "pilot_inbound_updates",
        "its types are steps of istiod; `tributary_runtime_events_total` counts updates",
    ),
    (
        "istiod_remote_cluster_sync_status",
        "`synced` means the first list alone; `tributary_cluster_state` is the current state",
    ),
    (
        "remote_cluster_sync_timeouts_total",
        "no cluster delays the start of the others; `tributary_catalog_complete` is 0 while one was never read",
    ),
    ("remote_cluster_secret_events_total", "`tributary_cluster_rotations_total` counts new credentials"),
    (
        "pilot_endpoint_not_ready",
        "counts proxies that are not ready; `tributary_endpoints` has endpoints by health",
    ),
    (
        "pilot_no_ip",
        "counts proxies that no service selects; `tributary explain` shows what selects an address",
    ),
    ("endpoint_no_pod", "`tributary get registries -o wide` names each such endpoint (TRB0324)"),
    (
        "pilot_k8s_endpoints_pending_pod",
        "`tributary get registries -o wide` names each such endpoint (TRB0324)",
    ),
    ("pilot_eds_no_instances", "`tributary get services` has the number of endpoints of each"),
    (
        "pilot_conflict_outbound_listener_tcp_over_current_tcp",
        "`tributary analyze` names each conflict (TRB0409, TRB0412)",
    ),
    ("pilot_conflict_inbound_listener", "`tributary analyze` names each conflict (TRB0409, TRB0412)"),
    ("pilot_duplicate_envoy_clusters", "`tributary analyze` names each conflict (TRB0402)"),
    ("pilot_vservice_dup_domain", "`tributary analyze` names each conflict (TRB0410, TRB0454)"),
    ("pilot_destrule_subsets", "`tributary analyze` names each conflict (TRB0448)"),
    ("pilot_dns_cluster_without_endpoints", "`tributary analyze` names each such subset (TRB0447)"),
    ("pilot_virt_services", "`tributary get policies` lists them"),
    ("pilot_total_rejected_configs", "`tributary_registry_problems` has the objects that are invalid now"),
    ("pilot_debounce_time", "changes do not wait for others before they are merged"),
    ("pilot_pushcontext_init_seconds", "no state is rebuilt for a push"),
    ("pilot_proxy_queue_time", "no proxy waits in a queue"),
    ("pilot_xds_send_time", "it is part of `tributary_xds_push_duration_seconds`"),
    (
        "pilot_xds_write_timeout",
        "`tributary_xds_rejected_total` with reason `slow` counts clients that do not read",
    ),
    (
        "pilot_xds_recv_max",
        "requests have a bound; `tributary_xds_inbound_bytes` is the sum of those in work",
    ),
    ("pilot_total_xds_internal_errors", "a stream has no such errors"),
    ("pilot_sds_certificate_errors_total", "no certificates are served"),
    ("xds_cache_size", "counts entries; `tributary_xds_cached_bytes` has the size in bytes"),
    ("pilot_envoy_filter_status", "`tributary analyze` names patches without effect (TRB0460 to TRB0462)"),
    ("pilot_jwks_resolver_network_fetch_fail_total", "clients fetch the keys themselves"),
    ("pilot_k8s_cfg_events", "`tributary_runtime_events_total` counts updates of all sources"),
    ("pilot_k8s_reg_events", "`tributary_runtime_events_total` counts updates of all sources"),
    ("pilot_info", "names a version of Istio; see `tributary_build_info`"),
    ("istiod_uptime_seconds", "see `process_start_time_seconds`"),
    (
        "citadel_server_csr_count",
        "no certificates are signed; so it is with all names that begin with `citadel_`",
    ),
    (
        "sidecar_injection_requests_total",
        "no sidecars are injected; so it is with all names that begin with `sidecar_injection_`",
    ),
];
