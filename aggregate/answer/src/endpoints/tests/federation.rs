//! Members of a federated service: shares, standby members, endpoints of two members.

use std::sync::Arc;

use super::*;

/// A member's endpoints as `10.0.0.1`, `!` for unhealthy.
fn mk_member(
    at: u16,
    registry: &str,
    endpoints: &str,
    change: impl FnOnce(&mut FederationInfo),
) -> EndpointSource {
    let address = |text: &str| match text.strip_suffix('!') {
        Some(ip) => with_health(ip, Health::Unhealthy),
        None => mk_address(text),
    };
    let group = mk_group("g", &[], endpoints.split_whitespace().map(address).collect());
    let mut info = FederationInfo {
        member: at,
        host: mk_host("pay.shop"),
        share: None,
        standby: false,
        min_healthy: None,
        stale: false,
        labels: Labels::from_iter([(labels::REGISTRY, registry)]),
    };
    change(&mut info);
    EndpointSource { federation: Some(Arc::new(info)), ..mk_source(registry, group) }
}
fn share(n: u32) -> impl FnOnce(&mut FederationInfo) {
    move |info| info.share = Some(n)
}
fn active(enough: Option<u32>) -> impl FnOnce(&mut FederationInfo) {
    move |info| info.min_healthy = enough
}
fn standby(enough: Option<u32>) -> impl FnOnce(&mut FederationInfo) {
    move |info| (info.standby, info.min_healthy) = (true, enough)
}

#[test]
fn without_shares_all_endpoints_have_equal_weight() {
    let both = [mk_member(0, "east", "10.0.0.1 10.0.0.2", |_| ()), mk_member(1, "vms", "10.0.1.1", |_| ())];
    let both = mk_facts(both.to_vec());
    assert_eq!(assign_all(&both), ["0 10.0.0.1:8080 1", "0 10.0.0.2:8080 1", "0 10.0.1.1:8080 1"]);
    let assignment = endpoints(&both, &Projection::default(), &mut ());
    let registries: Vec<_> = assignment.endpoints().map(|e| e.label(labels::REGISTRY)).collect();
    assert_eq!(registries, [Some("east"), Some("east"), Some("vms")]);
}

#[test]
fn without_shares_a_warning_lowers_its_own_weight() {
    let vms = |weights: &[u32], unit| {
        let mut source = mk_member(1, "vms", "", |_| ());
        source.group = mk_weighted("10.0.1.", weights, unit);
        source
    };
    let shown = |weights: &[u32], unit| {
        let east = mk_member(0, "east", "10.0.0.1", |_| ());
        assign_all(&mk_facts(vec![east, vms(weights, unit)]))
    };
    assert_eq!(shown(&[1, 1], 1), ["0 10.0.0.1:8080 1", "0 10.0.1.1:8080 1", "0 10.0.1.2:8080 1"]);
    assert_eq!(shown(&[10, 1], 10), ["0 10.0.0.1:8080 10", "0 10.0.1.1:8080 10", "0 10.0.1.2:8080 1"]);
}

#[test]
fn share_of_a_member_is_divided_in_common_units() {
    let member = |at, registry, weights: &[u32], unit, net| {
        let mut source = mk_member(at, registry, "", share(1));
        source.group = mk_weighted(net, weights, unit);
        source
    };
    let facts = mk_facts(vec![
        member(0, "east", &[1], 1, "10.0.0."),
        member(1, "vms", &[10, 1], 10, "10.0.1."),
        member(1, "peer", &[3], 3, "10.0.2."),
    ]);
    let assignment = endpoints(&facts, &Projection::default(), &mut ());
    let weights: Vec<u32> = assignment.endpoints().map(|e| e.weight).collect();
    // the shares are equal; within the second member the weights are as 1 to 0.1 to 1
    assert_eq!(weights, [10_000, 4761, 476, 4761]);
}

#[test]
fn share_is_divided_among_healthy_endpoints_of_a_member() {
    let sums = |east: &str, vms: &str| {
        let facts = mk_facts(vec![mk_member(0, "east", east, share(9)), mk_member(1, "vms", vms, share(1))]);
        let assignment = endpoints(&facts, &Projection::default(), &mut ());
        let healthy = |registry: &str| -> u32 {
            let of = assignment.endpoints().filter(|e| e.label(labels::REGISTRY) == Some(registry));
            of.filter(|e| e.health == Health::Healthy).map(|e| e.weight).sum()
        };
        (healthy("east"), healthy("vms"))
    };
    assert_eq!(sums("10.0.0.1", "10.0.1.1"), (90_000, 10_000));
    assert_eq!(sums("10.0.0.1 10.0.0.2", "10.0.1.1 10.0.1.2 10.0.1.3 10.0.1.4"), (90_000, 10_000));
    assert_eq!(
        sums("10.0.0.1 10.0.0.2!", "10.0.1.1"),
        (90_000, 10_000),
        "its healthy endpoints take the whole share"
    );
}

#[test]
fn member_with_share_zero_gets_no_traffic() {
    let facts =
        mk_facts(vec![mk_member(0, "east", "10.0.0.1", share(1)), mk_member(1, "vms", "10.0.1.1", share(0))]);
    assert_eq!(assign_all(&facts), ["0 10.0.0.1:8080 10000"]);
    assert_eq!(codes(&facts, &Projection::default())[0].2, Code::FEDERATED.number());
}

#[test]
fn near_endpoints_precede_shares() {
    let near = |mut source: EndpointSource, region: &str| {
        let mut group = EndpointGroup::clone(&source.group);
        let topology = mk_topology("", region, "");
        let moved = |a: &Address| Address { topology: Arc::clone(&topology), ..a.clone() };
        group.addresses = group.addresses.iter().map(moved).collect();
        source.group = Arc::new(group);
        source
    };
    let mut facts = mk_facts(vec![
        near(mk_member(0, "east", "10.0.0.1", share(1)), "r1"),
        near(mk_member(1, "vms", "10.0.1.1", share(99)), "r2"),
    ]);
    facts.traffic = TrafficDistribution::SameZone;
    let client = Projection { locality: Some(Locality::parse("r1")), ..Projection::default() };
    assert_eq!(
        shown(&endpoints(&facts, &client, &mut ())),
        ["0 10.0.0.1:8080 10000", "1 10.0.1.1:8080 990000"]
    );
}

#[test]
fn standby_serves_when_too_few_active_endpoints_are_healthy() {
    let served = |active_ones: &str| {
        let facts = mk_facts(vec![
            mk_member(0, "east", active_ones, active(Some(2))),
            mk_member(1, "vms", "10.0.1.1", standby(Some(2))),
        ]);
        assign_all(&facts)
    };
    assert_eq!(served("10.0.0.1 10.0.0.2"), ["0 10.0.0.1:8080 1", "0 10.0.0.2:8080 1"]);
    let two = ["0 10.0.0.1:8080 1", "0 10.0.0.2:8080 1", "0 10.0.1.1:8080 1"];
    assert_eq!(served("10.0.0.1 10.0.0.2!"), two);
    assert_eq!(served(""), ["0 10.0.1.1:8080 1"]);
    let waits = mk_facts(vec![
        mk_member(0, "east", "10.0.0.1", active(Some(1))),
        mk_member(1, "vms", "10.0.1.1", standby(Some(1))),
    ]);
    let refused = codes(&waits, &Projection::default());
    assert_eq!(refused, [(Stage::Weight, Verdict::Drop, 529, "10.0.1.1:8080".into())]);
}

#[test]
fn without_a_minimum_standby_has_a_lower_priority() {
    let mut facts =
        vec![mk_member(0, "east", "10.0.0.1!", active(None)), mk_member(1, "vms", "10.0.1.1", standby(None))];
    assert_eq!(assign_all(&mk_facts(facts.clone())), ["0 10.0.0.1:8080 1", "1 10.0.1.1:8080 1"]);
    facts[0].priority = ShardPriority::Demoted;
    let demoted = mk_facts(facts);
    assert_eq!(assign_all(&demoted), ["0 10.0.0.1:8080 1", "1 10.0.1.1:8080 1"], "before its standby");
}

#[test]
fn demoted_endpoints_do_not_exclude_standby() {
    let mut sources = vec![
        mk_member(0, "east", "10.0.0.1", active(Some(1))),
        mk_member(1, "vms", "10.0.1.1", standby(Some(1))),
    ];
    sources[0].priority = ShardPriority::Demoted;
    let served = ["0 10.0.1.1:8080 1", "1 10.0.0.1:8080 1"];
    assert_eq!(assign_all(&mk_facts(sources)), served, "the demoted endpoint comes last");
}

#[test]
fn stale_endpoints_are_served_and_do_not_exclude_standby() {
    let stale = |info: &mut FederationInfo| (info.min_healthy, info.stale) = (Some(1), true);
    let sources =
        vec![mk_member(0, "east", "10.0.0.1", stale), mk_member(1, "vms", "10.0.1.1", standby(Some(1)))];
    assert_eq!(assign_all(&mk_facts(sources)), ["0 10.0.0.1:8080 1", "0 10.0.1.1:8080 1"]);
}

#[test]
fn endpoint_of_two_members_is_active_if_either_is() {
    let facts = mk_facts(vec![
        mk_member(0, "east", "10.0.0.1", standby(Some(1))),
        mk_member(1, "vms", "10.0.0.1!", active(Some(1))),
    ]);
    let assignment = endpoints(&facts, &Projection::default(), &mut ());
    let served: Vec<_> = assignment.endpoints().map(|e| (e.label(labels::REGISTRY), e.health)).collect();
    assert_eq!(served, [(Some("east"), Health::Unhealthy)], "the first owns it, the worst health stands");
    let healthy = mk_facts(vec![
        mk_member(0, "east", "10.0.0.1", standby(Some(1))),
        mk_member(1, "vms", "10.0.0.1", active(Some(1))),
    ]);
    assert_eq!(assign_all(&healthy), ["0 10.0.0.1:8080 1"], "it is active, and keeps no standby");
}
