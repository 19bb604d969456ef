//! Merge of services of one name in the command line: first reported, then applied.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::world::{World, put};
use tributary_app::exit::Exit;
use tributary_model::*;
use tributary_runtime::Source as SourceRegistry;

fn mk_config(dir: &Path, by_name: &str) -> PathBuf {
    let text = format!(
        "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries: [{{kind: file, path: {}}}]\nmerge: {{byName: {by_name}}}\n",
        dir.join("files").display()
    );
    put(dir, "tributary.yaml", &text);
    dir.join("tributary.yaml")
}

/// Adds a registry that has listed services, given as namespace, host and port, each with one endpoint.
async fn list(world: &World, provider: ProviderId, services: &[(&str, &str, u32)]) -> SourceRegistry {
    let (name, net) = (provider.as_str().to_lowercase(), Precedence::of_provider(&provider));
    let id = RegistryId {
        name: RegistryName::new(&name).unwrap(),
        provider,
        cluster: ClusterId::new("c1").unwrap(),
    };
    let spec = RegistrySpec::new(Arc::new(id), 0);
    let source = world.server.live().handle.source(spec).await.unwrap();
    let scope = Scope::new("all").unwrap();
    let collections = [CollectionKind::Services, CollectionKind::Groups]
        .map(|kind| Collection { scope: scope.clone(), kind });
    let mut updates = vec![RegistryUpdate::Follows { required: collections.to_vec(), optional: Vec::new() }];
    updates.extend(collections.clone().map(RegistryUpdate::ListStarted));
    for (at, (namespace, host, port)) in (1..).zip(services) {
        let facts = mk_facts(namespace, host, *port, &format!("10.{net}.0.{at}"));
        updates.extend(facts.map(|fact| RegistryUpdate::Put(scope.clone(), fact, Basis::Authoritative)));
    }
    updates
        .extend(collections.map(|collection| RegistryUpdate::ListEnded(collection, Completeness::Complete)));
    source.updates.send_all(updates);
    source
}

fn mk_facts(namespace: &str, host: &str, port: u32, ip: &str) -> [Fact; 2] {
    let object = ObjectId::new("Service", namespace, host);
    let service =
        ServiceKey { host: Hostname::new(host).unwrap(), namespace: Namespace::new(namespace).unwrap() };
    let (name, number) = (PortName::new("http").unwrap(), PortNumber::new(port).unwrap());
    let name_of_host = host.split('.').next().unwrap().into();
    let is_base = host.ends_with(".svc.cluster.local");
    let merge_name = if is_base { MergeName::base } else { MergeName::joining };
    let declaration = Declaration {
        merge_name: Some(merge_name(name_of_host, service.host.clone())),
        ports: [ServicePort { number, name: name.clone(), protocol: Protocol::Http, target: Target::Same }]
            .into(),
        ..Declaration::new(Source::new(object.clone()))
    };
    let set = Arc::from([GroupPort { name, number: Some(number) }]);
    let address = Address::new(AddressRef::Ip(ip.parse().unwrap()), Arc::default());
    let group = EndpointGroup::new(Source::new(object.clone()), vec![set], vec![], vec![address]);
    let key = DeclKey { service: service.clone(), object: object.clone() };
    let of_group = EndpointGroupKey { service, declaration: object.clone(), object, bucket: 0 };
    [Fact::Service(key, Arc::new(declaration)), Fact::Group(of_group, Arc::new(group))]
}

#[tokio::test]
async fn merge_by_name_is_reported_before_it_applies() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("files")).unwrap();
    let config = mk_config(dir.path(), "off");
    let world = World::start(&["--config", config.to_str().unwrap()]).await;
    let cluster = [
        ("shop", "pay.shop.svc.cluster.local", 80),
        ("shop", "cart.shop.svc.cluster.local", 80),
        ("test", "cart.test.svc.cluster.local", 80),
        ("shop", "mail.shop.svc.cluster.local", 25),
    ];
    let vms = ["pay", "cart", "mail"].map(|name| format!("{name}.service.consul"));
    let vms: Vec<_> = vms.iter().map(|host| ("consul", host.as_str(), 80)).collect();
    let _source =
        (list(&world, ProviderId::KUBERNETES, &cluster).await, list(&world, ProviderId::CONSUL, &vms).await);
    world.until("get services", "mail.service.consul").await;
    let result = world.run("get merges").await;
    assert_eq!((result.exit, result.out.as_str()), (Ok(Exit::Ok), ""));
    assert!(result.talk.contains("merge: {byName: report}"), "{}", result.talk);

    mk_config(dir.path(), "report");
    let table = world.until("get merges -o wide", "possible").await;
    let row = |table: &str, name: &str| -> String {
        table.lines().find(|line| line.starts_with(name)).expect(name).to_owned()
    };
    let pay = row(&table, "pay");
    for part in
        ["pay.shop.svc.cluster.local", "consul/pay.service.consul", "80/HTTP; 80/HTTP", "kubernetes; consul"]
    {
        assert!(pay.contains(part), "no {part:?} in {pay}");
    }
    assert!(row(&table, "cart").contains("the cluster has several: shop/cart."), "{table}");
    assert!(row(&table, "mail").contains("consul/mail.service.consul has no port 25"), "{table}");
    let one = world.run("get merges cart -o json").await.out;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(
        (one["kind"].as_str(), one["items"][0]["reason"].as_str()),
        (Some("MergeList"), Some("ambiguous"))
    );
    let endpoints = "get endpoints --host pay.shop.svc.cluster.local";
    assert!(!world.run(endpoints).await.out.contains("10.2."), "a report joins nothing");

    mk_config(dir.path(), "on");
    world.until("get merges pay", "merged").await;
    let served = world.until(endpoints, "consul").await;
    assert!(served.lines().filter(|line| line.contains("HEALTHY")).count() == 2, "{served}");
    let endpoint = served.lines().find(|line| line.contains("consul")).unwrap();
    let endpoint = endpoint.split_whitespace().next().unwrap();
    let why = world.run(&format!("explain {endpoint} --host pay.shop.svc.cluster.local")).await.out;
    assert!(why.contains("joined as consul/pay.service.consul by its name (merge.byName)"), "{why}");
    world.server.stop().await;
}
