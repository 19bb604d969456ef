//! What DestinationRules cost: a change encodes the xDS clusters of its services, and their assignments only if labels or
//! the order of endpoints change.

use tributary_fixtures::mk_host;
use tributary_model::{
    Algorithm, ByNamespace, ClusterPolicy, EndpointPolicy, HostEntry, Labels, LoadBalancer, ResourceInputs,
    ServiceView, Shared, Subset, TrafficPolicy,
};

use super::*;

fn mk_subset(name: &str) -> Subset {
    Subset::new(name).unwrap()
}

/// Returns the catalog with a rule for every client of a host: this algorithm, and subset `v1` with this label.
fn ruled(catalog: &Catalog, host: &str, algorithm: Algorithm, label: (&str, &str)) -> Arc<Catalog> {
    let balancer = Some(Arc::new(LoadBalancer { algorithm, ..LoadBalancer::default() }));
    let whole = TrafficPolicy { balancer, ..TrafficPolicy::default() };
    let subsets = [(mk_subset("v1"), whole.clone())].into();
    let clusters = ClusterPolicy { whole, subsets, from: Arc::from([]) };
    let labels: Labels = [label].into_iter().collect();
    let subsets = [(mk_subset("v1"), labels, <_>::default())].into();
    let endpoints = EndpointPolicy { subsets, ..EndpointPolicy::default() };
    let mut out = Catalog { generation: catalog.generation + 1, ..catalog.clone() };
    let view = &out.hosts[&mk_host(host)].claimants[0];
    let mut port = view.ports[0].clone();
    let policy = Some(Arc::new(ByNamespace::new(Some(Arc::new(endpoints)), [])));
    if port.endpoints.inputs.policy != policy {
        let inputs = tributary_model::EndpointInputs { policy, ..port.endpoints.inputs.clone() };
        port.endpoints = Shared::new(ResourceInputs::new(inputs, port.endpoints.dimensions));
    }
    let policy = Some(Arc::new(ByNamespace::new(Some(Arc::new(clusters)), [])));
    if port.cluster.inputs.policy != policy {
        let inputs = tributary_model::ClusterInputs { policy, ..port.cluster.inputs.clone() };
        port.cluster = Shared::new(ResourceInputs::new(inputs, port.cluster.dimensions));
    }
    let view = ServiceView { ports: [port].into(), ..ServiceView::clone(view) };
    let entry = HostEntry { claimants: [Arc::new(view)].into(), led_by: Arc::default(), routes: None };
    out.hosts.insert(mk_host(host), Shared::new(entry));
    Arc::new(out)
}

#[test]
fn rule_change_encodes_clusters_and_endpoints_only_if_labels_change() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let plain = world.next(&[mk_svc("pay.shop"), mk_svc("cart.shop")]);
    let (pay, part) = ("outbound|80||pay.shop", "outbound|80|v1|pay.shop");
    let names = mk_many(&["outbound|80||cart.shop", pay, part]);
    let classes = [mk_envoy(), mk_class(ClientKind::Sidecar, "web")];
    let counts =
        || [ResourceType::Cluster, ResourceType::Endpoints].map(|kind| answers.counters().encodes(kind));
    let read = |before: &Arc<Catalog>, now: &Arc<Catalog>| {
        let was = counts();
        let of = |class: &ClientClassKey, kind| {
            let changed = answers.changed(before, now, class, kind);
            changed.upserted.iter().map(|one| one.name.to_string()).collect::<Vec<String>>()
        };
        let mut out = Vec::new();
        for class in &classes {
            out = vec![of(class, ResourceType::Cluster), of(class, ResourceType::Endpoints)];
            answers.all(now, class, ResourceType::Cluster);
            answers.many(now, class, ResourceType::Endpoints, &names);
        }
        let is = counts();
        (out, [is[0] - was[0], is[1] - was[1]])
    };
    for class in &classes {
        answers.all(&plain, class, ResourceType::Cluster);
        answers.many(&plain, class, ResourceType::Endpoints, &names);
    }
    let random = ruled(&plain, "pay.shop", Algorithm::Random, ("v", "1"));
    let (changed, encoded) = read(&plain, &random);
    assert_eq!(changed[0], [part, pay]);
    assert_eq!(encoded[0] % 2, 0, "the cluster and its subset, in each form of it: {encoded:?}");
    // an edit of settings: clusters, no assignment
    let robin = ruled(&random, "pay.shop", Algorithm::RoundRobin, ("v", "1"));
    let (changed, edited) = read(&random, &robin);
    assert_eq!((changed[0].as_slice(), changed[1].len()), (&[part.to_owned(), pay.to_owned()][..], 0));
    assert_eq!(edited, [encoded[0], 0]);
    // an edit of labels: no cluster
    let other = ruled(&robin, "pay.shop", Algorithm::RoundRobin, ("v", "2"));
    let (changed, edited) = read(&robin, &other);
    assert!(changed[0].is_empty() && edited[0] == 0 && edited[1] > 0, "{changed:?} {edited:?}");
    // an equal rule: nothing
    let same = ruled(&other, "pay.shop", Algorithm::RoundRobin, ("v", "2"));
    assert_eq!(read(&other, &same), (vec![Vec::new(), Vec::new()], [0, 0]));
}
