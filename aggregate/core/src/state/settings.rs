//! Mesh-wide settings of all registries, combined into one value: an overriding registry takes precedence, per field.
//!
//! Written by apply, read by merge, and published with the catalog.

use std::sync::Arc;

use tributary_model::{ObjectId, Settings, Shared};

use crate::state::shards::{ShardId, Shards};

/// What of the combined settings changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingsChange {
    /// Nothing.
    Nothing,
    /// Only what the catalog carries for a restart, which no service reads.
    Carried,
    /// Values that services read.
    Values,
}

/// Settings of each shard, and the combined value.
#[derive(Debug, Default)]
pub(crate) struct SettingsTable {
    reported: Vec<(ShardId, Arc<Settings>)>,
    /// Combined value.
    pub(crate) effective: Shared<Settings>,
}

impl SettingsTable {
    /// Returns the settings of a shard.
    pub(crate) fn get(&self, shard: ShardId) -> Option<&Arc<Settings>> {
        self.reported.iter().find(|(id, _)| *id == shard).map(|(_, value)| value)
    }
    /// Sets the settings of a shard.
    pub(crate) fn put(&mut self, shard: ShardId, value: Arc<Settings>) {
        self.reported.retain(|(id, _)| *id != shard);
        self.reported.push((shard, value));
    }
    /// Removes the settings of a shard.
    pub(crate) fn remove(&mut self, shard: ShardId) -> Option<Arc<Settings>> {
        let at = self.reported.iter().position(|(id, _)| *id == shard)?;
        Some(self.reported.swap_remove(at).1)
    }
    /// Combines the settings of all shards. Returns what of the combined value changed.
    pub(crate) fn fold(&mut self, shards: &Shards) -> SettingsChange {
        let none = ObjectId::new("", "", "");
        let mut ordered: Vec<_> =
            self.reported.iter().filter_map(|(id, value)| Some((shards.get(*id)?, value))).collect();
        ordered.sort_by(|(a, _), (b, _)| {
            (b.overrides_settings.cmp(&a.overrides_settings))
                .then_with(|| a.precedence(None, &none).order(&b.precedence(None, &none)))
        });
        let folded = ordered.iter().fold(Settings::default(), |over, (_, value)| over.over(value));
        if folded == *self.effective {
            return SettingsChange::Nothing;
        }
        let carried = Settings { mesh_text: folded.mesh_text.clone(), ..Settings::clone(&self.effective) };
        let is_carried = carried == folded;
        self.effective = Shared::new(folded);
        if is_carried { SettingsChange::Carried } else { SettingsChange::Values }
    }
}
