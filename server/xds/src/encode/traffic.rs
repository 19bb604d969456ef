//! Settings of DestinationRules in a `Cluster` (docs/reference/xds.md#clusters).
//!
//! Called for the cluster of a port or subset to which a rule applies. gRPC gets the parts that it reads.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::cluster::{self, LbConfig, LbPolicy, SlowStartConfig};
use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster, OutlierDetection as Ejection, UpstreamConnectionOptions, circuit_breakers::Thresholds,
};
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::r#type::v3::Percent;
use envoy_types::pb::google::protobuf::{UInt32Value, UInt64Value};
use tributary_answer::{ClusterPlan, LoadBalancing};
use tributary_model::{ConnectionPool, Keepalive, OutlierDetection, TrafficPolicy, Warmup};

use super::duration;

/// Sets what a rule sets, and the load balancing policy.
pub(super) fn apply(body: &mut Cluster, plan: &ClusterPlan<'_>) {
    balance(body, plan);
    let Some(policy) = plan.policy else { return };
    if let Some(pool) = &policy.pool {
        limit(body, pool);
    }
    if let Some(outliers) = &policy.outliers {
        eject(body, outliers);
    }
}

/// Returns the options of HTTP that a rule sets.
pub(super) fn http_options(policy: Option<&TrafficPolicy>) -> Option<core::HttpProtocolOptions> {
    let pool = policy?.pool.as_ref()?;
    let options = core::HttpProtocolOptions {
        idle_timeout: pool.idle_timeout.map(duration),
        max_connection_duration: pool.max_duration.map(duration),
        max_requests_per_connection: pool.max_requests_per_connection.map(number),
        ..core::HttpProtocolOptions::default()
    };
    (options != core::HttpProtocolOptions::default()).then_some(options)
}

fn balance(body: &mut Cluster, plan: &ClusterPlan<'_>) {
    body.lb_policy = match plan.balancing {
        LoadBalancing::LeastRequest => LbPolicy::LeastRequest,
        LoadBalancing::RoundRobin => LbPolicy::RoundRobin,
        LoadBalancing::Random => LbPolicy::Random,
        LoadBalancing::RingHash(_) => LbPolicy::RingHash,
        LoadBalancing::Maglev(_) => LbPolicy::Maglev,
        LoadBalancing::ByType => LbPolicy::ClusterProvided,
    }
    .into();
    let balancer = plan.policy.and_then(|policy| policy.balancer.as_ref());
    let warmup = balancer.and_then(|balancer| balancer.warmup).filter(|_| !plan.grpc);
    if let Some(config) = config(plan.balancing, warmup) {
        body.lb_config = Some(config);
    }
    if plan.weighs_localities {
        use cluster::common_lb_config::{LocalityConfigSpecifier, LocalityWeightedLbConfig};
        let weighted = LocalityConfigSpecifier::LocalityWeightedLbConfig(LocalityWeightedLbConfig {});
        body.common_lb_config.get_or_insert_default().locality_config_specifier = Some(weighted);
    }
}

fn config(balancing: LoadBalancing, warmup: Option<Warmup>) -> Option<LbConfig> {
    let slow_start_config = warmup.map(slow_start);
    match balancing {
        LoadBalancing::LeastRequest if slow_start_config.is_some() => {
            Some(LbConfig::LeastRequestLbConfig(cluster::LeastRequestLbConfig {
                slow_start_config,
                ..<_>::default()
            }))
        }
        LoadBalancing::RoundRobin if slow_start_config.is_some() => {
            Some(LbConfig::RoundRobinLbConfig(cluster::RoundRobinLbConfig { slow_start_config }))
        }
        LoadBalancing::RingHash(size) => size.map(|size| {
            let minimum_ring_size = Some(UInt64Value { value: size });
            LbConfig::RingHashLbConfig(cluster::RingHashLbConfig { minimum_ring_size, ..<_>::default() })
        }),
        LoadBalancing::Maglev(size) => size.map(|size| {
            LbConfig::MaglevLbConfig(cluster::MaglevLbConfig {
                table_size: Some(UInt64Value { value: size }),
            })
        }),
        _ => None,
    }
}

/// Envoy requires the name of a runtime key, which is not set here.
fn slow_start(warmup: Warmup) -> SlowStartConfig {
    let parts = |thousandths: u32| f64::from(thousandths) / 1_000.0;
    SlowStartConfig {
        slow_start_window: Some(duration(warmup.duration)),
        aggression: warmup.aggression.map(|aggression| core::RuntimeDouble {
            default_value: parts(aggression),
            runtime_key: "tributary.slow_start.aggression".into(),
        }),
        min_weight_percent: warmup.minimum.map(|minimum| Percent { value: parts(minimum) }),
    }
}

fn limit(body: &mut Cluster, pool: &ConnectionPool) {
    let breakers = body.circuit_breakers.get_or_insert_default();
    if let Some(thresholds) = breakers.thresholds.first_mut() {
        thresholds_of(thresholds, pool);
    }
    if let Some(keepalive) = pool.keepalive {
        body.upstream_connection_options = Some(UpstreamConnectionOptions {
            tcp_keepalive: Some(keepalive_of(keepalive)),
            ..UpstreamConnectionOptions::default()
        });
    }
}

fn thresholds_of(thresholds: &mut Thresholds, pool: &ConnectionPool) {
    let set = |field: &mut Option<UInt32Value>, value: Option<u32>| {
        if let Some(value) = value {
            *field = Some(number(value));
        }
    };
    set(&mut thresholds.max_connections, pool.max_connections);
    set(&mut thresholds.max_pending_requests, pool.max_pending);
    set(&mut thresholds.max_requests, pool.max_requests);
    set(&mut thresholds.max_retries, pool.max_retries);
}

fn keepalive_of(keepalive: Keepalive) -> core::TcpKeepalive {
    let seconds =
        |time: Option<Duration>| time.map(|time| number(u32::try_from(time.as_secs()).unwrap_or(u32::MAX)));
    core::TcpKeepalive {
        keepalive_probes: keepalive.probes.map(number),
        keepalive_time: seconds(keepalive.time),
        keepalive_interval: seconds(keepalive.interval),
    }
}

/// Success rates eject nothing, as in Istio: with few endpoints they mean little.
fn eject(body: &mut Cluster, outliers: &OutlierDetection) {
    let enforced = |errors: Option<u32>| errors.map(|errors| number(if errors > 0 { 100 } else { 0 }));
    let local = outliers.local_failures.filter(|failures| outliers.splits_local && *failures > 0);
    body.outlier_detection = Some(Ejection {
        consecutive_5xx: outliers.server_errors.map(number),
        enforcing_consecutive_5xx: enforced(outliers.server_errors),
        consecutive_gateway_failure: outliers.gateway_errors.map(number),
        enforcing_consecutive_gateway_failure: enforced(outliers.gateway_errors),
        interval: outliers.interval.map(duration),
        base_ejection_time: outliers.ejection_time.map(duration),
        max_ejection_percent: outliers.max_ejected.map(number),
        enforcing_success_rate: Some(number(0)),
        split_external_local_origin_errors: outliers.splits_local,
        consecutive_local_origin_failure: local.map(number),
        enforcing_consecutive_local_origin_failure: enforced(local),
        enforcing_local_origin_success_rate: outliers.splits_local.then(|| number(0)),
        ..Ejection::default()
    });
    let panic = Percent { value: outliers.min_healthy.into() };
    body.common_lb_config.get_or_insert_default().healthy_panic_threshold = Some(panic);
}

const fn number(value: u32) -> UInt32Value {
    UInt32Value { value }
}
