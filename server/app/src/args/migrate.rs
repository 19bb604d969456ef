//! Flags of `migrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tributary_kube_client::ConnectOptions;

use super::Output;

/// Subcommands of `migrate`.
#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// List what becomes of each flag, variable and mesh setting of an istiod, and what Tributary does not do. Ends with 3 if something that is
    /// in use would be lost
    Check(MigrateCheckArgs),
}

/// Flags of `migrate check`.
#[derive(Debug, Clone, Args)]
pub struct MigrateCheckArgs {
    /// A file with the Deployment of the istiod, as YAML or JSON, or `-` for standard input. Its mesh configuration may be in the same
    /// file, as ConfigMap. Without a file, both are read from a cluster
    #[arg(short = 'f', long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// A file with the mesh configuration: the ConfigMap, or the text of its key `mesh`
    #[arg(long, value_name = "FILE")]
    pub mesh_config: Option<PathBuf>,
    /// The namespace of the istiod
    #[arg(short, long, value_name = "NAMESPACE", default_value = "istio-system", conflicts_with = "file")]
    pub namespace: String,
    /// The revision of the istiod, where the namespace or the file has several
    #[arg(long)]
    pub revision: Option<String>,
    /// The operator's kubeconfig file [default: KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the cluster [default: the current one]
    #[arg(long, conflicts_with = "file")]
    pub context: Option<String>,
    /// List only what would be lost or is unknown
    #[arg(long)]
    pub lost: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

impl MigrateCheckArgs {
    /// Returns the options of a connection to the cluster.
    #[must_use]
    pub fn options(&self) -> ConnectOptions {
        ConnectOptions { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }
}
