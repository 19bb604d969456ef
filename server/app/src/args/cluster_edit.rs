//! Flags of the `cluster` commands that change which clusters a server reads: they edit Secrets with the operator's rights.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use tributary_kube_client::{ConnectOptions, ObjectName};
use tributary_remote::roster::LONGEST_DRAIN;
use tributary_remote::{Allowed, parse_cidr};

use super::{ConnectionArgs, ServerArgs, names};
use crate::config::Span;

/// What `cluster wait` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WaitFor {
    /// It is read, and what it serves is confirmed
    #[value(name = "Live")]
    Live,
    /// It was not confirmed for too long
    #[value(name = "Stale")]
    Stale,
    /// It is being read for the first time
    #[value(name = "Syncing")]
    Syncing,
    /// It does not answer
    #[value(name = "Unreachable")]
    Unreachable,
    /// It refuses the credential
    #[value(name = "AuthFailed")]
    AuthFailed,
    /// Every declaration of it is refused
    #[value(name = "Refused")]
    Refused,
    /// Another cluster answers in its place
    #[value(name = "Conflict")]
    Conflict,
    /// Its connection is closed on request
    #[value(name = "Paused")]
    Paused,
    /// It leaves
    #[value(name = "Removing")]
    Removing,
    /// Nothing of it is left
    #[value(name = "removed")]
    Removed,
}

impl WaitFor {
    /// Returns the name of the state, or `removed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "Live",
            Self::Stale => "Stale",
            Self::Syncing => "Syncing",
            Self::Unreachable => "Unreachable",
            Self::AuthFailed => "AuthFailed",
            Self::Refused => "Refused",
            Self::Conflict => "Conflict",
            Self::Paused => "Paused",
            Self::Removing => "Removing",
            Self::Removed => "removed",
        }
    }
}

/// Flags of `cluster wait`.
#[derive(Debug, Clone, Args)]
pub struct ClusterWaitArgs {
    /// The cluster ID
    pub name: String,
    /// The state to wait for, or `removed`
    #[arg(long = "for", value_name = "STATE", value_enum, ignore_case = true, default_value_t = WaitFor::Live)]
    pub goal: WaitFor,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "2m")]
    pub timeout: Span,
    /// Server to request.
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// Kubeconfig of the operator, as of the config cluster.
#[derive(Debug, Clone, Args)]
pub struct ConfigClusterArgs {
    /// The operator's kubeconfig file [default: KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the config cluster, whose Secrets the server reads [default: the current one]
    #[arg(long, alias = "config-context")]
    pub context: Option<String>,
}

impl ConfigClusterArgs {
    /// Returns the options of a connection to the config cluster.
    #[must_use]
    pub fn options(&self) -> ConnectOptions {
        ConnectOptions { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }
    /// Returns the options of a connection to the cluster of another context.
    #[must_use]
    pub fn other(&self, context: &str) -> ConnectOptions {
        ConnectOptions { kubeconfig: self.kubeconfig.clone(), context: Some(context.to_owned()) }
    }
}

/// Where the Secret of a cluster is.
#[derive(Debug, Clone, Args)]
pub struct SecretArgs {
    /// Config cluster.
    #[command(flatten)]
    pub config: ConfigClusterArgs,
    /// Look for the Secret in this namespace of the config cluster [default: request the server for the Secret that it uses]
    #[arg(long, value_name = "NAMESPACE", value_parser = names::namespace)]
    pub system_namespace: Option<String>,
    /// The Secret itself, where several declare the cluster
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = names::namespaced, conflicts_with = "system_namespace")]
    pub secret: Option<ObjectName>,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

fn drain(text: &str) -> Result<Span, String> {
    let drain: Span = text.parse()?;
    if drain.get() > LONGEST_DRAIN { Err("is longer than 24h".to_owned()) } else { Ok(drain) }
}

/// Flags of `cluster pause` and `cluster resume`.
#[derive(Debug, Clone, Args)]
pub struct ClusterEditArgs {
    /// The cluster ID
    pub name: String,
    /// Print the patch of the Secret, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Its Secret.
    #[command(flatten)]
    pub place: SecretArgs,
}

/// Flags of `cluster accept`.
#[derive(Debug, Clone, Args)]
pub struct ClusterAcceptArgs {
    /// The UID of its namespace `kube-system` [default: the one that the server found]
    #[arg(long)]
    pub uid: Option<String>,
    /// Accept a credential that may read less than the one in use and therefore waits (TRB0713). What it may not read stays served
    /// as it was last known
    #[arg(long, conflicts_with = "uid")]
    pub rights: bool,
    /// Cluster and Secret.
    #[command(flatten)]
    pub edit: ClusterEditArgs,
}

/// Flags of `cluster remove`.
#[derive(Debug, Clone, Args)]
pub struct ClusterRemoveArgs {
    /// How long its endpoints are used after those of others before they are removed, at most 24h. Sets an annotation of its Secret,
    /// which every replica reads [default: `remotes.drain` of the server]
    #[arg(long, value_name = "TIME", value_parser = drain)]
    pub drain: Option<Span>,
    /// How long to wait for the receipt of the server, which comes after `remotes.drain`; the time of --drain is added
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub wait: Span,
    /// Only begin the removal, without a plan. The Secret stays, and the same command without this flag deletes it
    #[arg(long, conflicts_with = "wait")]
    pub no_wait: bool,
    /// Remove it although hosts keep no endpoint
    #[arg(long)]
    pub yes: bool,
    /// The context of the remote cluster in the operator's kubeconfig: after the receipt, the service account whose token the Secret has
    /// is deleted there with its roles, which ends its tokens. Without it, the commands that do so are printed
    #[arg(long, value_name = "CONTEXT", conflicts_with = "no_wait")]
    pub from_context: Option<String>,
    /// Cancel a removal that has begun: the cluster stays, or joins again if it has left already
    #[arg(long, conflicts_with_all = ["drain", "wait", "no_wait", "yes", "from_context"])]
    pub cancel: bool,
    /// Cluster and Secret.
    #[command(flatten)]
    pub edit: ClusterEditArgs,
}

/// Token of a remote cluster, and what its kubeconfig may contain.
#[derive(Debug, Clone, Args)]
pub struct TokenArgs {
    /// How long the token is valid, at least 10m; the API server may limit it [default: 2160h; 24h if the server renews it]
    #[arg(long, value_name = "TIME", value_parser = names::lifetime)]
    pub token_lifetime: Option<Span>,
    /// Allow servers in a range that is refused by default, such as 127.0.0.0/8, if the server's `remotes.allowServerCidrs`
    /// has it too. Repeat for several
    #[arg(id = "servers", long = "allow-server-cidr", value_name = "CIDR", value_parser = parse_cidr)]
    pub servers: Vec<IpNet>,
}

/// Life of a token that nothing renews.
const LIFE: Duration = Duration::from_secs(2160 * 3600);
/// Life of a token that the server renews.
const RENEWED_LIFE: Duration = Duration::from_secs(24 * 3600);

impl TokenArgs {
    /// Returns how long the token is to be valid.
    #[must_use]
    pub fn lifetime(&self, is_renewed: bool) -> Duration {
        let default = if is_renewed { RENEWED_LIFE } else { LIFE };
        self.token_lifetime.map_or(default, Span::get)
    }
    /// Returns what the flags allow.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        Allowed { servers: self.servers.clone(), ..Allowed::default() }
    }
}

/// Flags of `cluster rotate`.
#[derive(Debug, Clone, Args)]
pub struct ClusterRotateArgs {
    /// The cluster ID
    pub name: String,
    /// The context of the remote cluster in the operator's kubeconfig
    #[arg(long, value_name = "CONTEXT")]
    pub from_context: String,
    /// The service account [default: that of the token in use]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = names::namespaced)]
    pub account: Option<ObjectName>,
    /// The address at which the server reaches the remote API server, with the certificate authority of the context, in place of
    /// those in the Secret. It repairs a kubeconfig that leads elsewhere or cannot be read
    #[arg(long, value_name = "URL")]
    pub remote_server: Option<String>,
    /// Token.
    #[command(flatten)]
    pub token: TokenArgs,
    /// How long to wait until the server uses the new token
    #[arg(long, value_name = "TIME", default_value = "2m")]
    pub wait: Span,
    /// Do not wait
    #[arg(long, conflicts_with = "wait")]
    pub no_wait: bool,
    /// Its Secret.
    #[command(flatten)]
    pub place: SecretArgs,
}

/// Flags of `cluster add`.
#[derive(Debug, Clone, Args)]
pub struct ClusterAddArgs {
    /// The cluster ID
    pub name: String,
    /// The context of the remote cluster in the operator's kubeconfig
    #[arg(long, value_name = "CONTEXT")]
    pub from_context: String,
    /// Write everything: the account and its rights in the remote cluster, and the Secret in the config cluster
    #[arg(long)]
    pub apply: bool,
    /// Print the Secret with a new token of the account, which must be in the remote cluster. The output is a credential
    #[arg(long, conflicts_with = "apply")]
    pub print_secret: bool,
    /// The address at which the server reaches the remote API server [default: that of the context]
    #[arg(long, value_name = "URL")]
    pub remote_server: Option<String>,
    /// The namespace of the Secret, and of the account in the remote cluster [default: that of --config, or tributary-system]
    #[arg(long, value_name = "NAMESPACE", value_parser = names::namespace)]
    pub system_namespace: Option<String>,
    /// The service account to create in the remote cluster
    #[arg(long, value_name = "NAME", value_parser = names::object, default_value = "tributary-remote")]
    pub account: String,
    /// Let the server renew the token at half of its life: the account may request its own tokens, and the Secret has the annotation
    /// `tributary.dev/renew`. The server needs `writes: [credentials]`
    #[arg(long)]
    pub renew: bool,
    /// The configuration file of the server: its features decide which rights are needed
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Token.
    #[command(flatten)]
    pub token: TokenArgs,
    /// Config cluster.
    #[command(flatten)]
    pub place: ConfigClusterArgs,
    /// Server to request for the clusters that it knows.
    #[command(flatten)]
    pub server: ServerArgs,
}
