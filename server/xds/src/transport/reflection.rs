//! gRPC reflection: tools list and call the services without protobuf files. It needs no authorization, and describes
//! the protocol only.

use tonic::service::Routes;
use tonic_reflection::server::Builder;

/// Adds both versions of the reflection service.
pub(crate) fn add(routes: Routes) -> Routes {
    let builder = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(tributary_descriptors::DISCOVERY)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    match (builder().build_v1(), builder().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes.add_service(v1).add_service(v1alpha),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "reflection is not served: the descriptors cannot be read");
            routes
        }
    }
}
