//! Bodies of evicted resources, encoded again from the generation that they came from.

use std::sync::Arc;

use smallvec::smallvec;
use tributary_model::{Catalog, EncodedResource, Version};

use super::CatalogAnswers;
use crate::answers::fold::Start;
use crate::answers::folded_set::SetStrategy;
use crate::answers::grpc::{self, TargetRoutes, Targets};
use crate::answers::secrets::secret;
use crate::answers::singles::port_of;
use crate::answers::store::{Assignments, Clusters, ResourceFamily};
use crate::answers::{BodyChunks, ClientClassKey, ResourceSet, ResourceType, forwarding};

impl CatalogAnswers {
    /// Encodes the body of a composite again: from the tables of the base, else from those of the overlay.
    fn composite_body(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        resource: &EncodedResource,
    ) -> Option<BodyChunks> {
        let cached = self.generations.cached(catalog);
        let layer = self.generations.layer(&cached, class, kind);
        let base = self.base(&cached, &layer, class, kind);
        let is_in =
            |set: &ResourceSet| set.get(&resource.name).is_some_and(|now| now.version == resource.version);
        if is_in(&base.set) {
            return base.tables.body(self.fold(catalog, &layer.base), &resource.name);
        }
        let (fold, folded) = (self.fold(catalog, class), self.folded(catalog, class, kind));
        let again = || base.tables.overlaid(fold, Start::base(catalog, &layer)).body(fold, &resource.name);
        is_in(&folded.set).then(|| folded.tables.body(fold, &resource.name).or_else(again)).flatten()
    }
    /// Encodes the body of a resource again from the catalog.
    pub(super) fn encode_again(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        resource: &EncodedResource,
    ) -> Option<BodyChunks> {
        let name = &*resource.name;
        let body = match SetStrategy::of(kind, class) {
            SetStrategy::Clusters => Clusters::body(port_of(catalog, class, name)?, class, name)?,
            SetStrategy::Assignments => Assignments::body(port_of(catalog, class, name)?, class, name)?,
            SetStrategy::Targets => Targets::body(grpc::port_of(catalog, class, name)?, class, name)?,
            SetStrategy::TargetRoutes => TargetRoutes::body(port_of(catalog, class, name)?, class, name)?,
            SetStrategy::Listeners | SetStrategy::Routes => {
                return self.composite_body(catalog, class, kind, resource);
            }
            SetStrategy::Forwarding => forwarding::body(self.fold(catalog, class), name)?,
            SetStrategy::Secrets => secret(class, name)?.body()?.to_vec(),
            SetStrategy::Nothing => return None,
        };
        (Version::of(&body) == resource.version).then(|| smallvec![body.into()])
    }
}
