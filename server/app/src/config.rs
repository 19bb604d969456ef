//! The configuration: read once at start, and again when its file changes.
//!
//! `load` is called by `serve`, by `config validate` and by the reload task, and promises that a
//! value that it returns can be run: shape, values and their combination have been checked, and
//! nothing has been opened or bound.

pub mod change;
pub mod check;
pub mod consul;
pub mod facts;
pub mod field_positions;
pub mod file;
pub mod istio;
pub mod kind;
pub mod layers;
pub mod merge;
pub mod model;
pub mod registry;
pub mod schema;
pub mod span;
pub mod staleness;
pub mod writes;

use std::path::Path;

pub use file::ConfigFile;
pub use kind::RegistryKind;
pub use layers::Origins;
pub use model::Config;
pub use span::Span;
pub use staleness::Staleness;

use crate::environment::Environment;
use crate::exit::CommandError;

/// A configuration that can be run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// All values, with every registry named.
    pub config: Config,
    /// Where what is not a default was set.
    pub origins: Origins,
    /// Variables that look like ours and are not.
    pub strangers: Vec<String>,
    /// What is odd and was put right: said once at start, or when the file changes.
    pub warnings: Vec<String>,
    /// Variables of an istiod that are set, and what becomes of them.
    pub istio: Vec<istio::IstioVariable>,
}

/// What flags put over everything else, with the name of the flag.
pub type Flags<'a> = &'a dyn Fn(&mut Config, &mut Origins) -> Result<(), CommandError>;

/// Reads the layers and checks the result.
pub fn load(path: Option<&Path>, env: &Environment, flags: Flags<'_>) -> Result<Loaded, CommandError> {
    let file = path.map(ConfigFile::read).transpose()?;
    layer(file.as_ref(), env, flags)
}

/// The layers over a file that was read.
pub fn layer(file: Option<&ConfigFile>, env: &Environment, flags: Flags<'_>) -> Result<Loaded, CommandError> {
    let mut origins = Origins::new();
    let base = match file {
        Some(file) => {
            let places = file.places.paths().map(|p| (p.to_owned(), file.place_of(p)));
            origins.extend(places.map(|(path, place)| (path, place.trim_end_matches(": ").to_owned())));
            file.config.clone()
        }
        None => Config::default(),
    };
    let (mut config, strangers) = layers::environment(&base, env, &mut origins)?;
    flags(&mut config, &mut origins)?;
    let istio = istio::apply(&mut config, env, &mut origins);
    let warnings = check::check(&mut config, &origins)?;
    Ok(Loaded { config, origins, strangers, warnings, istio })
}
