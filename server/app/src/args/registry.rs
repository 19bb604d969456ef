//! The values of `--registry` and `--registries`: a kind, and where, for kinds that need it.

use std::path::PathBuf;

use tributary_consul::config::Address;
use tributary_model::Code;

use crate::config::RegistryKind;
use crate::config::model::RegistryConfig;
use crate::exit::{Exit, Failure};

/// `KIND[=WHERE]`.
pub(super) fn parse_registry(text: &str) -> Result<RegistryConfig, Failure> {
    let (kind, place) = match text.split_once('=') {
        Some((kind, place)) => (kind, Some(place)),
        None => (text, None),
    };
    let kind: RegistryKind = kind.parse()?;
    let wrong = |message: &str| Err(Failure::new(Exit::Usage, Code::FLAG_INVALID, message));
    match (kind, place) {
        (RegistryKind::File, Some(place)) if !place.is_empty() => {
            Ok(RegistryConfig { path: Some(PathBuf::from(place)), ..RegistryConfig::of_kind(kind) })
        }
        (RegistryKind::File, _) => wrong("`--registry file` needs a directory: file=DIR"),
        (RegistryKind::Consul, None) => Ok(RegistryConfig::of_kind(kind)),
        (RegistryKind::Consul, Some(place)) => {
            let addresses: Vec<String> = place.split(',').map(|one| one.trim().to_owned()).collect();
            for address in &addresses {
                // The text may hold a password and is not repeated.
                Address::parse(address)
                    .map_err(|e| Failure::new(Exit::Usage, Code::FLAG_INVALID, e.to_string()))?;
            }
            Ok(RegistryConfig { addresses: Some(addresses), ..RegistryConfig::of_kind(kind) })
        }
        (RegistryKind::Kubernetes, None) => Ok(RegistryConfig::of_kind(kind)),
        (RegistryKind::Kubernetes, Some(_)) => {
            wrong("`--registry kubernetes` takes no place; see --kubeconfig and --context")
        }
    }
}

/// A kind alone; one that needs a place has to be given as `--registry`.
pub(super) fn parse_kind(text: &str) -> Result<RegistryConfig, Failure> {
    text.trim().parse::<RegistryKind>()?;
    parse_registry(text.trim())
}
