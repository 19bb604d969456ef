//! The steps of `tributary serve`: load, build, bind, run, drain. `main` calls them in that order.
//!
//! Loading and building bind nothing and start nothing, so a mistake ends the process before
//! anything is served. A source that is down is no mistake: it is waited for while others serve.

use tokio::signal::unix::{SignalKind, signal as listen};

use crate::args::ServeArgs;
use crate::config::{Loaded, check, layer, load as load_config};
use crate::environment::Environment;
use crate::exit::CommandError;
use crate::overlay;
use crate::telemetry::{self, LogLevel};
use crate::wiring::App;
use crate::wiring::factories::Factories;

/// The configuration of all layers; one without a registry is a mistake.
pub fn load(args: &ServeArgs, env: &Environment) -> Result<Loaded, CommandError> {
    let file = file(args, env);
    let loaded = load_config(file.as_deref(), env, &|config, origins| overlay::apply(args, config, origins))?;
    check::serves(loaded)
}

/// Starts the log.
pub fn log(loaded: &Loaded) -> Result<LogLevel, CommandError> {
    let level = telemetry::start(&loaded.config.log)?;
    if !loaded.strangers.is_empty() {
        let names = loaded.strangers.join(", ");
        tracing::debug!(names, "variables that look like fields of the configuration and are none");
    }
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok(level)
}

/// Puts the parts together; reads certificates, binds nothing.
pub fn build(
    args: &ServeArgs,
    env: &Environment,
    loaded: Loaded,
    log: LogLevel,
) -> Result<App, CommandError> {
    install_crypto();
    let (args, env) = (args.clone(), env.clone());
    let path = file(&args, &env);
    let factories = Factories::new(env.clone());
    let layers =
        move |file: &_| layer(Some(file), &env, &|config, origins| overlay::apply(&args, config, origins));
    App::build(loaded, path, Box::new(layers), factories, log)
}

fn file(args: &ServeArgs, env: &Environment) -> Option<std::path::PathBuf> {
    args.config.clone().or_else(|| env.get("TRIBUTARY_CONFIG").map(Into::into))
}

/// Names the one provider of cryptography, before anything makes a TLS configuration: clients that
/// are built with defaults would otherwise not know which to take. Saying it twice changes nothing.
pub fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Waits for SIGTERM or Ctrl-C. A process that cannot listen for signals runs until it is killed.
pub async fn signal() {
    let (Ok(mut term), Ok(mut int)) = (listen(SignalKind::terminate()), listen(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
