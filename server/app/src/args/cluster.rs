//! Flags of `cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ipnet::IpNet;
use tributary_remote::{Allowed, Feature, parse_cidr};

use super::Output;

/// Commands for remote clusters.
#[derive(Debug, Clone, Subcommand)]
pub enum ClusterCommand {
    /// Check the kubeconfigs of files: accepted, or the refused fields and what would allow them. Connects to no server
    /// without --connect. Ends with 3 if one is not accepted
    Check(ClusterCheckArgs),
}

/// Flags of `cluster check`.
#[derive(Debug, Clone, Args)]
pub struct ClusterCheckArgs {
    /// A kubeconfig, or manifests of Secrets with a kubeconfig for each key; `-` is standard input. Repeat for several
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Allow a field that is refused by default: insecure-skip-tls-verify, proxy-url, basic or impersonation. Repeat for
    /// several
    #[arg(long = "allow-kubeconfig", value_name = "FEATURE")]
    pub features: Vec<Feature>,
    /// Allow servers in a range that is refused by default, such as 127.0.0.0/8. Repeat for several
    #[arg(long = "allow-server-cidr", value_name = "CIDR", value_parser = parse_cidr)]
    pub servers: Vec<IpNet>,
    /// Connect to each accepted cluster, too: its version, its identity, and the kinds that its credential may not list.
    /// Reads only
    #[arg(long)]
    pub connect: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Omit the table's header
    #[arg(long)]
    pub no_headers: bool,
}

impl ClusterCheckArgs {
    /// Returns what the flags allow.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        Allowed { features: self.features.iter().copied().collect(), servers: self.servers.clone() }
    }
}
