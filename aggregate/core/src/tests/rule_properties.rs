//! DestinationRules under any delivery: each client of each service has what a naive choice gives it, and what a fresh
//! build gives it.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use tributary_model::{
    Algorithm, Fact, FailoverLabel, LoadBalancer, LocalityBalancing, Namespace, OutlierDetection, Policy,
    PortPolicies, Settings, TrafficPolicy,
};

use super::fixtures::*;
use super::naive::rules::{answer, read};
use super::properties::{Update, any_delivery, final_facts, fresh, mk_specs, walk};

const SERVICES: [&str; 4] =
    ["shop/pay.shop", "web/pay.shop", "shop/cart.shop.svc.cluster.local", "web/go.web.svc.mesh.test"];
const PATTERNS: [&str; 8] = [
    "pay.shop",
    "*.shop",
    "*",
    "cart",
    "go",
    "cart.shop",
    "*.svc.cluster.local",
    "cart.shop.svc.cluster.local",
];
const EXPORTS: [&str; 7] = ["", "*", ".", "shop", "web,ops", "shop,web,ops", "istio-system"];

fn any_service_fact() -> impl Strategy<Value = Fact> {
    let ports = select(&["80 http", "80 http, 81 admin", "81 admin"][..]);
    (select(&SERVICES[..]), ports, 0..2_i64, select(&["", "*", "shop", "web"][..])).prop_map(
        |(service, ports, created, export)| {
            let namespace = mk_ns(service.split('/').next().unwrap());
            let export = tributary_model::ExportTo::parse(export.split(','), &namespace);
            let created = tributary_model::Timestamp::from_second(created).ok();
            mk_service(service, tributary_model::Declaration { created, export, ..mk_decl("x", ports) })
        },
    )
}

fn any_policy() -> impl Strategy<Value = TrafficPolicy> {
    let algorithm = select(&[None, None, Some(Algorithm::Random), Some(Algorithm::RoundRobin)][..]);
    (algorithm, any::<bool>()).prop_map(|(algorithm, ejects)| TrafficPolicy {
        balancer: algorithm.map(|algorithm| Arc::new(LoadBalancer { algorithm, ..LoadBalancer::default() })),
        outliers: ejects.then(|| Arc::new(OutlierDetection::default())),
        ..TrafficPolicy::default()
    })
}

fn any_policies() -> impl Strategy<Value = PortPolicies> {
    let port = proptest::option::of(any_policy());
    prop_oneof![
        Just(PortPolicies::default()),
        (any_policy(), port).prop_map(|(all, port)| {
            let ports = port.into_iter().map(|policy| (mk_port(80), policy)).collect();
            PortPolicies { all, ports: Arc::new(ports) }
        })
    ]
}

fn any_rule() -> impl Strategy<Value = Fact> {
    let names = ["shop/a", "shop/b", "shop/c", "web/a", "web/b", "ops/a", "istio-system/a", "istio-system/b"];
    let subsets = select(&["", "", "v1", "v2", "v1,v2", "v2,v3"][..]);
    let parts = (select(names.to_vec()), 0..3_i64, select(&PATTERNS[..]), select(&EXPORTS[..]), subsets);
    (parts, any_policies(), any_policies(), any::<bool>()).prop_map(
        |((name, created, host, export, subsets), all, of_subset, selects)| {
            let mut fact = mk_rule(name, created, host, export, subsets);
            let Fact::Policy(_, declared) = &mut fact else { panic!("not a policy") };
            let Policy::DestinationRule(rule) = &mut Arc::make_mut(declared).policy else {
                panic!("not a rule")
            };
            rule.policies = all;
            rule.subsets = rule
                .subsets
                .iter()
                .map(|one| tributary_model::SubsetRule { policies: of_subset.clone(), ..one.clone() })
                .collect();
            if selects && created == 2 {
                rule.selector = mk_labels("a=1");
            }
            fact
        },
    )
}

/// Failover by a label; by localities alone if it is empty.
fn mk_failover(label: &str) -> LocalityBalancing {
    let labels = Some(label).filter(|label| !label.is_empty()).map(FailoverLabel::read);
    LocalityBalancing::Failover { regions: Arc::default(), labels: labels.into_iter().collect() }
}

fn any_settings() -> impl Strategy<Value = Fact> {
    let root = proptest::option::of(select(&["shop", "ops"][..]));
    let locality = proptest::option::of(select(&["", "tier", "tier=a"][..]));
    (root, proptest::option::of(Just("mesh.test")), locality).prop_map(|(root, domain, locality)| {
        Fact::Settings(Arc::new(Settings {
            root_namespace: root.map(mk_ns),
            domain: domain.map(Into::into),
            locality: locality.map(|label| Arc::new(mk_failover(label))),
            ..Settings::default()
        }))
    })
}

fn any_history() -> impl Strategy<Value = Vec<Update>> {
    let update = prop_oneof![
        4 => (0..3_usize, any_service_fact(), any::<bool>()),
        9 => (0..3_usize, any_rule(), any::<bool>()),
        // only one registry has settings: the naive function does not combine them
        1 => any_settings().prop_map(|fact| (0, fact, true)),
    ];
    let update = (update, 0..10_u8).prop_map(|((registry, fact, put), n)| (registry, fact, put || n > 2));
    proptest::collection::vec(update, 1..40)
}

fn clients() -> Vec<Option<Namespace>> {
    let named = ["shop", "web", "ops", "istio-system", "other"].map(|name| Some(mk_ns(name)));
    std::iter::once(None).chain(named).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_delivery_of_rules_ends_in_the_naive_choice(history in any_history(), delivery in any_delivery()) {
        let facts = final_facts(&history);
        let catalog = walk(&history, &delivery);
        prop_assert_eq!(read(&catalog, &clients()), answer(&mk_specs(), &facts, &catalog, &clients()));
    }

    #[test]
    fn every_delivery_of_rules_ends_in_a_fresh_build(history in any_history(), delivery in any_delivery()) {
        let (walked, fresh) = (walk(&history, &delivery), fresh(&final_facts(&history)));
        for (a, b) in walked.services().zip(fresh.services()) {
            prop_assert_eq!((&a.key, a.ports.len()), (&b.key, b.ports.len()));
            for (a, b) in a.ports.iter().zip(b.ports.iter()) {
                prop_assert_eq!(&a.cluster.inputs.policy, &b.cluster.inputs.policy);
                prop_assert_eq!(&a.endpoints.inputs.policy, &b.endpoints.inputs.policy);
                prop_assert_eq!(&a.endpoints.inputs.locality, &b.endpoints.inputs.locality);
                prop_assert_eq!(&a.cluster.inputs.locality, &b.cluster.inputs.locality);
                prop_assert_eq!(a.cluster.dimensions, b.cluster.dimensions);
                prop_assert_eq!(a.endpoints.dimensions, b.endpoints.dimensions);
            }
        }
        prop_assert_eq!(&walked.compared_labels, &fresh.compared_labels);
        prop_assert_eq!(walked.services().count(), fresh.services().count());
    }
}
