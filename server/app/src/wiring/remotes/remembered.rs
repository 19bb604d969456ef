//! Remote clusters in the journal: those that Secrets and files declared before the server started.
//!
//! The start reads them before the sources: their restored facts are served at once, and the roster removes a cluster only after it read
//! the source that declared it, or every source if that one is no longer read. Nothing in the journal is dialled: a connection waits
//! for the Secret or the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_journal::{Member, MemberOrigin};
use tributary_kube_client::ConnectError;
use tributary_model::{ClusterId, RegistryName, Version};
use tributary_registry_api::{Reason, RegistryFactory};
use tributary_remote::roster::{RestoredCluster, SecretLabel, Source, SourceKind, registry_name};

use super::settings;
use crate::config::Config;
use crate::config::kind::RegistryKind;
use crate::exit::CommandError;
use crate::ops::clusters::conditions::object as shown;
use crate::wiring::factories::{Factories, RegistryPolicy, RemoteCluster};
use crate::wiring::journal::Configured;

/// Source and name of an object that declares a cluster.
pub(super) type Object<'a> = (Source, &'a str);

/// Returns the remembered registries of remote clusters that a source may still declare.
pub fn remembered(
    config: &Config,
    factories: &Factories,
    members: &[Member],
) -> Result<Vec<Configured>, CommandError> {
    if !config.finds_remotes() {
        return Ok(Vec::new());
    }
    let settings = settings(config, std::iter::empty());
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
    is_read: impl Fn(SourceKind) -> bool,
) -> Vec<RestoredCluster> {
    let is_restored = |one: &&Configured| registries.contains(&one.spec.id.name);
    let clusters: BTreeMap<&ClusterId, SourceKind> = remembered
        .iter()
        .filter(is_restored)
        .filter_map(|one| Some((&one.spec.id.cluster, object(&one.member)?.0.kind())))
        .collect();
    let restored = |(cluster, kind): (&ClusterId, SourceKind)| RestoredCluster {
        cluster: cluster.clone(),
        source: Some(kind).filter(|kind| is_read(*kind)),
    };
    clusters.into_iter().map(restored).collect()
}

/// Returns the objects that declared the clusters.
pub(super) fn objects(remembered: &[Configured]) -> Vec<(ClusterId, Source, String)> {
    let of = |one: &Configured| {
        let (source, name) = object(&one.member)?;
        Some((one.spec.id.cluster.clone(), source, name))
    };
    remembered.iter().filter_map(of).collect()
}

/// Returns the object that declared a cluster. Both labels of Secrets have the same names of objects.
fn object(member: &Member) -> Option<(Source, String)> {
    match &member.origin {
        MemberOrigin::Secret { namespace, name, .. } => {
            Some((Source::Secrets(SecretLabel::Istio), format!("{namespace}/{name}")))
        }
        MemberOrigin::Kubeconfig(path) => Some((Source::Directory, path.clone())),
        MemberOrigin::File(_) | MemberOrigin::Flag => None,
    }
}

fn origin((source, object): Object<'_>, cluster: &ClusterId) -> MemberOrigin {
    if source == Source::Directory {
        return MemberOrigin::Kubeconfig(object.to_owned());
    }
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    MemberOrigin::Secret { namespace: namespace.to_owned(), name: name.to_owned(), key: cluster.to_string() }
}

/// Returns the registries of a cluster that this object declares, for the journal.
pub(super) fn declared(factories: &[Arc<dyn RegistryFactory>], object: Object<'_>) -> Vec<Configured> {
    let one = |factory: &Arc<dyn RegistryFactory>| {
        let spec = factory.spec();
        let member = Member {
            id: (*spec.id).clone(),
            kind: RegistryKind::Kubernetes.as_str().to_owned(),
            precedence: spec.precedence,
            scopes: spec.scopes.clone(),
            network: None,
            identity: None,
            origin: origin(object, &spec.id.cluster),
            // every run fills a shadow; digests of credentials differ between processes
            source_digest: Version(0),
            credential_from: shown(object.0, object.1),
        };
        Configured { spec, member }
    };
    factories.iter().map(one).collect()
}

const fn is_remote(member: &Member) -> bool {
    matches!(member.origin, MemberOrigin::Secret { .. } | MemberOrigin::Kubeconfig(_))
}

/// Returns a cluster without a connection, for its specifications.
pub(super) fn unopened(name: RegistryName, cluster: &ClusterId) -> RemoteCluster {
    let why = || ConnectError::Unusable(String::new(), Reason::new("its kubeconfig was not read yet"));
    let policy = RegistryPolicy::default();
    RemoteCluster { name, cluster: cluster.clone(), open: Arc::new(move || Err(why())), policy }
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
        mk_declared(config, id, (Source::Secrets(SecretLabel::Tributary), "mesh/away"))
    }

    fn mk_declared(config: &Config, id: &str, object: Object<'_>) -> Vec<Configured> {
        let name = registry_name(&cluster(id), &settings(config, std::iter::empty()).registries);
        let factories = Factories::new(Environment::default());
        declared(&factories.remote(unopened(name, &cluster(id)), config).unwrap(), object)
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
        let of = |source| RestoredCluster { cluster: cluster("far"), source };
        assert_eq!(restored(&all, &registries, |_| true), [of(Some(SourceKind::Secrets))]);
        let only_files = |kind| kind == SourceKind::Directory;
        assert_eq!(restored(&all, &registries, only_files), [of(None)], "every source that is read counts");
    }

    #[test]
    fn registries_of_files_are_remembered_with_their_path() {
        let mut config = mk_config("");
        (config.remotes.secrets, config.remotes.directory) =
            (crate::config::model::SecretsConfig::Off, Some("clusters".into()));
        let away = mk_declared(&config, "away", (Source::Directory, "clusters/away.yaml"));
        assert_eq!(names(&config, &away), ["away", "away-entries"]);
        assert_eq!(away[0].member.credential_from, "file clusters/away.yaml");
        let object = (cluster("away"), Source::Directory, "clusters/away.yaml".to_owned());
        assert_eq!(objects(&away[..1]), [object]);
        let registries = [RegistryName::new("away").unwrap()].into();
        let expected = RestoredCluster { cluster: cluster("away"), source: Some(SourceKind::Directory) };
        assert_eq!(restored(&away, &registries, |kind| kind == SourceKind::Directory), [expected]);
        // a cluster that moves from Secrets to the directory while the server is down is not lost
        assert_eq!(names(&config, &mk_members(&config, "away")), ["away", "away-entries"]);
        config.remotes.directory = None;
        assert_eq!(names(&config, &away), [""; 0], "no source is read");
    }
}
