//! Held removals: as the core tells them, under ids that a person can hand back to release one.

use tributary_core::HeldView;
use tributary_model::{FactId, FactKey, Mono, RegistryName, Version};
use tributary_runtime::Handle;

use crate::document::HeldItem;

/// The id of a held removal: made of what is held alone, so that it is the same on every replica.
#[must_use]
pub fn id(registry: &RegistryName, key: &FactKey) -> String {
    // A key is made of texts and small enumerations; what cannot be written has no place in it.
    let key = serde_json::to_string(key).unwrap_or_default();
    Version::of(format!("{registry}\n{key}").as_bytes()).to_string()
}

/// A held removal as a document.
#[must_use]
pub fn item(held: &HeldView, now: Mono) -> HeldItem {
    HeldItem {
        id: id(&held.registry, &held.key),
        registry: held.registry.to_string(),
        scope: held.key.scope.to_string(),
        what: words(&held.key.item),
        reason: held.reason.to_owned(),
        confirm_attempts: held.confirm_attempts,
        since_millis_ago: now.0.saturating_sub(held.since),
    }
}

/// Every held removal; none once the server stops.
pub async fn held(handle: &Handle) -> Vec<HeldView> {
    handle.inspect(|core| core.held().collect()).await.unwrap_or_default()
}

/// Lets the removal of this id happen, because a person says so; what it was, if it was held.
pub async fn release(handle: &Handle, wanted: &str, now: Mono) -> Option<HeldItem> {
    let all = held(handle).await;
    let found = all.into_iter().find(|held| id(&held.registry, &held.key) == wanted)?;
    let released = handle.release(found.registry.clone(), found.key.clone()).await;
    // Between the look and the word the source may have confirmed it, or taken it back.
    released.is_ok_and(|was_held| was_held).then(|| item(&found, now))
}

fn words(what: &FactId) -> String {
    match what {
        FactId::Service(key) => format!("service {} of {}", key.service, key.object),
        FactId::Group(key) => format!("endpoints of {} in {}", key.service, key.object),
        FactId::Workload(key) => format!("workload {}/{} of {}", key.namespace, key.name, key.cluster),
        FactId::Gateway(key) => format!("gateway {}", key.object),
        FactId::Settings => "settings".to_owned(),
        FactId::Alias(host) => format!("alias {host}"),
        FactId::Waiting(key) => format!("waiting endpoints of {} in {}", key.service, key.object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_model::{Hostname, Scope};

    #[test]
    fn an_id_tells_registries_scopes_and_things_apart_and_is_pinned() {
        let name = |text: &str| RegistryName::new(text).unwrap();
        let key = |scope: &str, host: &str| FactKey {
            scope: Scope::new(scope).unwrap(),
            item: FactId::Alias(Hostname::new(host).unwrap()),
        };
        let ids = [
            id(&name("a"), &key("s", "x.test")),
            id(&name("b"), &key("s", "x.test")),
            id(&name("a"), &key("t", "x.test")),
            id(&name("a"), &key("s", "y.test")),
        ];
        let unique: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
        assert_eq!(ids[0], PINNED, "replicas of two versions must agree on it");
    }
    const PINNED: &str = "4ba0effc19cd535e";
}
