//! Rights that a cluster's registries need: the smallest set for the enabled features.
//!
//! Derived from the watches that a run opens and from `writes`, so that every requested right is needed. Used
//! by `tributary rbac`.

use std::collections::{BTreeMap, BTreeSet};

use tributary_kube_client::Right;
use tributary_kube_client::identity::SYSTEM;
use tributary_kubernetes::watch_plan;

use crate::config::model::Write;
use crate::wiring::cluster::{ADDRESSES, CREDENTIALS, Cluster, EXPORTS};

/// API group of the objects that a server may write.
const ISTIO: &str = "networking.istio.io";
/// Verbs of a watch.
const READ: [&str; 2] = ["list", "watch"];

/// Returns the rights that a cluster's two registries need.
#[must_use]
pub fn needed(cluster: &Cluster, writes: &BTreeSet<Write>) -> BTreeSet<Right> {
    let mut out = BTreeSet::new();
    for planned in watch_plan(&cluster.options) {
        let fields = planned.field_selector.as_deref().unwrap_or_default();
        let name = fields.strip_prefix("metadata.name=").map(ToOwned::to_owned);
        let namespace = planned.scope.namespace.as_ref().filter(|_| planned.resource.namespaced);
        let namespace = namespace.map(ToString::to_string);
        let resource = (&*planned.resource.group, planned.resource.plural);
        out.extend(READ.map(|verb| right(verb, resource, namespace.clone(), name.clone())));
    }
    for namespace in cluster.entry_namespaces() {
        for resource in cluster.entry_kinds().read() {
            out.extend(READ.map(|verb| right(verb, resource, namespace.clone(), None)));
        }
    }
    if !cluster.options.namespaces.is_empty() {
        // a run that reads every namespace may read this one
        out.insert(right("list", ("", "namespaces"), None, Some(SYSTEM.to_owned())));
    }
    if cluster.declares_remotes {
        let system = Some(cluster.options.system_namespace.to_string());
        out.extend(READ.map(|verb| right(verb, ("", "secrets"), system.clone(), None)));
    }
    if cluster.reviews_tokens {
        out.insert(right("create", ("authentication.k8s.io", "tokenreviews"), None, None));
    }
    if cluster.reviews_access {
        out.insert(right("create", ("authorization.k8s.io", "subjectaccessreviews"), None, None));
    }
    for write in writes {
        out.extend(written(cluster, *write));
    }
    out
}

fn written(cluster: &Cluster, write: Write) -> Vec<Right> {
    let (lease, mut out): (&str, Vec<Right>) = match write {
        Write::Addresses => {
            let every = cluster.entry_namespaces().into_iter();
            let status = (ISTIO, "serviceentries/status");
            (ADDRESSES, every.map(|namespace| right("patch", status, namespace, None)).collect())
        }
        Write::ServiceExports => {
            let group = cluster.options.mcs.group.to_string();
            let every = cluster.entry_namespaces().into_iter();
            // an export has its Service as owner, which requires the Service's uid
            let both = every.flat_map(|namespace| {
                let export = right("create", (&group, "serviceexports"), namespace.clone(), None);
                [export, right("get", ("", "services"), namespace, None)]
            });
            (EXPORTS, both.collect())
        }
        Write::Credentials if cluster.options.is_config => {
            let system = Some(cluster.options.system_namespace.to_string());
            let secrets = ["get", "patch"].map(|verb| right(verb, ("", "secrets"), system.clone(), None));
            (CREDENTIALS, secrets.to_vec())
        }
        Write::WorkloadEntries | Write::Credentials | Write::Status => return Vec::new(),
    };
    out.extend(leading(cluster, lease));
    out
}

/// Rights of a candidate for a Lease: it creates Leases (which a role cannot limit by name) and updates this
/// one only.
fn leading(cluster: &Cluster, lease: &str) -> [Right; 3] {
    let system = Some(cluster.options.system_namespace.to_string());
    let named = Some(cluster.lease(lease));
    [("create", None), ("get", named.clone()), ("update", named)]
        .map(|(verb, name)| right(verb, ("coordination.k8s.io", "leases"), system.clone(), name))
}

fn right(
    verb: &str,
    (group, resource): (&str, &str),
    namespace: Option<String>,
    name: Option<String>,
) -> Right {
    Right { verb: verb.to_owned(), group: group.to_owned(), resource: resource.to_owned(), namespace, name }
}

/// Rights that no feature needs and a credential should not have: with them, a thief of the credential could
/// read secrets, impersonate users, or change the watched objects.
#[must_use]
pub fn needless(needed: &BTreeSet<Right>) -> Vec<Right> {
    let everywhere = |verb: &str, group: &str, resource: &str| right(verb, (group, resource), None, None);
    let mut all = vec![
        everywhere("*", "*", "*"),
        everywhere("list", "", "secrets"),
        everywhere("get", "", "secrets"),
        everywhere("create", "", "pods/exec"),
        everywhere("create", "", "serviceaccounts/token"),
        everywhere("impersonate", "", "users"),
        everywhere("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    ];
    let read: BTreeSet<(&str, &str)> =
        needed.iter().map(|r| (r.group.as_str(), r.resource.as_str())).collect();
    for (group, resource) in read
        .into_iter()
        .filter(|(_, resource)| !matches!(*resource, "leases" | "tokenreviews" | "subjectaccessreviews"))
    {
        all.extend(["create", "update", "patch", "delete"].map(|verb| everywhere(verb, group, resource)));
    }
    all.push(everywhere("patch", ISTIO, "serviceentries/status"));
    all.retain(|right| !needed.contains(right));
    all
}

/// Rights of one namespace or of the cluster, by group, resource and names: the rules of one role.
pub type Rules = BTreeMap<(String, String, Option<String>), BTreeSet<String>>;

/// Groups the rights by namespace; the cluster's rights come first.
#[must_use]
pub fn roles(rights: &BTreeSet<Right>) -> BTreeMap<Option<String>, Rules> {
    let mut out: BTreeMap<Option<String>, Rules> = BTreeMap::new();
    for right in rights {
        let rules = out.entry(right.namespace.clone()).or_default();
        let key = (right.group.clone(), right.resource.clone(), right.name.clone());
        rules.entry(key).or_default().insert(right.verb.clone());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::environment::Environment;
    use tributary_model::{ClusterId, RegistryName};

    fn mk(text: &str) -> BTreeSet<Right> {
        let config: Config = serde_saphyr::from_str(text).unwrap();
        let (name, id) = (RegistryName::new("k").unwrap(), ClusterId::new("Kubernetes").unwrap());
        let fields = config.registries[0].kubernetes().unwrap();
        let cluster = Cluster::new(name, id, (fields, &config), &Environment::default()).unwrap();
        needed(&cluster, &config.writes)
    }

    fn texts(rights: &BTreeSet<Right>) -> Vec<String> {
        let namespace_of = |r: &Right| r.namespace.clone().unwrap_or_else(|| "*".to_owned());
        let all = rights.iter().map(|r| format!("{} {} {}", r.verb, r.resource, namespace_of(r)));
        all.collect()
    }

    #[test]
    fn cluster_reviews_tokens_only_where_they_are_taken() {
        let review = right("create", ("authentication.k8s.io", "tokenreviews"), None, None);
        assert!(!mk("{registries: [{kind: kubernetes}]}").contains(&review));
        let rights = mk("{xds: {tokens: {}}, registries: [{kind: kubernetes}]}");
        assert!(rights.contains(&review));
        let mut without = rights;
        without.remove(&review);
        assert_eq!(without, mk("{registries: [{kind: kubernetes}]}"), "nothing else is needed for them");
    }

    #[test]
    fn rights_of_operators_are_reviewed_only_with_their_tokens() {
        let rights = mk("{admin: {remote: {tokens: {}}}, registries: [{kind: kubernetes}]}");
        let own: Vec<Right> = rights.difference(&mk("{registries: [{kind: kubernetes}]}")).cloned().collect();
        let review = |group, resource| right("create", (group, resource), None, None);
        assert_eq!(
            own,
            [
                review("authentication.k8s.io", "tokenreviews"),
                review("authorization.k8s.io", "subjectaccessreviews")
            ]
        );
        let certificates = mk("{admin: {remote: {operators: [a]}}, registries: [{kind: kubernetes}]}");
        assert_eq!(certificates, mk("{registries: [{kind: kubernetes}]}"));
    }

    #[test]
    fn default_rights_only_read() {
        let rights = mk("{registries: [{kind: kubernetes}]}");
        let verbs: BTreeSet<&str> = rights.iter().map(|r| r.verb.as_str()).collect();
        assert_eq!(verbs.into_iter().collect::<Vec<_>>(), ["list", "watch"]);
        let resources: BTreeSet<&str> = rights.iter().map(|r| r.resource.as_str()).collect();
        for resource in [
            "pods",
            "services",
            "endpointslices",
            "nodes",
            "namespaces",
            "serviceentries",
            "authorizationpolicies",
            "telemetries",
        ] {
            assert!(resources.contains(resource), "{resource} is not in {resources:?}");
        }
        for resource in ["secrets", "serviceexports", "serviceimports", "leases", "serviceentries/status"] {
            assert!(!resources.contains(resource), "{resource} is requested but not needed");
        }
        let maps: Vec<&Right> = rights.iter().filter(|r| r.resource == "configmaps").collect();
        assert!(!maps.is_empty());
        for right in maps {
            let target = (right.namespace.as_deref(), right.name.as_deref());
            assert_eq!(target, (Some("tributary-system"), Some("istio")), "no other ConfigMap is read");
        }
    }

    #[test]
    fn remote_cluster_needs_workload_entries_of_istios_kinds() {
        let rights = mk("{clusterId: other, registries: [{kind: kubernetes}]}");
        let of_istio = rights.iter().filter(|right| right.group.ends_with("istio.io"));
        let resources: BTreeSet<&str> = of_istio.map(|right| right.resource.as_str()).collect();
        assert!(resources.iter().eq(["workloadentries"].iter()), "{resources:?}");
    }

    #[test]
    fn enabled_feature_adds_only_its_own_rights() {
        let base = mk("{registries: [{kind: kubernetes}]}");
        let added = |text: &str| texts(&mk(text).difference(&base).cloned().collect());
        let writes = added("{writes: [addresses], registries: [{kind: kubernetes}]}");
        let leases = ["create leases tributary-system", "get leases tributary-system"];
        assert_eq!(writes[..2], leases);
        assert!(
            writes.contains(&"patch serviceentries/status *".to_owned()) && writes.len() == 4,
            "{writes:?}"
        );
        let exports = added("{writes: [serviceExports], registries: [{kind: kubernetes}]}");
        let wanted = ["create serviceexports *", "get services *"].map(str::to_owned);
        assert!(wanted.iter().all(|right| exports.contains(right)), "{exports:?}");
        assert!(!exports.iter().any(|right| right.starts_with("delete")), "nothing is deleted: {exports:?}");
        let secrets = added("{writes: [credentials], registries: [{kind: kubernetes}]}");
        let wanted = ["get secrets tributary-system", "patch secrets tributary-system"].map(str::to_owned);
        assert!(wanted.iter().all(|right| secrets.contains(right)) && secrets.len() == 5, "{secrets:?}");
        let of_lease = mk("{revision: canary, writes: [addresses], registries: [{kind: kubernetes}]}");
        let names: Vec<_> =
            of_lease.iter().filter(|r| r.resource == "leases").map(|r| r.name.as_deref()).collect();
        let own = Some("tributary-addresses-canary");
        assert_eq!(names, [None, own, own], "no other Lease can be touched, and to make one has no name");
        let remotes = added("{remotes: {secrets: on}, registries: [{kind: kubernetes}]}");
        assert_eq!(remotes, ["list secrets tributary-system", "watch secrets tributary-system"]);
        let of_remote = mk("{clusterId: other, remotes: {secrets: on}, registries: [{kind: kubernetes}]}");
        assert!(of_remote.iter().all(|right| right.resource != "secrets"), "a remote declares no clusters");
        let mcs = added("{registries: [{kind: kubernetes, mcs: {discovery: true, host: true}}]}");
        assert!(mcs.contains(&"list serviceimports *".to_owned()), "{mcs:?}");
        assert!(
            mcs.iter().all(|right| right.contains("serviceexports") || right.contains("serviceimports")),
            "{mcs:?}"
        );
    }

    #[test]
    fn named_namespaces_need_roles_in_them_only() {
        let rights = mk("{registries: [{kind: kubernetes, namespaces: [shop]}]}");
        let identity = right("list", ("", "namespaces"), None, Some("kube-system".to_owned()));
        assert!(rights.contains(&identity), "its UID identifies the cluster");
        let roles = roles(&rights);
        let everywhere: BTreeSet<&str> =
            roles[&None].keys().map(|(_, resource, _)| resource.as_str()).collect();
        assert!(!everywhere.contains("pods") && !everywhere.contains("serviceentries"), "{everywhere:?}");
        let shop = &roles[&Some("shop".to_owned())];
        assert!(shop.contains_key(&(String::new(), "pods".to_owned(), None)), "{shop:?}");
    }

    #[test]
    fn right_is_never_both_needed_and_excess() {
        let rights = mk(
            "{writes: [addresses, serviceExports], registries: [{kind: kubernetes, mcs: {discovery: true, host: true}}]}",
        );
        let not = needless(&rights);
        assert!(not.iter().all(|right| !rights.contains(right)));
        let excess: Vec<String> = texts(&not.into_iter().collect());
        for right in ["list secrets *", "delete pods *", "create pods/exec *"] {
            assert!(excess.contains(&right.to_owned()), "{right} is not in {excess:?}");
        }
        assert!(!excess.contains(&"patch serviceentries/status *".to_owned()), "it is needed: {excess:?}");
    }
}
