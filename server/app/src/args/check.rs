//! Flags of `check`, `wait`, `version`, `bug-report` and `profile`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ConnectionArgs, ServeArgs, ServerArgs};
use crate::admin::profile;
use crate::check::Severity;
use crate::config::Span;
use crate::ops::clusters::state::ClusterState;
use tributary_model::OverallState;
use tributary_xds::session::SyncStatus;

/// Flags of `check`.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Check before an installation what `serve` with the same flags needs: configuration, ports, clusters, rights, certificates, state
    /// directory and Consuls. Requests no server and writes nothing but the state directory, which it creates
    #[arg(long, visible_alias = "pre", conflicts_with_all = ["connect", "server"])]
    pub before: bool,
    /// Let the server connect to every cluster, too: clocks, versions and rights. Takes up to a minute
    #[arg(long)]
    pub connect: bool,
    /// Repeat until no error is left, and end with 5 if that takes longer
    #[arg(long, value_name = "TIME")]
    pub wait: Option<Span>,
    /// The severity from which a finding ends the command with 3
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = DocumentOutput::Table)]
    pub output: DocumentOutput,
    /// Server to request. Several addresses, separated by commas, are replicas of one installation.
    #[command(flatten)]
    pub server: ServerArgs,
    /// Flags that `serve` runs with.
    #[command(flatten, next_help_heading = "Flags of `serve`, with --before")]
    pub serve: ServeArgs,
}

/// Severity from which a finding counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Something is wrong now
    Error,
    /// Something should be corrected
    Warning,
}

impl FailOn {
    /// Returns true if findings of a severity count.
    #[must_use]
    pub fn counts(self, severity: Severity) -> bool {
        match self {
            Self::Error => severity == Severity::Error,
            Self::Warning => severity <= Severity::Warning,
        }
    }
}

/// Output formats of a command with one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DocumentOutput {
    /// Lines to read
    Table,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
}

/// Flags of `version`.
#[derive(Debug, Clone, Args)]
pub struct VersionArgs {
    /// Print the version of this program only, and request no server
    #[arg(long)]
    pub client: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = DocumentOutput::Table)]
    pub output: DocumentOutput,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Flags of `wait`.
#[derive(Debug, Clone, Args)]
pub struct WaitArgs {
    /// What to wait for: ready, registry/NAME=Live, cluster/NAME=Live, service/HOST, endpoints/HOST=N (at least N healthy ones),
    /// client/ID=SYNCED or generation=N. Repeat for several, all of which must hold
    #[arg(long = "for", value_name = "WHAT", required = true, value_parser = WaitGoal::parse)]
    pub goals: Vec<WaitGoal>,
    /// How long to wait in all
    #[arg(long, value_name = "TIME", default_value = "2m")]
    pub timeout: Span,
    /// Server to request.
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// What `wait` waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitGoal {
    /// The server answers clients.
    Ready,
    /// A registry is in a state.
    Registry(String, &'static str),
    /// A cluster is in a state.
    Cluster(String, &'static str),
    /// A service with this host is served.
    Service(String),
    /// A host has at least this number of healthy endpoints.
    Endpoints(String, usize),
    /// A client is in a state.
    Client(String, &'static str),
    /// The catalog has at least this generation.
    Generation(u64),
}

impl WaitGoal {
    /// Parses the text of a goal.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a number"));
        if text == "ready" {
            return Ok(Self::Ready);
        }
        if let Some(generation) = text.strip_prefix("generation=") {
            return number(generation).map(Self::Generation);
        }
        let (kind, rest) = text.split_once('/').unwrap_or((text, ""));
        // a client's id may contain `=`; so a state is what follows the last one
        let pair = rest.rsplit_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
        let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
        match (kind, pair) {
            ("service", _) if !rest.is_empty() => Ok(Self::Service(rest.to_owned())),
            ("registry", Some((name, text))) => {
                let all = OverallState::ALL.map(OverallState::as_str);
                state("a registry", &all, &text).map(|state| Self::Registry(name, state))
            }
            ("cluster", Some((name, text))) => {
                let all = ClusterState::ALL.map(ClusterState::as_str);
                state("a cluster", &all, &text).map(|state| Self::Cluster(name, state))
            }
            ("client", Some((id, text))) => {
                let all = SyncStatus::ALL.map(SyncStatus::as_str);
                state("a client", &all, &text).map(|state| Self::Client(id, state))
            }
            ("endpoints", Some((host, count))) => {
                let count: u64 = number(&count)?;
                Ok(Self::Endpoints(host, usize::try_from(count).unwrap_or(usize::MAX)))
            }
            _ => Err("write ready, registry/NAME=Live, cluster/NAME=Live, service/HOST, endpoints/HOST=N, client/ID=SYNCED or generation=N".to_owned()),
        }
    }
}

/// Returns the state of this name, in any case of letters.
fn state(of: &str, all: &[&'static str], text: &str) -> Result<&'static str, String> {
    let found = all.iter().find(|one| one.eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| format!("`{text}` is no state of {of}; use {}", all.join(", ")))
}

impl std::fmt::Display for WaitGoal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready => write!(f, "ready"),
            Self::Registry(name, state) => write!(f, "registry/{name}={state}"),
            Self::Cluster(name, state) => write!(f, "cluster/{name}={state}"),
            Self::Service(host) => write!(f, "service/{host}"),
            Self::Endpoints(host, count) => write!(f, "endpoints/{host}={count}"),
            Self::Client(id, state) => write!(f, "client/{id}={state}"),
            Self::Generation(generation) => write!(f, "generation={generation}"),
        }
    }
}

/// Flags of `bug-report`.
#[derive(Debug, Clone, Args)]
pub struct BugReportArgs {
    /// The archive to write; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "tributary-bug-report.tar.gz")]
    pub output: PathBuf,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Flags of `profile`.
#[derive(Debug, Clone, Args)]
pub struct ProfileArgs {
    /// How long to take samples
    #[arg(long, value_name = "SECONDS", default_value_t = profile::DEFAULT, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub seconds: u64,
    /// The file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "tributary-profile.pb.gz")]
    pub output: PathBuf,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_parsed_and_shown_alike() {
        let good = [
            "ready",
            "registry/east=Live",
            "cluster/east=Stale",
            "service/pay.shop",
            "endpoints/pay.shop=3",
            "client/sidecar~10.0.0.1~a.b~c=SYNCED",
            "generation=7",
        ];
        for text in good {
            assert_eq!(WaitGoal::parse(text).unwrap().to_string(), text);
        }
        let bad = [
            "",
            "live",
            "registry/east",
            "registry/=Live",
            "endpoints/a=x",
            "generation=",
            "service/",
            "client/a=",
            "registry/a=Lvie",
            "cluster/a=Broken",
            "client/a=Live",
        ];
        for text in bad {
            assert!(WaitGoal::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_state_is_refused_with_the_known_ones() {
        let refusal = WaitGoal::parse("registry/east=Lvie").unwrap_err();
        assert!(refusal.starts_with("`Lvie` is no state of a registry; use Live, Stale, "), "{refusal}");
        assert!(WaitGoal::parse("client/a=Live").unwrap_err().contains("SYNCED"));
        assert!(WaitGoal::parse("cluster/a=x").unwrap_err().contains("Paused"));
        assert_eq!(WaitGoal::parse("registry/a=live"), Ok(WaitGoal::Registry("a".into(), "Live")));
    }
}
