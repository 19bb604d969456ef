//! Flags of `analyze`.

use std::path::PathBuf;

use clap::Args;
use tributary_model::{HostPattern, InvalidName};

use super::{Output, ServerArgs};
use crate::analyze::{Severity, Suppression};

/// Flags of `analyze`.
#[derive(Debug, Clone, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["files", "live"])))]
pub struct AnalyzeArgs {
    /// Examine the files of a directory, without a server. Services of Kubernetes and Consul and workloads are not in files:
    /// what names them is not reported as missing
    #[arg(short = 'f', long, value_name = "DIR")]
    pub files: Option<PathBuf>,
    /// Hosts of services that are not in the files, such as `pay.shop.global` or `*.partner.example`: they are not reported as
    /// missing. Repeat for several
    #[arg(long = "declared-elsewhere", value_name = "HOST", conflicts_with = "live", value_parser = parse_host)]
    pub elsewhere: Vec<HostPattern>,
    /// Configuration file of the server: its federated services are not reported as missing, and neither are Kubernetes
    /// services of its `settings.domain`
    #[arg(long, value_name = "FILE", conflicts_with = "live")]
    pub config: Option<PathBuf>,
    /// Examine the policies and services of a running server
    #[arg(long)]
    pub live: bool,
    /// Only this namespace of a running server
    #[arg(short, long, conflicts_with = "files")]
    pub namespace: Option<String>,
    /// End with 3 if a finding is at least as bad
    #[arg(long = "failure-threshold", value_name = "SEVERITY", value_enum, default_value_t = Severity::Error)]
    pub threshold: Severity,
    /// Leave out findings of a code, or of a code and an object; `*` is any namespace or name. Repeat for several
    #[arg(long, value_name = "CODE[=NAMESPACE/NAME]")]
    pub suppress: Vec<Suppression>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

fn parse_host(text: &str) -> Result<HostPattern, InvalidName> {
    HostPattern::new(text)
}
