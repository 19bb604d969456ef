//! A server's response, in one form for both protocols, so a test reads names and versions independently of the
//! protocol.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse, Resource};
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

/// One resource of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Name; on SotW taken from the resource itself.
    pub name: String,
    /// Its own version on delta, the version of the response on SotW.
    pub version: String,
    /// The encoded resource, without its Any.
    pub value: Bytes,
}

/// One discovery response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Resource type of the response.
    pub type_url: String,
    /// Nonce that an ACK or NACK must repeat.
    pub nonce: String,
    /// `version_info` on SotW, `system_version_info` on delta.
    pub version: String,
    /// Added or changed resources.
    pub resources: Vec<Item>,
    /// Removed names (delta).
    pub removed: Vec<String>,
    /// Encoded size in bytes.
    pub size: usize,
}

/// Name of a cluster, endpoint assignment, listener or route: field 1 in each of them.
#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

impl Answer {
    /// Parses a SotW response.
    pub fn from_sotw(bytes: Bytes) -> Result<Self> {
        let size = bytes.len();
        let response = DiscoveryResponse::decode(bytes).context("decode a DiscoveryResponse")?;
        let version = response.version_info;
        let resources = response.resources.into_iter().map(|any| sotw_item(any, &version));
        Ok(Self {
            type_url: response.type_url,
            nonce: response.nonce,
            resources: resources.collect::<Result<_>>()?,
            version,
            removed: Vec::new(),
            size,
        })
    }

    /// Parses a delta response.
    pub fn from_delta(bytes: Bytes) -> Result<Self> {
        let size = bytes.len();
        let response = DeltaDiscoveryResponse::decode(bytes).context("decode a DeltaDiscoveryResponse")?;
        Ok(Self {
            type_url: response.type_url,
            nonce: response.nonce,
            version: response.system_version_info,
            resources: response.resources.into_iter().map(delta_item).collect(),
            removed: response.removed_resources,
            size,
        })
    }

    /// Returns the names of its resources.
    pub fn names(&self) -> BTreeSet<String> {
        self.resources.iter().map(|item| item.name.clone()).collect()
    }

    /// Returns the names of its resources, with their versions.
    pub fn versions(&self) -> BTreeMap<String, String> {
        self.resources.iter().map(|item| (item.name.clone(), item.version.clone())).collect()
    }

    /// Returns the resource of that name.
    pub fn item(&self, name: &str) -> Result<&Item> {
        let found = self.resources.iter().find(|item| item.name == name);
        found.ok_or_else(|| anyhow!("the answer has no {name}; it has {:?}", self.names()))
    }

    /// Returns the decoded resource of that name.
    pub fn decode<M: Message + Default>(&self, name: &str) -> Result<M> {
        M::decode(self.item(name)?.value.clone()).with_context(|| format!("decode {name}"))
    }
}

/// Parses a SotW resource; servers may wrap it in a `Resource`, which has a name of its own.
fn sotw_item(any: Any, version: &str) -> Result<Item> {
    if any.type_url.ends_with("service.discovery.v3.Resource") {
        let wrapped = Resource::decode(any.value.as_slice()).context("decode a wrapped resource")?;
        return Ok(delta_item(wrapped));
    }
    let name = Named::decode(any.value.as_slice()).context("read the name of a resource")?.name;
    Ok(Item { name, version: version.to_owned(), value: Bytes::from(any.value) })
}

fn delta_item(resource: Resource) -> Item {
    let value = resource.resource.map(|any| Bytes::from(any.value)).unwrap_or_default();
    Item { name: resource.name, version: resource.version, value }
}
