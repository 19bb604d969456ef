//! Flags of `explain` and `why-not`.

use clap::Args;

use super::{Output, ServerArgs};

/// Flags of `explain`.
#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// The endpoint: IP, IP:PORT, [IPv6]:PORT, NAME:PORT or unix:PATH
    #[arg(value_name = "IP[:PORT]")]
    pub endpoint: String,
    /// As this client receives it, with the delivery state
    #[arg(long, value_name = "ID")]
    pub for_client: Option<String>,
    /// Only as an endpoint of this host, also as HOST:PORT, or of this xDS cluster: 'outbound|PORT|SUBSET|HOST'
    #[arg(long)]
    pub host: Option<String>,
    /// As an endpoint of this subset, which a DestinationRule declares
    #[arg(long, value_name = "NAME")]
    pub subset: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Flags of `why-not`.
#[derive(Debug, Clone, Args)]
pub struct WhyNotArgs {
    /// The host that the client requests, also as HOST:PORT or 'outbound|PORT|SUBSET|HOST'; its first labels are enough
    pub host: String,
    /// The endpoints of this subset, which a DestinationRule declares
    #[arg(long, value_name = "NAME")]
    pub subset: Option<String>,
    /// The client, by node id or pod.namespace
    #[arg(long, value_name = "ID", alias = "from-client")]
    pub for_client: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}
