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
    #[arg(long, value_name = "NAME", default_value = "tributary", value_parser = role_name)]
    pub name: String,
    /// Flags that `serve` runs with.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// Checks the name of a role, which a path of the API server has.
fn role_name(text: &str) -> Result<String, String> {
    let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.' | b':');
    if text.is_empty() || text.len() > 253 || !text.bytes().all(allowed) {
        return Err("use up to 253 lower-case letters, digits, `-`, `.` and `:`".to_owned());
    }
    Ok(text.to_owned())
}
