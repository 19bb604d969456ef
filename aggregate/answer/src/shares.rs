//! Whether a share of `distribute` leads clients to endpoints.
//!
//! The conditions of services and of DestinationRules call it, on request.

use tributary_model::{Distribution, EndpointInputs, Labels};

use crate::endpoints::has_labels;

/// Endpoints in the places of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    /// There are no endpoints at all.
    WithoutEndpoints,
    /// No endpoint is in one of the places: requests fail.
    Missed,
    /// An endpoint is in one of the places.
    Reached,
}

/// Returns whether endpoints with the labels of a subset, or any endpoints, are in the places of a share; counts the
/// endpoints that are compared.
pub(crate) fn places(
    inputs: &EndpointInputs,
    subset: Option<&Labels>,
    share: &Distribution,
    compared: &mut usize,
) -> Places {
    let mut found = Places::WithoutEndpoints;
    for source in inputs.sources.iter() {
        let addresses = &source.group.addresses;
        *compared += addresses.len();
        let own = addresses.iter().filter(|at| subset.is_none_or(|labels| has_labels(source, at, labels)));
        for locality in own.map(|address| &address.topology.locality) {
            if share.to.iter().any(|(place, _)| locality.matches(place)) {
                return Places::Reached;
            }
            found = Places::Missed;
        }
    }
    found
}
