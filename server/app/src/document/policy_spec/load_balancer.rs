//! Specs of load balancers.

use serde_json::{Map, Value, json};
use tributary_model::{Algorithm, HashCookie, HashKey, LoadBalancer, LocalityBalancing, Warmup};

use super::{add, seconds};

/// Returns the spec of a load balancer.
pub(super) fn spec(balancer: &LoadBalancer) -> Value {
    let mut out = Map::new();
    let simple = |name: &str| ("simple", Some(json!(name)));
    let (name, value) = match &balancer.algorithm {
        Algorithm::Usual => ("simple", None),
        Algorithm::LeastRequest => simple("LEAST_REQUEST"),
        Algorithm::Random => simple("RANDOM"),
        Algorithm::RoundRobin => simple("ROUND_ROBIN"),
        Algorithm::Passthrough => simple("PASSTHROUGH"),
        Algorithm::RingHash(key, size) => {
            ("consistentHash", Some(hash(key, "ringHash", "minimumRingSize", *size)))
        }
        Algorithm::Maglev(key, size) => ("consistentHash", Some(hash(key, "maglev", "tableSize", *size))),
    };
    add(&mut out, name, value);
    add(&mut out, "localityLbSetting", balancer.locality.as_ref().map(locality));
    add(&mut out, "warmup", balancer.warmup.map(warmup));
    Value::Object(out)
}

fn hash(key: &HashKey, table: &str, of: &str, size: Option<u64>) -> Value {
    let (name, key) = match key {
        HashKey::Header(name) => ("httpHeaderName", json!(**name)),
        HashKey::Cookie(cookie) => ("httpCookie", cookie_spec(cookie)),
        HashKey::SourceIp => ("useSourceIp", json!(true)),
        HashKey::Query(name) => ("httpQueryParameterName", json!(**name)),
    };
    let size = size.map_or_else(|| json!({}), |size| json!({ of: size }));
    json!({ name: key, table: size })
}

fn cookie_spec(cookie: &HashCookie) -> Value {
    let mut out = Map::new();
    add(&mut out, "name", Some(json!(*cookie.name)));
    add(&mut out, "path", (!cookie.path.is_empty()).then(|| json!(*cookie.path)));
    add(&mut out, "ttl", cookie.ttl.map(seconds));
    let pairs = cookie.attributes.iter().map(|(name, value)| json!({"name": **name, "value": **value}));
    let attributes: Vec<Value> = pairs.collect();
    add(&mut out, "attributes", (!attributes.is_empty()).then(|| attributes.into()));
    Value::Object(out)
}

fn locality(locality: &LocalityBalancing) -> Value {
    let mut out = Map::new();
    match locality {
        LocalityBalancing::Off => add(&mut out, "enabled", Some(json!(false))),
        LocalityBalancing::Failover { regions, labels } => {
            add(&mut out, "enabled", Some(json!(true)));
            let regions = regions.iter().map(|(from, to)| json!({"from": **from, "to": **to}));
            let regions: Vec<Value> = regions.collect();
            add(&mut out, "failover", (!regions.is_empty()).then(|| regions.into()));
            let labels = labels.iter().map(|label| match &label.value {
                Some(value) => format!("{}={value}", label.key),
                None => label.key.to_string(),
            });
            let labels: Vec<String> = labels.collect();
            add(&mut out, "failoverPriority", (!labels.is_empty()).then(|| json!(labels)));
        }
        LocalityBalancing::Distribute(shares) => {
            add(&mut out, "enabled", Some(json!(true)));
            let shares = shares.iter().map(|share| {
                let to = share.to.iter().map(|(place, percent)| (place.to_string(), json!(percent)));
                json!({"from": *share.from, "to": to.collect::<Map<_, _>>()})
            });
            add(&mut out, "distribute", Some(shares.collect()));
        }
    }
    Value::Object(out)
}

/// The model has percentages and exponents in thousandths.
fn warmup(warmup: Warmup) -> Value {
    let decimal = |thousandths: u32| json!(f64::from(thousandths) / 1_000.0);
    let mut out = Map::new();
    add(&mut out, "duration", Some(seconds(warmup.duration)));
    add(&mut out, "minimumPercent", warmup.minimum.map(decimal));
    add(&mut out, "aggression", warmup.aggression.map(decimal));
    Value::Object(out)
}
