//! Remote clusters in the journal: those that Secrets declared before the server started.
//!
//! The start reads them before the Secrets: their restored facts are served at once, and the roster removes a cluster only after it read
//! the Secrets. Nothing in the journal is dialled: a connection waits for the Secret.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_journal::{Member, MemberOrigin};
use tributary_kube_client::ConnectError;
use tributary_model::{ClusterId, RegistryName, Version};
use tributary_registry_api::{Reason, RegistryFactory};
use tributary_remote::roster::{RestoredCluster, SourceKind, registry_name};

use super::settings;
use crate::config::Config;
use crate::config::kind::RegistryKind;
use crate::exit::CommandError;
use crate::wiring::factories::{Factories, RemoteCluster};
use crate::wiring::journal::Configured;

/// Returns the remembered registries of remote clusters that Secrets may still declare.
pub fn remembered(
    config: &Config,
    factories: &Factories,
    members: &[Member],
) -> Result<Vec<Configured>, CommandError> {
    if !config.reads_secrets() {
        return Ok(Vec::new());
    }
    let settings = settings(config);
    let known: BTreeMap<&RegistryName, &Member> =
        members.iter().filter(|member| is_remote(member)).map(|member| (&member.id.name, member)).collect();
    let clusters: BTreeSet<&ClusterId> = known.values().map(|member| &member.id.cluster).collect();
    let mut all = Vec::new();
    for cluster in clusters.into_iter().filter(|cluster| !settings.configured.contains(*cluster)) {
        let name = registry_name(cluster, &settings.registries);
        let specs = factories.remote(unopened(name, cluster), config)?;
        all.extend(specs.iter().filter_map(|factory| {
            let spec = factory.spec();
            let member = known.get(&spec.id.name).filter(|member| member.id == *spec.id)?;
            Some(Configured { member: (*member).clone(), spec })
        }));
    }
    Ok(all)
}

/// Returns the clusters with restored facts.
pub(super) fn restored(
    remembered: &[Configured],
    registries: &BTreeSet<RegistryName>,
) -> Vec<RestoredCluster> {
    let is_restored = |one: &&Configured| registries.contains(&one.spec.id.name);
    let clusters: BTreeSet<&ClusterId> =
        remembered.iter().filter(is_restored).map(|one| &one.spec.id.cluster).collect();
    let source = Some(SourceKind::Secrets);
    clusters.into_iter().map(|cluster| RestoredCluster { cluster: cluster.clone(), source }).collect()
}

/// Returns the Secrets that declared the clusters, as `NAMESPACE/NAME`.
pub(super) fn objects(remembered: &[Configured]) -> Vec<(ClusterId, String)> {
    let object = |one: &Configured| match &one.member.origin {
        MemberOrigin::Secret { namespace, name, .. } => {
            Some((one.spec.id.cluster.clone(), format!("{namespace}/{name}")))
        }
        MemberOrigin::File(_) | MemberOrigin::Flag => None,
    };
    remembered.iter().filter_map(object).collect()
}

/// Returns the registries of a cluster of a Secret, named `NAMESPACE/NAME`, for the journal.
pub(super) fn declared(factories: &[Arc<dyn RegistryFactory>], secret: &str) -> Vec<Configured> {
    let (namespace, name) = secret.split_once('/').unwrap_or(("", secret));
    let one = |factory: &Arc<dyn RegistryFactory>| {
        let spec = factory.spec();
        let key = spec.id.cluster.to_string();
        let member = Member {
            id: (*spec.id).clone(),
            kind: RegistryKind::Kubernetes.as_str().to_owned(),
            precedence: spec.precedence,
            scopes: spec.scopes.clone(),
            network: None,
            identity: None,
            origin: MemberOrigin::Secret { namespace: namespace.to_owned(), name: name.to_owned(), key },
            // every run fills a shadow; digests of credentials differ between processes
            source_digest: Version(0),
            credential_from: format!("Secret {secret}"),
        };
        Configured { spec, member }
    };
    factories.iter().map(one).collect()
}

const fn is_remote(member: &Member) -> bool {
    matches!(member.origin, MemberOrigin::Secret { .. })
}

/// Returns a cluster without a connection, for its specifications.
fn unopened(name: RegistryName, cluster: &ClusterId) -> RemoteCluster {
    let why = || ConnectError::Unusable(String::new(), Reason::new("its Secret was not read yet"));
    RemoteCluster { name, cluster: cluster.clone(), open: Arc::new(move || Err(why())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;

    fn cluster(id: &str) -> ClusterId {
        ClusterId::new(id).unwrap()
    }

    fn mk_config(more: &str) -> Config {
        let text = format!(
            "{{clusterId: home, remotes: {{secrets: on}}, registries: [{{kind: kubernetes, name: own}}{more}]}}"
        );
        serde_saphyr::from_str(&text).unwrap()
    }

    fn mk_members(config: &Config, id: &str) -> Vec<Configured> {
        let name = registry_name(&cluster(id), &settings(config).registries);
        let factories = Factories::new(Environment::default());
        declared(&factories.remote(unopened(name, &cluster(id)), config).unwrap(), "mesh/away")
    }

    fn names(config: &Config, members: &[Configured]) -> Vec<String> {
        let members: Vec<Member> = members.iter().map(|one| one.member.clone()).collect();
        let all = remembered(config, &Factories::new(Environment::default()), &members).unwrap();
        assert!(all.iter().all(|one| members.contains(&one.member)), "the journal's member is kept");
        all.iter().map(|one| one.spec.id.name.to_string()).collect()
    }

    #[test]
    fn registries_of_secrets_are_remembered() {
        let config = mk_config("");
        let away = mk_members(&config, "away");
        assert_eq!(names(&config, &away), ["away", "away-entries"]);
        let MemberOrigin::Secret { namespace, name, key } = &away[0].member.origin else { panic!() };
        assert_eq!((namespace.as_str(), name.as_str(), key.as_str()), ("mesh", "away", "away"));
        assert_eq!(names(&config, &away[1..]), ["away-entries"], "one of two");
        let mut own = away.clone();
        own[0].member.origin = MemberOrigin::Flag;
        assert_eq!(names(&config, &own), ["away-entries"], "configured ones are not those of Secrets");
    }

    #[test]
    fn nothing_is_remembered_that_secrets_can_no_longer_declare() {
        let away = mk_members(&mk_config(""), "away");
        let mut off = mk_config("");
        off.remotes.secrets = crate::config::model::SecretsConfig::Off;
        assert_eq!(names(&off, &away), [""; 0]);
        let configured = mk_config(", {kind: kubernetes, name: second, clusterId: away}");
        assert_eq!(names(&configured, &away), [""; 0], "the configuration has the cluster");
        let namesake = mk_config(", {kind: file, name: away, path: f}");
        assert_eq!(names(&namesake, &away), [""; 0], "the configuration has the name");
    }

    #[test]
    fn clusters_with_facts_are_restored() {
        let config = mk_config("");
        let all = [mk_members(&config, "away"), mk_members(&config, "far")].concat();
        let registries = [RegistryName::new("far-entries").unwrap()].into();
        let expected = RestoredCluster { cluster: cluster("far"), source: Some(SourceKind::Secrets) };
        assert_eq!(restored(&all, &registries), [expected]);
    }
}
