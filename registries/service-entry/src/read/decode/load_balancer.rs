//! The fields of a load balancer: algorithm, localities and warm-up.

use super::fields::Fields;
use crate::document::traffic_policy::{
    ConsistentHash, Cookie, Failover, HashTable, LoadBalancer, Locality, Share, Simple, Warmup,
};
use crate::document::{Located, Text};
use crate::read::fault::Faults;
use crate::read::node::Node;

const SIMPLE: [(&str, Simple); 6] = [
    ("UNSPECIFIED", Simple::Unspecified),
    ("LEAST_REQUEST", Simple::LeastRequest),
    ("LEAST_CONN", Simple::LeastRequest),
    ("RANDOM", Simple::Random),
    ("ROUND_ROBIN", Simple::RoundRobin),
    ("PASSTHROUGH", Simple::Passthrough),
];
/// Largest exponent of a warm-up, in thousandths.
const MOST_AGGRESSION: u32 = 1_000_000;
/// Largest ring that Envoy accepts.
const MOST_RING: u64 = 8_388_608;

pub(super) fn decode(
    fields: &mut Fields<'_>,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) -> Option<LoadBalancer> {
    let (path, node) = fields.get("loadBalancer")?;
    let mut inner = Fields::open(node, path, faults)?;
    inner.ignored("backendUtilization", ignored);
    let before = ignored.len();
    inner.ignored("zoneAwareLbSetting", ignored);
    let is_zone_aware = ignored.len() > before;
    let simple = inner.choice("simple", &SIMPLE, faults);
    let hash_at = inner.get("consistentHash");
    let hash = hash_at.as_ref().and_then(|(path, node)| hash(node, path.clone(), faults));
    if let (Some((path, node)), Some(false)) = (hash_at, hash.as_ref().map(ConsistentHash::has_key)) {
        ignored.push(Located::new(node.at, path.as_str().into()));
    }
    let locality =
        inner.get("localityLbSetting").and_then(|(path, node)| locality(node, path, ignored, faults));
    let ramps = hash.is_none()
        && !simple.is_some_and(|simple| matches!(simple.value, Simple::Random | Simple::Passthrough));
    let warmup = warmup(&mut inner, ramps, ignored, faults);
    inner.finish(faults);
    Some(LoadBalancer { at: Located::new(node.at, ()), simple, hash, locality, is_zone_aware, warmup })
}

fn hash(node: &Node, path: String, faults: &mut Faults) -> Option<ConsistentHash> {
    let mut fields = Fields::open(node, path, faults)?;
    let hash = ConsistentHash {
        at: Located::new(node.at, ()),
        header: fields.text("httpHeaderName", faults),
        cookie: fields.get("httpCookie").and_then(|(path, node)| cookie(node, path, faults)),
        source_ip: fields.flag("useSourceIp", faults),
        query: fields.text("httpQueryParameterName", faults),
        ring: table(&mut fields, "ringHash", "minimumRingSize", MOST_RING, faults),
        maglev: table(&mut fields, "maglev", "tableSize", i64::MAX.unsigned_abs(), faults),
        minimum_ring: fields.int_in("minimumRingSize", 0..=MOST_RING, faults),
    };
    fields.finish(faults);
    Some(hash)
}

fn table(
    fields: &mut Fields<'_>,
    name: &'static str,
    size: &'static str,
    most: u64,
    faults: &mut Faults,
) -> Option<HashTable> {
    let (path, node) = fields.get(name)?;
    let mut inner = Fields::open(node, path, faults)?;
    let size = inner.int_in(size, 0..=most, faults);
    inner.finish(faults);
    Some(HashTable { at: Located::new(node.at, ()), size })
}

fn cookie(node: &Node, path: String, faults: &mut Faults) -> Option<Cookie> {
    let mut fields = Fields::open(node, path, faults)?;
    let attributes = fields.list("attributes", faults);
    let cookie = Cookie {
        at: Located::new(node.at, ()),
        name: fields.text("name", faults),
        path: fields.text("path", faults),
        ttl: fields.duration_or_zero("ttl", faults),
        attributes: attributes.into_iter().filter_map(|(path, node)| attribute(node, path, faults)).collect(),
    };
    fields.finish(faults);
    Some(cookie)
}

fn attribute(node: &Node, path: String, faults: &mut Faults) -> Option<(Text, Text)> {
    let mut fields = Fields::open(node, path, faults)?;
    let empty = || Located::new(node.at, "".into());
    let (name, value) = (fields.text("name", faults), fields.text("value", faults));
    fields.finish(faults);
    Some((name.unwrap_or_else(empty), value.unwrap_or_else(empty)))
}

/// Fields that others make without effect are kept by path.
fn locality(node: &Node, path: String, ignored: &mut Vec<Text>, faults: &mut Faults) -> Option<Locality> {
    let mut fields = Fields::open(node, path, faults)?;
    let (distribute, failover) = (fields.list("distribute", faults), fields.list("failover", faults));
    let locality = Locality {
        at: Located::new(node.at, ()),
        enabled: fields.flag("enabled", faults).map(|flag| flag.value),
        distribute: distribute.into_iter().filter_map(|(path, node)| share(node, path, faults)).collect(),
        failover: failover.into_iter().filter_map(|(path, node)| region(node, path, faults)).collect(),
        labels: fields.texts("failoverPriority", faults),
    };
    let without_effect = match (locality.enabled, locality.distribute.is_empty()) {
        (Some(false), _) => &["distribute", "failover", "failoverPriority"][..],
        (_, false) => &["failoverPriority"][..],
        (_, true) => &[],
    };
    without_effect.iter().for_each(|name| fields.ignored(name, ignored));
    fields.finish(faults);
    Some(locality)
}

fn share(node: &Node, path: String, faults: &mut Faults) -> Option<Share> {
    let mut fields = Fields::open(node, path, faults)?;
    let (from, to) = (fields.text("from", faults), fields.int_map("to", faults));
    fields.finish(faults);
    Some(Share { at: Located::new(node.at, ()), from, to })
}

fn region(node: &Node, path: String, faults: &mut Faults) -> Option<Failover> {
    let mut fields = Fields::open(node, path, faults)?;
    let (from, to) = (fields.text("from", faults), fields.text("to", faults));
    fields.finish(faults);
    Some(Failover { at: Located::new(node.at, ()), from, to })
}

/// Decodes the warm-up, of which the deprecated field is a part. `ramps`: whether the algorithm has one.
fn warmup(
    fields: &mut Fields<'_>,
    ramps: bool,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) -> Option<Warmup> {
    let old = fields.duration("warmupDurationSecs", faults);
    let old = old.map(|duration| Warmup {
        at: Located::new(duration.at, ()),
        duration: Some(duration.value),
        ..Warmup::default()
    });
    let new = fields.get("warmup").and_then(|(path, node)| {
        let mut inner = Fields::open(node, path, faults)?;
        let warmup = Warmup {
            at: Located::new(node.at, ()),
            duration: inner.duration("duration", faults).map(|duration| duration.value),
            minimum: inner.thousandths("minimumPercent", 0..=100_000, faults),
            aggression: inner.thousandths("aggression", 1..=MOST_AGGRESSION, faults),
        };
        inner.finish(faults);
        Some(warmup)
    });
    if new.is_some() || !ramps {
        fields.ignored("warmupDurationSecs", ignored);
    }
    if !ramps {
        fields.ignored("warmup", ignored);
    }
    new.or(old)
}
