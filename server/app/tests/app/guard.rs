//! Held removals in the command line, over a source that never answers confirm requests.

use std::sync::Arc;

use crate::world::{LONG, World, file_registry, mk_folder, run_on};
use async_trait::async_trait;
use tributary_app::exit::Exit;
use tributary_conformance::harness::Act;
use tributary_conformance::memory::{MemoryFactory, MemorySource};
use tributary_registry_api::{
    CancellationToken, Registry, RegistryError, RegistryFactory, RegistryIo, RegistrySpec, confirm_channel,
};

/// Registry that receives no confirm requests, so that held removals stay held.
struct Deaf(MemoryFactory);

struct DeafRun(Box<dyn Registry>);

impl RegistryFactory for Deaf {
    fn spec(&self) -> RegistrySpec {
        self.0.spec()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        Ok(Box::new(DeafRun(self.0.build()?)))
    }
}

#[async_trait]
impl Registry for DeafRun {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let (_sender, none) = confirm_channel();
        let RegistryIo { out, confirms: _unused, held } = io;
        self.0.run(RegistryIo { out, confirms: none, held }, stop).await
    }
}

/// Starts a server whose second registry has just lost both of its services without proof.
pub(crate) async fn mk_world() -> (tempfile::TempDir, World) {
    let dir = mk_folder(&[]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    let source = MemorySource::default();
    for (name, address) in [("pay", [10, 0, 0, 1]), ("cart", [10, 0, 0, 2])] {
        source.set(0, name, [address.into()]);
    }
    world
        .server
        .live()
        .handle
        .add_registry(Arc::new(Deaf(MemoryFactory::new("mem", source.clone()))))
        .await
        .unwrap();
    world.until("get endpoints", "10.0.0.2").await;
    source.act(Act::LieEmpty);
    source.act(Act::Relist);
    world.until("guard list", "mem").await;
    (dir, world)
}

#[tokio::test]
async fn held_removals_are_listed_served_and_released_singly() {
    let (_dir, world) = mk_world().await;
    let table = world.run("guard list -o wide").await.out;
    assert!(table.starts_with("ID ") && table.contains("service default/cart"), "{table}");
    assert!(world.run("get endpoints").await.out.contains("10.0.0.2"), "a held removal stays served");
    let plain = world.run("guard list -o wide --no-headers").await.out;
    assert!(!plain.contains("REGISTRY") && plain.contains("service default/cart"), "{plain}");
    let names = world.run("guard list -o name").await.out;
    let ids: Vec<&str> = names.lines().collect();
    let of_cart = table.lines().find(|line| line.contains("service default/cart")).unwrap();
    let id = ids.iter().find(|id| of_cart.starts_with(**id)).unwrap();
    let result = world.run(&format!("guard release {id}")).await;
    assert_eq!(result.exit, Ok(Exit::Ok), "{}", result.talk);
    assert!(result.out.starts_with("released: service default/cart"), "{}", result.out);
    let left = world.run("guard list -o name").await.out;
    assert!(!left.contains(*id) && left.lines().count() + 1 == ids.len(), "{left}");
    let gone = async {
        while world.run("get services").await.out.contains("cart") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("what was released is served on");
    assert!(world.run("get services").await.out.contains("pay"), "the other stays");
    world.server.stop().await;
}

#[tokio::test]
async fn removal_that_is_not_held_cannot_be_released() {
    let (_dir, world) = mk_world().await;
    let result = world.run("guard release 0000000000000000").await;
    let failure = result.exit.unwrap_err();
    assert_eq!(failure.exit, Exit::NotFound, "{failure}");
    assert!(failure.to_string().contains("tributary guard list"), "{failure}");
    let result = world.run("guard list --registry file").await;
    assert_eq!(
        (result.exit, result.out.as_str(), result.talk.as_str()),
        (Ok(Exit::Ok), "", "no removals are held\n")
    );
    world.server.stop().await;
}

#[tokio::test]
async fn silent_replica_keeps_no_other_from_a_release() {
    let (_dir, world) = mk_world().await;
    let names = world.run("guard list -o name").await.out;
    let id = names.lines().next().unwrap();
    let both = world.with_a_silent_one();
    let done = run_on(&both, &format!("guard release {id}")).await;
    assert_eq!(done.exit, Ok(Exit::Partial), "{}{}", done.out, done.talk);
    let on = format!(" on http://{}\n", world.server.addresses().admin);
    assert!(done.out.starts_with("released: ") && done.out.ends_with(&on), "{}", done.out);
    let silent = "no answer of replica http://127.0.0.1:1: cannot be reached: Connection refused";
    assert!(done.talk.starts_with(silent), "{}", done.talk);
    assert!(!world.run("guard list -o name").await.out.contains(id));
    let gone = run_on(&both, &format!("guard release {id}")).await;
    assert_eq!(gone.exit, Ok(Exit::Partial), "the silent one may hold it");
    let none = run_on("127.0.0.1:1,127.0.0.1:2", &format!("guard release {id}")).await;
    assert_eq!(none.exit.unwrap_err().exit, Exit::Failed);
    world.server.stop().await;
}
