//! Flags of `pilot-discovery discovery`, one row each.

use super::{Row, rows};

rows! {
    /// Every flag of istiod, by name without dashes.
    TABLE:
    "registries" Honoured ["kubernetes", "consul", "kubernetes,consul", "consul,kubernetes"] "`--registries`, in the same format; `Mock` is refused";
    "clusterRegistriesNamespace" OtherName [] "`systemNamespace`: Secrets of remote clusters are read there";
    "kubeconfig" Honoured [] "`--kubeconfig`";
    "meshConfig" OtherName [] "the ConfigMap `istio` of `systemNamespace` is read; a file has no effect, `settings` replaces its fields";
    "networksConfig" OtherName [] "the key `meshNetworks` of the ConfigMap `istio`, or `settings.networks`";
    "namespace" OtherName [] "`systemNamespace`, `--system-namespace`";
    "n" OtherName [] "`systemNamespace`, `--system-namespace`";
    "cniNamespace" NoEffectNeeded [] "no node is untainted; see the task `cni`";
    "shutdownDuration" OtherName [] "`drain.timeout`, `--drain-timeout`";
    "configDir" OtherName [] "`registries: [{kind: file, path: DIR}]`";
    "domain" Honoured [] "`--domain`, `settings.domain`";
    "clusterID" OtherName [] "`clusterId`, `--cluster-id`";
    "clusterAliases" Refused [""] "a cluster has one ID: give clients and Secrets that ID";
    "httpAddr" OtherName [] "`health.listen` has health and metrics, `admin.listen` the debug pages; readiness is `/readyz`";
    "httpsAddr" NoEffectNeeded [] "no webhooks are served; see the tasks `injection` and `validation`";
    "grpcAddr" OtherName [] "`xds.listen`; plain text is for loopback alone";
    "secureGRPCAddr" OtherName [] "`xds.listen` with `xds.tls`";
    "monitoringAddr" OtherName [] "`health.listen`, path `/metrics`";
    "profile" Refused ["false"] "profiles are off by default; admin.profile turns `/debug/profile` on";
    "caCertFile" OtherName [] "`xds.tls.clientCaFile`";
    "tlsCertFile" OtherName [] "`xds.tls.certFile`";
    "tlsKeyFile" OtherName [] "`xds.tls.keyFile`";
    "tls-cipher-suites" Refused [""] "the suites of TLS 1.3 and the strong ones of TLS 1.2 are used, and cannot be chosen";
    "tls-min-version" Honoured ["1.2", "tlsv1_2", "tlsv1.2"] "TLS 1.2 is the lowest version, and cannot be raised";
    "kubernetesApiQPS" NoEffectNeeded [] "one list and one watch for each kind; the server's own flow control applies";
    "kubernetesApiBurst" NoEffectNeeded [] "one list and one watch for each kind; the server's own flow control applies";
    "keepaliveInterval" NoEffectNeeded [] "keepalive of connections is fixed";
    "keepaliveTimeout" NoEffectNeeded [] "keepalive of connections is fixed";
    "keepaliveMaxServerConnectionAge" OtherName [] "`xds.maxConnectionAge`";
    "log_output_level" OtherName [] "`log.level`, `--log`, with targets of Tributary";
    "log_as_json" OtherName [] "`log.format`, `--log-format json`";
    "log_target" NoEffectNeeded [] "logs go to standard error";
    "log_rotate" NoEffectNeeded [] "logs go to standard error";
    "log_rotate_max_age" NoEffectNeeded [] "logs go to standard error";
    "log_rotate_max_backups" NoEffectNeeded [] "logs go to standard error";
    "log_rotate_max_size" NoEffectNeeded [] "logs go to standard error";
    "log_stacktrace_level" NoEffectNeeded [] "logs have no stack traces";
    "log_caller" NoEffectNeeded [] "each line has its target";
    "ctrlz_port" NoEffectNeeded [] "there is no introspection server; `log.level` is applied on reload";
    "ctrlz_address" NoEffectNeeded [] "there is no introspection server; `log.level` is applied on reload";
    "vklog" NoEffectNeeded [] "log level of a library that is not used";
}

/// Returns the row of a flag.
#[must_use]
pub fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}

/// Flags without a value of their own: the argument after one is not its value.
#[must_use]
pub fn is_switch(name: &str) -> bool {
    ["profile", "log_as_json"].contains(&name)
}
