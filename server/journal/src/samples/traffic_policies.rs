//! Random DestinationRules.

use super::*;

type Texts = Arc<[(Arc<str>, Arc<str>)]>;

fn texts() -> BoxedStrategy<Texts> {
    vec((text(), text()), 0..3).prop_map(Into::into).boxed()
}
fn number() -> BoxedStrategy<Option<u32>> {
    of(any::<u32>()).boxed()
}
fn span() -> BoxedStrategy<Option<Duration>> {
    of(prop_oneof![Just(Duration::ZERO), duration()]).boxed()
}
fn hash_key() -> BoxedStrategy<HashKey> {
    let cookie = (text(), text(), span(), texts()).prop_map(|(name, path, ttl, attributes)| HashCookie {
        name,
        path,
        ttl,
        attributes,
    });
    prop_oneof![
        text().prop_map(HashKey::Header),
        cookie.prop_map(HashKey::Cookie),
        Just(HashKey::SourceIp),
        text().prop_map(HashKey::Query)
    ]
    .boxed()
}
fn algorithm() -> BoxedStrategy<Algorithm> {
    let plain = vec![
        Algorithm::Usual,
        Algorithm::LeastRequest,
        Algorithm::Random,
        Algorithm::RoundRobin,
        Algorithm::Passthrough,
    ];
    prop_oneof![
        select(plain),
        (hash_key(), of(any::<u64>())).prop_map(|(key, size)| Algorithm::RingHash(key, size)),
        (hash_key(), of(any::<u64>())).prop_map(|(key, size)| Algorithm::Maglev(key, size)),
    ]
    .boxed()
}
pub(super) fn locality() -> BoxedStrategy<LocalityBalancing> {
    let label = (text(), of(text())).prop_map(|(key, value)| FailoverLabel { key, value });
    let failover = (texts(), vec(label, 0..3))
        .prop_map(|(regions, labels)| LocalityBalancing::Failover { regions, labels: labels.into() });
    let share = (text(), vec((text(), any::<u32>()), 0..3))
        .prop_map(|(from, to)| Distribution { from, to: to.into() });
    let distribute = vec(share, 0..3).prop_map(|shares| LocalityBalancing::Distribute(shares.into()));
    prop_oneof![Just(LocalityBalancing::Off), failover, distribute].boxed()
}
fn balancer() -> BoxedStrategy<LoadBalancer> {
    let warmup = (duration(), number(), number()).prop_map(|(duration, minimum, aggression)| Warmup {
        duration,
        minimum,
        aggression,
    });
    (algorithm(), of(locality()), of(warmup))
        .prop_map(|(algorithm, locality, warmup)| LoadBalancer { algorithm, locality, warmup })
        .boxed()
}
fn pool() -> BoxedStrategy<ConnectionPool> {
    let keepalive =
        (number(), span(), span()).prop_map(|(probes, time, interval)| Keepalive { probes, time, interval });
    let numbers = (number(), number(), number(), number(), number(), number());
    let http = select(vec![PoolHttp::OfPort, PoolHttp::Upgrade, PoolHttp::OfClient]);
    (numbers, (span(), span(), span(), span()), of(keepalive), http)
        .prop_map(|(numbers, spans, keepalive, http)| ConnectionPool {
            max_connections: numbers.0,
            connect_timeout: spans.0,
            keepalive,
            max_duration: spans.1,
            idle_timeout: spans.2,
            tcp_idle_timeout: spans.3,
            max_pending: numbers.1,
            max_requests: numbers.2,
            max_requests_per_connection: numbers.3,
            max_retries: numbers.4,
            max_streams: numbers.5,
            http,
        })
        .boxed()
}
fn outliers() -> BoxedStrategy<OutlierDetection> {
    let numbers = (number(), number(), number(), number(), any::<u32>());
    (numbers, any::<bool>(), span(), span())
        .prop_map(|(numbers, splits_local, interval, ejection_time)| OutlierDetection {
            server_errors: numbers.0,
            gateway_errors: numbers.1,
            local_failures: numbers.2,
            splits_local,
            interval,
            ejection_time,
            max_ejected: numbers.3,
            min_healthy: numbers.4,
        })
        .boxed()
}
fn tls() -> BoxedStrategy<ClientTls> {
    let settings = (of(text()), of(text()), vec(text(), 0..3), of(text()), any::<bool>());
    let settings = settings.prop_map(|(authorities, revoked, names, sni, insecure)| TlsSettings {
        authorities,
        revoked,
        names: names.into(),
        sni,
        insecure,
    });
    let settings = settings.boxed();
    prop_oneof![
        Just(ClientTls::Disable),
        settings.clone().prop_map(ClientTls::Simple),
        settings.clone().prop_map(ClientTls::IstioMutual),
        (settings, text(), text()).prop_map(|(of, certificate, key)| ClientTls::Mutual(of, certificate, key)),
    ]
    .boxed()
}
fn policy() -> BoxedStrategy<TrafficPolicy> {
    (of(balancer()), of(pool()), of(outliers()), of(tls()))
        .prop_map(|(balancer, pool, outliers, tls)| TrafficPolicy {
            balancer: balancer.map(Arc::new),
            pool: pool.map(Arc::new),
            outliers: outliers.map(Arc::new),
            tls: tls.map(Arc::new),
        })
        .boxed()
}
fn policies() -> BoxedStrategy<PortPolicies> {
    (policy(), btree_map(port(), policy(), 0..3))
        .prop_map(|(all, ports)| PortPolicies::new(all, ports))
        .boxed()
}

/// Any DestinationRule.
pub(super) fn destination_rule() -> BoxedStrategy<Policy> {
    let name = name().prop_map(|name| Subset::new(&name).unwrap());
    let subset = (name, labels(), policies()).prop_map(|(name, labels, policies)| SubsetRule {
        name,
        labels,
        policies,
    });
    let host = prop_oneof![Just(HostPattern::new("*").unwrap()), host().prop_map(HostPattern::from)];
    (host, export(), labels(), policies(), vec(subset, 0..3), vec(text(), 0..3))
        .prop_map(|(host, export, selector, policies, subsets, ignored)| {
            let (subsets, ignored) = (subsets.into(), ignored.into());
            Policy::DestinationRule(DestinationRule { host, export, selector, policies, subsets, ignored })
        })
        .boxed()
}
