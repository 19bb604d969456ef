//! Flags of `cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ipnet::IpNet;
use tributary_remote::{Allowed, Feature, parse_cidr};

use super::cluster_edit::{
    ClusterAcceptArgs, ClusterAddArgs, ClusterEditArgs, ClusterRemoveArgs, ClusterRotateArgs, ClusterWaitArgs,
};
use super::{Output, ServerArgs};

/// Commands for remote clusters.
#[derive(Debug, Clone, Subcommand)]
pub enum ClusterCommand {
    /// Check the kubeconfigs of files, or with --all every cluster that a running server knows, of its configuration, its Secrets and
    /// its directory: accepted, or the refused fields and what would allow them. Connects to no cluster without --connect. Ends with
    /// 3 if one is not accepted
    Check(ClusterCheckArgs),
    /// Describe a cluster of a running server: its state, its credential, its declarations and what its registries read
    Describe(ClusterDescribeArgs),
    /// Wait until a running server shows a cluster in a state, or nothing of it. Ends with 5 if that takes too long
    Wait(ClusterWaitArgs),
    /// Add a remote cluster: a service account with the smallest rights in it, and a Secret with its token in the config cluster.
    /// Without --apply nothing is written, and the objects of the remote cluster are printed. Ends with 3 if the checks fail
    Add(Box<ClusterAddArgs>),
    /// Replace the token of a cluster in its Secret by a new one of the same service account, after checking it
    Rotate(Box<ClusterRotateArgs>),
    /// Close the connections of a cluster; its last known facts stay served. Sets an annotation of its Secret
    Pause(ClusterEditArgs),
    /// End the pause of a cluster. Removes an annotation of its Secret
    Resume(ClusterEditArgs),
    /// Accept the cluster that answers in place of the known one, or with --rights a credential that may read less. Sets an annotation
    /// of its Secret
    Accept(ClusterAcceptArgs),
    /// Remove a cluster: sets an annotation of its Secret, waits for the receipt of the server, and deletes the key, or the Secret
    /// with its last key. --cancel ends a removal that has begun
    Remove(ClusterRemoveArgs),
}

/// Flags of `cluster describe`.
#[derive(Debug, Clone, Args)]
pub struct ClusterDescribeArgs {
    /// The cluster ID
    pub name: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Flags of `cluster check`.
#[derive(Debug, Clone, Args)]
pub struct ClusterCheckArgs {
    /// A kubeconfig, or manifests of Secrets with a kubeconfig for each key; `-` is standard input. Repeat for several
    #[arg(short = 'f', long = "file", value_name = "FILE", required_unless_present = "all")]
    pub files: Vec<PathBuf>,
    /// Every declaration that the running server reads, as the server judged it with its own settings
    #[arg(long, conflicts_with_all = ["files", "features", "servers"])]
    pub all: bool,
    /// Allow a field that is refused by default: insecure-skip-tls-verify, proxy-url, basic or impersonation. Repeat for
    /// several
    #[arg(long = "allow-kubeconfig", value_name = "FEATURE")]
    pub features: Vec<Feature>,
    /// Allow servers in a range that is refused by default, such as 127.0.0.0/8. Repeat for several
    #[arg(id = "servers", long = "allow-server-cidr", value_name = "CIDR", value_parser = parse_cidr)]
    pub servers: Vec<IpNet>,
    /// Connect to each accepted cluster, too: name, TLS, authentication, version, clock, identity, and the kinds that its credential may
    /// not list. With --all the server connects, from where it runs, also to the clusters of its configuration. Reads only
    #[arg(long)]
    pub connect: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Omit the table's header
    #[arg(long)]
    pub no_headers: bool,
    /// Server to request with --all.
    #[command(flatten)]
    pub server: ServerArgs,
}

impl ClusterCheckArgs {
    /// Returns what the flags allow.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        Allowed { features: self.features.iter().copied().collect(), servers: self.servers.clone() }
    }
}
