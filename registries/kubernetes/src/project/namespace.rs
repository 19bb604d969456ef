//! A Namespace: its labels and what its annotations set for its services.

use serde::de::IgnoredAny;
use tributary_model::TrafficDistribution;

use super::meta::Meta;
use crate::input::Kind;
use crate::interner::Interner;

/// How traffic prefers what is near, by annotation of a Service or a Namespace.
pub(crate) const TRAFFIC_DISTRIBUTION: &str = "networking.istio.io/traffic-distribution";

/// A Namespace, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Its metadata.
    pub meta: Meta,
    /// What is near first for services that do not say, where the annotation is there.
    pub traffic: Option<TrafficDistribution>,
}

impl Namespace {
    /// From the object's JSON.
    pub fn parse(json: &str) -> Result<Self, String> {
        let (metadata, IgnoredAny, IgnoredAny) = super::read_object(json)?;
        let traffic = metadata.annotation(TRAFFIC_DISTRIBUTION).map(TrafficDistribution::parse);
        Ok(Self { meta: metadata.meta(Kind::Namespace)?, traffic })
    }
    /// Exchanges what others have too for the shared copy.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
    }
}
