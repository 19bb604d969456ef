//! Interface between registry adapters and the rest of Tributary: start, updates and confirm requests.
//!
//! Every adapter and the runtime depend on this crate. An adapter implements [`Registry`] and
//! [`RegistryFactory`]; the supervisor calls [`RegistryFactory::build`] once per run and hands each run a
//! [`RegistryIo`]. Updates sent to the [`UpdateSender`] leave its [`UpdateReceiver`] conflated, in an order
//! that gives the core the same state as the raw sequence.

pub mod backoff;
pub mod clock;
pub mod confirm;
pub mod credential;
pub mod differ;
pub mod error;
pub mod interner;
pub mod invalid_field;
pub mod membership;
pub mod registry;
pub mod scope_reporter;
pub mod span;
pub mod update_channel;

pub use backoff::{Backoff, BackoffPolicy, RandomSource, SplitMix};
pub use clock::{Clock, ManualClock, ProcessClock};
pub use confirm::{ConfirmReceiver, ConfirmSender, confirm_channel};
pub use credential::Credential;
pub use differ::Differ;
pub use error::{Reason, RegistryError};
pub use interner::Interned;
pub use invalid_field::InvalidField;
pub use membership::{Kind, Membership};
pub use registry::{Registry, RegistryFactory, RegistryIo};
pub use scope_reporter::{ReadFailure, Reading, ScopeReporter};
pub use span::Span;
pub use tokio_util::sync::CancellationToken;
pub use tributary_model::{RegistrySpec, SourceState, SourceStatus};
pub use update_channel::{Run, UpdateReceiver, UpdateSender, UpdateStats, Wake, update_channel};
