//! The scenarios, and the abilities that each needs of a source.

mod again;
mod lists;
mod load;
mod objects;
mod runs;
mod start;
mod takes;
mod unread;

use tributary_model::WithheldCause;

use crate::harness::{Ability, Harness, Service};

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// The source becomes known after the start.
    ColdStart,
    /// The source cannot be read when the adapter starts.
    SourceDownAtStart,
    /// The source fails and recovers many times.
    ErrorStorm,
    /// A list is empty although the source holds services.
    EmptyAnswerAfterFull,
    /// Lists break off before their end.
    InterruptedRelist,
    /// A list contains only known facts.
    UnchangedRelist,
    /// A new run has not listed everything yet.
    NoReapBeforeCompleteList,
    /// Changes arrive in an unfavourable order.
    Reordering,
    /// Changes arrive twice.
    DuplicateDelivery,
    /// A run ends in an error or a panic and is built again.
    RestartOfAGeneration,
    /// A run that has ended still sends updates.
    LateUpdates,
    /// One object is not valid.
    OneBadObject,
    /// One scope cannot be read.
    OneScopeFailing,
    /// Ten times the usual number of changes happen at once.
    Burst,
    /// A new run replaces the one that serves.
    Rotation,
    /// The server stops while work is in flight.
    StopWithWorkInFlight,
    /// Permission to read something is removed and restored.
    RightTaken,
    /// Something keeps failing while the rest can be read.
    OneKindFailing,
    /// Discovery lists less than before.
    ShorterDiscovery,
    /// A run reports nothing, or reports that it can read nothing.
    SilentRun,
    /// All updates of a run arrive in one take, or each in a take of its own.
    RunInOneTake,
    /// A run ends after any of its updates, and the next run begins.
    RestartAfterAnyUpdate,
    /// Runs end while another run replaces them.
    AdoptionRaces,
    /// A scope has ended, with proof from its source. Only Consul's adapter has such a proof: its leader
    /// neither lists a namespace or partition nor has a service of it. A datacenter that is not listed may be
    /// out of reach; a missing directory may be a missing mount; kinds and namespaces of a cluster are
    /// configured, and an uninstalled kind is a complete, empty list.
    ScopeEnded,
    /// A scope is removed from the configuration.
    ScopeConfiguredAway,
    /// Another source replaces the known one.
    IdentitySwapped,
    /// The server starts again from its journal.
    JournalRestored,
}

impl Scenario {
    /// Returns the abilities that the source must have.
    #[must_use]
    pub const fn needs(self) -> &'static [Ability] {
        match self {
            Self::ColdStart
            | Self::RestartOfAGeneration
            | Self::LateUpdates
            | Self::Burst
            | Self::Rotation
            | Self::StopWithWorkInFlight
            | Self::SilentRun
            | Self::RunInOneTake
            | Self::RestartAfterAnyUpdate
            | Self::AdoptionRaces
            | Self::JournalRestored => &[],
            Self::SourceDownAtStart | Self::ErrorStorm => &[Ability::Fail],
            Self::EmptyAnswerAfterFull => &[Ability::LieEmpty, Ability::Relist],
            Self::InterruptedRelist => &[Ability::Tear, Ability::Relist],
            Self::UnchangedRelist => &[Ability::Relist],
            Self::NoReapBeforeCompleteList => &[Ability::Tear],
            Self::Reordering => &[Ability::Reorder],
            Self::DuplicateDelivery => &[Ability::Duplicate],
            Self::OneBadObject => &[Ability::Corrupt],
            Self::OneScopeFailing => &[Ability::Parts, Ability::Fail],
            Self::RightTaken => &[Ability::Refuse(WithheldCause::Forbidden)],
            Self::OneKindFailing => &[Ability::Refuse(WithheldCause::Failing)],
            Self::ShorterDiscovery => &[Ability::Shorten],
            Self::ScopeEnded => &[Ability::End],
            Self::ScopeConfiguredAway => &[Ability::Narrow],
            Self::IdentitySwapped => &[Ability::Swap],
        }
    }
    /// Runs the scenario.
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
            Self::LateUpdates => runs::late_updates(harness).await,
            Self::Rotation => runs::rotation(harness).await,
            Self::Burst => load::burst(harness).await,
            Self::StopWithWorkInFlight => load::stop_with_work_in_flight(harness).await,
            Self::RightTaken => unread::refused(harness, WithheldCause::Forbidden).await,
            Self::OneKindFailing => unread::refused(harness, WithheldCause::Failing).await,
            Self::ShorterDiscovery => unread::shorter_discovery(harness).await,
            Self::SilentRun => unread::silent_run(harness).await,
            Self::ScopeEnded => unread::scope_that_ended(harness).await,
            Self::ScopeConfiguredAway => unread::scope_configured_away(harness).await,
            Self::IdentitySwapped => unread::identity_swapped(harness).await,
            Self::RunInOneTake => takes::run_in_one_take(harness).await,
            Self::RestartAfterAnyUpdate => takes::restart_after_any_update(harness).await,
            Self::AdoptionRaces => takes::adoption_races(harness).await,
            Self::JournalRestored => again::journal_restored(harness).await,
        }
    }
}

/// Returns three services, one of them without endpoints.
fn mk_services() -> Vec<Service> {
    vec![Service::new("pay", 1, 1..=4), Service::new("cart", 2, 1..=3), Service::new("idle", 3, [])]
}
