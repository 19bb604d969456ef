//! The one check of what `serve` needs before it binds a port, beyond the values that `config::load` checks.
//!
//! `App::build`, `config validate` and each reload call it, so that none of them passes what another refuses. It reads the
//! certificates of the listeners and opens no connection.

use super::certificates::Certificates;
use super::factories::Factories;
use crate::config::errors::join;
use crate::config::{Loaded, check};
use crate::exit::CommandError;

/// Checks that there is a registry, that each can be built, and that the certificates can be used. Reports every error.
pub fn check(loaded: &Loaded, factories: &Factories) -> Result<(), CommandError> {
    check::serves(loaded)?;
    let of_listeners = [Certificates::of, Certificates::of_remote_admin];
    let certificates = of_listeners.into_iter().map(|of| of(loaded).map(drop));
    join(built(loaded, factories).chain(certificates).filter_map(Result::err).collect()).map_or(Ok(()), Err)
}

/// Checks the same without the certificates.
pub fn check_registries(loaded: &Loaded, factories: &Factories) -> Result<(), CommandError> {
    check::serves(loaded)?;
    join(built(loaded, factories).filter_map(Result::err).collect()).map_or(Ok(()), Err)
}

fn built<'a>(
    loaded: &'a Loaded,
    factories: &'a Factories,
) -> impl Iterator<Item = Result<(), CommandError>> + 'a {
    let registries = loaded.config.registries.iter();
    registries.map(|registry| factories.of(registry, &loaded.config).map(drop))
}
