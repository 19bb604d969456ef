//! Namespace: its labels, and its annotation for its Services.

use serde::de::IgnoredAny;
use tributary_model::TrafficDistribution;

use super::meta::Meta;
use crate::interner::Interner;
use crate::kind::Kind;

/// Annotation of a Service or a Namespace that sets the traffic distribution.
pub(crate) const TRAFFIC_DISTRIBUTION: &str = "networking.istio.io/traffic-distribution";

/// Namespace with the used fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Metadata.
    pub meta: Meta,
    /// Traffic distribution for Services without their own, if annotated.
    pub traffic: Option<TrafficDistribution>,
}

impl Namespace {
    /// Decodes the object.
    pub fn parse(json: &str) -> Result<Self, String> {
        let (metadata, IgnoredAny, IgnoredAny) = super::read::read_object(json)?;
        let traffic = metadata.annotation(TRAFFIC_DISTRIBUTION).map(TrafficDistribution::parse);
        Ok(Self { meta: metadata.meta(Kind::Namespace)?, traffic })
    }
    /// Replaces values by their shared copies.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
    }
}
