//! Protobuf descriptors of Envoy's API, compiled at build time from a published package.
//!
//! The xDS server answers reflection with them, so that tools such as `grpcurl` list and call the discovery service, and
//! decodes with them what it sent to a client. Values of EnvoyFilters are read, merged and encoded with them.

mod check;
mod decode;
mod merge;
mod ordered;
mod read;
mod types;

pub use decode::{Decoder, REDACTED};
pub use merge::merge;
pub use ordered::encode;
pub use read::{ReadValue, Step, ValueError, ValuePath};
pub use types::Types;

/// Encoded `FileDescriptorSet` of the discovery service and of everything that it imports.
pub const DISCOVERY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/discovery.bin"));

/// Encoded `FileDescriptorSet` of Envoy's resources, of all extensions that they may hold, and of `ClientConfig` and
/// `ConfigDump`.
const RESOURCES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/resources.bin"));

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn discovery_service_and_its_imports_are_described() {
        let set = FileDescriptorSet::decode(DISCOVERY).unwrap();
        let names: Vec<&str> = set.file.iter().map(|file| file.name()).collect();
        for file in &set.file {
            let missing = file.dependency.iter().find(|import| !names.contains(&import.as_str()));
            assert_eq!(missing, None, "{}", file.name());
        }
        let services = set.file.iter().flat_map(|file| &file.service).map(|service| service.name());
        assert_eq!(services.collect::<Vec<_>>(), ["AggregatedDiscoveryService"]);
    }
}
