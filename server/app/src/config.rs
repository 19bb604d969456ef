//! Configuration of the server, read at start and again when its file changes.
//!
//! `load` is called by `serve`, by `config validate` and by the reload task. A value that it returns has been checked:
//! shape, values and their combinations. `wiring::runnable` then checks what it names, for all three. Loading opens no
//! connection and binds no port.

pub mod change;
pub mod check;
pub mod errors;
pub mod facts;
pub mod field_names;
pub mod field_positions;
pub mod file;
pub mod istio;
pub mod kind;
pub mod layers;
pub mod locality;
pub mod merge;
pub mod missing_files;
pub mod model;
pub mod registry;
pub mod remote_admin;
mod remotes;
pub mod schema;
pub mod secret_files;
pub mod shape;
pub mod staleness;
pub mod traces;
pub mod tracing;
pub mod tree;
pub mod writes;

use std::path::Path;

pub use file::ConfigFile;
pub use kind::RegistryKind;
pub use layers::Origins;
pub use model::Config;
pub use staleness::Staleness;
pub use tributary_registry_api::Span;

use crate::environment::Environment;
use crate::exit::CommandError;

/// Configuration that has been checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// All values, with every registry named.
    pub config: Config,
    /// Where each value that differs from its default was set.
    pub origins: Origins,
    /// Variables with the prefix `TRIBUTARY_` that name no field.
    pub unknown_variables: Vec<String>,
    /// Corrected oddities; logged at start and when the file changes.
    pub warnings: Vec<String>,
    /// Istiod variables that are set, and their effect.
    pub istio: Vec<istio::IstioVariable>,
}

/// Applies the values of flags over all other layers and records each flag's name.
pub type Flags<'a> = &'a dyn Fn(&mut Config, &mut Origins) -> Result<(), CommandError>;

/// Reads all layers and checks the result.
pub fn load(path: Option<&Path>, env: &Environment, flags: Flags<'_>) -> Result<Loaded, CommandError> {
    let file = path.map(ConfigFile::read).transpose()?;
    layer(file.as_ref(), env, flags)
}

/// Puts the layers over a file that has been read.
pub fn layer(file: Option<&ConfigFile>, env: &Environment, flags: Flags<'_>) -> Result<Loaded, CommandError> {
    let mut origins = Origins::new();
    let base = match file {
        Some(file) => {
            let positions = file.positions.paths().map(|p| (p.to_owned(), file.position_of(p)));
            origins
                .extend(positions.map(|(path, position)| (path, position.trim_end_matches(": ").to_owned())));
            file.config.clone()
        }
        None => Config::default(),
    };
    let (mut config, strangers) = layers::environment(&base, env, &mut origins)?;
    flags(&mut config, &mut origins)?;
    let istio = istio::apply(&mut config, env, &mut origins);
    let mut warnings = check::check(&mut config, &origins, env)?;
    warnings.extend(secret_files::warnings(&config, file.map(|file| &*file.path), env));
    Ok(Loaded { config, origins, unknown_variables: strangers, warnings, istio })
}
