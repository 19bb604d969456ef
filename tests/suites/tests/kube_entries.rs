//! Custom resources on a real API server: definitions that appear and disappear while a source runs, permissions that
//! are taken away and granted, and addresses that replicas write into ServiceEntries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tributary_kube_client::{
    ApiFailure, ConnectOptions, Connection, Env, Leadership, LeaseTiming, ObjectName, PatchOperation,
    Resource, Timing, Writer,
};
use tributary_model::{ClusterId, Fact, FactId, FactKey, Policy, RegistryUpdate};
use tributary_registry_api::{BackoffPolicy, SplitMix};
use tributary_service_entry::{
    Addresses, Context, CrdOptions, CrdSource, DocumentSource, Ranges, registry_updates,
};
use tributary_suites::kube::{Login, Named, With, mk_namespace};
use tributary_suites::{ApiServer, eventually};

/// Kinds that a source lists: seven that are served, and seven whose objects are only named.
const KINDS: usize = 14;
const SOON: Duration = Duration::from_secs(20);
const LEASE: LeaseTiming =
    LeaseTiming { duration: Duration::from_secs(3), renew: Duration::from_millis(500) };

const LEASE_NAME: &str = "tributary-addresses";

fn entry(name: &str) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "hosts": [format!("{name}.example.com")],
            "ports": [{"number": 5432, "name": "tcp", "protocol": "TCP"}],
            "resolution": "STATIC",
            "endpoints": [{"address": "10.0.0.1"}],
        },
    })
}

fn workload(name: &str) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1beta1",
        "kind": "WorkloadEntry",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"address": "10.0.0.9", "labels": {"app": "pay"}},
    })
}

fn sidecar(host: &str) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "Sidecar",
        "metadata": {"name": "narrow", "namespace": "shop"},
        "spec": {"egress": [{"hosts": [host]}]},
    })
}

/// State that one replica has reported.
#[derive(Default)]
struct Reported {
    facts: BTreeMap<FactId, Fact>,
    problems: BTreeMap<String, String>,
    listed: BTreeSet<String>,
    withheld: BTreeSet<String>,
}

impl Reported {
    fn apply(&mut self, delta: RegistryUpdate) {
        match delta {
            RegistryUpdate::Put(_, fact, _) => drop(self.facts.insert(fact.item(), fact)),
            RegistryUpdate::Remove(FactKey { item, .. }, _) => drop(self.facts.remove(&item)),
            RegistryUpdate::Problem(_, object, Some(problem)) => {
                self.problems.insert(object.id.name.to_string(), problem.message.to_string());
            }
            RegistryUpdate::Problem(_, object, None) => drop(self.problems.remove(&*object.id.name)),
            RegistryUpdate::ListEnded(collection, _) => {
                self.withheld.remove(collection.scope.as_str());
                self.listed.insert(collection.scope.to_string());
            }
            RegistryUpdate::Withheld(collection, _) => {
                self.withheld.insert(collection.scope.to_string());
            }
            _ => {}
        }
    }
    /// Returns hosts with their allocated addresses, workloads, and policies with their imports.
    fn shown(&self) -> BTreeMap<String, Vec<String>> {
        let show = |fact: &Fact| match fact {
            Fact::Service(key, declaration) => {
                let given = declaration.addresses.iter().filter(|address| address.allocated);
                Some((key.service.host.to_string(), given.map(|address| address.ip.to_string()).collect()))
            }
            Fact::Workload(key, _) => Some((key.name.to_string(), Vec::new())),
            Fact::Policy(key, declared) => {
                let Policy::Sidecar(sidecar) = &declared.policy else { return None };
                let hosts = sidecar.egress.iter().flat_map(|listener| listener.hosts.iter());
                Some((key.to_string(), hosts.map(ToString::to_string).collect()))
            }
            _ => None,
        };
        self.facts.values().filter_map(show).collect()
    }
}

/// A running source, as one replica of a server runs it.
struct Replica {
    reported: Arc<Mutex<Reported>>,
    tasks: Vec<JoinHandle<()>>,
}

fn connection(server: &ApiServer, login: &Login) -> Result<Connection> {
    let options = ConnectOptions { kubeconfig: Some(server.kubeconfig(login)?), context: None };
    Connection::open(&options, Env::new(&|_| None)).context("open a connection")
}

impl Replica {
    /// Starts one that only reads.
    fn reading(server: &ApiServer, login: &Login) -> Result<Self> {
        Self::start(&connection(server, login)?, None)
    }
    /// Starts one that allocates addresses from these ranges while it holds the Lease.
    fn giving(server: &ApiServer, identity: &str, ranges: Ranges) -> Result<Self> {
        let connection = connection(server, &Login::user("admin"))?;
        let name = ObjectName::new("shop", LEASE_NAME);
        let chance = SplitMix::seeded(identity.len() as u64);
        let candidate = Leadership::new(connection.client(), name, identity, LEASE, chance);
        let addresses = Addresses { ranges, leads: candidate.leads() };
        let mut replica = Self::start(&connection, Some(addresses))?;
        replica.tasks.push(tokio::spawn(candidate.run()));
        Ok(replica)
    }
    fn start(connection: &Connection, addresses: Option<Addresses>) -> Result<Self> {
        let backoff = BackoffPolicy {
            first: Duration::from_millis(100),
            cap: Duration::from_secs(1),
            ..BackoffPolicy::default()
        };
        let timing = Timing { probe: Duration::from_millis(500), backoff, ..Timing::default() };
        let options = CrdOptions { addresses, timing, ..CrdOptions::default() };
        let mut source = CrdSource::new(&connection.client(), &options)?;
        let context = Context::new(ClusterId::new("c1")?);
        let reported: Arc<Mutex<Reported>> = Arc::default();
        let events_to = Arc::clone(&reported);
        let task = tokio::spawn(async move {
            while let Ok(events) = source.next().await {
                let mut reported = events_to.lock();
                let updates = events.into_iter().flat_map(|event| registry_updates(event, &context));
                updates.for_each(|delta| reported.apply(delta));
            }
        });
        Ok(Self { reported, tasks: vec![task] })
    }
    async fn until(&self, what: &str, so: impl Fn(&Reported) -> bool) -> Result<()> {
        eventually(what, SOON, || async {
            let reported = self.reported.lock();
            ensure!(so(&reported), "{:?} {:?} {:?}", reported.shown(), reported.problems, reported.listed);
            Ok(())
        })
        .await
    }
    /// Ends it between two updates, without releasing anything.
    fn kill(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the addresses in the status of every entry, as the server stores them.
async fn given(server: &ApiServer) -> Result<BTreeMap<String, Vec<String>>> {
    let all = server.api().list("networking.istio.io/v1", "ServiceEntry").await?;
    let of = |object: &Value| {
        let list = object["status"]["addresses"].as_array().cloned().unwrap_or_default();
        let values = list.iter().map(|one| one["value"].as_str().unwrap_or_default().to_owned());
        (object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), values.collect())
    };
    Ok(all.iter().map(of).collect())
}

async fn until_all_are_given(server: &ApiServer, count: usize) -> Result<BTreeMap<String, Vec<String>>> {
    eventually("every entry to be given addresses", SOON, || async {
        let given = given(server).await?;
        let whole = given.values().filter(|addresses| addresses.len() == 2).count();
        ensure!(whole == count, "{whole} of {count}: {given:?}");
        let all: BTreeSet<&String> = given.values().flatten().collect();
        ensure!(all.len() == 2 * count, "an address was given twice: {given:?}");
        Ok(given)
    })
    .await
}

async fn cluster() -> Result<ApiServer> {
    let server = ApiServer::start().await?;
    server.api().define().await?;
    server.api().apply(&mk_namespace("shop")).await?;
    Ok(server)
}

#[tokio::test]
async fn definitions_added_at_runtime_are_read_and_removed_ones_end() -> Result<()> {
    let server = ApiServer::start().await?;
    server.api().apply(&mk_namespace("shop")).await?;
    let replica = Replica::reading(&server, &Login::user("admin"))?;
    replica
        .until("kinds that are absent to count as empty", |reported| reported.listed.len() == KINDS)
        .await?;
    server.api().define().await?;
    server.api().apply_all(&[entry("pay"), workload("w")]).await?;
    replica.until("the objects", |reported| reported.shown().keys().eq(["pay.example.com", "w"])).await?;
    server.api().apply(&entry("pay").with(json!({"spec": {"resolution": "SOMEHOW"}}))).await?;
    replica.until("the fault", |reported| reported.problems.contains_key("pay")).await?;
    assert_eq!(replica.reported.lock().shown().len(), 2, "its last good version stays");
    server.api().remove(&crd("serviceentries")).await?;
    replica.until("the entry to go", |reported| reported.shown().keys().eq(["w"])).await?;
    replica.until("the fault to go with it", |reported| reported.problems.is_empty()).await
}

#[tokio::test]
async fn lease_holder_allocates_addresses_and_its_successor_continues() -> Result<()> {
    let server = cluster().await?;
    let one = Replica::giving(&server, "one", Ranges::default())?;
    let two = Replica::giving(&server, "second", Ranges::default())?;
    for n in 0..12 {
        server.api().apply(&entry(&format!("a{n}"))).await?;
    }
    let first = until_all_are_given(&server, 12).await?;
    for replica in [&one, &two] {
        replica
            .until("both to serve the given addresses", |reported| {
                reported.shown().len() == 12
                    && reported.shown().values().all(|addresses| addresses.len() == 2)
            })
            .await?;
    }
    let lease = Named {
        api_version: "coordination.k8s.io/v1".into(),
        kind: "Lease".into(),
        namespace: Some("shop".into()),
        name: LEASE_NAME.into(),
    };
    let kept = server.api().find(&lease).await?.context("no lease")?;
    if kept["spec"]["holderIdentity"] == "one" {
        one.kill()
    } else {
        two.kill()
    }
    for n in 0..12 {
        server.api().apply(&entry(&format!("b{n}"))).await?;
    }
    let second = until_all_are_given(&server, 24).await?;
    for (name, addresses) in first {
        assert_eq!(second.get(&name), Some(&addresses), "{name} keeps what it was given");
    }
    let passed = server.api().find(&lease).await?.context("no lease")?;
    assert_ne!(passed["spec"]["holderIdentity"], kept["spec"]["holderIdentity"]);
    Ok(())
}

#[tokio::test]
async fn freed_address_is_reused_and_an_operators_is_not_taken() -> Result<()> {
    let server = cluster().await?;
    let two = Ranges::parse("10.99.0.0/30", "")?;
    let replica = Replica::giving(&server, "one", two)?;
    let user = entry("user").with(json!({"spec": {"addresses": ["10.99.0.1"]}}));
    server.api().apply_all(&[user, entry("a")]).await?;
    let has = |name: &'static str, ip: &'static str| {
        move |reported: &Reported| {
            reported.shown().get(&format!("{name}.example.com")).is_some_and(|all| all == &[ip])
        }
    };
    replica.until("the address that is left", has("a", "10.99.0.2")).await?;
    server.api().apply(&entry("b")).await?;
    replica.until("the exhausted range", |reported| reported.problems.contains_key("b")).await?;
    server.api().remove(&Named::of(&entry("a"))?).await?;
    replica.until("the address that was freed", has("b", "10.99.0.2")).await?;
    replica.until("nothing to be wrong", |reported| reported.problems.is_empty()).await
}

#[tokio::test]
async fn write_from_an_older_version_changes_nothing() -> Result<()> {
    const ENTRIES: Resource = Resource {
        group: std::borrow::Cow::Borrowed("networking.istio.io"),
        versions: &["v1"],
        plural: "serviceentries",
        kind: "ServiceEntry",
        namespaced: true,
        optional: true,
    };
    let server = cluster().await?;
    let old = server.api().apply(&entry("a")).await?;
    server.api().apply(&entry("a").with(json!({"metadata": {"labels": {"touched": "yes"}}}))).await?;
    let writer = Writer::new(connection(&server, &Login::user("admin"))?.client());
    let steps = |version: &Value| {
        let value = json!({"addresses": [{"value": "240.240.0.1", "host": "a.example.com"}]});
        [
            PatchOperation::Test { path: "/metadata/resourceVersion".into(), value: version.clone() },
            PatchOperation::Add { path: "/status".into(), value },
        ]
    };
    let name = ObjectName::new("shop", "a");
    let stale = steps(&old["metadata"]["resourceVersion"]);
    let refused = writer.patch(&ENTRIES, "v1", &name, Some("status"), &stale).await;
    assert!(matches!(refused, Err(ApiFailure::Conflict(_))), "{refused:?}");
    assert_eq!(given(&server).await?["a"], Vec::<String>::new());
    let now = server.api().find(&Named::of(&entry("a"))?).await?.context("it is gone")?;
    let fresh = steps(&now["metadata"]["resourceVersion"]);
    writer.patch(&ENTRIES, "v1", &name, Some("status"), &fresh).await?;
    assert_eq!(given(&server).await?["a"], ["240.240.0.1"]);
    Ok(())
}

#[tokio::test]
async fn addresses_are_allocated_while_other_writers_change_entries() -> Result<()> {
    let server = cluster().await?;
    let _replica = Replica::giving(&server, "one", Ranges::default())?;
    let names: Vec<String> = (0..6).map(|n| format!("a{n}")).collect();
    for round in 0..25 {
        for name in &names {
            let touched = entry(name).with(json!({"metadata": {"labels": {"round": round.to_string()}}}));
            server.api().apply(&touched).await?;
        }
    }
    let first = until_all_are_given(&server, 6).await?;
    for name in &names {
        let kept = server.api().find(&Named::of(&entry(name))?).await?.context("it is gone")?;
        assert_eq!(kept["metadata"]["labels"]["round"], "24", "a change was lost");
    }
    assert_eq!(until_all_are_given(&server, 6).await?, first);
    Ok(())
}

#[tokio::test]
async fn missing_permission_is_shown_and_its_grant_is_noticed() -> Result<()> {
    const READ: [&str; 10] = [
        "serviceentries",
        "workloadentries",
        "workloadgroups",
        "sidecars",
        "destinationrules",
        "virtualservices",
        "envoyfilters",
        "peerauthentications",
        "authorizationpolicies",
        "requestauthentications",
    ];
    let server = cluster().await?;
    let group = |plural: &str| match plural {
        "peerauthentications" | "authorizationpolicies" | "requestauthentications" => "security.istio.io",
        _ => "networking.istio.io",
    };
    let named = |plurals: &[&str]| plurals.iter().map(|p| format!("{}/{p}", group(p))).collect::<Vec<_>>();
    let allow = async |verbs: &[&str], resources: &[String]| {
        let resources: Vec<&str> = resources.iter().map(String::as_str).collect();
        server.api().allow("reader", verbs, &resources).await
    };
    allow(&["list", "watch"], &named(&READ[..1])).await?;
    server.api().apply_all(&[entry("a"), workload("w")]).await?;
    let reader = Replica::reading(&server, &Login::user("reader"))?;
    reader.until("the readable kind", |reported| reported.shown().keys().eq(["a.example.com"])).await?;
    assert!(!reader.reported.lock().listed.contains("workloadentries"));
    allow(&["list", "watch"], &named(&READ)).await?;
    reader.until("the rest", |reported| reported.shown().keys().eq(["a.example.com", "w"])).await
}

#[tokio::test]
async fn sidecars_survive_a_forbidden_read_and_follow_their_definition() -> Result<()> {
    const SIDECARS: &str = "sidecars";
    let server = cluster().await?;
    let allow = async |resources: &[&str]| server.api().allow("reader", &["list", "watch"], resources).await;
    let all = ["serviceentries", "workloadentries", "workloadgroups", SIDECARS]
        .map(|plural| format!("networking.istio.io/{plural}"));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    allow(&all).await?;
    server.api().apply_all(&[entry("a"), sidecar("./*")]).await?;
    let reader = Replica::reading(&server, &Login::user("reader"))?;
    let imports = |host: &'static str| {
        move |reported: &Reported| {
            reported.shown().get("Sidecar shop/narrow").is_some_and(|hosts| *hosts == [host])
        }
    };
    reader.until("the policy", imports("./*")).await?;
    server.api().apply(&sidecar("web/*")).await?;
    reader.until("its edit", imports("web/*")).await?;
    server.api().apply(&sidecar("no-namespace")).await?;
    reader.until("its fault", |reported| reported.problems.contains_key("narrow")).await?;
    assert!(imports("web/*")(&reader.reported.lock()), "its last good version stays");
    server.api().apply(&sidecar("web/*")).await?;
    reader.until("its repair", |reported| reported.problems.is_empty()).await?;

    // a 403 is no evidence
    allow(&all[..3]).await?;
    server.restart().await?;
    reader.until("the missing right", |reported| reported.withheld.contains(SIDECARS)).await?;
    server.api().apply(&entry("b")).await?;
    reader.until("another kind", |reported| reported.shown().contains_key("b.example.com")).await?;
    assert!(imports("web/*")(&reader.reported.lock()), "what cannot be read stays");
    server.api().apply(&sidecar("*/*")).await?;
    allow(&all).await?;
    reader.until("the grant", imports("*/*")).await?;

    // without its definition the kind is empty; restored, it is read again
    server.api().remove(&crd(SIDECARS)).await?;
    reader
        .until("the policy to go", |reported| !reported.shown().contains_key("Sidecar shop/narrow"))
        .await?;
    server.api().define().await?;
    server.api().apply(&sidecar("./*")).await?;
    reader.until("the policy again", imports("./*")).await?;
    server.api().remove(&Named::of(&sidecar("./*"))?).await?;
    reader.until("the deletion", |reported| !reported.shown().contains_key("Sidecar shop/narrow")).await
}

/// Returns the definition of a kind of Istio.
fn crd(plural: &str) -> Named {
    Named {
        api_version: "apiextensions.k8s.io/v1".into(),
        kind: "CustomResourceDefinition".into(),
        namespace: None,
        name: format!("{plural}.networking.istio.io"),
    }
}
