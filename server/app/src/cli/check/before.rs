//! Collects what `check --before` judges: with the code that `serve` runs, on this machine, in each cluster and in each Consul.
//!
//! It writes nothing but the state directory, which `serve` would create too. Every request is bounded in time; clusters and Consuls
//! are requested side by side.

use std::path::Path;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use tributary_journal::StateDirectory;
use tributary_kube_client::{ApiFailure, Connection, Resource, Right, Writer, exists, not_served};
use tributary_kubernetes::watch_plan;
use tributary_remote::{FileContent, Look, read_file};

use crate::admin::Listener;
use crate::args::ServeArgs;
use crate::check::before::{Before, ClusterFacts, ConsulFacts, PortFacts, StateFacts};
use crate::cli::rbac;
use crate::config::model::{RegistryConfig, Source};
use crate::config::{Config, Loaded};
use crate::document::{CheckedCluster, Finding, Outcome};
use crate::environment::Environment;
use crate::ops::clusters::{conditions, findings};
use crate::ops::rights::needed;
use crate::serve;
use crate::wiring::certificates::Certificates;
use crate::wiring::cluster::Cluster;
use crate::wiring::factories::Factories;
use crate::wiring::journal::{NONE, choose};
use crate::wiring::remotes::directory_watch;
use crate::wiring::{configured_credentials, consul, runnable};

/// Most requests to one cluster at once.
const AT_ONCE: usize = 8;
/// Longest time for all requests to one cluster.
const EACH: Duration = Duration::from_secs(60);

/// Collects the facts.
pub(super) async fn collect(args: &ServeArgs, env: &Environment) -> Before {
    serve::install_crypto();
    let now = Timestamp::now();
    let factories = Factories::new(env.clone());
    let loaded = match serve::load(args, env) {
        Ok(loaded) => loaded,
        Err(error) => return Before { now, config: Some(error), ..Before::default() },
    };
    if let Err(error) = runnable::check_registries(&loaded, &factories) {
        return Before { now, config: Some(error), ..Before::default() };
    }
    let config = &loaded.config;
    let clusters = factories.clusters(config).unwrap_or_default();
    let clusters =
        futures::future::join_all(clusters.into_iter().map(|one| cluster(one, config, now).boxed()));
    let consuls = config.registries.iter().filter(|registry| registry.consul().is_some());
    let consuls = futures::future::join_all(consuls.map(|registry| consul_of(registry, config, env).boxed()));
    let (clusters, consuls, ports) = futures::future::join3(clusters, consuls, ports(config)).await;
    Before {
        now,
        config: None,
        configured: described(&loaded),
        missing_directories: missing_directories(config),
        ports,
        clusters,
        certificates: certificates(&loaded),
        state: state(config, env),
        consuls,
        remotes: config.remotes.directory.as_deref().map(|directory| remotes(directory, config, now)),
    }
}

fn described(loaded: &Loaded) -> String {
    let registries = loaded.config.registries.iter();
    let kinds: Vec<String> = registries.map(|registry| registry.kind().as_str().to_owned()).collect();
    format!("registries: {}", kinds.join(", "))
}

/// Returns the directories of file registries that do not exist.
fn missing_directories(config: &Config) -> Vec<String> {
    let paths = config.registries.iter().filter_map(|registry| match &registry.source {
        Source::File(fields) => fields.path.as_ref(),
        _ => None,
    });
    paths.filter(|path| !path.is_dir()).map(|path| path.display().to_string()).collect()
}

/// Tries to listen on each address, and closes it again.
async fn ports(config: &Config) -> Vec<PortFacts> {
    let health = config.health.listen.map(|address| ("health.listen", address));
    let remote = config.admin.remote.as_ref().map(|remote| ("admin.remote.listen", remote.listen));
    let all = [("xds.listen", config.xds.listen), ("admin.listen", config.admin.listen)];
    let mut ports = Vec::new();
    for (field, address) in all.into_iter().chain(health).chain(remote) {
        let error = Listener::bind(field, address).await.err();
        ports.push(PortFacts { field, address, error });
    }
    ports
}

fn certificates(
    loaded: &Loaded,
) -> Option<Result<Vec<crate::document::CertificateItem>, crate::exit::CommandError>> {
    let listeners = [Certificates::of, Certificates::of_remote_admin];
    let found: Result<Vec<_>, _> = listeners.into_iter().filter_map(|of| of(loaded).transpose()).collect();
    match found {
        Ok(all) if all.is_empty() => None,
        Ok(all) => Some(Ok(all.iter().flat_map(Certificates::items).collect())),
        Err(error) => Some(Err(error)),
    }
}

fn state(config: &Config, env: &Environment) -> Option<StateFacts> {
    if config.state_dir.as_deref() == Some(Path::new(NONE)) {
        return None;
    }
    let directory = choose(config.state_dir.clone(), env).path;
    let error = StateDirectory::open(&directory).err().map(|error| error.to_string());
    Some(StateFacts { directory, error })
}

fn remotes(directory: &Path, config: &Config, now: Timestamp) -> Result<Vec<CheckedCluster>, String> {
    let files = match directory_watch::read(directory).0 {
        Look::Listed(files) => files,
        Look::Unreadable(why) => return Err(why),
    };
    let allowed = config.remotes.allowed();
    let of_file = |(path, content): (std::path::PathBuf, FileContent)| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let file = path.display().to_string();
        match content {
            FileContent::Read(bytes) => {
                let found = read_file(bytes.expose(), &name, &allowed);
                found.into_iter().map(|one| CheckedCluster::new(one, &file, now)).collect()
            }
            FileContent::Unread(code, why) => vec![CheckedCluster::unread(name, file, code, why)],
        }
    };
    Ok(files.into_iter().flat_map(of_file).collect())
}

async fn consul_of(registry: &RegistryConfig, config: &Config, env: &Environment) -> ConsulFacts {
    let name = registry.names().into_iter().next().unwrap_or_default();
    let Some(Ok(consul)) = registry.consul().map(|fields| consul::config(fields, config, env)) else {
        return ConsulFacts { name, ..ConsulFacts::default() };
    };
    let found = tributary_consul::preflight::preflight(&consul).await;
    let addresses: Vec<String> = consul.addresses.iter().map(ToString::to_string).collect();
    ConsulFacts {
        name,
        addresses: addresses.join(", "),
        unreachable: found.unreachable,
        has_leader: found.has_leader,
        has_token: consul.auth.has_token(),
        refused: found.refused,
        is_filtered: found.is_filtered,
        services: found.services,
        expires: found.expires,
    }
}

async fn cluster(cluster: Cluster, config: &Config, now: Timestamp) -> ClusterFacts {
    let name = cluster.options.cluster.to_string();
    let opening = cluster.clone();
    let opened = tokio::task::spawn_blocking(move || opening.open()).await;
    let connection = match opened {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return unconnected(name, &error.to_string()),
        Err(error) => return unconnected(name, &error.to_string()),
    };
    let mut facts = ClusterFacts {
        name,
        credential: format!("{} at {}", connection.described(), connection.server()),
        findings: findings::check(&connection, connection.server(), Duration::ZERO).await,
        ..ClusterFacts::default()
    };
    facts.findings.checks.extend(expiry(&cluster, now));
    if facts.findings.version.is_some() {
        let read = tokio::time::timeout(EACH, read(&mut facts, &connection, &cluster, config));
        if read.await.is_err() {
            facts.unreviewed = Some(format!("not all requests were answered within {} s", EACH.as_secs()));
        }
    }
    facts
}

fn unconnected(name: String, why: &str) -> ClusterFacts {
    ClusterFacts { name, findings: findings::unconnected(why), ..ClusterFacts::default() }
}

/// Returns the finding of a credential that ends soon, or has ended.
fn expiry(cluster: &Cluster, now: Timestamp) -> Option<Finding> {
    let credential = configured_credentials::stated(&cluster.connector().presented_now())?;
    let condition = conditions::of_configured(&credential, now)?;
    let is_over = condition.kind == "CredentialExpired";
    let outcome = if is_over { Outcome::Failed } else { Outcome::Warning };
    Some(Finding { code: condition.code, ..Finding::new("expiry", outcome, condition.message) })
}

/// Reads rights, kinds, the system namespace and the mesh configuration.
async fn read(facts: &mut ClusterFacts, connection: &Connection, cluster: &Cluster, config: &Config) {
    let rights = needed(cluster, &config.writes);
    facts.rights = rights.len();
    let writer = Writer::new(connection.client());
    let review = |right: Right| {
        let writer = writer.clone();
        async move { (writer.review(&right).await, right) }.boxed()
    };
    let answers: Vec<_> = futures::stream::iter(rights).map(review).buffered(AT_ONCE).collect().await;
    for (answer, right) in answers {
        match answer {
            Ok(true) => {}
            Ok(false) => facts.missing_rights.push(rbac::described(&right)),
            Err(why) => facts.unreviewed = Some(format!("the access review failed: {why}")),
        }
    }
    let kinds = kinds(cluster);
    facts.kinds = kinds.len();
    let missing = |kind: Resource| {
        let connection = connection.clone();
        async move {
            let is_missing = not_served(&connection, &kind).await.unwrap_or(false);
            is_missing.then(|| rbac::full_name(kind.plural, &kind.group))
        }
        .boxed()
    };
    let missing: Vec<Option<String>> =
        futures::stream::iter(kinds).map(missing).buffered(AT_ONCE).collect().await;
    facts.missing_kinds = missing.into_iter().flatten().collect();
    mesh(facts, connection, cluster).await;
}

/// Returns the kinds that both registries of a cluster watch, each once.
fn kinds(cluster: &Cluster) -> Vec<Resource> {
    let own = watch_plan(&cluster.options).into_iter().map(|planned| planned.resource);
    let mut kinds: Vec<Resource> = Vec::new();
    for kind in own.chain(cluster.entry_kinds().resources().iter().cloned()) {
        let is_known = kinds.iter().any(|known| known.plural == kind.plural && known.group == kind.group);
        if !is_known {
            kinds.push(kind);
        }
    }
    kinds
}

async fn mesh(facts: &mut ClusterFacts, connection: &Connection, cluster: &Cluster) {
    if !cluster.options.is_config {
        return;
    }
    let system = cluster.options.system_namespace.to_string();
    let is_there = |answer: Result<bool, ApiFailure>| answer.ok();
    for planned in watch_plan(&cluster.options) {
        let named =
            planned.field_selector.as_deref().and_then(|fields| fields.strip_prefix("metadata.name="));
        match (planned.resource.plural, named) {
            ("namespaces", _) => {
                let there = exists(connection, &planned.resource, None, &system).await;
                facts.has_namespace = is_there(there);
            }
            ("configmaps", Some(name)) if facts.mesh_config.is_none() => {
                let there = exists(connection, &planned.resource, Some(&system), name).await;
                facts.has_mesh_config = is_there(there);
                facts.mesh_config = Some(format!("{system}/{name}"));
            }
            _ => {}
        }
    }
    facts.system_namespace = Some(system);
}
