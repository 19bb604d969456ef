//! Metrics: one table of what exists, and samples that name its rows.
//!
//! Nothing is counted here. Values are computed when they are asked for, from state that is kept
//! anyway, so a metric cannot drift from the truth. `docs/reference/metrics.md` is made from the
//! table.

use std::collections::BTreeMap;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tributary_xds::histogram::Distribution;

/// The format that is written.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether a value may go down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It may.
    Gauge,
    /// It only grows; its name in the text ends in `_total`.
    Counter,
    /// How many values fell under each of its bounds.
    Histogram,
}

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Info {
    /// Its name, without `tributary_` and without `_total`.
    pub name: &'static str,
    /// Gauge, counter or histogram.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($id:ident $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(#[doc = $help] pub const $id: &Info = &Info { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };)*
        /// Every metric.
        pub const TABLE: &[&Info] = &[$($id),*];
    };
}

metrics! {
    BUILD_INFO Gauge "build_info" ["version"] "Always 1; the version is a label";
    READY Gauge "ready" [] "Whether clients are answered";
    CATALOG_GENERATION Gauge "catalog_generation" [] "Generation of the catalog that is served";
    CATALOG_COMPLETE Gauge "catalog_complete" [] "Whether no registry is unknown";
    REGISTRY_STATE Gauge "registry_state" ["registry", "kind", "state"] "1 for the state that a registry is in, 0 for the others";
    REGISTRY_CONFIRMED Gauge "registry_last_confirmed_timestamp_seconds" ["registry"] "When a registry's source last confirmed what it says";
    REGISTRY_GENERATION Gauge "registry_generation" ["registry"] "Run of a registry that is served";
    REGISTRY_FAILURES Gauge "registry_failures" ["registry"] "How many runs of a registry have failed in a row";
    REGISTRY_WAITING Gauge "registry_run_waiting" ["registry"] "Whether a new run of a registry waits to be accepted with `tributary state accept`";
    REGISTRY_PROBLEMS Gauge "registry_problems" ["registry"] "Objects that are quarantined";
    SOURCE_LIVE Gauge "source_live" ["registry", "scope"] "Whether a part of a registry that fails as one, such as a datacenter, is followed";
    SOURCE_MODE Gauge "source_mode" ["registry", "scope", "mode"] "1 for the way in which a part of a registry is followed, where there are several";
    SOURCE_DETAIL Gauge "source_detail" ["registry", "scope", "detail"] "What a part of a registry tells in numbers, by the names of `tributary get registries -o wide`";
    SERVICES Gauge "services" ["registry"] "Services that a registry declares";
    ENDPOINTS Gauge "endpoints" ["registry", "health"] "Endpoints of a registry, by health";
    GUARD_HELD Gauge "guard_held" ["registry"] "Removals that are held until their source confirms them";
    XDS_CLIENTS Gauge "xds_clients" ["client_kind"] "Connected streams";
    XDS_SUBSCRIPTIONS Gauge "xds_subscriptions" ["type", "client_kind"] "Subscriptions of connected streams";
    XDS_NACKED Gauge "xds_nacked" ["type"] "Connected streams whose last word on a type is a refusal";
    XDS_NACKS Counter "xds_nacks" ["type"] "Responses that clients refused";
    XDS_PUSH_SECONDS Histogram "xds_push_duration_seconds" ["type"] "How long a response took from when it was begun to be made until the transport had taken all of it";
    CONVERGENCE Histogram "convergence_seconds" ["type", "lane"] "How long it took from when a source told of a change until a response that tells it was made; lane `removal` is of turns that took an endpoint away or changed its health";
    UNEXPLAINED_EMPTY Counter "unexplained_empty" [] "Hosts that lost their last endpoint although nothing said so: no evidence, no word of the source; anything but 0 is a bug";
    CORE_EVENTS Counter "core_events" ["event"] "Events of the core: views and resource inputs built, updates without a change, updates refused at a bound";
    XDS_BYTES Histogram "xds_response_bytes" ["type"] "Sizes of responses";
    XDS_TRIGGERS Counter "xds_push_triggers" ["reason"] "Generations that were pushed, by what was another in them (one may count under several)";
    XDS_REJECTED Counter "xds_rejected" ["reason"] "Connections and streams that were refused or ended from this side";
    XDS_NOOP Counter "xds_noop_wakeups" [] "Wake-ups of streams after which no response was due";
    XDS_CACHED Gauge "xds_cached_bytes" [] "Bytes of encoded resources that are held";
    XDS_EVENTS Counter "xds_events" ["event"] "Events of sessions and the transport: requests, acks, nacks, sends, bytes_sent, …";
    RUNTIME_EVENTS Counter "runtime_events" ["event"] "Events of the core task and the supervisor: batches, updates, publications, runs, …";
    STATE_OPEN Gauge "state_open" [] "Whether what is served is remembered over a restart";
    STATE_COMMITS Counter "state_commits" [] "How often the journal was written";
    STATE_BYTES Gauge "state_bytes" [] "Length of the journal's file";
    STATE_LIVE_BYTES Gauge "state_live_bytes" [] "Bytes of what is in the journal";
    STATE_PENDING Gauge "state_pending_keys" [] "Changes that the journal has not written yet";
    STATE_COMMIT_AGE Gauge "state_last_commit_age_seconds" [] "How long ago the journal was written";
    STATE_INCOMPLETE Gauge "state_incomplete_registries" [] "Registries that are not whole on disk: left out, still to be written in full, or changed while the journal cannot be written";
    CONFIG_RELOADS Counter "config_reloads" ["result"] "Changes of the configuration file that were taken or refused";
    CONFIG_VALID Gauge "config_last_reload_successful" [] "Whether the file on disk is what runs";
}

/// A value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The row.
    pub info: &'static Info,
    /// The values of its labels, in the row's order.
    pub labels: Vec<String>,
    /// The value.
    pub value: Value,
}

/// What a metric says.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// How values are distributed.
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
    /// A value of a row.
    pub fn new(info: &'static Info, labels: &[&str], value: impl Into<Value>) -> Self {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Self { info, labels, value: value.into() }
    }
}

/// The text of these samples.
pub fn encode(samples: Vec<Sample>) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("tributary");
    registry.register_collector(Box::new(Samples(samples)));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

#[derive(Debug)]
struct Samples(Vec<Sample>);

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut by_name: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
        for sample in &self.0 {
            by_name.entry(sample.info.name).or_default().push(sample);
        }
        for samples in by_name.values() {
            let Some(info) = samples.first().map(|sample| sample.info) else { continue };
            let kind = match info.kind {
                Kind::Gauge => MetricType::Gauge,
                Kind::Counter => MetricType::Counter,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(info.name, info.help, None::<&Unit>, kind)?;
            for sample in samples {
                one(&mut metric, sample)?;
            }
        }
        Ok(())
    }
}

fn one(metric: &mut MetricEncoder<'_>, sample: &Sample) -> Result<(), std::fmt::Error> {
    let labels: Vec<(&str, &str)> =
        sample.info.labels.iter().copied().zip(sample.labels.iter().map(String::as_str)).collect();
    if labels.is_empty() { plain(metric, sample) } else { plain(&mut metric.encode_family(&labels)?, sample) }
}

fn plain(metric: &mut MetricEncoder<'_>, sample: &Sample) -> Result<(), std::fmt::Error> {
    match (&sample.value, sample.info.kind) {
        (Value::Spread(spread), _) => {
            let bound = |(bound, count): &(Option<f64>, u64)| (bound.unwrap_or(f64::INFINITY), *count);
            let buckets: Vec<(f64, u64)> = spread.buckets.iter().map(bound).collect();
            metric.encode_histogram::<NoLabelSet>(spread.sum, spread.count(), &buckets, None)
        }
        (Value::Number(value), Kind::Counter) => metric.encode_counter::<NoLabelSet, f64, u64>(value, None),
        (Value::Number(value), Kind::Gauge | Kind::Histogram) => metric.encode_gauge(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_openmetrics() {
        let samples = vec![
            Sample::new(ENDPOINTS, &["file", "HEALTHY"], 3.0),
            Sample::new(READY, &[], 1.0),
            Sample::new(ENDPOINTS, &["fi\"le", "UNHEALTHY"], 1.0),
            Sample::new(XDS_EVENTS, &["nacks"], 2.0),
        ];
        let text = encode(samples).unwrap();
        assert!(text.contains("# TYPE tributary_endpoints gauge\n"), "{text}");
        assert!(text.contains("tributary_endpoints{registry=\"file\",health=\"HEALTHY\"} 3.0\n"), "{text}");
        assert!(text.contains("registry=\"fi\\\"le\""), "{text}");
        assert!(text.contains("tributary_ready 1.0\n"), "{text}");
        assert!(text.contains("tributary_xds_events_total{event=\"nacks\"} 2.0\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert_eq!(text.matches("# TYPE tributary_endpoints ").count(), 1, "one descriptor per metric");
    }

    #[test]
    fn buckets_add_up_and_the_last_has_no_bound() {
        let spread = Distribution { buckets: vec![(Some(0.5), 2), (Some(1.0), 3), (None, 1)], sum: 7.5 };
        let text = encode(vec![Sample::new(XDS_PUSH_SECONDS, &["eds"], spread)]).unwrap();
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
    fn names_follow_the_conventions() {
        for info in TABLE {
            assert!(!info.name.ends_with("_total") && !info.name.starts_with("tributary"), "{}", info.name);
            assert!(!info.help.ends_with('.'), "{}", info.name);
        }
        let mut names: Vec<_> = TABLE.iter().map(|info| info.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
    }
}
