//! Steps of `tributary serve`: load, build, bind, run, drain. `main` calls them in this order.
//!
//! Loading and building bind no port and start no task, so a mistake ends the process before it serves. An
//! unreachable source is not a mistake: its registry retries while others serve.

use tokio::signal::unix::{SignalKind, signal as listen};

use crate::args::ServeArgs;
use crate::config::{Loaded, layer, load as load_config};
use crate::environment::Environment;
use crate::exit::CommandError;
use crate::overlay;
use crate::telemetry::{self, LogLevel};
use crate::wiring::factories::Factories;
use crate::wiring::{App, runnable};

/// Returns the configuration of all layers. `build` checks what it names.
pub fn load(args: &ServeArgs, env: &Environment) -> Result<Loaded, CommandError> {
    let file = file(args, env);
    load_config(file.as_deref(), env, &|config, origins| overlay::apply(args, config, origins))
}

/// Starts the log.
pub fn log(loaded: &Loaded) -> Result<LogLevel, CommandError> {
    let level = telemetry::start(&loaded.config.log)?;
    if !loaded.unknown_variables.is_empty() {
        let names = loaded.unknown_variables.join(", ");
        tracing::debug!(names, "variables with the configuration's prefix name no field");
    }
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok(level)
}

/// Builds the parts; reads certificates, binds no port.
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
    let own = factories.clone();
    let layers = move |file: &_| {
        let loaded = layer(Some(file), &env, &|config, origins| overlay::apply(&args, config, origins))?;
        runnable::check(&loaded, &own).map(|()| loaded)
    };
    App::build(loaded, path, Box::new(layers), factories, log)
}

fn file(args: &ServeArgs, env: &Environment) -> Option<std::path::PathBuf> {
    args.config.clone().or_else(|| env.get("TRIBUTARY_CONFIG").map(Into::into))
}

/// Installs the default provider of cryptography before anything builds a TLS configuration. Repeated calls
/// have no effect.
pub fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Waits for SIGTERM or Ctrl-C. SIGHUP changes nothing, because the configuration file is watched. A process that cannot
/// install signal handlers runs until it is killed.
pub async fn signal() {
    let listeners =
        (listen(SignalKind::terminate()), listen(SignalKind::interrupt()), listen(SignalKind::hangup()));
    let (Ok(mut term), Ok(mut int), Ok(mut hangup)) = listeners else {
        return std::future::pending().await;
    };
    loop {
        tokio::select! {
            _ = term.recv() => return,
            _ = int.recv() => return,
            _ = hangup.recv() => tracing::info!("ignored SIGHUP; the configuration file is watched"),
        }
    }
}
