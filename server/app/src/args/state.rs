//! Shape of `tributary state`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Output, ServerArgs};

/// Commands for the kept state.
#[derive(Debug, Clone, Subcommand)]
pub enum StateCommand {
    /// Show the kept state: of the running server, or of --state-dir if no server answers
    Show(StateShowArgs),
    /// Check every record of a directory that no server holds
    Verify(StateDirectoryArgs),
    /// Delete everything in a directory that no server holds
    Clear(StateDirectoryArgs),
    /// Show which facts ending a registry, a scope or a kind would remove; end it with --yes
    End(StateEndArgs),
    /// Accept a run that can read less than is served, or whose source has a new identity
    Accept(StateAcceptArgs),
}

/// Flags of `state show`.
#[derive(Debug, Clone, Args)]
pub struct StateShowArgs {
    /// The directory to read if no server answers
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Flags of `state verify` and `state clear`.
#[derive(Debug, Clone, Args)]
pub struct StateDirectoryArgs {
    /// The directory [default: as `serve` chooses it]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// Flags of `state end`.
#[derive(Debug, Clone, Args)]
pub struct StateEndArgs {
    /// The part to end. KIND is services, groups, workloads, gateways or settings
    #[arg(value_name = "REGISTRY[/SCOPE[/KIND]]")]
    pub part: String,
    /// End it. Without this flag nothing changes
    #[arg(long)]
    pub yes: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Flags of `state accept`.
#[derive(Debug, Clone, Args)]
pub struct StateAcceptArgs {
    /// The registry whose next run is accepted
    pub registry: String,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}
