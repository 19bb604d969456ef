//! Held removals as documents, under ids that an operator passes back to release one.

use tributary_core::HeldView;
use tributary_model::{FactId, FactKey, Mono, RegistryName, Version};
use tributary_runtime::Handle;

use crate::document::HeldItem;
use crate::document::timeline::{TimelineItem, TimelineKind, TimelineObject, TimelineSeverity};

/// Returns the id of a held removal: a hash of registry and fact, equal on every replica.
#[must_use]
pub fn id(registry: &RegistryName, key: &FactKey) -> String {
    // A key consists of texts and small enumerations, so it always serializes.
    let key = serde_json::to_string(key).unwrap_or_default();
    Version::of(format!("{registry}\n{key}").as_bytes()).to_string()
}

/// Returns a held removal as a document.
#[must_use]
pub fn item(held: &HeldView, now: Mono) -> HeldItem {
    HeldItem {
        id: id(&held.registry, &held.key),
        registry: held.registry.to_string(),
        scope: held.key.scope.to_string(),
        what: describe(&held.key.item),
        reason: held.reason.to_owned(),
        confirm_attempts: held.confirm_attempts,
        since_millis_ago: now.0.saturating_sub(held.since),
    }
}

/// Returns every held removal; none once the server stops.
pub async fn held(handle: &Handle) -> Vec<HeldView> {
    handle.inspect(|core| core.held().collect()).await.unwrap_or_default()
}

/// Releases the removal of this id for an operator. Returns it, if it was held.
pub async fn release(handle: &Handle, wanted: &str, now: Mono) -> Option<HeldItem> {
    let all = held(handle).await;
    let found = all.into_iter().find(|held| id(&held.registry, &held.key) == wanted)?;
    let released = handle.release(found.registry.clone(), found.key.clone()).await;
    // The source may have confirmed or withdrawn it since the lookup.
    released.is_ok_and(|was_held| was_held).then(|| item(&found, now))
}

/// Returns the entry of the timeline about a removal that an operator released.
pub(super) fn entry(released: &HeldItem) -> TimelineItem {
    TimelineItem {
        kind: TimelineKind::Held,
        severity: TimelineSeverity::Warning,
        object: TimelineObject::new("registry", released.registry.as_str()),
        message: format!("an operator released the removal of {}", released.what),
        registry: released.registry.clone(),
        ..TimelineItem::default()
    }
}

/// Describes a fact.
pub(super) fn describe(what: &FactId) -> String {
    match what {
        FactId::Service(key) => format!("service {} of {}", key.service, key.object),
        FactId::Group(key) => format!("endpoints of {} in {}", key.service, key.object),
        FactId::Workload(key) => format!("workload {}/{} of {}", key.namespace, key.name, key.cluster),
        FactId::Gateway(key) => format!("gateway {}", key.object),
        FactId::GatewayName(name) => format!("host name {name} of gateways"),
        FactId::Settings => "settings".to_owned(),
        FactId::FederatedService(host) => format!("federated service {host}"),
        FactId::Policy(key) => key.to_string(),
        FactId::Waiting(key) => format!("waiting endpoints of {} in {}", key.service, key.object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_model::{Hostname, Scope};

    #[test]
    fn held_removal_id_is_unique_and_pinned() {
        let name = |text: &str| RegistryName::new(text).unwrap();
        let key = |scope: &str, host: &str| FactKey {
            scope: Scope::new(scope).unwrap(),
            item: FactId::FederatedService(Hostname::new(host).unwrap()),
        };
        let ids = [
            id(&name("a"), &key("s", "x.test")),
            id(&name("b"), &key("s", "x.test")),
            id(&name("a"), &key("t", "x.test")),
            id(&name("a"), &key("s", "y.test")),
        ];
        let unique: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
        assert_eq!(ids[0], PINNED, "replicas of two versions must compute the same id");
    }
    const PINNED: &str = "2e02f5c1ba85ea24";
}
