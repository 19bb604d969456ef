//! Whether a share of `distribute` leads clients to endpoints.
//!
//! The conditions of services and of DestinationRules call it, on request.

use tributary_model::{Distribution, EndpointInputs, Labels};

use crate::endpoints::has_labels;

/// Endpoints in the places of a share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Places<'s> {
    /// There are no endpoints at all.
    WithoutEndpoints,
    /// No endpoint is in one of the places: requests fail.
    Missed,
    /// An endpoint is in some of the places, and none is in these, whose part the others receive.
    Partly(Vec<&'s str>),
    /// An endpoint is in each of the places.
    Reached,
}

/// Returns whether endpoints with the labels of a subset, or any endpoints, are in the places of a share; counts the
/// endpoints that are compared. A place without a weight needs none.
pub(crate) fn places<'s>(
    inputs: &EndpointInputs,
    subset: Option<&Labels>,
    share: &'s Distribution,
    compared: &mut usize,
) -> Places<'s> {
    let mut missed: Vec<&str> =
        share.to.iter().filter(|(_, weight)| *weight > 0).map(|(to, _)| &**to).collect();
    let (all, mut has_any) = (missed.len(), false);
    for source in inputs.sources.iter() {
        let addresses = &source.group.addresses;
        *compared += addresses.len();
        let own = addresses.iter().filter(|at| subset.is_none_or(|labels| has_labels(source, at, labels)));
        for locality in own.map(|address| &address.topology.locality) {
            has_any = true;
            missed.retain(|place| !locality.matches(place));
            if missed.is_empty() {
                return Places::Reached;
            }
        }
    }
    match missed.len() {
        _ if !has_any => Places::WithoutEndpoints,
        left if left == all => Places::Missed,
        _ => Places::Partly(missed),
    }
}
