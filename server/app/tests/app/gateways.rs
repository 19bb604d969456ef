//! Gateways of networks in the command line: the list, and explanations of a gateway and of an endpoint behind it.

use std::sync::Arc;

use crate::world::{World, file_registry, mk_folder};
use tributary_app::exit::Exit;
use tributary_model::*;
use tributary_runtime::Source as Run;
use tributary_suites::DnsServer;

const FAR: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: far, namespace: shop}
spec:
  hosts: [far.test]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints:
  - {address: 20.0.0.1, network: net2, serviceAccount: far}
  - {address: 10.0.0.1, network: net1, serviceAccount: far}
";

/// Starts a server that has `far.test` and asks this DNS server, and a cluster that reports gateways.
pub(crate) async fn mk_world(dns: &DnsServer) -> (tempfile::TempDir, World, Run) {
    let dir = mk_declared(dns);
    let world = World::start(&["--config", &config_in(&dir)]).await;
    let run = mk_cluster(&world).await;
    (dir, world, run)
}

/// Starts a server that keeps its state in this folder.
async fn mk_kept_world(dns: &DnsServer, state: &tempfile::TempDir) -> (tempfile::TempDir, World, Run) {
    let dir = mk_declared(dns);
    let (world, run) = start_kept(&dir, state).await;
    (dir, world, run)
}

async fn start_kept(dir: &tempfile::TempDir, state: &tempfile::TempDir) -> (World, Run) {
    let state = state.path().display().to_string();
    let world = World::start(&["--config", &config_in(dir), "--state-dir", &state]).await;
    let run = mk_cluster(&world).await;
    (world, run)
}

fn config_in(dir: &tempfile::TempDir) -> String {
    dir.path().join("config.txt").display().to_string()
}

/// Returns a folder with the declaration and a configuration that asks this DNS server.
fn mk_declared(dns: &DnsServer) -> tempfile::TempDir {
    let dir = mk_folder(&[("far.yaml", FAR.to_owned())]);
    let config = format!(
        "apiVersion: tributary.dev/v1alpha1\nkind: Config\ndns: {{servers: [\"{}\"]}}\nregistries: [{{kind: file, path: {}}}]\n",
        dns.addr(),
        dir.path().display()
    );
    std::fs::write(config_in(&dir), config).unwrap();
    dir
}

/// Adds a cluster that reports gateways.
async fn mk_cluster(world: &World) -> Run {
    let id = RegistryId {
        name: RegistryName::new("cluster").unwrap(),
        provider: ProviderId::KUBERNETES,
        cluster: ClusterId::new("c2").unwrap(),
    };
    world.server.live().handle.source(RegistrySpec::new(Arc::new(id), 0)).await.unwrap()
}

pub(crate) fn put(run: &Run, name: &str, address: Option<GatewayAddress>) {
    let object = ObjectId::new("Service", "istio-system", name);
    let key = GatewayKey {
        network: NetworkId::new("net2").unwrap(),
        cluster: ClusterId::new("c2").unwrap(),
        object: object.clone(),
        index: 0,
    };
    let mtls_port = PortNumber::new(15443).ok();
    let gateway = Gateway { source: Source::new(object), address, mtls_port, hbone_port: None };
    let fact = Fact::Gateway(key, Arc::new(gateway));
    run.updates.send_all([RegistryUpdate::Put(Scope::new("all").unwrap(), fact, Basis::Authoritative)]);
}

pub(crate) fn ip(text: &str) -> Option<GatewayAddress> {
    Some(GatewayAddress::Ip(text.parse().unwrap()))
}

#[tokio::test]
async fn gateways_are_listed_and_explained() {
    let dns = DnsServer::start().await.unwrap();
    let (_dir, world, run) = mk_world(&dns).await;
    world.until("get services", "far.test").await;
    let none = world.run("get gateways").await;
    assert!(none.talk.contains("no gateways"), "{}", none.talk);
    put(&run, "eastwest", ip("203.0.113.9"));
    put(&run, "unready", None);
    world.until("get gateways", "unready").await;
    let table = world.run("get gateways").await.out;
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
    assert_eq!(
        rows,
        [
            "net2 c2 203.0.113.9:15443 Used Service istio-system/eastwest -",
            "net2 c2 - Unusable Service istio-system/unready it has no address",
        ]
    );
    let one = world.run("get gateways eastwest -o json").await.out;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!((one["kind"].as_str(), one["items"].as_array().map(Vec::len)), (Some("GatewayList"), Some(1)));
    assert_eq!(one["items"][0]["address"], "203.0.113.9:15443");
    let names = world.run("get gateways net2 -o name").await.out;
    assert!(names.contains("gateways/net2/Service/istio-system/eastwest/203.0.113.9:15443\n"), "{names}");

    let gateway = world.run("explain 203.0.113.9:15443").await;
    assert_eq!(gateway.exit, Ok(Exit::Ok), "{}", gateway.out);
    for part in [
        "PASS TRB0557  gateway of network net2, reported by cluster c2  [Service istio-system/eastwest]",
        "PASS TRB0556  it stands in for 20.0.0.1:80 of far.test:80",
    ] {
        assert!(gateway.out.contains(part), "no {part:?} in {}", gateway.out);
    }
    let far = world.run("explain 20.0.0.1 --host far.test").await.out;
    let open = "PASS TRB0556  clients of network net2 reach it directly, others through its gateways: 203.0.113.9:15443";
    assert!(far.contains(open), "{far}");
    let near = world.run("explain 10.0.0.1 --host far.test").await.out;
    assert!(near.contains("TRB0509  reached directly (net1)"), "{near}");

    put(&run, "eastwest", Some(GatewayAddress::Name("gw.test".into())));
    let why = "others do not receive it: no gateway of it has a known address with a port for mesh TLS";
    world.until("explain 20.0.0.1 --host far.test", why).await;
    let why = "its host name has no address: the name does not exist (NXDOMAIN)";
    world.until("explain gw.test:15443", why).await;
    let named = world.run("explain gw.test:15443").await;
    assert!(named.out.contains("DROP TRB0557"), "{}", named.out);
    assert_eq!(named.exit, Ok(Exit::No));
    let table = world.until("get gateways", &format!("{why} (for ")).await;
    assert!(table.contains("gw.test:15443") && table.contains("Unusable"), "{table}");
    let registries = world.until("get registries -o wide", "TRB0330").await;
    assert!(registries.contains("Service istio-system/eastwest"), "{registries}");

    dns.set("gw.test", 60, &["203.0.113.7", "203.0.113.8", "127.0.0.1"].map(|ip| ip.parse().unwrap()));
    world.until("get gateways", "gw.test:15443 (203.0.113.7, 203.0.113.8)").await;
    let one = world.run("get gateways 203.0.113.8 -o json").await.out;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["items"][0]["resolved"], serde_json::json!(["203.0.113.7", "203.0.113.8"]));
    assert_eq!(one["items"][0]["state"], "Used");
    let far = world.run("explain 20.0.0.1 --host far.test").await.out;
    let through = "others through its gateways: 203.0.113.7:15443 (gw.test), 203.0.113.8:15443 (gw.test)";
    assert!(far.contains(through), "{far}");
    let named = world.run("explain gw.test:15443").await;
    assert!(named.out.contains("host name gw.test has 203.0.113.7, 203.0.113.8"), "{}", named.out);
    assert_eq!(named.exit, Ok(Exit::Ok), "{}", named.out);
    let registries = world.run("get registries -o wide").await.out;
    assert!(!registries.contains("TRB0330"), "{registries}");
    world.server.stop().await;
}

/// Addresses of a name outlive a restart, and are in use before and after DNS was asked in vain.
#[tokio::test]
async fn addresses_of_a_name_outlive_a_restart_without_dns() {
    let (dns, state) = (DnsServer::start().await.unwrap(), tempfile::tempdir().unwrap());
    dns.set("gw.test", 60, &["203.0.113.7".parse().unwrap()]);
    let (dir, world, run) = mk_kept_world(&dns, &state).await;
    put(&run, "eastwest", Some(GatewayAddress::Name("gw.test".into())));
    world.until("get gateways", "gw.test:15443 (203.0.113.7)").await;
    world.server.stop().await;
    dns.stop().await;
    for _ in 0..2 {
        let (world, run) = start_kept(&dir, &state).await;
        put(&run, "eastwest", Some(GatewayAddress::Name("gw.test".into())));
        let table = world.until("get gateways", "the last addresses stay in use").await;
        assert!(table.contains("gw.test:15443 (203.0.113.7)") && table.contains("Used"), "{table}");
        world.until("get registries -o wide", "TRB0331").await;
        world.server.stop().await;
    }
}

const EAST_WEST: &str = "apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: cross, namespace: istio-system}
spec:
  selector: {istio: eastwestgateway}
  servers:
  - port: {number: 15443, name: tls, protocol: TLS}
    tls: {mode: AUTO_PASSTHROUGH}
    hosts: [\"*.local\", shop/*]
  - port: {number: 443, protocol: HTTPS}
    tls: {mode: SIMPLE, credentialName: c}
    hosts: [\"*\"]
";

const INGRESS: &str = "apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: ingress, namespace: istio-system}
spec:
  servers: [{port: {number: 443, protocol: HTTPS}, tls: {mode: SIMPLE, credentialName: c}, hosts: [\"*\"]}]
";

#[tokio::test]
async fn gateways_are_shown_with_what_is_not_served() {
    let dir = mk_folder(&[("a.yaml", EAST_WEST.to_owned()), ("b.yaml", INGRESS.to_owned())]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    let table = world.until("get policies Gateway -o wide", "cross").await;
    let row = table.lines().find(|line| line.contains("cross")).unwrap();
    for part in ["Served", "istio=eastwestgateway", "a.yaml:1:1", "TRB0480", "*/*.local"] {
        assert!(row.contains(part), "no {part:?} in {row}");
    }
    assert!(row.contains(" Served ") && row.contains("TRB0482") && row.contains("shop/*"), "{row}");
    let ingress = table.lines().find(|line| line.contains("ingress")).unwrap();
    assert!(ingress.contains("NotServed") && ingress.contains("TRB0480"), "{ingress}");
    let one = world.run("get policies Gateway/istio-system/cross -o json").await.out;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    let want = serde_json::json!({
        "selector": {"istio": "eastwestgateway"},
        "servers": [{
            "port": {"number": 15443, "protocol": "TLS"},
            "tls": {"mode": "AUTO_PASSTHROUGH"},
            "hosts": ["*/*.local", "shop/*"],
        }],
    });
    assert_eq!(one["items"][0]["spec"], want);
    let conditions = one["items"][0]["conditions"].to_string();
    assert!(conditions.contains("not these: spec.servers[1] (port 443, SIMPLE)"), "{conditions}");
    let files = world.run(&format!("analyze -f {}", dir.path().display())).await;
    assert!(files.out.contains("TRB0480"), "{}", files.out);
}
