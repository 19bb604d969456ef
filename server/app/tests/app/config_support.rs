//! Builders of the tests of the configuration: a file with its header, and all layers over it.

use std::path::Path;

use tributary_app::args::ServeArgs;
use tributary_app::config::{ConfigFile, Loaded, layer};
use tributary_app::environment::Environment;
use tributary_app::exit::CommandError;
use tributary_app::overlay;

const HEAD: &str = "apiVersion: tributary.dev/v1alpha1\nkind: Config\n";

/// Parses a file with its header.
pub(crate) fn mk_file(body: &str) -> Result<ConfigFile, CommandError> {
    ConfigFile::parse(Path::new("t.yaml"), &format!("{HEAD}{body}"))
}

/// Applies all layers over a file.
pub(crate) fn mk_loaded(body: &str, env: Environment, args: &ServeArgs) -> Result<Loaded, CommandError> {
    layer(Some(&mk_file(body)?), &env, &|config, origins| overlay::apply(args, config, origins))
}
