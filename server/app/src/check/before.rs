//! Checks before the installation, over what `tributary check --before` found on this machine, in the clusters and in each Consul.
//!
//! `cli::before` collects the facts with the code that `serve` runs; the functions here judge them and request nothing.

use std::net::SocketAddr;
use std::path::PathBuf;

use jiff::Timestamp;
use tributary_model::Code;

use super::certificates::{NO_TLS, end};
use super::finding::{counted, parse_code};
use super::{CheckItem, Finding, Found, Judge, TABLE};
use crate::document::{CertificateItem, CheckedCluster, Findings, Outcome, Verdict};
use crate::exit::CommandError;

/// Oldest minor version of Kubernetes that is supported: EndpointSlices of `discovery.k8s.io/v1` exist from there on.
pub const OLDEST_KUBERNETES: u32 = 21;

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Before {
    /// Time of the check.
    pub now: Timestamp,
    /// Why the configuration is not valid; all else is then empty.
    pub config: Option<CommandError>,
    /// What the configuration names, in short.
    pub configured: String,
    /// Directories of file registries that do not exist.
    pub missing_directories: Vec<String>,
    /// Addresses that the server would listen on.
    pub ports: Vec<PortFacts>,
    /// Clusters of the configuration.
    pub clusters: Vec<ClusterFacts>,
    /// Certificates of the listeners, or why they cannot be used; `None` without TLS.
    pub certificates: Option<Result<Vec<CertificateItem>, CommandError>>,
    /// State directory; `None` if state is not kept.
    pub state: Option<StateFacts>,
    /// Consuls of the configuration.
    pub consuls: Vec<ConsulFacts>,
    /// Kubeconfigs of the directory of remote clusters, or why it cannot be read; `None` without a directory.
    pub remotes: Option<Result<Vec<CheckedCluster>, String>>,
}

/// Address that the server would listen on.
#[derive(Debug, Clone)]
pub struct PortFacts {
    /// Field of the configuration.
    pub field: &'static str,
    /// Address.
    pub address: SocketAddr,
    /// Why it cannot listen.
    pub error: Option<CommandError>,
}

/// Cluster of the configuration.
#[derive(Debug, Clone, Default)]
pub struct ClusterFacts {
    /// Cluster ID.
    pub name: String,
    /// What connects: the kubeconfig and context that are used.
    pub credential: String,
    /// Connection, version, clock and identity.
    pub findings: Findings,
    /// Needed rights that are missing.
    pub missing_rights: Vec<String>,
    /// Needed rights, in total.
    pub rights: usize,
    /// Why the rights could not be reviewed.
    pub unreviewed: Option<String>,
    /// Kinds that are not installed.
    pub missing_kinds: Vec<String>,
    /// Kinds that are read.
    pub kinds: usize,
    /// System namespace, if this is the config cluster.
    pub system_namespace: Option<String>,
    /// Whether the system namespace exists; `None` if it may not be read.
    pub has_namespace: Option<bool>,
    /// ConfigMap of the mesh configuration, if it is read.
    pub mesh_config: Option<String>,
    /// Whether that ConfigMap exists; `None` if it may not be read.
    pub has_mesh_config: Option<bool>,
}

/// State directory.
#[derive(Debug, Clone, Default)]
pub struct StateFacts {
    /// Directory.
    pub directory: PathBuf,
    /// Why it cannot be used.
    pub error: Option<String>,
}

/// Consul of the configuration.
#[derive(Debug, Clone, Default)]
pub struct ConsulFacts {
    /// Name of the registry.
    pub name: String,
    /// Addresses.
    pub addresses: String,
    /// Why none of its addresses answers.
    pub unreachable: Option<String>,
    /// Whether it has a leader.
    pub has_leader: bool,
    /// Whether a token is configured.
    pub has_token: bool,
    /// Why the token is refused.
    pub refused: Option<String>,
    /// Whether answers are filtered by the rights of the token.
    pub is_filtered: bool,
    /// Number of services that the token sees.
    pub services: usize,
    /// Time at which the token expires, if it does.
    pub expires: Option<Timestamp>,
}

/// Returns the result of every check before the installation, in the order of the table.
#[must_use]
pub fn judge(before: &Before) -> Vec<CheckItem> {
    let item = |info: &super::CheckInfo| match info.judge {
        Judge::Before(judge) => Some(CheckItem::new(info, judge(before))),
        Judge::Server(_) | Judge::Replicas(_) => None,
    };
    TABLE.iter().filter_map(item).collect()
}

fn of_error(title: &str, error: &CommandError) -> Finding {
    let made = Finding::error(title, error.message.as_str()).next(error.next.as_str());
    match error.code {
        Some(code) => made.code(code),
        None => made,
    }
}

/// Why a check is skipped while the configuration is not valid.
const NO_CONFIG: &str = "the configuration is not valid";

pub(super) fn config(before: &Before) -> Found {
    let invalid = before.config.as_ref().map(|error| of_error("not valid", error));
    let missing = before.missing_directories.iter().map(|directory| {
        let why = format!("{directory} is no directory; its registry serves nothing until it is");
        Finding::warning("no directory", why).next("create it, or correct the path of the file registry")
    });
    Found::new(before.configured.as_str(), invalid.into_iter().chain(missing).collect())
}

pub(super) fn ports(before: &Before) -> Found {
    if before.config.is_some() {
        return Found::skipped(NO_CONFIG);
    }
    let finding = |one: &PortFacts| {
        let error = one.error.as_ref()?;
        let made = of_error("in use", error);
        // the object is the field, and the message has the address
        let message = made.message.trim_start_matches(one.field).trim_start_matches(": ").to_owned();
        Some(Finding { message, ..made }.about("field", one.field))
    };
    let shown: Vec<String> = before.ports.iter().map(|one| one.address.to_string()).collect();
    Found::new(shown.join(", "), before.ports.iter().filter_map(finding).collect())
}

/// Returns what to report where no cluster is configured.
fn without_cluster(before: &Before) -> Option<Found> {
    let why = if before.config.is_some() { NO_CONFIG } else { "no Kubernetes registry is configured" };
    before.clusters.is_empty().then(|| Found::skipped(why))
}

/// Returns what to report where no cluster answers: what needs an answer is neither right nor wrong.
fn without_answer(before: &Before) -> Option<Found> {
    let failed = |one: &ClusterFacts| {
        let mut connections = one.findings.checks.iter().filter(|of| of.check == "connection");
        connections.any(|of| of.outcome == Outcome::Failed)
    };
    let is_silent = !before.clusters.is_empty() && before.clusters.iter().all(failed);
    without_cluster(before).or_else(|| is_silent.then(|| Found::skipped("no cluster answers")))
}

/// Returns the findings of some checks of the connections.
fn connections(before: &Before, checks: &[&str]) -> Vec<Finding> {
    let all = before.clusters.iter().flat_map(|one| one.findings.checks.iter().map(move |of| (one, of)));
    let finding = |(one, of): (&ClusterFacts, &crate::document::Finding)| {
        let made = match of.outcome {
            Outcome::Ok => return None,
            Outcome::Warning => Finding::warning(&of.check, of.detail.as_str()),
            Outcome::Failed => Finding::error(&of.check, of.detail.as_str()),
        };
        Some(made.coded(&of.code).about("cluster", one.name.as_str()))
    };
    all.filter(|(_, of)| checks.contains(&&*of.check)).filter_map(finding).collect()
}

pub(super) fn cluster(before: &Before) -> Found {
    if let Some(found) = without_cluster(before) {
        return found;
    }
    let shown: Vec<&str> = before.clusters.iter().map(|one| &*one.credential).collect();
    Found::new(
        shown.join("; "),
        connections(before, &["name", "connection", "authentication", "identity", "expiry"]),
    )
}

/// Returns the minor version of a text such as `v1.34.1+k3s1`.
fn minor(version: &str) -> Option<u32> {
    let rest = version.trim_start_matches('v').strip_prefix("1.")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

pub(super) fn version(before: &Before) -> Found {
    if let Some(found) = without_answer(before) {
        return found;
    }
    let finding = |one: &ClusterFacts| {
        let version = one.findings.version.as_deref()?;
        let made = match minor(version) {
            Some(minor) if minor >= OLDEST_KUBERNETES => return None,
            Some(_) => Finding::error(
                "too old",
                format!("{version}; the oldest supported version is 1.{OLDEST_KUBERNETES}"),
            ),
            None => Finding::warning("not known", format!("`{version}` is no version of Kubernetes")),
        };
        Some(made.about("cluster", one.name.as_str()))
    };
    let shown: Vec<&str> = before.clusters.iter().filter_map(|one| one.findings.version.as_deref()).collect();
    Found::new(shown.join(", "), before.clusters.iter().filter_map(finding).collect())
}

pub(super) fn clock(before: &Before) -> Found {
    without_answer(before).unwrap_or_else(|| Found::new("", connections(before, &["clock"])))
}

pub(super) fn rights(before: &Before) -> Found {
    if let Some(found) = without_answer(before) {
        return found;
    }
    let missing = before.clusters.iter().flat_map(|one| one.missing_rights.iter().map(move |of| (one, of)));
    let missing = missing.map(|(one, right)| {
        Finding::error("a right is missing", right.as_str())
            .next("apply what `tributary rbac print` shows with the same flags")
            .code(Code::CLUSTER_RIGHT_MISSING)
            .about("cluster", one.name.as_str())
    });
    let unreviewed = before.clusters.iter().filter_map(|one| {
        let why = one.unreviewed.as_ref()?;
        Some(Finding::warning("not reviewed", why.as_str()).about("cluster", one.name.as_str()))
    });
    let total: usize = before.clusters.iter().map(|one| one.rights).sum();
    Found::new(format!("{total} needed"), missing.chain(unreviewed).collect())
}

pub(super) fn kinds(before: &Before) -> Found {
    if let Some(found) = without_answer(before) {
        return found;
    }
    let missing = before.clusters.iter().flat_map(|one| one.missing_kinds.iter().map(move |of| (one, of)));
    let finding = |(one, kind): (&ClusterFacts, &String)| {
        Finding::info("not installed", kind.as_str()).about("cluster", one.name.as_str())
    };
    let total: usize = before.clusters.iter().map(|one| one.kinds).sum();
    Found::new(format!("{total} read"), missing.map(finding).collect())
}

pub(super) fn namespace(before: &Before) -> Found {
    if let Some(found) = without_answer(before) {
        return found;
    }
    let finding = |one: &ClusterFacts| {
        let about = |made: Finding| made.about("cluster", one.name.as_str());
        let namespace = one.system_namespace.as_ref().filter(|_| one.has_namespace == Some(false));
        let namespace = namespace.map(|name| {
            about(Finding::error("no system namespace", format!("namespace {name} does not exist")))
        });
        let mesh = one.mesh_config.as_ref().filter(|_| one.has_mesh_config == Some(false));
        let mesh = mesh.map(|name| {
            about(
                Finding::info("defaults of the mesh apply", format!("ConfigMap {name} does not exist"))
                    .next("nothing, unless the mesh has a configuration: name it with `meshConfig`"),
            )
        });
        namespace.into_iter().chain(mesh).collect::<Vec<_>>()
    };
    let names: Vec<&str> = before.clusters.iter().filter_map(|one| one.system_namespace.as_deref()).collect();
    Found::new(names.join(", "), before.clusters.iter().flat_map(finding).collect())
}

pub(super) fn certificates(before: &Before) -> Found {
    match &before.certificates {
        None => Found::skipped(if before.config.is_some() { NO_CONFIG } else { NO_TLS }),
        Some(Err(error)) => Found::new("", vec![of_error("cannot be used", error)]),
        Some(Ok(all)) => {
            let findings = all.iter().filter_map(|one| end(one, before.now));
            Found::new(counted(all.len() as u64, "certificate", "certificates"), findings.collect())
        }
    }
}

pub(super) fn state(before: &Before) -> Found {
    let Some(state) = &before.state else {
        return Found::skipped(if before.config.is_some() { NO_CONFIG } else { "state is not kept" });
    };
    let directory = state.directory.display().to_string();
    let finding = state.error.as_ref().map(|why| {
        // the error names the path
        Finding::error("cannot be used", why.as_str()).code(Code::STATE_UNUSABLE)
    });
    Found::new(directory.as_str(), finding.into_iter().collect())
}

pub(super) fn remotes(before: &Before) -> Found {
    let all = match &before.remotes {
        None => {
            let none = "no directory of remote clusters is configured";
            return Found::skipped(if before.config.is_some() { NO_CONFIG } else { none });
        }
        Some(Err(why)) => {
            let finding = Finding::error("the directory cannot be read", why.as_str());
            return Found::new("", vec![finding.code(Code::DIRECTORY_UNREAD)]);
        }
        Some(Ok(all)) => all,
    };
    let refused = all.iter().filter(|one| one.verdict != Verdict::Accepted);
    let finding = |one: &CheckedCluster| {
        let reasons: Vec<&str> = one.reasons.iter().map(|reason| &*reason.message).collect();
        let code = one.reasons.first().and_then(|reason| parse_code(&reason.code));
        let title = if one.verdict == Verdict::Expired { "expired" } else { "refused" };
        let made = Finding::error(title, reasons.join("; ")).next("correct the kubeconfig in its file");
        let made = code.map_or_else(|| made.clone(), |code| made.clone().code(code));
        made.about("cluster", format!("{} ({})", one.cluster, one.source))
    };
    Found::new(counted(all.len() as u64, "cluster", "clusters"), refused.map(finding).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_version_is_read_from_versions_of_distributions() {
        for (text, expected) in [
            ("v1.34.1", Some(34)),
            ("v1.30.0+k3s1", Some(30)),
            ("1.29", Some(29)),
            ("v2.0", None),
            ("", None),
        ] {
            assert_eq!(minor(text), expected, "{text}");
        }
    }
}
