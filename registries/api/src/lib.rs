//! What a registry is to the rest of Tributary: how it is started, what it says, what it is asked.
//!
//! Owned by nobody and known to every adapter and to the runtime. An adapter implements
//! [`Registry`] and [`RegistryFactory`]; the supervisor calls [`RegistryFactory::build`] once per
//! run and hands each run a [`RegistryIo`]. What goes into the [`Inlet`] comes out of its
//! [`Outlet`] in an order that leads the core to the same state as the raw sequence would have.

pub mod asks;
pub mod backoff;
pub mod clock;
pub mod credential;
pub mod error;
pub mod inlet;
pub mod membership;
pub mod registry;
pub mod surroundings;

pub use asks::{AskSender, Asks, asks};
pub use backoff::{Backoff, BackoffPolicy, Chance, SplitMix};
pub use clock::{Clock, ManualClock, ProcessClock};
pub use credential::Credential;
pub use error::{Reason, RegistryError};
pub use inlet::{Inlet, InletStats, Outlet, Run, Wake, inlet};
pub use membership::{Kind, Membership};
pub use registry::{Registry, RegistryFactory, RegistryIo};
pub use surroundings::{Surroundings, SurroundingsReceiver, SurroundingsSender, surroundings};
pub use tokio_util::sync::CancellationToken;
pub use tributary_model::{RegistrySpec, SourceState, SourceStatus};
