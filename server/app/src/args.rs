//! Shape of the command line. `overlay` applies flags to the configuration.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::config::Span;
use crate::config::model::{LogFormat, RegistryConfig, TokensConfig};
use crate::config::shape::ip_port;
pub use analyze::AnalyzeArgs;
pub use check::{
    BugReportArgs, CheckArgs, DocumentOutput, FailOn, ProfileArgs, VersionArgs, WaitArgs, WaitGoal,
};
pub use cluster::{ClusterCheckArgs, ClusterCommand, ClusterDescribeArgs};
pub use cluster_edit::{
    ClusterAcceptArgs, ClusterAddArgs, ClusterEditArgs, ClusterRemoveArgs, ClusterRotateArgs,
    ClusterWaitArgs, ConfigClusterArgs, SecretArgs, TokenArgs, WaitFor,
};
pub use console::ConsoleArgs;
pub use explain::{ExplainArgs, WhyNotArgs};
pub use lists::Resource;
pub use migrate::{MigrateCheckArgs, MigrateCommand};
pub use rbac::{RbacCommand, RbacPrintArgs};
use registry::{RegistryParser, parse_kind};
pub use server::{ConnectionArgs, ServerArgs};
pub use state::{StateAcceptArgs, StateCommand, StateDirectoryArgs, StateEndArgs, StateShowArgs};

mod analyze;
mod check;
mod cluster;
mod cluster_edit;
mod console;
mod explain;
mod lists;
mod migrate;
pub mod names;
mod rbac;
mod registry;
mod server;
mod state;

/// Command line.
#[derive(Debug, Parser)]
#[command(name = "tributary", version, about = "Merges services from many registries and serves them as xDS")]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve xDS from registries until stopped
    Serve(Box<ServeArgs>),
    /// List the contents of a running server
    Get(GetArgs),
    /// Compare what two clients were sent. Ends with 0 if they hold the same, 1 if they differ, 2 on failure, 4 for an unknown client
    Diff(DiffArgs),
    /// Explain how an endpoint came to be served, or where it was dropped
    Explain(ExplainArgs),
    /// Explain why a client does not receive a host's endpoints
    WhyNot(WhyNotArgs),
    /// Find what is wrong with policies: destinations that do not exist, subsets without endpoints, routes behind others
    Analyze(AnalyzeArgs),
    /// Check a running installation, or with --before what an installation needs. Ends with 3 if something is wrong, 7 if a replica
    /// does not answer
    Check(Box<CheckArgs>),
    /// Wait until a running server has what --for names. Ends with 5 if that takes too long
    Wait(WaitArgs),
    /// Print the version of this program and of a running server
    Version(VersionArgs),
    /// Write an archive with the documents, metrics, checks and configuration of a server, without secrets
    BugReport(BugReportArgs),
    /// Write a CPU profile of a server whose configuration has `admin.profile`
    Profile(ProfileArgs),
    /// Add, rotate, pause and remove remote clusters, describe one of a running server, and check kubeconfigs
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Print the address of the web console; of a server in a cluster, forward a local port to it
    Console(ConsoleArgs),
    /// List removals that are held until they are confirmed, and release one
    #[command(subcommand)]
    Guard(GuardCommand),
    /// Show the state that is kept across restarts, and end facts that are gone for good
    #[command(subcommand)]
    State(StateCommand),
    /// Print or check the rights that `serve` with the same flags needs in a cluster
    #[command(subcommand)]
    Rbac(RbacCommand),
    /// Find out what would change if an istiod were replaced
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Work with the configuration file
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the completion script of a shell
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write a manual page for each command into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        directory: PathBuf,
    },
    /// Print a page of the reference
    #[command(hide = true)]
    Reference(ReferenceArgs),
}

/// Flags of `serve`. Each overrides its variable, its field in the file and its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ServeArgs {
    /// A source, as KIND[=WHERE]: kubernetes, consul[=URL,URL...], file=DIR. Without a URL, consul uses
    /// CONSUL_HTTP_ADDR. Repeat for several; replaces the file's `registries`
    #[arg(long = "registry", value_name = "KIND[=WHERE]", value_parser = RegistryParser)]
    pub registries: Vec<RegistryConfig>,
    /// Kinds of sources, in istiod's format: Kubernetes,Consul. Equal to one --registry for each
    #[arg(long = "registries", value_name = "KINDS", value_delimiter = ',', value_parser = parse_kind)]
    pub kinds: Vec<RegistryConfig>,
    /// The configuration file [env: TRIBUTARY_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The cluster of registries and clients that do not name one [default: Kubernetes] [env: CLUSTER_ID]
    #[arg(long, value_name = "ID")]
    pub cluster_id: Option<String>,
    /// The namespace of the control plane [default: tributary-system] [env: POD_NAMESPACE]
    #[arg(long, value_name = "NAMESPACE")]
    pub system_namespace: Option<String>,
    /// The revision of this server: objects with another `istio.io/rev` are excluded
    #[arg(long)]
    pub revision: Option<String>,
    /// The directory that keeps the served state across restarts, or `none` [default: $STATE_DIRECTORY,
    /// $XDG_STATE_HOME/tributary, ~/.local/state/tributary, /var/lib/tributary]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// The kubeconfig file of the Kubernetes registry [default: KUBECONFIG, ~/.kube/config, the pod's account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long)]
    pub context: Option<String>,
    /// The domain of Kubernetes service names [default: cluster.local]
    #[arg(long)]
    pub domain: Option<String>,
    /// Address of the xDS listener; loopback only without TLS [default: 127.0.0.1:15010]
    #[arg(long, value_name = "ADDRESS", value_parser = ip_port)]
    pub xds_listen: Option<SocketAddr>,
    /// The certificate chain of the xDS listener, PEM
    #[arg(long, value_name = "FILE", requires = "xds_key")]
    pub xds_cert: Option<PathBuf>,
    /// The private key of the xDS listener, PEM
    #[arg(long, value_name = "FILE", requires = "xds_cert")]
    pub xds_key: Option<PathBuf>,
    /// The authorities of client certificates, PEM; enables mutual TLS
    #[arg(long, value_name = "FILE")]
    pub xds_client_ca: Option<PathBuf>,
    /// Takes tokens of service accounts for these audiences from clients; each client then proves its identity by a token,
    /// or by a certificate with --xds-client-ca [default audiences: istio-ca,tributary]
    #[arg(long, value_name = "AUDIENCES", value_delimiter = ',', num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = TokensConfig::AUDIENCES)]
    pub xds_tokens: Vec<String>,
    /// Address of the admin listener: health, metrics and /debug; always loopback [default: 127.0.0.1:15014]
    #[arg(long, value_name = "ADDRESS", value_parser = ip_port)]
    pub admin_listen: Option<SocketAddr>,
    /// Address of the health listener: health and metrics only, on any address
    #[arg(long, value_name = "ADDRESS", value_parser = ip_port)]
    pub health_listen: Option<SocketAddr>,
    /// How long the server waits for the first sync of its registries before it answers; 0 waits without a
    /// limit [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub first_sync_timeout: Option<Span>,
    /// How long streams may take to end after SIGTERM [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub drain_timeout: Option<Span>,
    /// A log level or filter: info, warn,tributary_xds=debug [default: info] [env: TRIBUTARY_LOG]
    #[arg(long = "log", value_name = "FILTER")]
    pub log: Option<String>,
    /// Format of log lines [default: auto]
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
}

/// Flags of `get`.
#[derive(Debug, Clone, Args)]
pub struct GetArgs {
    /// What to list
    #[arg(value_enum)]
    pub what: Resource,
    /// Only this item: a host, an address, a client's id or pod.namespace, a registry, a cluster or a policy. Hosts and policies also
    /// as NAMESPACE/NAME, and policies by kind, such as DestinationRule. For resources, the client. For routes, the host,
    /// also as HOST:PORT or 'outbound|PORT||HOST'
    pub name: Option<String>,
    /// Only this namespace
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Only this host; its first labels are enough. Of the timeline, also entries of more hosts than they name
    #[arg(long)]
    pub host: Option<String>,
    /// Only this registry
    #[arg(long)]
    pub registry: Option<String>,
    /// Only items with this text in a name, host, address or namespace: services, endpoints, clients and policies
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Only changes of this time, such as 10m; for the timeline
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// At most this many items
    #[arg(long, value_name = "NUMBER", value_parser = lists::limit)]
    pub limit: Option<String>,
    /// Only resources of this type
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    pub kind: Option<XdsType>,
    /// Only the resource of this name
    #[arg(long, value_name = "NAME")]
    pub resource: Option<String>,
    /// The client of the routes, by node id or pod.namespace
    #[arg(long, value_name = "ID")]
    pub for_client: Option<String>,
    /// Output format. Resources are decoded in JSON and YAML only
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Follow changes: redraws the table, or writes a JSON line for each change
    #[arg(short, long)]
    pub watch: bool,
    /// Omit the table's header
    #[arg(long)]
    pub no_headers: bool,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Types of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum XdsType {
    /// xDS clusters
    Cds,
    /// Endpoints
    Eds,
    /// Listeners
    Lds,
    /// Routes
    Rds,
    /// Names of the client's files of TLS
    Sds,
}

impl XdsType {
    /// Name in requests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cds => "cds",
            Self::Eds => "eds",
            Self::Lds => "lds",
            Self::Rds => "rds",
            Self::Sds => "sds",
        }
    }
}

/// Flags of `diff`.
#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// A client, by node id or pod.namespace
    #[arg(value_name = "CLIENT_A")]
    pub a: String,
    /// Another client
    #[arg(value_name = "CLIENT_B")]
    pub b: String,
    /// Only resources of this type
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    pub kind: Option<XdsType>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Omit the table's header
    #[arg(long)]
    pub no_headers: bool,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns
    Table,
    /// More columns
    Wide,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
    /// Names only, one a line
    Name,
}

/// Commands for held removals.
#[derive(Debug, Clone, Subcommand)]
pub enum GuardCommand {
    /// List held removals: their source reported them without proof, and the facts stay served
    List(GuardListArgs),
    /// Release one held removal now
    Release(GuardReleaseArgs),
}

/// Flags of `guard list`.
#[derive(Debug, Clone, Args)]
pub struct GuardListArgs {
    /// Only this registry
    #[arg(long)]
    pub registry: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Omit the table's header
    #[arg(long)]
    pub no_headers: bool,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Flags of `guard release`.
#[derive(Debug, Clone, Args)]
pub struct GuardReleaseArgs {
    /// The id from `guard list`
    pub id: String,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Commands for the configuration.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigCommand {
    /// Print the JSON Schema of the configuration file
    Schema,
    /// Print every field with its default
    Default,
    /// Check a file, with the environment applied and with the certificates that it names, as `serve` does
    Validate {
        /// The file
        file: PathBuf,
        /// Read none of the files that the configuration names, such as certificates: they are where the server will run, as in
        /// a pod
        #[arg(long)]
        without_files: bool,
    },
}

/// Flags of the hidden `reference`.
#[derive(Debug, Clone, Args)]
pub struct ReferenceArgs {
    /// The page: cli.md, codes.md, config.md, config.schema.json or metrics.md
    pub page: String,
}

#[cfg(test)]
mod tests {
    use tributary_service_entry::FileFields;

    use super::*;
    use crate::config::RegistryKind;
    use crate::config::model::Source;
    use clap::CommandFactory as _;

    fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("tributary").chain(args.iter().copied()))
    }

    #[test]
    fn command_line_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn registry_flag_is_a_kind_and_a_location() {
        let Ok(Command::Serve(serve)) =
            parse(&["serve", "--registry", "file=/a", "--registry", "file=b=c"]).map(|cli| cli.command)
        else {
            panic!("serve was not accepted");
        };
        let file = |path: &str| Source::File(FileFields { path: Some(path.into()) });
        let sources: Vec<_> = serve.registries.iter().map(|r| r.source.clone()).collect();
        assert_eq!(sources, [file("/a"), file("b=c")]);
    }

    #[test]
    fn registries_flag_takes_istiods_kinds() {
        let Ok(Command::Serve(serve)) =
            parse(&["serve", "--registries", "Kubernetes,kubernetes"]).map(|cli| cli.command)
        else {
            panic!("serve was not accepted");
        };
        let kinds: Vec<_> = serve.kinds.iter().map(|r| r.kind()).collect();
        assert_eq!(kinds, [RegistryKind::Kubernetes, RegistryKind::Kubernetes]);
    }

    #[test]
    fn invalid_flag_is_a_usage_error_with_its_reason() {
        for (args, expected) in [
            (&["serve", "--registry", "consul=ftp://x"][..], "has a scheme other than http"),
            (&["serve", "--registry", "consul=htp:/x"], "TRB0111 the address has a path and no scheme"),
            (&["serve", "--registry", "file"], "TRB0111 `--registry file` needs a directory"),
            (
                &["serve", "--registry", "kubernetes=here"],
                "TRB0111 `--registry kubernetes` takes no location",
            ),
            (&["serve", "--registries", "Kubernetes,File"], "TRB0111 `--registry file` needs a directory"),
            (&["serve", "--xds-cert", "x"], "--xds-key"),
            (&["serve", "--first-sync-timeout", "soon"], "is not a duration"),
            (&["serve", "--xds-listen", ":1"], "`:1` is not an IP address with a port; write for example"),
            (&["get", "pods"], "services, endpoints, clients, registries"),
            (&["diff", "a"], "CLIENT_B"),
            (&["why-not", "a.b"], "--for-client"),
        ] {
            let error = parse(args).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{args:?}");
            assert!(error.to_string().contains(expected), "{args:?}: {error}");
        }
    }

    #[test]
    fn secret_in_an_address_is_not_printed() {
        for address in ["consul=http://me:hunter2@c:8500", "consul=http://c:8500?token=hunter2"] {
            let error = parse(&["serve", "--registry", address]).unwrap_err().render().to_string();
            assert!(error.contains("--registry") && error.contains("TRB0111"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn client_flag_of_why_not_has_its_earlier_name_too() {
        for flag in ["--for-client", "--from-client"] {
            let Ok(Command::WhyNot(args)) = parse(&["why-not", "a.b", flag, "web-1"]).map(|cli| cli.command)
            else {
                panic!("{flag} was not accepted");
            };
            assert_eq!(args.for_client, "web-1");
        }
    }

    #[test]
    fn lists_accept_singular_names() {
        for (name, what) in [("service", Resource::Services), ("ep", Resource::Endpoints)] {
            let Ok(Command::Get(get)) = parse(&["get", name, "-o", "json"]).map(|cli| cli.command) else {
                panic!("{name} was not accepted");
            };
            assert_eq!((get.what, get.output), (what, Output::Json));
        }
    }
}
