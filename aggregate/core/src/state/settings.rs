//! Mesh-wide values from all registries, folded into one: the config file's win, per field.
//!
//! Filled by the store; read by merge and published with the catalog.

use std::sync::Arc;

use tributary_model::{ObjectId, Provider, Settings, Shared};

use crate::state::shards::{ShardId, Shards};

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
            let behind = |i: &crate::state::shards::ShardInfo| i.shard.registry.provider != Provider::Config;
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
