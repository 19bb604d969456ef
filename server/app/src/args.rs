//! The command line: its shape only. What a flag means for the configuration is in `overlay`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::Span;
use crate::config::model::{LogFormat, RegistryConfig};
use registry::{RegistryParser, parse_kind};
pub use state::{StateAcceptArgs, StateCommand, StateDirectoryArgs, StateEndArgs, StateShowArgs};

mod registry;
mod state;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "tributary",
    version,
    about = "Joins what many registries say about services and serves it as xDS"
)]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve xDS from registries until told to stop
    Serve(Box<ServeArgs>),
    /// List what a running server knows
    Get(GetArgs),
    /// Tell how an endpoint came to be served, or where it was dropped
    Explain(ExplainArgs),
    /// Tell why a client is not given a host's endpoints
    WhyNot(WhyNotArgs),
    /// See removals that are held until they are confirmed, and let one happen
    #[command(subcommand)]
    Guard(GuardCommand),
    /// See what is remembered over a restart, and end what is really gone
    #[command(subcommand)]
    State(StateCommand),
    /// Print or check the rights that `serve` needs in a cluster, with the same flags
    #[command(subcommand)]
    Rbac(RbacCommand),
    /// Work with the configuration file
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a page of the reference
    #[command(hide = true)]
    Reference(ReferenceArgs),
}

/// Flags of `serve`. Each goes over its variable, its field in the file and its default.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// A source, as KIND[=WHERE]: kubernetes, consul[=URL,URL...], file=DIR. A Consul without URL is that of CONSUL_HTTP_ADDR.
    /// Repeat for several; replaces the file's `registries`
    #[arg(long = "registry", value_name = "KIND[=WHERE]", value_parser = RegistryParser)]
    pub registries: Vec<RegistryConfig>,
    /// Kinds of sources, as istiod takes them: Kubernetes,Consul. The same as one --registry for each
    #[arg(long = "registries", value_name = "KINDS", value_delimiter = ',', value_parser = parse_kind)]
    pub kinds: Vec<RegistryConfig>,
    /// The configuration file [env: TRIBUTARY_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The cluster that registries and clients belong to unless they say otherwise [default: Kubernetes] [env: CLUSTER_ID]
    #[arg(long, value_name = "ID")]
    pub cluster_id: Option<String>,
    /// The namespace of the control plane [default: tributary-system] [env: POD_NAMESPACE]
    #[arg(long, value_name = "NAMESPACE")]
    pub system_namespace: Option<String>,
    /// The revision that this server is: objects of another `istio.io/rev` are left out
    #[arg(long)]
    pub revision: Option<String>,
    /// The directory that remembers what is served over a restart, or `none` [default: $STATE_DIRECTORY,
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
    /// Where xDS is served; only loopback without TLS [default: 127.0.0.1:15010]
    #[arg(long, value_name = "ADDRESS")]
    pub xds_listen: Option<SocketAddr>,
    /// The certificate chain of the xDS listener, PEM
    #[arg(long, value_name = "FILE", requires = "xds_key")]
    pub xds_cert: Option<PathBuf>,
    /// The private key of the xDS listener, PEM
    #[arg(long, value_name = "FILE", requires = "xds_cert")]
    pub xds_key: Option<PathBuf>,
    /// The authorities of client certificates, PEM; makes TLS mutual
    #[arg(long, value_name = "FILE", requires = "xds_cert")]
    pub xds_client_ca: Option<PathBuf>,
    /// Where health, metrics and /debug are served; always loopback [default: 127.0.0.1:15014]
    #[arg(long, value_name = "ADDRESS")]
    pub admin_listen: Option<SocketAddr>,
    /// Where health and metrics alone are served, on any address
    #[arg(long, value_name = "ADDRESS")]
    pub health_listen: Option<SocketAddr>,
    /// How long registries have for their first sync before the server answers without them; 0 waits for ever [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub first_sync_timeout: Option<Span>,
    /// How long streams have to end after SIGTERM [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub drain_timeout: Option<Span>,
    /// A log level or filter: info, warn,tributary_xds=debug [default: info] [env: TRIBUTARY_LOG]
    #[arg(long = "log", value_name = "FILTER")]
    pub log: Option<String>,
    /// How log lines look [default: auto]
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
}

/// Where the server is, and how long it may take.
#[derive(Debug, Clone, Args)]
pub struct ServerArgs {
    /// The admin address of the server [default: http://127.0.0.1:15014] [env: TRIBUTARY_SERVER]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub timeout: Span,
}

/// Flags of `get`.
#[derive(Debug, Clone, Args)]
pub struct GetArgs {
    /// What to list
    #[arg(value_enum)]
    pub what: Resource,
    /// Only this one: a host, an address, a client's id, a registry's name
    pub name: Option<String>,
    /// Only of this namespace
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Only of this host
    #[arg(long)]
    pub host: Option<String>,
    /// Only of this registry
    #[arg(long)]
    pub registry: Option<String>,
    /// How it is written
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Follow: draws the table again when something changes, or writes a JSON line for each change
    #[arg(short, long)]
    pub watch: bool,
    /// Leave the table's head out
    #[arg(long)]
    pub no_headers: bool,
    /// Where the server is.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Resource {
    /// Services, merged from all their declarations
    #[value(alias = "service", alias = "svc")]
    Services,
    /// Endpoints, each with where it comes from
    #[value(alias = "endpoint", alias = "ep")]
    Endpoints,
    /// Connected clients, with what they were sent and took
    #[value(alias = "client")]
    Clients,
    /// Sources, with how they are doing
    #[value(alias = "registry", alias = "reg")]
    Registries,
    /// Services that have one name in a cluster and in Consul, with what becomes of them
    #[value(alias = "merge")]
    Merges,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Services, Self::Endpoints, Self::Clients, Self::Registries, Self::Merges];
    /// Its name in paths and commands.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Endpoints => "endpoints",
            Self::Clients => "clients",
            Self::Registries => "registries",
            Self::Merges => "merges",
        }
    }
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns for people
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

/// Flags of `explain`.
#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// The endpoint: IP, IP:PORT, [IPv6]:PORT, NAME:PORT or unix:PATH
    #[arg(value_name = "IP[:PORT]")]
    pub endpoint: String,
    /// As this client sees it, with what it was sent
    #[arg(long, value_name = "ID")]
    pub for_client: Option<String>,
    /// Only as an endpoint of this host
    #[arg(long)]
    pub host: Option<String>,
    /// How it is written
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Where the server is.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Flags of `why-not`.
#[derive(Debug, Clone, Args)]
pub struct WhyNotArgs {
    /// The host that the client asks for
    pub host: String,
    /// The client, by node id
    #[arg(long, value_name = "ID")]
    pub from_client: String,
    /// How it is written
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Where the server is.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What can be done with held removals.
#[derive(Debug, Clone, Subcommand)]
pub enum GuardCommand {
    /// List removals that their source announced without proof; what they are about stays served
    List(GuardListArgs),
    /// Let one happen now
    Release(GuardReleaseArgs),
}

/// Flags of `guard list`.
#[derive(Debug, Clone, Args)]
pub struct GuardListArgs {
    /// Only of this registry
    #[arg(long)]
    pub registry: Option<String>,
    /// How it is written
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Where the server is.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Flags of `guard release`.
#[derive(Debug, Clone, Args)]
pub struct GuardReleaseArgs {
    /// The id that `guard list` shows
    pub id: String,
    /// Where the server is.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What can be done with rights.
#[derive(Debug, Clone, Subcommand)]
pub enum RbacCommand {
    /// Print the smallest roles for the features that are on, as YAML for kubectl
    Print(Box<RbacPrintArgs>),
    /// Ask the cluster which rights the credential has, and tell missing and needless ones
    Verify(Box<ServeArgs>),
}

/// Flags of `rbac print`.
#[derive(Debug, Clone, Args)]
pub struct RbacPrintArgs {
    /// The service account that is bound, in the system namespace
    #[arg(long, value_name = "NAME", default_value = "tributary")]
    pub account: String,
    /// What `serve` is started with.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// What can be done with the configuration.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigCommand {
    /// Print the JSON Schema of the configuration file
    Schema,
    /// Print every field with its default
    Default,
    /// Check a file, with the environment over it, as `serve` would
    Validate {
        /// The file
        file: PathBuf,
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
    use super::*;
    use clap::CommandFactory as _;

    fn parse(words: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("tributary").chain(words.iter().copied()))
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_registry_is_a_kind_and_a_place() {
        let Ok(Command::Serve(serve)) =
            parse(&["serve", "--registry", "file=/a", "--registry", "file=b=c"]).map(|cli| cli.command)
        else {
            panic!("serve was not taken");
        };
        let paths: Vec<_> = serve.registries.iter().filter_map(|r| r.path.as_ref()?.to_str()).collect();
        assert_eq!(paths, ["/a", "b=c"]);
    }

    #[test]
    fn kinds_may_be_given_as_istiod_takes_them() {
        let Ok(Command::Serve(serve)) =
            parse(&["serve", "--registries", "Kubernetes,kubernetes"]).map(|cli| cli.command)
        else {
            panic!("serve was not taken");
        };
        let kinds: Vec<_> = serve.kinds.iter().map(|r| r.kind.as_str()).collect();
        assert_eq!(kinds, ["kubernetes", "kubernetes"]);
    }

    #[test]
    fn what_cannot_be_is_a_usage_error_that_says_why() {
        for (words, says) in [
            (&["serve", "--registry", "nacos"][..], "TRB0106 there is no registry kind `nacos`"),
            (&["serve", "--registry", "consul=ftp://x"], "has a scheme other than http"),
            (&["serve", "--registry", "file"], "TRB0111 `--registry file` needs a directory"),
            (&["serve", "--registry", "kubernetes=here"], "TRB0111 `--registry kubernetes` takes no place"),
            (&["serve", "--registries", "Kubernetes,File"], "TRB0111 `--registry file` needs a directory"),
            (&["serve", "--registries", "Kubernetes,Mock"], "TRB0106 there is no registry kind `Mock`"),
            (&["serve", "--xds-cert", "x"], "--xds-key"),
            (&["serve", "--first-sync-timeout", "soon"], "no length of time"),
            (&["get", "pods"], "services, endpoints, clients, registries"),
            (&["why-not", "a.b"], "--from-client"),
        ] {
            let error = parse(words).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{words:?}");
            assert!(error.to_string().contains(says), "{words:?}: {error}");
        }
    }

    #[test]
    fn a_secret_in_an_address_is_not_repeated() {
        for word in ["consul=http://me:hunter2@c:8500", "consul=http://c:8500?token=hunter2"] {
            let error = parse(&["serve", "--registry", word]).unwrap_err().render().to_string();
            assert!(error.contains("--registry") && error.contains("TRB0111"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_resource_has_its_singular() {
        for (word, what) in [("service", Resource::Services), ("ep", Resource::Endpoints)] {
            let Ok(Command::Get(get)) = parse(&["get", word, "-o", "json"]).map(|cli| cli.command) else {
                panic!("{word} was not taken");
            };
            assert_eq!((get.what, get.output), (what, Output::Json));
        }
    }
}
