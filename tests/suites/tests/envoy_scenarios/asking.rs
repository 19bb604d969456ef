//! Scenarios 7, 8 and 9: stale nonces, repeated requests, requests for absent resources.

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use tributary_suites::ads::{CDS, EDS, LDS, RDS, node};
use tributary_suites::{AdsClient, Follower, nowhere};

use super::*;

async fn raw(world: &World, variant: Variant) -> Result<AdsClient> {
    AdsClient::connect(world.xds(), variant, node("raw")).await
}

/// SotW: a request with an outdated nonce is about an earlier response and is ignored.
#[tokio::test]
async fn scenario_07_stale_nonce_is_ignored_sotw() -> Result<()> {
    let world = World::start(&three()).await?;
    let [one, two, _] = three().map(|entry| entry.cluster());
    let mut client = raw(&world, Variant::Sotw).await?;
    client.subscribe(EDS, &[&one])?;
    let first = client.expect(EDS, &[&one], SOON).await?;
    world.put(&Entry::http("svc-1.test", 80).at(nowhere(7)))?;
    let second = client.expect(EDS, &[&one], SOON).await?;
    assert_ne!(first.nonce, second.nonce);
    let stale = |nonce: &str, names: &[&String]| DiscoveryRequest {
        type_url: EDS.to_owned(),
        version_info: first.version.clone(),
        resource_names: names.iter().map(|name| (*name).clone()).collect(),
        response_nonce: nonce.to_owned(),
        ..DiscoveryRequest::default()
    };
    client.send_sotw(stale(&first.nonce, &[&one, &two]))?;
    client.send_sotw(stale("never given", &[&one, &two]))?;
    client.expect_nothing(QUIET).await?;
    client.send_sotw(stale(&second.nonce, &[&one, &two]))?;
    client.expect(EDS, &[&two], SOON).await.map(drop)
}

/// Delta: a subscription counts whatever its nonce.
#[tokio::test]
async fn scenario_07_stale_nonce_still_subscribes_delta() -> Result<()> {
    let world = World::start(&three()).await?;
    let [one, two, last] = three().map(|entry| entry.cluster());
    let mut client = raw(&world, Variant::Delta).await?;
    client.subscribe(EDS, &[&one])?;
    let first = client.expect(EDS, &[&one], SOON).await?;
    world.put(&Entry::http("svc-1.test", 80).at(nowhere(7)))?;
    client.expect(EDS, &[&one], SOON).await?;
    let stale = |names: &[&String], without: &[&String]| DeltaDiscoveryRequest {
        type_url: EDS.to_owned(),
        response_nonce: first.nonce.clone(),
        resource_names_subscribe: names.iter().map(|name| (*name).clone()).collect(),
        resource_names_unsubscribe: without.iter().map(|name| (*name).clone()).collect(),
        ..DeltaDiscoveryRequest::default()
    };
    client.send_delta(stale(&[&two], &[]))?;
    client.expect(EDS, &[&two], SOON).await?;
    // The response to the second shows that the first was processed too.
    client.send_delta(stale(&[&last], &[&one]))?;
    client.expect(EDS, &[&last], SOON).await?;
    world.put(&Entry::http("svc-1.test", 80).at(nowhere(8)))?;
    world.put(&Entry::http("svc-2.test", 80).at(nowhere(9)))?;
    client.expect(EDS, &[&two], SOON).await.map(drop)
}

/// Delta: a repeated request for a name means that the client has lost it.
#[tokio::test]
async fn scenario_08_repeated_request_is_answered_again_delta() -> Result<()> {
    let world = World::start(&three()).await?;
    let names = names(&three());
    let mut client = raw(&world, Variant::Delta).await?;
    client.subscribe(CDS, &["*"])?;
    let all = client.next(SOON).await?;
    client.ack(&all)?;
    client.subscribe(EDS, &texts(&names))?;
    let endpoints = client.expect(EDS, &texts(&names), SOON).await?;
    client.subscribe(EDS, &[&names[0]])?;
    let again = client.expect(EDS, &[&names[0]], SOON).await?;
    assert_eq!(again.item(&names[0])?, endpoints.item(&names[0])?);
    client.subscribe(CDS, &["*"])?;
    let whole = client.next(SOON).await?;
    assert_eq!((whole.type_url.as_str(), whole.versions()), (CDS, all.versions()));
    Ok(())
}

/// SotW: a name that was unsubscribed and is requested again is sent again, with the same bytes.
#[tokio::test]
async fn scenario_08_repeated_request_is_answered_again_sotw() -> Result<()> {
    let world = World::start(&three()).await?;
    let [one, two, _] = three().map(|entry| entry.cluster());
    let mut client = raw(&world, Variant::Sotw).await?;
    client.subscribe(EDS, &[&one, &two])?;
    let both = client.expect(EDS, &[&one, &two], SOON).await?;
    client.subscribe(EDS, &[&one])?;
    client.expect_nothing(QUIET).await?;
    client.subscribe(EDS, &[&one, &two])?;
    let again = client.expect(EDS, &[&two], SOON).await?;
    assert_eq!(again.item(&two)?.value, both.item(&two)?.value);
    Ok(())
}

/// Delta reports an absent resource as removed; only endpoints are answered by an empty assignment, because
/// removing an assignment leaves Envoy with the old hosts.
#[tokio::test]
async fn scenario_09_absent_resources_are_answered_delta() -> Result<()> {
    let world = World::start(&three()).await?;
    let absent = outbound(80, "absent.test");
    for (kind, node, name) in [
        (CDS, node("raw"), absent.as_str()),
        (LDS, sidecar("web"), "10.9.9.9_80"),
        (RDS, grpc("calls"), absent.as_str()),
        (LDS, grpc("calls"), "absent.test:80"),
        (CDS, grpc("calls"), absent.as_str()),
    ] {
        let mut client = AdsClient::connect(world.xds(), Variant::Delta, node).await?;
        client.subscribe(kind, &[name])?;
        // Removals are sent last: a response without any may come before it.
        let mut answer = client.expect(kind, &[], SOON).await?;
        if answer.removed.is_empty() {
            answer = client.expect(kind, &[], SOON).await?;
        }
        assert_eq!(answer.removed, [name], "{kind}");
    }
    let mut client = raw(&world, Variant::Delta).await?;
    client.subscribe(EDS, &[&absent])?;
    let answer = client.expect(EDS, &[&absent], SOON).await?;
    ensure!(answer.removed.is_empty(), "{answer:?}");
    is_empty_assignment(&answer, &absent)?;
    // The subscription persists: when the service appears, its endpoints are sent.
    world.put(&Entry::http("absent.test", 80).at(nowhere(6)))?;
    let answer = client.expect(EDS, &[&absent], SOON).await?;
    ensure!(is_empty_assignment(&answer, &absent).is_err(), "{answer:?}");
    Ok(())
}

fn is_empty_assignment(answer: &tributary_suites::Answer, name: &str) -> Result<()> {
    use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
    let assignment: ClusterLoadAssignment = answer.decode(name)?;
    ensure!(assignment.cluster_name == name && assignment.endpoints.is_empty(), "{assignment:?}");
    Ok(())
}

#[tokio::test]
async fn scenario_09_absent_resources_are_answered_sotw() -> Result<()> {
    let world = World::start(&three()).await?;
    let absent = outbound(80, "absent.test");
    let there = three()[0].cluster();
    let mut client = raw(&world, Variant::Sotw).await?;
    client.subscribe(CDS, &[&absent, &there])?;
    client.expect(CDS, &[&there], SOON).await?;
    client.subscribe(EDS, &[&absent])?;
    let answer = client.expect(EDS, &[&absent], SOON).await?;
    is_empty_assignment(&answer, &absent)?;
    world.put(&Entry::http("absent.test", 80).at(nowhere(6)))?;
    let clusters = client.expect(CDS, &[&absent, &there], SOON).await?;
    ensure!(!clusters.resources.is_empty());
    let answer = client.expect(EDS, &[&absent], SOON).await?;
    ensure!(is_empty_assignment(&answer, &absent).is_err(), "{answer:?}");
    Ok(())
}

/// go-control-plane#540: a response on clusters or listeners that omits a resource removes it. Every push on
/// SotW must hold all subscribed resources, whatever changed.
#[tokio::test]
async fn sotw_response_is_complete_for_cds_lds() -> Result<()> {
    let world = World::start(&three()).await?;
    let mut client = AdsClient::connect(world.xds(), Variant::Sotw, sidecar("web")).await?;
    client.subscribe(CDS, &[])?;
    let clusters = client.next(SOON).await?;
    client.ack(&clusters)?;
    client.subscribe(LDS, &[])?;
    let listeners = client.next(SOON).await?;
    client.ack(&listeners)?;
    let fourth = Entry::http("svc-4.test", 81).at(nowhere(4));
    world.put(&fourth)?;
    let mut clusters = clusters.names();
    clusters.insert(fourth.cluster());
    client.expect(CDS, &texts(&clusters.into_iter().collect::<Vec<_>>()), SOON).await?;
    let mut listeners = listeners.names();
    listeners.insert("127.0.0.1_81".to_owned());
    let listeners: Vec<String> = listeners.into_iter().collect();
    client.expect(LDS, &texts(&listeners), SOON).await?;
    world.remove(&three()[0])?;
    let fewer = client.next(SOON).await?;
    let left = [&three()[1].cluster(), &three()[2].cluster(), &fourth.cluster()].map(|name| name.clone());
    ensure!(fewer.type_url == CDS && !fewer.names().contains(&three()[0].cluster()), "{fewer:?}");
    ensure!(left.iter().all(|name| fewer.names().contains(name)), "{fewer:?}");
    Ok(())
}

/// A resource that was requested before it existed is sent when it appears; gRPC's names are its targets.
#[tokio::test]
async fn scenario_09_late_resources_are_sent_to_grpc() -> Result<()> {
    for variant in Variant::BOTH {
        let world = World::start(&three()).await?;
        let cluster = outbound(80, "late.test");
        let asked = [(LDS, "late.test:80"), (RDS, &*cluster), (CDS, &*cluster), (EDS, &*cluster)];
        let mut client = Follower::connect(world.xds(), variant, grpc("calls")).await?;
        for (kind, name) in asked {
            client.subscribe(kind, &[name])?;
        }
        client.settle(QUIET).await?;
        world.put(&Entry::http("late.test", 80).at(nowhere(6)))?;
        for (kind, name) in asked {
            let has = |now: &Follower| now.names(kind).contains(name).then_some(());
            client.until(&format!("{name} of {kind} on {variant:?}"), SOON, has).await?;
        }
        client.has_endpoints(&cluster, &[nowhere(6)], SOON).await?;
    }
    Ok(())
}
