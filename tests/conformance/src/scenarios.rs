//! The scenarios, and what each needs of a source.

mod lists;
mod load;
mod objects;
mod runs;
mod start;

use crate::harness::{Ability, Harness, Service};

/// What is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Nothing is known, then everything.
    ColdStart,
    /// The source cannot be read when the adapter starts.
    SourceDownAtStart,
    /// The source fails and recovers many times.
    ErrorStorm,
    /// A list says, wrongly, that there is nothing.
    EmptyAnswerAfterFull,
    /// Lists break off before their end.
    InterruptedRelist,
    /// A list says what is known.
    UnchangedRelist,
    /// A new run has not listed everything yet.
    NoReapBeforeCompleteList,
    /// Things are said in an unhelpful order.
    Reordering,
    /// Things are said twice.
    DuplicateDelivery,
    /// A run ends in an error or a panic and is built again.
    RestartOfAGeneration,
    /// A run that is over goes on speaking.
    LateWords,
    /// One object is not valid.
    OneBadObject,
    /// One scope cannot be read.
    OneScopeFailing,
    /// Ten times as much as usual happens at once.
    Burst,
    /// A new run takes the place of one that serves.
    Rotation,
    /// The server stops in the middle of it all.
    StopWithWorkInFlight,
}

impl Scenario {
    /// What the source must be able to do.
    #[must_use]
    pub const fn needs(self) -> &'static [Ability] {
        match self {
            Self::ColdStart
            | Self::RestartOfAGeneration
            | Self::LateWords
            | Self::Burst
            | Self::Rotation
            | Self::StopWithWorkInFlight => &[],
            Self::SourceDownAtStart | Self::ErrorStorm => &[Ability::Fail],
            Self::EmptyAnswerAfterFull => &[Ability::LieEmpty, Ability::Relist],
            Self::InterruptedRelist => &[Ability::Tear, Ability::Relist],
            Self::UnchangedRelist => &[Ability::Relist],
            Self::NoReapBeforeCompleteList => &[Ability::Tear],
            Self::Reordering => &[Ability::Reorder],
            Self::DuplicateDelivery => &[Ability::Duplicate],
            Self::OneBadObject => &[Ability::Corrupt],
            Self::OneScopeFailing => &[Ability::Parts, Ability::Fail],
        }
    }
    /// Plays it.
    pub async fn run(self, harness: &dyn Harness) {
        match self {
            Self::ColdStart => start::cold_start(harness).await,
            Self::SourceDownAtStart => start::source_down_at_start(harness).await,
            Self::ErrorStorm => start::error_storm(harness).await,
            Self::EmptyAnswerAfterFull => lists::empty_answer_after_full(harness).await,
            Self::InterruptedRelist => lists::interrupted_relist(harness).await,
            Self::UnchangedRelist => lists::unchanged_relist(harness).await,
            Self::NoReapBeforeCompleteList => lists::no_reap_before_complete_list(harness).await,
            Self::Reordering => objects::reordering(harness).await,
            Self::DuplicateDelivery => objects::duplicate_delivery(harness).await,
            Self::OneBadObject => objects::one_bad_object(harness).await,
            Self::OneScopeFailing => objects::one_scope_failing(harness).await,
            Self::RestartOfAGeneration => runs::restart_of_a_generation(harness).await,
            Self::LateWords => runs::late_words(harness).await,
            Self::Rotation => runs::rotation(harness).await,
            Self::Burst => load::burst(harness).await,
            Self::StopWithWorkInFlight => load::stop_with_work_in_flight(harness).await,
        }
    }
}

/// Three services, of which one has no endpoints.
fn mk_services() -> Vec<Service> {
    vec![Service::new("pay", 1, 1..=4), Service::new("cart", 2, 1..=3), Service::new("idle", 3, [])]
}
