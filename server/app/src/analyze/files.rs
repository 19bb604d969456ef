//! Findings of a directory of files: the documents that a file registry would not serve, and the conditions of the
//! policies and services of the others.
//!
//! Services of Kubernetes and Consul and workloads are not in files. What names them is not reported as missing, and
//! neither are the hosts that the caller knows to be declared elsewhere.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tributary_answer::{Beside, conditions, policy_conditions};
use tributary_core::{Core, CoreConfig, RunOrder};
use tributary_model::{
    Catalog, ClusterId, Collection, CollectionKind, Condition, Generation, HostPattern, Mono, ObjectRef,
    Problem, ProviderId, RegistryId, RegistryName, RegistrySpec, RegistryUpdate, Scope, Source, Stamped,
};
use tributary_service_entry::{Context, Directory, DocumentSource, SourceEvent, Timing, registry_updates};

use super::{Finding, Severity, position_of};
use crate::config::{Config, facts};
use crate::exit::CommandError;

/// Name of the registry and of its cluster.
const NAME: &str = "files";
/// Time after which a directory that is still being written counts as unreadable.
const PATIENCE: Duration = Duration::from_secs(30);

/// Hosts of Consul services: no registry gives them another ending.
const CONSUL: &str = "*.consul";

/// Returns the findings of a directory with all subdirectories; `None` if it has no object that Tributary reads. Services of
/// the hosts `elsewhere` are not in files either.
pub async fn findings(
    root: &Path,
    elsewhere: Vec<HostPattern>,
) -> Result<Option<Vec<Finding>>, CommandError> {
    if !root.is_dir() {
        let message = format!("{} is not a directory", root.display());
        return Err(CommandError::config(message).next("name a directory of YAML files"));
    }
    let unusable = |why: &dyn std::fmt::Display| CommandError::plain(format!("{}: {why}", root.display()));
    let directory = Directory::new(root, Timing::default()).map_err(|error| unusable(&error))?;
    let scopes = directory.scopes();
    let events = tokio::time::timeout(PATIENCE, listed(directory));
    let events = events.await.map_err(|_| unusable(&"its files keep changing"))?;
    let events = events.map_err(|error| unusable(&error))?;
    let problems = events.iter().filter_map(|event| match event {
        SourceEvent::Problem(_, object, Some(problem)) => Some(of_problem(object, problem)),
        _ => None,
    });
    let mut all: Vec<Finding> = problems.collect();
    let catalog = catalog(scopes, events).map_err(|error| unusable(&error))?;
    let declares = !catalog.policies.is_empty() || !catalog.workloads.is_empty();
    let is_empty = all.is_empty() && !declares && catalog.services().next().is_none();
    all.extend(of_catalog(&catalog, elsewhere));
    Ok((!is_empty).then_some(all))
}

/// Returns the events of the first whole list.
async fn listed(mut directory: Directory) -> Result<Vec<SourceEvent>, tributary_registry_api::RegistryError> {
    let mut all = Vec::new();
    while !all.iter().any(|event| matches!(event, SourceEvent::ListEnded(..))) {
        all.extend(directory.next().await?);
    }
    Ok(all)
}

/// Joins the documents as a server does that has this registry alone.
fn catalog(
    scopes: Vec<Scope>,
    events: Vec<SourceEvent>,
) -> Result<Arc<Catalog>, Box<dyn std::error::Error + Send + Sync>> {
    let (registry, cluster) = (RegistryName::new(NAME)?, ClusterId::new(NAME)?);
    let id = RegistryId { name: registry.clone(), provider: ProviderId::MEMORY, cluster: cluster.clone() };
    let spec = RegistrySpec::new(Arc::new(id), 0);
    let mut core = Core::new(CoreConfig::default());
    core.add_registry(&spec)?;
    core.serve(Mono(1), &RunOrder::first(spec))?;
    let kinds = [
        CollectionKind::Services,
        CollectionKind::Groups,
        CollectionKind::Workloads,
        CollectionKind::Policies,
    ];
    let of = |scope: Scope| kinds.map(|kind| Collection { scope: scope.clone(), kind });
    let required = scopes.into_iter().flat_map(of).collect();
    let context = Context::new(cluster);
    let updates = events.into_iter().flat_map(|event| registry_updates(event, &context));
    let updates = std::iter::once(RegistryUpdate::Follows { required, optional: Vec::new() }).chain(updates);
    let stamp = |value| Stamped { registry: registry.clone(), generation: Generation(1), at: Mono(1), value };
    core.apply(Mono(1), updates.map(stamp).collect());
    Ok(core.publish())
}

/// Returns the hosts that a server with a configuration serves without a file.
#[must_use]
pub fn declared_by(config: &Config) -> Vec<HostPattern> {
    let federated = config.federated_services.iter().filter_map(facts::federated);
    let domain = config.settings.domain.iter().map(|domain| format!("*.svc.{domain}"));
    let of_kubernetes = domain.filter_map(|host| HostPattern::new(host).ok());
    federated.map(|(host, _)| host.into()).chain(of_kubernetes).collect()
}

/// Returns the findings of what is served.
fn of_catalog(catalog: &Catalog, mut elsewhere: Vec<HostPattern>) -> Vec<Finding> {
    let usual = [format!("*.svc.{}", catalog.settings.domain()), CONSUL.to_owned()];
    elsewhere.extend(usual.into_iter().filter_map(|host| HostPattern::new(host).ok()));
    let beside = Beside { clients: &[], elsewhere: Some(&elsewhere) };
    let more = policy_conditions(catalog, beside, &|_| true);
    let policies = catalog.policies.iter().flat_map(|(key, view)| {
        let all = view.conditions.iter().chain(more.get(key).into_iter().flatten());
        all.map(|one| of_condition(&view.declared.source, one))
    });
    let services = catalog.services().flat_map(|view| {
        let source = view.declarations.first().map(|first| first.declaration.source.clone());
        let all = conditions(view);
        source
            .into_iter()
            .flat_map(move |source| all.iter().map(|one| of_condition(&source, one)).collect::<Vec<_>>())
    });
    policies.chain(services).collect()
}

fn of_condition(source: &Source, one: &Condition) -> Finding {
    let object = source.object.to_string();
    Finding::new(Severity::of(one.code), one.code, object, &source.position.text(), &one.message)
}

/// The message of a problem begins with its own position, which is more exact than that of the object.
fn of_problem(object: &ObjectRef, problem: &Problem) -> Finding {
    let (own, known) = (position_of(&problem.message), object.position.text());
    let (position, message) = own.unwrap_or((&known, &problem.message));
    Finding::new(Severity::of_unserved(problem.code), problem.code, object.id.to_string(), position, message)
}
