//! DestinationRules in the command line: which applies to a client, which subset an endpoint is of, and their conditions.

use crate::world::{LONG, World, file_registry, mk_folder, put};
use tributary_app::exit::Exit;
use tributary_suites::ads::node;
use tributary_suites::{AdsClient, Variant};

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

/// Returns the conditions of each rule, as `namespace/name: CODE message`.
async fn conditions(world: &World) -> Vec<String> {
    let json = world.run("get policies DestinationRule -o json").await.out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let of = |item: &serde_json::Value| -> Vec<String> {
        let name = format!("{}/{}", text(&item["namespace"]), text(&item["name"]));
        let all = item["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().map(|one| format!("{name}: {} {}", text(&one["code"]), text(&one["message"]))).collect()
    };
    json["items"].as_array().unwrap().iter().flat_map(of).collect()
}

#[tokio::test]
async fn rules_and_subsets_without_effect_are_conditions() {
    let subsets = |names: &[&str]| -> String {
        let all: Vec<String> =
            names.iter().map(|name| format!("{{name: {name}, labels: {{version: {name}}}}}")).collect();
        format!("subsets: [{}]", all.join(", "))
    };
    let balanced = "trafficPolicy: {loadBalancer: {simple: RANDOM}}";
    let rules = [
        ("a", "shop", format!("host: pay.shop, {balanced}, {}", subsets(&["v1", "v9"]))),
        ("b", "shop", format!("host: pay.shop, {balanced}, {}", subsets(&["v1", "v2"]))),
        ("c", "shop", format!("host: pay.shop, {}", subsets(&["v1"]))),
        ("lost", "shop", "host: none.shop".to_owned()),
        ("short", "shop", "host: web.shop".to_owned()),
        ("alone", "third", "host: pay.shop".to_owned()),
        ("away", "third", "host: pay.shop, exportTo: [cli]".to_owned()),
        ("wide", "cli", format!("host: '*', {}", subsets(&["v1"]))),
        ("narrow", "cli", "host: pay.shop, exportTo: [oth]".to_owned()),
    ];
    let vm = "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: vm, namespace: cli}\nspec: {address: 10.0.0.9}\n";
    let web = crate::world::mk_entry("web", "web.shop.svc.cluster.local", "10.0.0.3");
    let mut files = vec![("pay.yaml", mk_pay()), ("vm.yaml", vm.to_owned()), ("web.yaml", web)];
    let all: String = rules
        .iter()
        .map(|(name, namespace, spec)| format!("---\n{}", mk_rule(name, namespace, spec)))
        .collect();
    files.push(("rules.yaml", all));
    let dir = mk_folder(&files);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.3:80").await;
    world.until("get policies", "wide").await;
    let want = [
        "cli/narrow: TRB0449 it is not exported to clients of its own namespace, and its namespace is neither the root namespace \
         nor one with a service of the host pay.shop, which are: shop",
        "shop/a: TRB0447 no endpoint has the labels of these subsets: v9 of pay.shop:80",
        "shop/b: TRB0448 another rule of the host precedes these parts: trafficPolicy (that of DestinationRule shop/a), \
         subset v1 (that of DestinationRule shop/a)",
        "shop/c: TRB0448 DestinationRule shop/a applies in its place to clients of pay.shop",
        "shop/lost: TRB0446 no service has the host none.shop",
        "shop/short: TRB0446 no service has the host web.shop; a name with a dot is taken as it stands, so write \
         web.shop.svc.cluster.local",
        "third/alone: TRB0449 no known workload and no connected client is in a namespace that uses it: third",
        "third/away: TRB0449 it is not exported to clients of its own namespace, and its namespace is neither the root \
         namespace nor one with a service of the host pay.shop, which are: shop",
    ];
    assert_eq!(conditions(&world).await, want);
    let table = world.run("get policies -o wide").await.out;
    assert!(table.contains("TRB0447") && table.contains("v9 of pay.shop:80"), "{table}");
    // an endpoint of the version, a client of the namespace
    put(dir.path(), "pay.yaml", &mk_pay().replace("version: v2", "version: v9"));
    put(dir.path(), "vm.yaml", &vm.replace("namespace: cli", "namespace: third"));
    let changed = async {
        loop {
            let now = conditions(&world).await;
            let has = |text: &str| now.iter().any(|one| one.starts_with(text));
            if !has("shop/a") && !has("third/alone") && has("cli/wide: TRB0449") {
                return now;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let now =
        tokio::time::timeout(LONG, changed).await.expect("the conditions follow endpoints and workloads");
    let lost = "shop/b: TRB0447 no endpoint has the labels of these subsets: v2 of pay.shop:80";
    assert!(now.contains(&lost.to_owned()), "{now:?}");
    world.server.stop().await;
}

#[tokio::test]
async fn objects_that_are_not_served_are_findings_of_the_running_server() {
    let broken = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: bad, namespace: shop}\nspec: {hosts: 1}\n";
    let files = [
        ("pay.yaml", mk_pay()),
        ("rule.yaml", mk_rule("pay", "shop", "host: pay.shop, trafficPolicy: {loadBalancer: {simple: ODD}}")),
        ("bad.yaml", broken.to_owned()),
        ("text.yaml", "- [".to_owned()),
    ];
    let dir = mk_folder(&files);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.2:80").await;
    let found = world.run("analyze --live").await;
    assert_eq!(found.exit, Ok(Exit::No), "{}", found.out);
    let folder = format!("{}/", dir.path().canonicalize().unwrap().display());
    let out = found.out.replace(&folder, "");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert!(lines[0].starts_with("bad.yaml:4:15: error [ServiceEntry shop/bad] spec.hosts"), "{out}");
    assert!(lines[1].starts_with("rule.yaml:4:") && lines[1].contains("[DestinationRule shop/pay]"), "{out}");
    assert!(lines[2].starts_with("text.yaml:") && lines[2].contains("[Document "), "{out}");
    let other = world.run("analyze --live -n other").await;
    assert_eq!((other.exit, &*other.out), (Ok(Exit::Ok), ""));
    world.server.stop().await;
}

#[tokio::test]
async fn policies_are_listed_by_their_host() {
    let rules =
        mk_rule("wide", "shop", "host: '*.shop'") + "---\n" + &mk_rule("other", "shop", "host: web.test");
    let dir = mk_folder(&[("pay.yaml", mk_pay()), ("rules.yaml", rules)]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.2:80").await;
    world.until("get policies", "other").await;
    for (host, want) in [("pay.shop", "wide"), ("pay", "wide"), ("web.test", "other"), ("none.test", "")] {
        let found = world.run(&format!("get policies --host {host} -o name")).await;
        let want =
            if want.is_empty() { String::new() } else { format!("policies/DestinationRule/shop/{want}\n") };
        assert_eq!((found.exit, found.out), (Ok(Exit::Ok), want), "{host}");
    }
    let refused = world.run("get clients --host pay.shop").await.exit.unwrap_err();
    assert_eq!(refused.exit, Exit::Usage);
    world.server.stop().await;
}
