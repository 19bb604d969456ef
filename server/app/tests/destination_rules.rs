//! DestinationRules in the command line: which applies to a client, which subset an endpoint is of, and their conditions.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test")]

use tributary_app::exit::Exit;
use tributary_suites::ads::node;
use tributary_suites::{AdsClient, Variant};
use world::{LONG, World, file_registry, mk_folder};

#[path = "support/world.rs"]
mod world;

const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

/// A service with an endpoint of version v1 and one of version v2.
fn mk_pay() -> String {
    "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: pay, namespace: shop}\nspec:\n  hosts: [pay.shop]\n  \
     ports: [{number: 80, name: http, protocol: HTTP}]\n  resolution: STATIC\n  endpoints:\n  \
     - {address: 10.0.0.1, labels: {version: v1}}\n  - {address: 10.0.0.2, labels: {version: v2}}\n"
        .to_owned()
}

fn mk_rule(name: &str, namespace: &str, spec: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{spec}}}\n"
    )
}

#[tokio::test]
async fn rule_and_subset_that_decide_are_named_with_their_file() {
    let spec =
        "host: pay.shop, subsets: [{name: v1, labels: {version: v1}}, {name: v9, labels: {version: v9}}]";
    let dir = mk_folder(&[("pay.yaml", mk_pay()), ("rule.yaml", mk_rule("pay-parts", "shop", spec))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.2:80").await;
    world.until("get policies", "pay-parts").await;
    let (part, empty) = ("outbound|80|v1|pay.shop", "outbound|80|v9|pay.shop");
    let xds = world.server.addresses().xds;
    let mut client = AdsClient::connect(xds, Variant::Delta, node("web-1")).await.unwrap();
    client.subscribe(EDS, &[part, empty, "outbound|80|v2|pay.shop"]).unwrap();
    let first = client.next(LONG).await.unwrap();
    client.ack(&first).unwrap();
    world.until("get clients", "SYNCED").await;

    for of in ["--subset v1", &format!("--host {part}")] {
        let served = world.run(&format!("explain 10.0.0.1 --for-client web-1 -o wide {of}")).await;
        assert_eq!(served.exit, Ok(Exit::Ok), "{}", served.out);
        for want in
            ["TRB0543", "DestinationRule shop/pay-parts (", "/rule.yaml:1:1)", "version=v1", "TRB0520"]
        {
            assert!(served.out.contains(want), "no {want:?} in {}", served.out);
        }
        let other = world.run(&format!("explain 10.0.0.2 --for-client web-1 {of}")).await;
        assert_eq!(other.exit, Ok(Exit::No), "{}", other.out);
        assert!(other.out.contains("TRB0544  its label version is v2"), "{}", other.out);
    }
    for asked in ["pay --subset v1", part] {
        let part = world.run(&format!("why-not {asked} --for-client web-1")).await;
        assert_eq!(part.exit, Ok(Exit::Ok), "{}", part.out);
        assert!(part.out.contains("1 endpoint served") && part.out.contains("TRB0544"), "{}", part.out);
    }
    let none = world.run("why-not pay --subset v2 --for-client web-1").await;
    assert_eq!(none.exit, Ok(Exit::No), "{}", none.out);
    assert!(
        none.out.contains("DestinationRule shop/pay-parts, which applies to the client, has v1, v9"),
        "{}",
        none.out
    );
    let wrong = world.run("why-not pay --subset v_2 --for-client web-1").await.exit.unwrap_err();
    assert!(wrong.message.contains("`v_2` is not the name of a subset"), "{}", wrong.message);

    let line =
        async |name: &str| world.run(&format!("get resources web-1 --resource {name} -o wide")).await.out;
    assert!(line(part).await.contains("/rule.yaml:1:1)"), "{}", line(part).await);
    assert!(line(empty).await.contains("no endpoint with the labels of subset v9"), "{}", line(empty).await);
    let missing = line("outbound|80|v2|pay.shop").await;
    assert!(
        missing.contains("no DestinationRule that applies to the client declares subset v2"),
        "{missing}"
    );
    let json = world.run(&format!("get resources web-1 --resource {part} -o json")).await.out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rule = &json["items"][0]["rules"][0];
    assert_eq!(rule["name"].as_str(), Some("pay-parts"));
    assert!(rule["position"].as_str().unwrap().ends_with("/rule.yaml:1:1"), "{rule}");
    world.server.stop().await;
}
