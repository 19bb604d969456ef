//! Waiting endpoints and held removals, explained by address and by host.

use std::sync::Arc;

use crate::world::{LONG, World, file_registry, mk_entry, mk_folder};
use tributary_app::exit::Exit;
use tributary_model::*;
use tributary_runtime::Source as Run;
use tributary_suites::ads::node;
use tributary_suites::{AdsClient, Variant};

const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

/// Starts a server that has `pay.shop` from a file, and a cluster whose source answers no requests.
async fn mk_world() -> (tempfile::TempDir, World, Run) {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    let id = RegistryId {
        name: RegistryName::new("cluster").unwrap(),
        provider: ProviderId::KUBERNETES,
        cluster: ClusterId::new("c1").unwrap(),
    };
    let spec = RegistrySpec::new(Arc::new(id), 0).confirming();
    let run = world.server.live().handle.source(spec).await.unwrap();
    (dir, world, run)
}

/// Subscribes to a host and keeps the first response.
async fn mk_client(world: &World) -> AdsClient {
    let mut stream =
        AdsClient::connect(world.server.addresses().xds, Variant::Delta, node("web-1")).await.unwrap();
    stream.subscribe(EDS, &["outbound|80||pay.shop"]).unwrap();
    let first = stream.next(LONG).await.unwrap();
    stream.ack(&first).unwrap();
    world.until("get clients", "SYNCED").await;
    stream
}

fn scope() -> Scope {
    Scope::new("all").unwrap()
}
fn mk_key(host: &str) -> EndpointGroupKey {
    let service =
        ServiceKey { host: Hostname::new(host).unwrap(), namespace: Namespace::new("shop").unwrap() };
    let object = ObjectId::new("EndpointSlice", "shop", "abc");
    EndpointGroupKey { service, declaration: ObjectId::new("Service", "shop", "cart"), object, bucket: 0 }
}
fn mk_waiting(host: &str, ip: &str) -> Fact {
    let waits_for = Arc::new(ObjectId::new("Pod", "shop", "pay-1"));
    Fact::Waiting(mk_key(host), [WaitingAddress { ip: ip.parse().unwrap(), waits_for }].into())
}
fn mk_group(host: &str, ip: &str) -> Fact {
    let (name, number) = (PortName::new("http").unwrap(), PortNumber::new(80).unwrap());
    let set = Arc::from([GroupPort { name, number: Some(number) }]);
    let address = Address::new(AddressRef::Ip(ip.parse().unwrap()), Arc::default());
    let key = mk_key(host);
    let group = EndpointGroup::new(Source::new(key.object.clone()), vec![set], vec![], vec![address]);
    Fact::Group(key, Arc::new(group))
}
fn mk_declaration(host: &str) -> Fact {
    let key = mk_key(host);
    let (name, number) = (PortName::new("http").unwrap(), PortNumber::new(80).unwrap());
    let declaration = Declaration {
        ports: [ServicePort { number, name, protocol: Protocol::Http, target: Target::Same }].into(),
        ..Declaration::new(Source::new(key.declaration.clone()))
    };
    Fact::Service(DeclKey { service: key.service, object: key.declaration }, Arc::new(declaration))
}
fn put(run: &Run, fact: Fact) {
    run.updates.send_all([RegistryUpdate::Put(scope(), fact, Basis::Authoritative)]);
}
fn remove(run: &Run, fact: &Fact, evidence: Evidence) {
    run.updates.send_all([RegistryUpdate::Remove(FactKey { scope: scope(), item: fact.item() }, evidence)]);
}

#[tokio::test]
async fn address_that_waits_for_its_pod_is_explained() {
    let (_dir, world, run) = mk_world().await;
    let _client = mk_client(&world).await;
    put(&run, mk_waiting("pay.shop", "10.0.0.7"));
    world.until("explain 10.0.0.7", "TRB0324").await;
    for command in
        ["explain 10.0.0.7", "explain 10.0.0.7:80 --host pay.shop", "explain 10.0.0.7 --for-client web-1"]
    {
        let answer = world.run(command).await;
        assert_eq!(answer.exit, Ok(Exit::No), "{command}: it is listed and not served");
        for part in [
            "10.0.0.7  dropped  service pay.shop",
            "source     DROP TRB0324  listed for shop/pay.shop, waits for Pod shop/pay-1, which has not been seen, for ",
            "[cluster: EndpointSlice shop/abc]",
        ] {
            assert!(answer.out.contains(part), "{command}: no {part:?} in {}", answer.out);
        }
    }
    let json: serde_json::Value =
        serde_json::from_str(&world.run("explain 10.0.0.7 -o json").await.out).unwrap();
    let step = &json["items"][0]["steps"][0];
    assert_eq!(
        (step["code"].as_str(), step["object"]["kind"].as_str()),
        (Some("TRB0324"), Some("EndpointSlice"))
    );
    assert!(step["since"].as_str().is_some_and(|at| at.ends_with('Z')), "{step}");

    let why = world.run("why-not pay.shop --for-client web-1").await;
    assert_eq!(why.exit, Ok(Exit::Ok), "another endpoint is served: {}", why.out);
    for part in [
        "1 endpoint served",
        "source     TRB0324 ",
        ": 1 dropped",
        "10.0.0.7  listed for shop/pay.shop, waits for",
    ] {
        assert!(why.out.contains(part), "no {part:?} in {}", why.out);
    }
    remove(&run, &mk_waiting("pay.shop", "10.0.0.7"), Evidence::AbsentFromList);
    world.until("explain 10.0.0.7", "TRB0502").await;
    world.server.stop().await;
}

#[tokio::test]
async fn waiting_and_held_addresses_are_explained() {
    let (_dir, world, run) = mk_world().await;
    let _client = mk_client(&world).await;
    put(&run, mk_group("cart.shop", "10.0.0.8"));
    let waits = "merge      DROP TRB0404  listed for shop/cart.shop, waits for the declaration Service shop/cart, for ";
    world.until("explain 10.0.0.8", waits).await;
    let why = world.run("why-not cart.shop --for-client web-1").await;
    assert!(
        why.out.contains("merge      TRB0404") && why.out.contains("10.0.0.8:80  listed for"),
        "{}",
        why.out
    );
    assert!(why.out.contains("TRB0524"), "no source declares it: {}", why.out);

    put(&run, mk_declaration("cart.shop"));
    let served = world.until("explain 10.0.0.8", "served").await;
    assert!(!served.contains("TRB0404"), "{served}");
    remove(&run, &mk_group("cart.shop", "10.0.0.8"), Evidence::AbsentFromList);
    let reason = "missing from the last answer for shop/cart.shop; the removal of its endpoints is held: the host would have no endpoint left, for ";
    world.until("explain 10.0.0.8", &format!("source     WARN TRB0203  {reason}")).await;
    let why = world.run("why-not cart.shop --for-client web-1").await;
    assert!(why.out.contains("source     TRB0203 ") && why.out.contains(": 1 held\n"), "{}", why.out);
    assert!(why.out.contains(reason), "{}", why.out);
    world.server.stop().await;
}
