//! Metrics: tables of all metrics, and samples that name their rows.
//!
//! The backend reads every value from counters that are kept where they change.
//! `docs/reference/metrics.md` is generated from the tables, and a test compares dashboards and alerts with them.

pub mod format;
pub mod istio;

use std::collections::{BTreeMap, BTreeSet};

pub use format::Format;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tributary_xds::histogram::Distribution;

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// May decrease.
    Gauge,
    /// Only increases; its name in the text ends in `_total`.
    Counter,
    /// Distribution over buckets.
    Histogram,
    /// Only increases, and its name has no ending: a counter of another program whose name is kept.
    Untyped,
}

/// Row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Info {
    /// Start of the name, such as `tributary_`.
    pub prefix: &'static str,
    /// Rest of the name, without `_total`.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Labels.
    pub labels: &'static [&'static str],
    /// Help text.
    pub help: &'static str,
}

impl Info {
    /// Returns the whole name, without the ending of counters.
    #[must_use]
    pub fn family(&self) -> String {
        format!("{}{}", self.prefix, self.name)
    }
    /// Returns the name in the text; that of a histogram also has endings.
    #[must_use]
    pub fn in_text(&self) -> String {
        let ending = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{}{ending}", self.prefix, self.name)
    }
}

macro_rules! metrics {
    ($(#[$about:meta])* $table:ident $prefix:literal:
     $($id:ident $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: &$crate::admin::metrics::Info = &$crate::admin::metrics::Info {
                prefix: $prefix,
                name: $name,
                kind: $crate::admin::metrics::Kind::$kind,
                labels: &[$($label),*],
                help: $help,
            };
        )*
        $(#[$about])*
        pub const $table: &[&$crate::admin::metrics::Info] = &[$($id),*];
    };
}
use metrics;

metrics! {
    /// Standard metrics of a process, where the system has them.
    PROCESS "process_":
    PROCESS_CPU Counter "cpu_seconds" [] "CPU time of the process, in seconds";
    PROCESS_MEMORY Gauge "resident_memory_bytes" [] "Resident memory of the process, in bytes";
    PROCESS_START Gauge "start_time_seconds" [] "Unix time at which the process started, in seconds";
    PROCESS_FILES Gauge "open_fds" [] "Open file descriptors of the process";
    PROCESS_MOST_FILES Gauge "max_fds" [] "Most open file descriptors of the process";
}

metrics! {
    /// Every metric of Tributary.
    TABLE "tributary_":
    BUILD_INFO Gauge "build_info" ["version"] "Always 1; the version is a label";
    READY Gauge "ready" [] "1 if clients are answered, else 0";
    CATALOG_GENERATION Gauge "catalog_generation" [] "Generation of the served catalog";
    CATALOG_COMPLETE Gauge "catalog_complete" [] "1 if no registry is Unknown, else 0";
    REGISTRY_STATE Gauge "registry_state" ["registry", "kind", "state"] "1 for the current state of a registry, 0 for its other states";
    REGISTRY_CONFIRMED Gauge "registry_last_confirmed_timestamp_seconds" ["registry"] "Unix time at which a registry's source last confirmed the served facts, in seconds";
    REGISTRY_GENERATION Gauge "registry_generation" ["registry"] "Generation of a registry's served run";
    REGISTRY_FAILURES Gauge "registry_failures" ["registry"] "Consecutive failed runs of a registry";
    REGISTRY_WAITING Gauge "registry_run_waiting" ["registry"] "1 if a new run of a registry waits for `tributary state accept`, else 0";
    REGISTRY_PROBLEMS Gauge "registry_problems" ["registry"] "Quarantined objects, and objects of kinds that are not served";
    SCOPE_LIVE Gauge "scope_live" ["registry", "scope"] "1 if a scope of a registry, such as a datacenter, is live, else 0";
    SCOPE_MODE Gauge "scope_mode" ["registry", "scope", "mode"] "1 for the current watch mode of a scope, if it has several modes";
    SCOPE_DETAIL Gauge "scope_detail" ["registry", "scope", "detail"] "Numeric details of a scope, by their names in `tributary get registries -o wide`";
    CLUSTER_STATE Gauge "cluster_state" ["cluster", "state"] "1 for the current state of a Kubernetes cluster, 0 for its other states; gone after its removal";
    CLUSTER_CONFIRMED Gauge "cluster_last_confirmed_timestamp_seconds" ["cluster"] "Unix time at which all that is required of a cluster was last confirmed, in seconds";
    CLUSTER_OBJECTS Gauge "cluster_objects" ["cluster", "kind"] "Objects of a Kubernetes cluster: services, workloads, addresses of gateways";
    CLUSTER_EXPIRY Gauge "cluster_credential_expiry_timestamp_seconds" ["cluster"] "Unix time at which the credential of a remote cluster expires, as it states it, in seconds; absent if it states none";
    CLUSTER_ROTATIONS Counter "cluster_rotations" ["cluster"] "Credentials of a remote cluster that its Secrets declared after the first, in use or not";
    CLUSTER_CLAIMS Gauge "cluster_claims" ["cluster", "outcome"] "Declarations of a cluster, by result: Used, Conflict, NotUsed, Refused";
    GATEWAY_NAMES Gauge "gateway_names" ["state"] "Host names of gateways: `resolved`, `failing` with the addresses of the last answer, `unresolved` without any";
    SERVICES Gauge "services" ["registry"] "Services of a registry";
    ENDPOINTS Gauge "endpoints" ["registry", "health"] "Endpoints of a registry, by health";
    REMOVALS_HELD Gauge "removals_held" ["registry"] "Held removals: unconfirmed by their source, still served";
    XDS_CLIENTS Gauge "xds_clients" ["client_kind"] "Connected streams";
    XDS_SUBSCRIPTIONS Gauge "xds_subscriptions" ["type", "client_kind"] "Subscriptions of connected streams";
    XDS_NACKED Gauge "xds_nacked" ["type"] "Connected streams with a rejected resource of a type";
    XDS_NACKS Counter "xds_nacks" ["type"] "Responses that clients rejected";
    XDS_PUSH_SECONDS Histogram "xds_push_duration_seconds" ["type"] "Time from the start of building a response until the transport accepted all of it, in seconds";
    CONVERGENCE Histogram "convergence_seconds" ["type", "change"] "Time from a source's report of a change until the response with that change, in seconds; change `removal` counts batches that removed an endpoint or changed its health";
    UNEXPLAINED_EMPTY Counter "unexplained_empty" [] "Hosts that lost their last endpoint without evidence or a report of the source; any value other than 0 is a bug";
    CORE_EVENTS Counter "core_events" ["event"] "Events of the core: views and resource inputs built, updates without a change, updates refused at a bound";
    XDS_BYTES Histogram "xds_response_bytes" ["type"] "Size of responses, in bytes";
    XDS_TRIGGERS Counter "xds_push_triggers" ["reason"] "Pushed generations, by the kind of change (one generation may count under several)";
    XDS_REJECTED Counter "xds_rejected" ["reason"] "Connections and streams that the server refused or ended";
    TOKEN_REVIEWS Counter "token_reviews" ["result"] "Tokens of clients, by result: `granted`, `refused` and `failed` are requests to clusters; `cached` needed none";
    TRACE_SPANS Counter "trace_spans" ["result"] "Spans of traces of changes, by result: `exported` to the collector, `failed` when sent to it, `dropped` at a bound";
    XDS_NOOP Counter "xds_noop_wakeups" [] "Wake-ups of streams that had nothing to send";
    XDS_CACHED Gauge "xds_cached_bytes" [] "Bytes of cached encoded resources";
    XDS_INBOUND Gauge "xds_inbound_bytes" [] "Bytes of requests that are unfinished or not handled yet";
    XDS_EVENTS Counter "xds_events" ["event"] "Events of sessions and the transport: requests, acks, nacks, sends, bytes_sent, …";
    RUNTIME_EVENTS Counter "runtime_events" ["event"] "Events of the core task and the supervisor: batches, updates, publications, runs, …";
    STATE_OPEN Gauge "state_open" [] "1 if the served state is kept across restarts, else 0";
    STATE_CONFIGURED Gauge "state_configured" [] "1 if a state directory is configured, else 0";
    STATE_COMMITS Counter "state_commits" [] "Commits of the journal";
    STATE_BYTES Gauge "state_bytes" [] "Length of the journal's file, in bytes";
    STATE_LIVE_BYTES Gauge "state_live_bytes" [] "Bytes of live records in the journal";
    STATE_PENDING Gauge "state_pending_keys" [] "Changes that the journal has not written yet";
    STATE_COMMIT_AGE Gauge "state_last_commit_age_seconds" [] "Time since the last commit of the journal, in seconds";
    STATE_INCOMPLETE Gauge "state_incomplete_registries" [] "Registries that are incomplete on disk: excluded, not yet written in full, or changed while the journal cannot be written";
    CONFIG_RELOADS Counter "config_reloads" ["result"] "Changes of the configuration file that were applied, failed in part, or were rejected; a repeated result counts once";
    CONFIG_VALID Gauge "config_last_reload_successful" [] "1 if the running configuration and certificates equal their files on disk, else 0";
}

/// Sample of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Row of the table.
    pub info: &'static Info,
    /// Values of the labels, in the row's order.
    pub labels: Vec<String>,
    /// Value.
    pub value: Value,
}

/// Value of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Number.
    Number(f64),
    /// Distribution.
    Spread(Distribution),
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<Distribution> for Value {
    fn from(value: Distribution) -> Self {
        Self::Spread(value)
    }
}

impl Sample {
    /// Creates a sample.
    pub fn new(info: &'static Info, labels: &[&str], value: impl Into<Value>) -> Self {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Self { info, labels, value: value.into() }
    }
}

/// Renders the samples as text.
pub fn encode(samples: Vec<Sample>, format: Format) -> Result<String, std::fmt::Error> {
    let untyped: BTreeSet<String> =
        samples.iter().filter(|one| one.info.kind == Kind::Untyped).map(|one| one.info.family()).collect();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Samples(samples, format)));
    let mut out = String::new();
    text::encode_registry(&mut out, &registry)?;
    if format == Format::OpenMetrics {
        text::encode_eof(&mut out)?;
        return Ok(out);
    }
    // The library writes the name that OpenMetrics has for this type, which scrapers of the older format refuse.
    let line = |name: &String, kind: &str| format!("# TYPE {name} {kind}\n");
    Ok(untyped.iter().fold(out, |out, name| out.replacen(&line(name, "unknown"), &line(name, "untyped"), 1)))
}

#[derive(Debug)]
struct Samples(Vec<Sample>, Format);

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut by_name: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
        for sample in &self.0 {
            by_name.entry(self.1.family(sample.info)).or_default().push(sample);
        }
        for (name, samples) in &by_name {
            let Some(info) = samples.first().map(|sample| sample.info) else { continue };
            let kind = match info.kind {
                Kind::Gauge => MetricType::Gauge,
                Kind::Counter => MetricType::Counter,
                Kind::Histogram => MetricType::Histogram,
                Kind::Untyped => MetricType::Unknown,
            };
            let mut metric = encoder.encode_descriptor(name, info.help, None::<&Unit>, kind)?;
            for sample in samples {
                one(&mut metric, sample, self.1)?;
            }
        }
        Ok(())
    }
}

fn one(metric: &mut MetricEncoder<'_>, sample: &Sample, format: Format) -> Result<(), std::fmt::Error> {
    let labels: Vec<(&str, &str)> =
        sample.info.labels.iter().copied().zip(sample.labels.iter().map(String::as_str)).collect();
    match labels.is_empty() {
        true => plain(metric, sample, format),
        false => plain(&mut metric.encode_family(&labels)?, sample, format),
    }
}

fn plain(metric: &mut MetricEncoder<'_>, sample: &Sample, format: Format) -> Result<(), std::fmt::Error> {
    match (&sample.value, sample.info.kind) {
        (Value::Spread(spread), _) => {
            let bound = |(bound, count): &(Option<f64>, u64)| (bound.unwrap_or(f64::INFINITY), *count);
            let buckets: Vec<(f64, u64)> = spread.buckets.iter().map(bound).collect();
            metric.encode_histogram::<NoLabelSet>(spread.sum, spread.count(), &buckets, None)
        }
        (Value::Number(value), Kind::Counter) if format == Format::OpenMetrics => {
            metric.encode_counter::<NoLabelSet, f64, u64>(value, None)
        }
        // In the older format, the ending of a counter is part of its name.
        (Value::Number(value), _) => metric.encode_gauge(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_render_as_openmetrics() {
        let samples = vec![
            Sample::new(ENDPOINTS, &["file", "HEALTHY"], 3.0),
            Sample::new(READY, &[], 1.0),
            Sample::new(ENDPOINTS, &["fi\"le", "UNHEALTHY"], 1.0),
            Sample::new(XDS_EVENTS, &["nacks"], 2.0),
        ];
        let text = encode(samples, Format::OpenMetrics).unwrap();
        assert!(text.contains("# TYPE tributary_endpoints gauge\n"), "{text}");
        assert!(text.contains("tributary_endpoints{registry=\"file\",health=\"HEALTHY\"} 3.0\n"), "{text}");
        assert!(text.contains("registry=\"fi\\\"le\""), "{text}");
        assert!(text.contains("tributary_ready 1.0\n"), "{text}");
        assert!(text.contains("tributary_xds_events_total{event=\"nacks\"} 2.0\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert_eq!(text.matches("# TYPE tributary_endpoints ").count(), 1, "one descriptor per metric");
    }

    #[test]
    fn samples_of_the_older_format_have_its_types_and_the_same_series() {
        let spread = Distribution { buckets: vec![(Some(0.5), 2), (None, 1)], sum: 7.5 };
        let samples = vec![
            Sample::new(READY, &[], 1.0),
            Sample::new(XDS_EVENTS, &["nacks"], 2.0),
            Sample::new(istio::XDS_PUSHES, &["cds"], 3.0),
            Sample::new(istio::CDS_REJECT, &[], 4.0),
            Sample::new(XDS_PUSH_SECONDS, &["eds"], spread),
        ];
        let text = encode(samples.clone(), Format::Prometheus).unwrap();
        for line in [
            "# TYPE tributary_ready gauge",
            "# HELP tributary_xds_events_total Events of sessions",
            "# TYPE tributary_xds_events_total counter",
            "# TYPE pilot_xds_pushes untyped",
            "# TYPE pilot_xds_cds_reject untyped",
            "# TYPE tributary_xds_push_duration_seconds histogram",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert!(!text.contains("# EOF") && !text.contains(" unknown\n"), "{text}");
        let series = |text: &str| -> BTreeSet<String> {
            text.lines().filter(|line| !line.starts_with('#')).map(ToOwned::to_owned).collect()
        };
        assert_eq!(series(&text), series(&encode(samples, Format::OpenMetrics).unwrap()));
    }

    #[test]
    fn histogram_buckets_are_cumulative_and_end_unbounded() {
        let spread = Distribution { buckets: vec![(Some(0.5), 2), (Some(1.0), 3), (None, 1)], sum: 7.5 };
        let spread = vec![Sample::new(XDS_PUSH_SECONDS, &["eds"], spread)];
        let text = encode(spread, Format::OpenMetrics).unwrap();
        let line = |end: &str| format!("tributary_xds_push_duration_seconds_{end}\n");
        assert!(text.contains("# TYPE tributary_xds_push_duration_seconds histogram\n"), "{text}");
        for (bound, count) in [("0.5", 2), ("1.0", 5), ("+Inf", 6)] {
            assert!(
                text.contains(&line(&format!("bucket{{le=\"{bound}\",type=\"eds\"}} {count}"))),
                "{text}"
            );
        }
        assert!(text.contains(&line("sum{type=\"eds\"} 7.5")), "{text}");
        assert!(text.contains(&line("count{type=\"eds\"} 6")), "{text}");
    }

    #[test]
    fn metric_names_follow_the_conventions() {
        for info in TABLE.iter().chain(PROCESS) {
            assert!(!info.name.ends_with("_total") && !info.name.starts_with("tributary"), "{}", info.name);
            assert!(!info.help.ends_with('.'), "{}", info.name);
            // The formats escape these in different ways.
            assert!(!info.help.contains(['"', '\\', '\n']), "{}", info.name);
        }
        let all = || TABLE.iter().chain(PROCESS).chain(istio::TABLE);
        let names: std::collections::BTreeSet<_> = all().map(|info| info.family()).collect();
        assert_eq!(names.len(), all().count());
    }
}
