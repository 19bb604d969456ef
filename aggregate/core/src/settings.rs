//! Mesh-wide values from all registries, folded into one: the config file's win, per field.
//!
//! Filled by the store; read by merge and published with the catalog.

use std::sync::Arc;

use tributary_model::{Hostname, ObjectId, Provider, Settings, Shared};

use crate::shards::{ShardId, Shards};

/// Whether the settings say of a host that it is served within its own cluster only: an exact host
/// goes before a `*.` suffix, a longer suffix before a shorter one.
pub(crate) fn cluster_local(settings: &Settings, host: &Hostname) -> Option<bool> {
    let said = settings.cluster_local.iter().flat_map(|list| list.iter());
    let matching = said.filter(|(pattern, _)| {
        let suffix = pattern.as_str().strip_prefix('*');
        pattern == host || suffix.is_some_and(|suffix| host.as_str().ends_with(suffix))
    });
    matching.max_by_key(|(pattern, _)| (pattern == host, pattern.as_str().len())).map(|(_, local)| *local)
}

/// The values of each shard, and what they come to.
#[derive(Debug, Default)]
pub(crate) struct SettingsTable {
    said: Vec<(ShardId, Arc<Settings>)>,
    /// What they come to.
    pub(crate) effective: Shared<Settings>,
}

impl SettingsTable {
    /// What a shard says.
    pub(crate) fn get(&self, shard: ShardId) -> Option<&Arc<Settings>> {
        self.said.iter().find(|(id, _)| *id == shard).map(|(_, value)| value)
    }
    /// A shard says this.
    pub(crate) fn put(&mut self, shard: ShardId, value: Arc<Settings>) {
        self.said.retain(|(id, _)| *id != shard);
        self.said.push((shard, value));
    }
    /// A shard says nothing any more.
    pub(crate) fn remove(&mut self, shard: ShardId) -> Option<Arc<Settings>> {
        let at = self.said.iter().position(|(id, _)| *id == shard)?;
        Some(self.said.swap_remove(at).1)
    }
    /// Folds what is said; whether that came to something else.
    pub(crate) fn fold(&mut self, shards: &Shards) -> bool {
        let none = ObjectId::new("", "", "");
        let mut said: Vec<_> =
            self.said.iter().filter_map(|(id, value)| Some((shards.get(*id)?, value))).collect();
        said.sort_by(|(a, _), (b, _)| {
            let behind = |i: &crate::shards::ShardInfo| i.shard.registry.provider != Provider::Config;
            behind(a).cmp(&behind(b)).then_with(|| a.claim(None, &none).order(&b.claim(None, &none)))
        });
        let folded = said.iter().fold(Settings::default(), |over, (_, value)| over.over(value));
        let changed = folded != *self.effective;
        if changed {
            self.effective = Shared::new(folded);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_pattern_decides() {
        let host = |text: &str| Hostname::new(text).unwrap();
        let list = [("*.svc", true), ("*.shop.svc", false), ("pay.shop.svc", true)];
        let list = list.map(|(pattern, local)| (host(pattern), local));
        let settings = Settings { cluster_local: Some(list.into()), ..Settings::default() };
        let cases = [
            ("a.svc", Some(true)),
            ("a.shop.svc", Some(false)),
            ("pay.shop.svc", Some(true)),
            ("svc.org", None),
        ];
        for (text, want) in cases {
            assert_eq!(cluster_local(&settings, &host(text)), want, "{text}");
        }
    }
}
