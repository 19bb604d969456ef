//! One stream of the scripted server: the subscriptions and resources of its client, and the responses that are
//! due.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use bytes::Bytes;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use super::super::{CDS, EDS, LDS, RDS, SDS, Variant, frame};
use super::{ReceivedRequest, Table};

/// Clusters before the endpoints and routes that depend on them.
const ORDER: [&str; 5] = [CDS, EDS, LDS, RDS, SDS];

#[derive(Debug, Default)]
struct Watch {
    /// Subscribed names; `None` is the wildcard.
    names: Option<BTreeSet<String>>,
    /// Resources that the client holds: name to encoded resource.
    sent: BTreeMap<String, Vec<u8>>,
    /// Whether a response is due even without a change.
    due: bool,
}

pub(super) struct Session {
    variant: Variant,
    watches: BTreeMap<String, Watch>,
    turn: u64,
}

impl Session {
    pub(super) fn new(variant: Variant) -> Self {
        Self { variant, watches: BTreeMap::new(), turn: 0 }
    }

    /// Processes a request.
    pub(super) fn process(&mut self, bytes: Bytes) -> Result<ReceivedRequest> {
        match self.variant {
            Variant::Sotw => {
                let request = DiscoveryRequest::decode(bytes).context("decode a DiscoveryRequest")?;
                Ok(self.process_sotw(request))
            }
            Variant::Delta => {
                let request =
                    DeltaDiscoveryRequest::decode(bytes).context("decode a DeltaDiscoveryRequest")?;
                Ok(self.process_delta(request))
            }
        }
    }

    fn process_sotw(&mut self, request: DiscoveryRequest) -> ReceivedRequest {
        let first = !self.watches.contains_key(&request.type_url);
        let watch = self.watches.entry(request.type_url.clone()).or_default();
        let names =
            (!request.resource_names.is_empty()).then(|| request.resource_names.iter().cloned().collect());
        watch.due |= first || watch.names != names;
        watch.names = names;
        ReceivedRequest {
            type_url: request.type_url,
            names: request.resource_names,
            nonce: request.response_nonce,
            error: request.error_detail.map(|status| status.message),
            node: request.node.map(|node| node.id),
        }
    }

    fn process_delta(&mut self, request: DeltaDiscoveryRequest) -> ReceivedRequest {
        let first = !self.watches.contains_key(&request.type_url);
        let watch = self.watches.entry(request.type_url.clone()).or_default();
        let added = &request.resource_names_subscribe;
        if !first || !added.is_empty() {
            let wildcard = added.iter().any(|name| name == "*") || (!first && watch.names.is_none());
            watch.names = if wildcard { None } else { Some(watch.names.take().unwrap_or_default()) };
        }
        for name in added {
            watch.sent.remove(name);
            watch.names.as_mut().map(|names| names.insert(name.clone()));
        }
        for name in &request.resource_names_unsubscribe {
            watch.sent.remove(name);
            watch.names.as_mut().map(|names| names.remove(name));
        }
        watch.due |= first;
        ReceivedRequest {
            type_url: request.type_url,
            names: request.resource_names_subscribe,
            nonce: request.response_nonce,
            error: request.error_detail.map(|status| status.message),
            node: request.node.map(|node| node.id),
        }
    }

    /// Returns all responses that are due, encoded.
    pub(super) fn answers(&mut self, table: &Table) -> Vec<Bytes> {
        let mut answers = Vec::new();
        for type_url in ORDER {
            let empty = BTreeMap::new();
            let all = table.get(type_url).unwrap_or(&empty);
            let Some(watch) = self.watches.get_mut(type_url) else { continue };
            let now = wanted(watch, all);
            if !watch.due && now == watch.sent {
                continue;
            }
            self.turn += 1;
            answers.push(match self.variant {
                Variant::Sotw => sotw(type_url, self.turn, &now),
                Variant::Delta => delta(type_url, self.turn, &watch.sent, &now),
            });
            watch.sent = now;
            watch.due = false;
            if type_url == CDS {
                // A client warms a changed cluster until endpoints follow.
                self.endpoints_follow();
            }
        }
        answers
    }

    fn endpoints_follow(&mut self) {
        if let Some(watch) = self.watches.get_mut(EDS) {
            watch.due = true;
            watch.sent.clear();
        }
    }
}

fn wanted(watch: &Watch, all: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    let asked = |name: &String| watch.names.as_ref().is_none_or(|names| names.contains(name));
    all.iter().filter(|(name, _)| asked(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn any(type_url: &str, value: &[u8]) -> Any {
    Any { type_url: type_url.to_owned(), value: value.to_vec() }
}

fn sotw(type_url: &str, turn: u64, now: &BTreeMap<String, Vec<u8>>) -> Bytes {
    frame::encode(&DiscoveryResponse {
        version_info: turn.to_string(),
        resources: now.values().map(|value| any(type_url, value)).collect(),
        type_url: type_url.to_owned(),
        nonce: format!("n{turn}"),
        ..DiscoveryResponse::default()
    })
}

fn delta(
    type_url: &str,
    turn: u64,
    sent: &BTreeMap<String, Vec<u8>>,
    now: &BTreeMap<String, Vec<u8>>,
) -> Bytes {
    let fresh = now.iter().filter(|(name, value)| sent.get(*name) != Some(*value));
    let resources = fresh.map(|(name, value)| Resource {
        name: name.clone(),
        version: turn.to_string(),
        resource: Some(any(type_url, value)),
        ..Resource::default()
    });
    frame::encode(&DeltaDiscoveryResponse {
        system_version_info: turn.to_string(),
        resources: resources.collect(),
        removed_resources: sent.keys().filter(|name| !now.contains_key(*name)).cloned().collect(),
        type_url: type_url.to_owned(),
        nonce: format!("n{turn}"),
        ..DeltaDiscoveryResponse::default()
    })
}
