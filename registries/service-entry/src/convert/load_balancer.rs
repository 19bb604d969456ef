//! Converts the load balancer of a DestinationRule.

use std::sync::Arc;

use tributary_model::{
    Algorithm, Distribution, FailoverLabel, HashCookie, HashKey, LoadBalancer, LocalityBalancing, Warmup,
};

use crate::document::Text;
use crate::document::traffic_policy::{self, ConsistentHash, Cookie, Locality, Share, Simple};

pub(super) fn balancer(document: &traffic_policy::LoadBalancer) -> LoadBalancer {
    LoadBalancer {
        algorithm: document.hash.as_ref().map_or_else(|| simple(document), algorithm),
        locality: document.locality.as_ref().map(locality),
        warmup: document.warmup.as_ref().and_then(warmup),
    }
}

fn simple(document: &traffic_policy::LoadBalancer) -> Algorithm {
    match document.simple.map(|simple| simple.value).unwrap_or_default() {
        Simple::Unspecified => Algorithm::Usual,
        Simple::LeastRequest => Algorithm::LeastRequest,
        Simple::Random => Algorithm::Random,
        Simple::RoundRobin => Algorithm::RoundRobin,
        Simple::Passthrough => Algorithm::Passthrough,
    }
}

/// Without a key a hash is random.
fn algorithm(hash: &ConsistentHash) -> Algorithm {
    let Some(key) = key(hash) else { return Algorithm::Random };
    let size = |size: Option<u64>| size.filter(|size| *size > 0);
    match (&hash.maglev, &hash.ring) {
        (Some(maglev), _) => Algorithm::Maglev(key, size(maglev.size.map(|size| size.value))),
        (None, Some(ring)) => Algorithm::RingHash(key, size(ring.size.map(|size| size.value))),
        (None, None) => Algorithm::RingHash(key, size(hash.minimum_ring.map(|size| size.value))),
    }
}

fn key(hash: &ConsistentHash) -> Option<HashKey> {
    if let Some(header) = &hash.header {
        return Some(HashKey::Header(Arc::clone(&header.value)));
    }
    if let Some(cookie) = &hash.cookie {
        return cookie_key(cookie).map(HashKey::Cookie);
    }
    if let Some(query) = &hash.query {
        return Some(HashKey::Query(Arc::clone(&query.value)));
    }
    hash.source_ip.filter(|is| is.value).map(|_| HashKey::SourceIp)
}

fn cookie_key(cookie: &Cookie) -> Option<HashCookie> {
    let attributes = cookie.attributes.iter();
    Some(HashCookie {
        name: Arc::clone(&cookie.name.as_ref()?.value),
        path: cookie.path.as_ref().map_or_else(|| "".into(), |path| Arc::clone(&path.value)),
        ttl: cookie.ttl,
        attributes: attributes.map(|(name, value)| (name.value.clone(), value.value.clone())).collect(),
    })
}

/// Distribution precedes failover.
fn locality(document: &Locality) -> LocalityBalancing {
    if document.enabled == Some(false) {
        return LocalityBalancing::Off;
    }
    if !document.distribute.is_empty() {
        return LocalityBalancing::Distribute(document.distribute.iter().filter_map(distribution).collect());
    }
    let region = |from: &Option<Text>, to: &Option<Text>| {
        Some((Arc::clone(&from.as_ref()?.value), Arc::clone(&to.as_ref()?.value)))
    };
    LocalityBalancing::Failover {
        regions: document.failover.iter().filter_map(|of| region(&of.from, &of.to)).collect(),
        labels: document.labels.iter().map(|label| FailoverLabel::read(&label.value)).collect(),
    }
}

/// Places are sorted: their order in the document has no meaning.
fn distribution(share: &Share) -> Option<Distribution> {
    let to = share
        .to
        .iter()
        .filter_map(|(place, weight)| Some((Arc::clone(&place.value), u32::try_from(weight.value).ok()?)));
    let mut to: Vec<_> = to.collect();
    to.sort();
    Some(Distribution { from: Arc::clone(&share.from.as_ref()?.value), to: to.into() })
}

fn warmup(document: &traffic_policy::Warmup) -> Option<Warmup> {
    Some(Warmup { duration: document.duration?, minimum: document.minimum, aggression: document.aggression })
}
