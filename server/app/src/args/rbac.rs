//! Flags of `rbac`: the command line parses them, and `cli/rbac.rs` reads them.

use clap::{Args, Subcommand};

use super::ServeArgs;

/// Commands for rights.
#[derive(Debug, Clone, Subcommand)]
pub enum RbacCommand {
    /// Print the smallest roles for the enabled features, as YAML for kubectl
    Print(Box<RbacPrintArgs>),
    /// Ask the cluster for the credential's rights, and list missing and excess ones
    Verify(Box<ServeArgs>),
}

/// Flags of `rbac print`.
#[derive(Debug, Clone, Args)]
pub struct RbacPrintArgs {
    /// The service account to bind, in the system namespace
    #[arg(long, value_name = "NAME", default_value = "tributary")]
    pub account: String,
    /// Name of the roles. Outside of a system namespace other than tributary-system it is NAMESPACE:NAME, so that servers of
    /// several namespaces share no role
    #[arg(long, value_name = "NAME", default_value = "tributary")]
    pub name: String,
    /// Flags that `serve` runs with.
    #[command(flatten)]
    pub serve: ServeArgs,
}
