//! `tributary state`: its shape.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Output, ServerArgs};

/// What can be done with what is remembered.
#[derive(Debug, Clone, Subcommand)]
pub enum StateCommand {
    /// Show what is remembered: of the running server, or of --state-dir where none answers
    Show(StateShowArgs),
    /// Check every record of a directory that no server holds
    Verify(StateDirectoryArgs),
    /// Forget everything in a directory that no server holds
    Clear(StateDirectoryArgs),
    /// Show what ending a registry, a scope or a kind of facts would take away; end it with --yes
    End(StateEndArgs),
    /// Accept a run that reads less than what is served, or whose source's identity changed
    Accept(StateAcceptArgs),
}

/// Flags of `state show`.
#[derive(Debug, Clone, Args)]
pub struct StateShowArgs {
    /// The directory that is read where no server answers
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// How it is written
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Where the server is.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Flags of `state verify` and `state clear`.
#[derive(Debug, Clone, Args)]
pub struct StateDirectoryArgs {
    /// The directory [default: as `serve` chooses it]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// How it is written
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// Flags of `state end`.
#[derive(Debug, Clone, Args)]
pub struct StateEndArgs {
    /// What ends. KIND is services, groups, workloads, gateways or settings
    #[arg(value_name = "REGISTRY[/SCOPE[/KIND]]")]
    pub part: String,
    /// End it. Without this nothing is changed
    #[arg(long)]
    pub yes: bool,
    /// How it is written
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Where the server is.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Flags of `state accept`.
#[derive(Debug, Clone, Args)]
pub struct StateAcceptArgs {
    /// The registry whose next run is taken
    pub registry: String,
    /// Where the server is.
    #[command(flatten)]
    pub server: ServerArgs,
}
