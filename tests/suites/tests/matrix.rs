//! The reaction of Envoy and two gRPC implementations to each odd feature of an endpoint assignment, measured
//! with the scripted server. The strict set that the product serves is derived from this table: a feature that
//! any of the three rejects must never be sent, and a changed reaction of a new client version shows here.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints};
use envoy_types::pb::google::protobuf::UInt32Value;
use tributary_suites::ads::{CDS, EDS, LDS, RDS};
use tributary_suites::resources::{self, assignment, endpoint};
use tributary_suites::{
    Backend, Envoy, EnvoyConfig, GrpcClient, GrpcConfig, Language, ScriptedAds, Variant, eventually, nowhere,
};

const SOON: Duration = Duration::from_secs(20);
const TARGET: &str = "echo.test:80";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Takes,
    Refuses,
}
use Verdict::{Refuses, Takes};

/// One row: the feature, the reactions of Envoy, C-core and grpc-js, and the assignment that has it.
struct Case {
    feature: &'static str,
    verdicts: [Verdict; 3],
    assignment: ClusterLoadAssignment,
}

fn case(feature: &'static str, verdicts: [Verdict; 3], assignment: ClusterLoadAssignment) -> Case {
    Case { feature, verdicts, assignment }
}

/// Returns an assignment of two localities, changed in one way.
fn changed(change: impl FnOnce(&mut Vec<LocalityLbEndpoints>)) -> ClusterLoadAssignment {
    let mut whole = assignment("echo", &[("zone-a", &[nowhere(2), nowhere(3)]), ("zone-b", &[nowhere(4)])]);
    change(&mut whole.endpoints);
    whole
}

/// Returns [`changed`] in the first endpoint.
fn with_endpoint(change: impl FnOnce(&mut LbEndpoint)) -> ClusterLoadAssignment {
    changed(|localities| change(&mut localities[0].lb_endpoints[0]))
}

fn weight(value: u32) -> Option<UInt32Value> {
    Some(UInt32Value { value })
}

fn duplicates_and_order() -> Vec<Case> {
    const LAX: [Verdict; 3] = [Takes, Refuses, Refuses];
    vec![
        case(
            "an address again in another locality",
            LAX,
            changed(|l| l[1].lb_endpoints[0] = endpoint(&nowhere(2))),
        ),
        case(
            "an address again in another priority",
            LAX,
            changed(|l| {
                l[1].priority = 1;
                l[1].lb_endpoints[0] = endpoint(&nowhere(2));
            }),
        ),
        case(
            "an address twice in a locality",
            LAX,
            changed(|l| l[0].lb_endpoints[1] = endpoint(&nowhere(2))),
        ),
        case("a locality twice in a priority", LAX, changed(|l| l[1].locality = l[0].locality.clone())),
        case("a gap between priorities", LAX, changed(|l| l[1].priority = 2)),
        case("no priority 0", LAX, changed(|l| l.iter_mut().for_each(|locality| locality.priority = 1))),
        case("no locality message", LAX, changed(|l| l[0].locality = None)),
        case("an empty locality message", [Takes; 3], changed(|l| l[0].locality = Some(<_>::default()))),
    ]
}

fn weights_and_hosts() -> Vec<Case> {
    vec![
        case("no locality weight", [Takes; 3], changed(|l| l[0].load_balancing_weight = None)),
        case(
            "locality weight 0",
            [Refuses, Takes, Takes],
            changed(|l| l[0].load_balancing_weight = weight(0)),
        ),
        case("no endpoint weight", [Takes; 3], with_endpoint(|e| e.load_balancing_weight = None)),
        case(
            "endpoint weight 0",
            [Refuses, Refuses, Takes],
            with_endpoint(|e| e.load_balancing_weight = weight(0)),
        ),
        case("a locality without endpoints", [Takes; 3], changed(|l| l[0].lb_endpoints.clear())),
        case("a host name", [Refuses; 3], with_endpoint(named)),
        case(
            "an endpoint that drains",
            [Takes; 3],
            with_endpoint(|e| e.health_status = HealthStatus::Draining.into()),
        ),
        case("no endpoints", [Takes; 3], changed(Vec::clear)),
    ]
}

fn named(endpoint: &mut LbEndpoint) {
    if let Some(HostIdentifier::Endpoint(endpoint)) = &mut endpoint.host_identifier {
        endpoint.address = Some(resources::address("web.example.test", 80));
    }
}

async fn world(hosts: &[SocketAddr]) -> Result<ScriptedAds> {
    let server = ScriptedAds::start().await?;
    server.put(EDS, &[("echo", resources::endpoints("echo", hosts))]);
    server.put(CDS, &[("echo", resources::cluster("echo"))]);
    server.put(RDS, &[("to-echo", resources::route("to-echo", &["echo.test", TARGET], "echo"))]);
    server.put(LDS, &[(TARGET, resources::api_listener(TARGET, "to-echo"))]);
    Ok(server)
}

/// Returns the client's verdicts on endpoint responses so far, `None` for an ACK.
fn verdicts(server: &ScriptedAds) -> Vec<Option<String>> {
    let about =
        server.requests().into_iter().filter(|request| request.type_url == EDS && !request.nonce.is_empty());
    about.map(|request| request.error).collect()
}

async fn verdict(server: &ScriptedAds, case: &Case) -> Result<Verdict> {
    let before = verdicts(server).len();
    server.put(EDS, &[("echo", case.assignment.clone())]);
    let error = eventually(case.feature, SOON, || async {
        let now = verdicts(server);
        if now.len() > before {
            now.last().cloned().context("no verdict")
        } else {
            bail!("no answer to it yet")
        }
    })
    .await?;
    Ok(if error.is_some() { Refuses } else { Takes })
}

/// Sends every case to the client of `server`, and compares with column `column`.
async fn whole_matrix(server: &ScriptedAds, column: usize) -> Result<()> {
    let mut surprises = Vec::new();
    for case in duplicates_and_order().into_iter().chain(weights_and_hosts()) {
        let verdict = verdict(server, &case).await?;
        if verdict != case.verdicts[column] {
            surprises.push(format!("{}: {verdict:?}; message: {:?}", case.feature, verdicts(server).last()));
        }
    }
    ensure!(surprises.is_empty(), "{surprises:#?}");
    Ok(())
}

async fn grpc_matrix(language: Language, column: usize) -> Result<()> {
    let backend = Backend::start("only").await?;
    let server = world(&[backend.addr()]).await?;
    let mut client = GrpcClient::start(language, &GrpcConfig::new(server.addr())).await?;
    let called = client.call(TARGET, SOON, true).await?;
    ensure!(called.ok, "the first call: {called:?}");
    whole_matrix(&server, column).await
}

#[tokio::test]
async fn envoy_matrix_on_sotw() -> Result<()> {
    let server = world(&[nowhere(9)]).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.addr(), Variant::Sotw)).await?;
    envoy.has_hosts("echo", &[nowhere(9)], SOON).await?;
    whole_matrix(&server, 0).await
}

#[tokio::test]
async fn envoy_matrix_on_delta() -> Result<()> {
    let server = world(&[nowhere(9)]).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.addr(), Variant::Delta)).await?;
    envoy.has_hosts("echo", &[nowhere(9)], SOON).await?;
    whole_matrix(&server, 0).await
}

#[tokio::test]
async fn grpc_python_matrix() -> Result<()> {
    grpc_matrix(Language::Python, 1).await
}

#[tokio::test]
async fn grpc_javascript_matrix() -> Result<()> {
    grpc_matrix(Language::JavaScript, 2).await
}

#[tokio::test]
async fn grpc_silently_drops_a_locality_without_weight() -> Result<()> {
    let backend = Backend::start("only").await?;
    let mut bare = resources::endpoints("echo", &[backend.addr()]);
    bare.endpoints.iter_mut().for_each(|locality| locality.load_balancing_weight = None);
    for assignment in [bare, assignment("echo", &[])] {
        let server = world(&[]).await?;
        server.put(EDS, &[("echo", assignment)]);
        let mut client = GrpcClient::start(Language::Python, &GrpcConfig::new(server.addr())).await?;
        let called = client.call(TARGET, SOON, false).await?;
        ensure!(called.code == "UNAVAILABLE" && server.nacks().is_empty(), "{called:?} {:?}", server.nacks());
    }
    Ok(())
}
