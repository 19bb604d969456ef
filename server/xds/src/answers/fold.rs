//! What folds of composites share: whose claims count, and what has changed.
//!
//! A fold leads the tables of one generation to those of another, for one class. It reads nothing
//! but the two catalogs, so that its outcome does not depend on the way.

use std::cmp::Ordering;
use std::sync::Arc;

use tributary_answer::members::Difference;
use tributary_answer::{leading, precedence, resolve};
use tributary_model::{Catalog, Hostname, PortNumber, PortView, ServiceView};

use super::ClientClassKey;
use super::store::Store;
use crate::encode::route::Unclaimed;

/// What a fold reads beside the tables: where to keep what is encoded, and who asks of what.
#[derive(Clone, Copy)]
pub(crate) struct Fold<'a> {
    pub(crate) store: &'a Store,
    pub(crate) class: &'a ClientClassKey,
    pub(crate) catalog: &'a Catalog,
}

impl<'a> Fold<'a> {
    /// The service that the class means by a host.
    pub(crate) fn view(&self, host: &Hostname) -> Option<&'a Arc<ServiceView>> {
        resolve(self.catalog, host.as_str(), self.class.namespace.as_ref(), &mut ())
    }
    /// A port of that service.
    pub(crate) fn port(&self, host: &Hostname, number: PortNumber) -> Option<&'a PortView> {
        self.view(host)?.port(number)
    }
    /// Whether a host is another name for what the class means by `end`.
    pub(crate) fn leads(&self, host: &Hostname, end: &Hostname) -> bool {
        let namespace = self.class.namespace.as_ref();
        self.view(end).is_some_and(|end| leading(self.catalog, host.as_str(), namespace, end).is_some())
    }
    /// The order in which two hosts' claims count.
    pub(crate) fn order(&self, a: &Hostname, b: &Hostname) -> Ordering {
        order(a, self.view(a), b, self.view(b))
    }
    /// What becomes of traffic that no service claims.
    pub(crate) fn unclaimed(&self) -> Unclaimed {
        unclaimed(self.catalog)
    }
}

/// What becomes of traffic that no service claims.
pub(crate) fn unclaimed(catalog: &Catalog) -> Unclaimed {
    if catalog.settings.block_unknown == Some(true) { Unclaimed::Block } else { Unclaimed::Pass }
}

/// The order in which two hosts' claims count. Only a host of the generation claims anything; the
/// order is total all the same.
pub(crate) fn order(
    a: &Hostname,
    view_a: Option<&Arc<ServiceView>>,
    b: &Hostname,
    view_b: Option<&Arc<ServiceView>>,
) -> Ordering {
    let by_view = match (view_a, view_b) {
        (Some(a), Some(b)) => precedence(a, b),
        (first, second) => second.is_some().cmp(&first.is_some()),
    };
    by_view.then_with(|| a.cmp(b))
}

/// Whether a service's claims count otherwise than before, though its ports may be the same.
pub(crate) fn moved(difference: &Difference<'_>) -> bool {
    match (difference.before.and_then(|v| v.first()), difference.after.and_then(|v| v.first())) {
        (Some(before), Some(after)) => before.precedence_key().order(&after.precedence_key()).is_ne(),
        _ => true,
    }
}
