//! Tests of the index: who is woken by which publication.

use tributary_fixtures::{mk_egress, mk_policy, mk_sidecar};
use tributary_model::{
    AuthorizationAction, AuthorizationPolicy, ClientKind, ForwardingGateway, ForwardingServer, HostImport,
    HostPattern, ImportNamespace, Labels, MtlsMode, Namespace, PeerAuthentication, Policy, PolicyKey,
    PolicyView, Shared, Sidecar,
};

use super::*;
use crate::answers::ClientClass;
use crate::fixtures::*;

fn host(name: &str) -> Hostname {
    Hostname::new(name).unwrap()
}
fn changed(hosts: &[&str]) -> CatalogChanges {
    CatalogChanges { hosts: hosts.iter().map(|h| host(h)).collect(), ..CatalogChanges::default() }
}
fn publish(index: &InterestIndex, changed: &CatalogChanges) -> usize {
    index.published(&Arc::default(), changed, ObservedSince::default())
}
fn is_woken(wake: &Wake) -> bool {
    wake.state.lock().touched != ChangedHosts::Nothing
}
fn mk_node(namespace: &str, labels: &[(&str, &str)]) -> Arc<ClientNode> {
    let id = if namespace.is_empty() {
        "envoy".into()
    } else {
        format!("sidecar~10.0.0.7~w.{namespace}~{namespace}.svc.cluster.local")
    };
    let node = tributary_proto::Node { id: id.as_str().into(), ..tributary_proto::Node::default() };
    let labels: Labels = labels.iter().copied().collect();
    Arc::new(ClientNode { labels, ..ClientNode::parse(Some(&node)).unwrap() })
}
struct Stream {
    wake: Arc<Wake>,
    registration: Registration,
    class: ClientClassKey,
}
impl Stream {
    fn set(&mut self, interest: Interest) {
        self.registration.update(interest, &self.class, Vec::new());
    }
    /// Whether it was woken since the last call.
    fn was_woken(&self) -> bool {
        self.wake.state.lock().take().is_some()
    }
}
fn mk_stream_of(
    index: &Arc<InterestIndex>,
    node: &Arc<ClientNode>,
    catalog: &Catalog,
    interest: Interest,
) -> Stream {
    let wake = index.wake();
    let registration = index.register(Arc::clone(&wake), Arc::clone(node));
    let class = ClientClassKey::alone(node.at(catalog).0);
    let mut stream = Stream { wake, registration, class };
    stream.set(interest);
    stream
}
fn mk_stream(index: &Arc<InterestIndex>, interest: Interest) -> Stream {
    mk_stream_of(index, &mk_node("", &[]), &Catalog::default(), interest)
}
fn mk_hosts(names: &[&str]) -> Interest {
    Interest::Hosts(names.iter().map(|h| host(h)).collect())
}

/// A catalog with a changed entry for each host.
fn publish_hosts(index: &InterestIndex, world: &mut World, services: &[Svc], hosts: &[&str]) -> usize {
    index.published(&world.next(services), &changed(hosts), ObservedSince::default())
}

#[test]
fn only_interested_streams_are_woken() {
    let (index, mut world) = (Arc::new(InterestIndex::default()), World::default());
    let bulk = mk_stream(&index, Interest::Every);
    let a = mk_stream(&index, mk_hosts(&["a.x", "b.x"]));
    let b = mk_stream(&index, mk_hosts(&["b.x"]));
    let services = [mk_svc("a.x"), mk_svc("unknown.x")];
    assert_eq!(publish_hosts(&index, &mut world, &services, &["a.x", "unknown.x"]), 2);
    assert!(is_woken(&bulk.wake) && is_woken(&a.wake) && !is_woken(&b.wake));
    let settings = CatalogChanges { settings: true, ..CatalogChanges::default() };
    assert_eq!(publish(&index, &settings), 3);
    let pending = CatalogChanges { pending: true, ..CatalogChanges::default() };
    assert_eq!(publish(&index, &pending), 0, "pending services are not served");
}

#[test]
fn report_of_a_registry_wakes_no_stream() {
    let index = Arc::new(InterestIndex::default());
    let (bulk, _named) = (mk_stream(&index, Interest::Every), mk_stream(&index, mk_hosts(&["a.x"])));
    let registries = CatalogChanges { registries: true, ..CatalogChanges::default() };
    assert_eq!(publish(&index, &registries), 0);
    assert!(!is_woken(&bulk.wake));
}

#[test]
fn completeness_wakes_streams_that_hold_names() {
    let index = Arc::new(InterestIndex::default());
    let (_bulk, mut named) = (mk_stream(&index, Interest::Every), mk_stream(&index, mk_hosts(&["a.x"])));
    let complete = CatalogChanges { complete: true, ..CatalogChanges::default() };
    assert_eq!(publish(&index, &complete), 0);
    assert!(named.registration.hold(true) && !named.registration.hold(true));
    assert_eq!(publish(&index, &complete), 1);
    named.registration.hold(false);
    assert_eq!(publish(&index, &complete), 0);
    named.registration.hold(true);
    drop(named);
    assert!(index.holding.is_empty());
}

#[test]
fn a_changed_interest_replaces_the_old_one() {
    let (index, mut world) = (Arc::new(InterestIndex::default()), World::default());
    let mut stream = mk_stream(&index, mk_hosts(&["a.x", "b.x"]));
    stream.set(mk_hosts(&["b.x", "c.x"]));
    assert_eq!(publish(&index, &changed(&["a.x"])), 0);
    assert_eq!(publish(&index, &changed(&["b.x", "c.x"])), 2);
    stream.set(Interest::Every);
    let woken = publish_hosts(&index, &mut world, &[mk_svc("c.x")], &["c.x"]);
    assert_eq!((index.len(), woken), ((0, 1), 1));
}

#[test]
fn dropped_registrations_leave_the_index_empty() {
    let index = Arc::new(InterestIndex::default());
    let streams: Vec<_> =
        (0..50).map(|n| mk_stream(&index, mk_hosts(&[&format!("h{n}.x"), "all.x"]))).collect();
    let own = mk_stream_of(&index, &mk_node("shop", &[]), &Catalog::default(), Interest::Every);
    drop((streams, own, mk_stream(&index, Interest::Every)));
    assert!(index.is_empty() && index.attached.is_empty() && index.own.is_empty());
}

#[tokio::test]
async fn woken_stream_counts_as_waiting_until_handled_or_closed() {
    let index = Arc::new(InterestIndex::default());
    let (a, b) = (mk_stream(&index, mk_hosts(&["a.x"])), mk_stream(&index, mk_hosts(&["a.x"])));
    assert_eq!(index.waiting(), 0, "no stream was woken");
    for _ in 0..2 {
        assert_eq!(publish(&index, &changed(&["a.x"])), 2);
    }
    a.wake.handled();
    assert_eq!(index.waiting(), 2, "a wake-up that was not taken cannot be handled");
    a.wake.woken().await;
    assert_eq!(index.waiting(), 2, "it was taken but not handled");
    a.wake.handled();
    a.wake.handled();
    assert_eq!(index.waiting(), 1);
    drop((a, b));
    assert_eq!(index.waiting(), 0, "a closed stream is not waiting");
}

#[tokio::test]
async fn wake_ups_are_merged_without_loss() {
    let wake = Wake::default();
    let at = |ms| ObservedSince::batch(tributary_model::Mono(ms), true);
    wake.wake_for(&host("a.x"), at(7));
    wake.wake_for(&host("b.x"), at(9));
    assert_eq!(wake.woken().await, (ChangedHosts::Hosts([host("a.x"), host("b.x")].into()), at(7)));
    assert!(!is_woken(&wake));
    wake.wake(ObservedSince::default());
    tokio::time::timeout(std::time::Duration::from_secs(5), wake.woken()).await.unwrap();
}

fn mk_importing(namespace: &str, name: &str, app: &str, hosts: &[&str]) -> (PolicyKey, Shared<PolicyView>) {
    let selector = [("app", app)].into_iter().filter(|(_, app)| !app.is_empty()).collect();
    mk_sidecar(
        namespace,
        name,
        Sidecar { selector, egress: mk_egress(&[(None, hosts)]), ..Sidecar::default() },
    )
}
fn with_policies(catalog: &Catalog, policies: &[(PolicyKey, Shared<PolicyView>)]) -> Arc<Catalog> {
    Arc::new(Catalog { policies: policies.iter().cloned().collect(), ..catalog.clone() })
}

#[test]
fn change_outside_a_scope_wakes_no_client_in_it() {
    let (index, mut world) = (Arc::new(InterestIndex::default()), World::default());
    let policies = [mk_importing("web", "default", "", &["./*", "shop/pay.shop"])];
    let mut next = |services: &[Svc]| with_policies(&world.next(services), &policies);
    let (pay, cart) = (mk_svc("pay.shop"), mk_svc("cart.shop"));
    let first = next(&[pay.clone(), cart.clone()]);
    let narrow = mk_stream_of(&index, &mk_node("web", &[]), &first, Interest::Every);
    let wide = mk_stream_of(&index, &mk_node("blog", &[]), &first, Interest::Every);
    let mut publish = |services: &[Svc], host: &str| {
        index.published(&next(services), &changed(&[host]), ObservedSince::default());
        (narrow.was_woken(), wide.was_woken())
    };
    assert_eq!(publish(&[pay.clone(), cart.clone()], "pay.shop"), (true, true), "the first publication");
    let cart = cart.at(&["10.0.0.2"]);
    assert_eq!(publish(&[pay.clone(), cart.clone()], "cart.shop"), (false, true));
    assert_eq!(publish(&[pay.at(&["10.0.0.3"]), cart.clone()], "pay.shop"), (true, true));
    assert_eq!(publish(std::slice::from_ref(&cart), "pay.shop"), (true, true), "its removal");
    let hidden = mk_svc("own.shop").in_namespace("web").seen_by(&["web"]);
    assert_eq!(publish(&[cart.clone(), hidden], "own.shop"), (true, false));
    assert_eq!(publish(&[cart], "own.shop"), (true, false));
}

#[test]
fn changes_in_a_catalog_before_they_are_named_are_not_lost() {
    let (index, mut world) = (Arc::new(InterestIndex::default()), World::default());
    let bulk = mk_stream(&index, Interest::Every);
    let early = world.next(&[mk_svc("a.x"), mk_svc("b.x")]);
    let complete = CatalogChanges { complete: true, ..CatalogChanges::default() };
    index.published(&early, &complete, ObservedSince::default());
    assert!(!bulk.was_woken());
    index.published(&early, &changed(&["a.x"]), ObservedSince::default());
    assert!(bulk.was_woken(), "it sees both hosts now");
    index.published(&early, &changed(&["b.x"]), ObservedSince::default());
    assert!(!bulk.was_woken());
}

#[test]
fn a_stream_that_is_skipped_for_long_is_moved_on() {
    let (index, mut world) = (Arc::new(InterestIndex::default()), World::default());
    let policies = [mk_importing("web", "default", "", &["~/*"])];
    let mut next = |n: u64| {
        let svc = mk_svc("a.x").at(&[&format!("10.0.{}.1", n % 250)]);
        with_policies(&world.next(&[svc]), &policies)
    };
    let first = next(0);
    let stream = mk_stream_of(&index, &mk_node("web", &[]), &first, Interest::Every);
    let woken = (1..=600).filter(|n| {
        index.published(&next(*n), &changed(&["a.x"]), ObservedSince::default());
        stream.was_woken()
    });
    assert_eq!(woken.collect::<Vec<_>>(), [255, 511], "the generation of the first catalog is 1");
}

#[test]
fn policy_wakes_only_clients_whose_class_it_changes() {
    let (index, world) = (Arc::new(InterestIndex::default()), Catalog::default());
    let of = |policies: &[(PolicyKey, Shared<PolicyView>)]| with_policies(&world, policies);
    let pay = mk_node("shop", &[("app", "pay")]);
    let cart = mk_node("shop", &[("app", "cart")]);
    let web = mk_node("web", &[("app", "pay")]);
    let mut held = of(&[]);
    let mut publish = |policies: &[(PolicyKey, Shared<PolicyView>)]| {
        let streams = [&pay, &cart, &web].map(|node| mk_stream_of(&index, node, &held, Interest::Every));
        held = of(policies);
        let keys = policies.iter().map(|(key, _)| key.clone());
        let named = ["istio-system", "shop"].map(|ns| mk_importing(ns, "default", "", &["./*"]).0);
        let changed = CatalogChanges { policies: keys.chain(named).collect(), ..CatalogChanges::default() };
        index.published(&held, &changed, ObservedSince::default());
        streams.map(|stream| stream.was_woken())
    };
    assert_eq!(publish(&[mk_importing("shop", "a", "none", &["./*"])]), [false; 3], "it selects no client");
    assert_eq!(publish(&[mk_importing("shop", "a", "pay", &["./*"])]), [true, false, false]);
    assert_eq!(publish(&[mk_importing("shop", "a", "pay", &["./*"])]), [false; 3], "equal content");
    assert_eq!(publish(&[mk_importing("shop", "a", "pay", &["web/*"])]), [true, false, false]);
    assert_eq!(publish(&[mk_importing("shop", "a", "", &["web/*"])]), [false, true, false]);
    let all = mk_importing("istio-system", "default", "", &["./*"]);
    assert_eq!(publish(&[mk_importing("shop", "a", "", &["web/*"]), all]), [false, false, true]);
    assert_eq!(publish(&[]), [true; 3]);
}

/// A thousand workloads with a PeerAuthentication and an AuthorizationPolicy each.
#[test]
fn inbound_policies_wake_the_workloads_that_they_select_and_no_other() {
    const ALL: usize = 1_000;
    let index = Arc::new(InterestIndex::default());
    let selector = |n: usize| [("app", &*n.to_string())].into_iter().collect::<Labels>();
    let peer = |n: usize, mode| {
        let peers =
            PeerAuthentication { selector: selector(n), mode: Some(mode), ..PeerAuthentication::default() };
        mk_policy("shop", &format!("p{n}"), Policy::PeerAuthentication(peers))
    };
    let authorization = |n: usize, action| {
        let (is_dry_run, rules, ignored) = (false, Arc::default(), Arc::default());
        let policy = AuthorizationPolicy { selector: selector(n), action, is_dry_run, rules, ignored };
        mk_policy("shop", &format!("a{n}"), Policy::AuthorizationPolicy(policy))
    };
    let both = |n| [peer(n, MtlsMode::Strict), authorization(n, AuthorizationAction::Allow)];
    let policies: Vec<(PolicyKey, Shared<PolicyView>)> = (0..ALL).flat_map(both).collect();
    let held = with_policies(&Catalog::default(), &policies);
    let node = |n: usize| mk_node("shop", &[("app", &n.to_string())]);
    let grpc = |n: usize| {
        let node = ClientNode::clone(&node(n));
        let class = ClientClass { kind: ClientKind::Grpc, ..node.class };
        Arc::new(ClientNode { class, ..node })
    };
    let nodes = (0..ALL).map(node).chain([grpc(7)]);
    let streams: Vec<Stream> =
        nodes.map(|node| mk_stream_of(&index, &node, &held, Interest::Every)).collect();
    let publish = |now: &Arc<Catalog>, key: &PolicyKey| {
        let changes = CatalogChanges { policies: [key.clone()].into(), ..CatalogChanges::default() };
        index.published(now, &changes, ObservedSince::default())
    };
    let woken = || -> Vec<usize> {
        streams.iter().enumerate().filter(|(_, stream)| stream.was_woken()).map(|(at, _)| at).collect()
    };
    // classes of streams that have just been registered are compared at any change
    for _ in 0..2 {
        publish(&held, &policies[0].0);
        woken();
    }
    for changed in [peer(7, MtlsMode::Disable), authorization(7, AuthorizationAction::Deny)] {
        let others = policies.iter().filter(|(key, _)| *key != changed.0).cloned();
        let now = with_policies(&held, &others.chain([changed.clone()]).collect::<Vec<_>>());
        assert_eq!(publish(&now, &changed.0), 2, "{}", changed.0);
        assert_eq!(woken(), [7, ALL], "{}", changed.0);
        publish(&held, &changed.0);
        woken();
    }
}

/// A stream takes its class from a generation between two publications, which lack the policy that it has then.
#[test]
fn class_from_a_generation_between_two_publications_is_compared() {
    let index = Arc::new(InterestIndex::default());
    let (key, view) = mk_importing("shop", "a", "pay", &["./*"]);
    let (without, with) =
        (Arc::new(Catalog::default()), with_policies(&Catalog::default(), &[(key.clone(), view)]));
    let changes = CatalogChanges { policies: [key].into(), ..CatalogChanges::default() };
    for _ in 0..3 {
        index.published(&without, &changes, ObservedSince::default());
    }
    let stream = mk_stream_of(&index, &mk_node("shop", &[("app", "pay")]), &with, Interest::Every);
    index.published(&without, &changes, ObservedSince::default());
    assert!(stream.was_woken(), "its class is that of the generation between");
}

#[test]
fn gateway_wakes_the_routers_that_it_selects() {
    let (index, catalog) = (Arc::new(InterestIndex::default()), Arc::new(Catalog::default()));
    let router = |namespace: &str, label: &str| {
        let id = format!("router~10.0.0.7~r.{namespace}~{namespace}.svc.cluster.local");
        let node = tributary_proto::Node { id: id.as_str().into(), ..tributary_proto::Node::default() };
        let labels = [("gateway", label)].into_iter().collect();
        Arc::new(ClientNode { labels, ..ClientNode::parse(Some(&node)).unwrap() })
    };
    let nodes = [
        router("web", "one"),
        router("shop", "one"),
        router("web", "two"),
        mk_node("web", &[("gateway", "one")]),
        mk_node("", &[]),
    ];
    let streams = nodes.map(|node| mk_stream_of(&index, &node, &catalog, mk_hosts(&["pay.shop"])));
    let hosts = [HostImport { namespace: ImportNamespace::Any, host: HostPattern::new("*").unwrap() }].into();
    let server = ForwardingServer { port: tributary_fixtures::mk_port(15_443), bind: None, hosts };
    let gateway = ForwardingGateway {
        selector: [("gateway", "one")].into_iter().collect(),
        servers: [server].into(),
        ..ForwardingGateway::default()
    };
    let policy = mk_policy("istio-system", "a", Policy::Gateway(gateway));
    let now = with_policies(&catalog, std::slice::from_ref(&policy));
    let changed = CatalogChanges { policies: [policy.0].into(), ..CatalogChanges::default() };
    index.published(&now, &changed, ObservedSince::default());
    let woken: Vec<bool> = streams.iter().map(Stream::was_woken).collect();
    assert_eq!(woken, [true, true, false, false, false]);
}

#[test]
fn rules_wake_no_client_however_many_there_are() {
    let index = Arc::new(InterestIndex::default());
    let rule = |n: usize| {
        let rule = tributary_fixtures::mk_rule("none.shop", &[]);
        mk_policy("shop", &n.to_string(), tributary_model::Policy::DestinationRule(rule))
    };
    let policies: Vec<(PolicyKey, Shared<PolicyView>)> = (0..2_000).map(rule).collect();
    let now = with_policies(&Catalog::default(), &policies);
    let node = mk_node("shop", &[("app", "pay")]);
    let streams: Vec<_> = (0..1_000).map(|_| mk_stream_of(&index, &node, &now, Interest::Every)).collect();
    let sidecar = mk_importing("shop", "a", "none", &["./*"]).0;
    for changed in [policies[0].0.clone(), sidecar] {
        let changed = CatalogChanges { policies: [changed].into(), ..CatalogChanges::default() };
        assert_eq!(index.published(&now, &changed, ObservedSince::default()), 0);
    }
    assert!(!streams.into_iter().any(|stream| stream.was_woken()));
}

#[test]
fn own_workload_and_its_services_wake_a_client_outside_its_scope() {
    let (index, mut world) = (Arc::new(InterestIndex::default()), World::default());
    let hidden = |ip: &str| mk_svc("pay.shop").at(&[ip]).seen_by(&["nowhere"]);
    let node = mk_node("shop", &[]);
    let mut stream = mk_stream_of(&index, &node, &Catalog::default(), Interest::Every);
    let class = stream.class.clone();
    stream.registration.update(Interest::Every, &class, vec![host("pay.shop")]);
    let mut publish = |services: &[Svc], ip: &str, name: &str| {
        let (catalog, key) = mk_with_workload(&world.next(services), ip, &["pay.shop"]);
        let changed = CatalogChanges { workloads: [key].into(), ..changed(&[name]) };
        index.published(&catalog, &changed, ObservedSince::default());
        stream.was_woken()
    };
    assert!(publish(&[hidden("10.0.0.1")], "10.0.0.7", "pay.shop"), "a workload at its address");
    assert!(publish(&[hidden("10.0.0.2")], "10.0.0.7", "pay.shop"), "a service of its workload");
    assert!(publish(&[hidden("10.0.0.2")], "10.0.0.8", "other.shop"), "its workload is gone");
    assert!(!publish(&[hidden("10.0.0.3")], "10.0.0.9", "other.shop"));
}

#[test]
fn hostile_numbers_of_scopes_and_hosts_wake_all_without_comparing() {
    let (index, mut world) = (Arc::new(InterestIndex::default()), World::default());
    let class = |n: usize| {
        let namespace = Namespace::new(format!("n{n}")).ok();
        ClientClassKey::alone(ClientClass { namespace, ..ClientClass::new(ClientKind::Sidecar) })
    };
    let node = mk_node("", &[]);
    let mut streams: Vec<Stream> = (0..1_000).map(|_| mk_stream(&index, mk_hosts(&[]))).collect();
    for (n, stream) in streams.iter_mut().enumerate() {
        stream.registration.update(Interest::Every, &class(n), Vec::new());
    }
    let services: Vec<Svc> = (0..100).map(|n| mk_svc(&format!("h{n}.x")).seen_by(&["n7"])).collect();
    assert_eq!(publish_hosts(&index, &mut world, &services[..60], &["h1.x"]), 1, "60,000 comparisons");
    assert_eq!(publish_hosts(&index, &mut world, &[], &["h1.x"]), 1);
    assert_eq!(publish_hosts(&index, &mut world, &services, &["h1.x"]), 1_000, "100,000 comparisons");
    drop((streams, node));
    assert!(index.is_empty());
}
