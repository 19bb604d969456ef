//! Forms of resources that do not exist, for clients that would wait for them (docs/reference/xds.md#resources-that-do-not-exist).
//!
//! Sessions send them for requested names, without the provider, which has no resource of the name.

use std::sync::Arc;

use tributary_answer::ClusterName;
use tributary_model::EncodedResource;
use tributary_proto::wire::Writer;

use crate::encode;

/// Name of the assignment of xDS clusters that do not exist. Their own names may have assignments: an xDS cluster that a
/// rule withholds has endpoints.
const NO_ENDPOINTS: &str = "no-endpoints";

/// Builds the assignment of a name that has no endpoints or does not exist.
#[must_use]
pub fn empty_assignment(name: &str) -> Arc<EncodedResource> {
    let mut body = Writer::with_capacity(name.len() + 6);
    body.present(1, name);
    Arc::new(EncodedResource::new(name.into(), body.finish().into()))
}

/// Builds an xDS cluster without endpoints; `None` if the name is not that of a service's xDS cluster.
pub(crate) fn absent_cluster(name: &str) -> Option<Arc<EncodedResource>> {
    name.parse::<ClusterName>().ok()?;
    let body = encode::cluster::by_assignment(name, NO_ENDPOINTS);
    Some(Arc::new(EncodedResource::new(name.into(), body.into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
    use prost::Message;

    #[test]
    fn empty_assignment_has_only_its_name() {
        let long = "n".repeat(300);
        for name in ["outbound|80||pay.shop", "", &long] {
            let encoded = empty_assignment(name);
            let body = encoded.body().unwrap();
            let message = ClusterLoadAssignment::decode(&body[..]).unwrap();
            let expected = ClusterLoadAssignment { cluster_name: name.into(), ..Default::default() };
            assert_eq!((message, &*encoded.name), (expected, name));
        }
    }

    #[test]
    fn absent_cluster_never_has_the_assignment_of_its_name() {
        let name = "outbound|80|v2|pay.shop";
        let encoded = absent_cluster(name).unwrap();
        let message = Cluster::decode(encoded.body().unwrap()).unwrap();
        let assignment = message.eds_cluster_config.unwrap().service_name;
        assert_eq!((&*message.name, &*assignment), (name, "no-endpoints"));
        assert!(assignment.parse::<ClusterName>().is_err(), "no service has it");
        for foreign in ["pay.shop", "PassthroughCluster", ""] {
            assert!(absent_cluster(foreign).is_none(), "{foreign:?}");
        }
    }
}
