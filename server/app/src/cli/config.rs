//! `tributary config`: prints and checks configuration; needs no server.

use std::path::Path;

use super::Console;
use super::get::document;
use crate::args::{ConfigCommand, Output};
use crate::config::{Config, load, missing_files, schema};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::serve::install_crypto;
use crate::wiring::factories::Factories;
use crate::wiring::runnable;

/// Runs the command.
pub fn run(
    command: &ConfigCommand,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    match command {
        ConfigCommand::Schema => {
            console.data(&document(Output::Json, &schema::schema_with(env.extensions()))?)?
        }
        ConfigCommand::Default => console.data(&document(Output::Yaml, &Config::default())?)?,
        ConfigCommand::Validate { file, without_files } => validate(file, *without_files, env, console)?,
    }
    Ok(Exit::Ok)
}

fn validate(
    file: &Path,
    without_files: bool,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    let loaded = load(Some(file), env, &|_, _| Ok(()))?;
    install_crypto();
    let factories = Factories::new(env.clone());
    let missing = match without_files {
        true => runnable::check_registries(&loaded, &factories).map(|()| Vec::new())?,
        false => runnable::check(&loaded, &factories).map(|()| missing_files::warnings(&loaded.config))?,
    };
    loaded.warnings.iter().chain(&missing).for_each(|warning| console.note(&format!("warning: {warning}")));
    let registries = loaded.config.registries.len();
    let noun = if registries == 1 { "registry" } else { "registries" };
    let unread = if without_files { "; the files that it names were not read" } else { "" };
    console.note(&format!("{}: valid, {registries} {noun}{unread}", file.display()));
    Ok(())
}
