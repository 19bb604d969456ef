//! Bugs that are planted on request, to show that the invariants find them.
//!
//! None of them is in the product. Those of a reader of answers change the answers on their way ([`crate::site`]), so that the reader
//! believes what the bug would make it believe; those of runs change the updates between adapter and core ([`crate::platform`]), and one changes what is shown.

use tributary_core::RegistryStatus;
use tributary_model::{Freshness, Generation, Mono, SourceState, SourceStatus};

/// Planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A refused credential reads as an empty list.
    UnauthorizedIsEmpty,
    /// An expired version reads as an empty list.
    ResetIsEmpty,
    /// A forbidden kind reads as an empty list.
    WithheldIsEmpty,
    /// A mesh configuration that cannot be read reads as an empty one.
    MeshIsEmpty,
    /// A failed list of Secrets reads as an empty one.
    FailedListLeaves,
    /// A claim that loses is forgotten, and does not step in.
    LoserIsForgotten,
    /// The identity is read once and never again.
    IdentityOnce,
    /// A cluster that does not answer keeps what others wait for.
    FrozenBlocksOthers,
    /// A list that began again ends without the facts that it has not repeated.
    UnseenForgotten,
    /// A run counts as complete before its lists have ended.
    SwapBeforeSync,
    /// One registry of a cluster takes over alone.
    AdoptedAlone,
    /// A replaced run removes a fact of the run that replaced it.
    LateDelete,
    /// A run that takes over writes equal facts again, in another form.
    AdoptionRewrites,
    /// A run confirms its facts without an answer.
    LiveWithoutProgress,
    /// Facts of a journal count as confirmed.
    RestoredAsLive,
    /// A publication does not wake a client.
    WakeUpLost,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Self; 16] = [
        Self::UnauthorizedIsEmpty,
        Self::ResetIsEmpty,
        Self::WithheldIsEmpty,
        Self::MeshIsEmpty,
        Self::FailedListLeaves,
        Self::LoserIsForgotten,
        Self::IdentityOnce,
        Self::FrozenBlocksOthers,
        Self::UnseenForgotten,
        Self::SwapBeforeSync,
        Self::AdoptedAlone,
        Self::LateDelete,
        Self::AdoptionRewrites,
        Self::LiveWithoutProgress,
        Self::RestoredAsLive,
        Self::WakeUpLost,
    ];
}

/// Shows facts of a journal as confirmed now.
pub fn show_restored_as_live(registries: &mut [RegistryStatus], now: Mono) {
    for status in registries.iter_mut().filter(|status| status.generation == Generation(0)) {
        for collection in &mut status.collections {
            collection.freshness = Freshness::Live;
            (collection.synced, collection.confirmed) = (true, Some(now.0));
        }
        for source in status.sources.values_mut() {
            source.status = SourceStatus::new(SourceState::Live, "");
        }
    }
}
