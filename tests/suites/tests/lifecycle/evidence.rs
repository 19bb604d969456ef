//! Endpoints are removed only with proof: a document that removes them, or a folder that has been listed twice
//! without it. An unreadable folder, a partial file or an editor's rename is not a deletion.

use tributary_suites::{Backend, GrpcClient, GrpcConfig, Language, eventually};

use super::*;

/// A server over one folder inside another, so the folder can vanish, and a client that watches.
struct Watched {
    outer: Files,
    server: TestServer,
    client: Follower,
}

impl Watched {
    async fn start() -> Result<Self> {
        let outer = Files::new()?;
        let folder = outer.path().join("docs");
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("svc.yaml"), svc(&[nowhere(1), nowhere(2)]).yaml())?;
        let server = TestServer::start(ServerOptions::files(&folder)).await?;
        let mut client = follow(&server).await?;
        client.has_endpoints(&svc(&[]).cluster(), &[nowhere(1), nowhere(2)], SOON).await?;
        Ok(Self { outer, server, client })
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.outer.path().join("docs").join(name)
    }

    /// Waits until the registry is live, or reports that it is not.
    async fn is_live(&self, live: bool) -> Result<()> {
        let stale = |one: &serde_json::Value| one["collections"].to_string().contains("\"Stale: ");
        let is = |one: &serde_json::Value| (one["state"] == "Live") == live && stale(one) != live;
        self.server
            .shows("registries", SOON, |items| !items.is_empty() && items.iter().all(is))
            .await
            .map(drop)
    }

    /// Asserts that nothing was removed, neither now nor in between.
    fn kept(&self) -> Result<()> {
        let hosts: Vec<_> = self.client.endpoints(&svc(&[]).cluster())?.into_iter().collect();
        ensure!(hosts == [nowhere(1).to_string(), nowhere(2).to_string()], "endpoints went: {hosts:?}");
        let answers = self.client.answers();
        ensure!(answers.iter().all(|answer| answer.removed.is_empty()), "something was removed: {answers:?}");
        Ok(())
    }

    /// Takes the responses so far.
    async fn settle(&mut self) -> Result<()> {
        self.client.settle(Duration::from_millis(100)).await.map(drop)
    }
}

#[tokio::test]
async fn a_folder_that_vanishes_keeps_its_endpoints() -> Result<()> {
    let mut world = Watched::start().await?;
    let away = world.outer.path().join("away");
    std::fs::rename(world.path(""), &away)?;
    world.is_live(false).await?;
    world.settle().await?;
    world.kept()?;
    ensure!(world.server.is_ready().await?, "a stale registry touched readiness");
    // A new client receives the last known state.
    let mut late = follow(&world.server).await?;
    late.has_endpoints(&svc(&[]).cluster(), &[nowhere(1), nowhere(2)], SOON).await?;
    std::fs::rename(&away, world.path(""))?;
    world.is_live(true).await?;
    world.settle().await?;
    world.kept()
}

/// Another folder with the same name is not the followed one: an unmounted volume looks like this.
#[tokio::test]
async fn an_empty_folder_in_its_place_removes_nothing() -> Result<()> {
    let mut world = Watched::start().await?;
    std::fs::rename(world.path(""), world.outer.path().join("away"))?;
    std::fs::create_dir(world.path(""))?;
    world.is_live(false).await?;
    world.settle().await?;
    world.kept()
}

#[tokio::test]
async fn an_editor_that_renames_is_not_a_deletion() -> Result<()> {
    let mut world = Watched::start().await?;
    for _ in 0..10 {
        std::fs::rename(world.path("svc.yaml"), world.path("svc.yaml~"))?;
        tokio::task::yield_now().await;
        std::fs::write(world.path("svc.yaml"), svc(&[nowhere(1), nowhere(2)]).yaml())?;
        std::fs::remove_file(world.path("svc.yaml~"))?;
    }
    world.is_live(true).await?;
    // A document written after all of this is served: everything before it has been processed.
    std::fs::write(world.path("mark.yaml"), Entry::http("mark.test", 80).at(nowhere(9)).yaml())?;
    world.client.has_endpoints("outbound|80||mark.test", &[nowhere(9)], SOON).await?;
    world.kept()
}

#[tokio::test]
async fn a_half_written_file_removes_nothing() -> Result<()> {
    let mut world = Watched::start().await?;
    let whole = svc(&[nowhere(1), nowhere(2)]).yaml();
    for end in [whole.len() / 3, whole.len() / 2, whole.len() - 20] {
        std::fs::write(world.path("svc.yaml"), &whole[..end])?;
        std::fs::write(
            world.path("mark.yaml"),
            Entry::http(&format!("mark-{end}.test"), 80).at(nowhere(9)).yaml(),
        )?;
        world.client.has_endpoints(&format!("outbound|80||mark-{end}.test"), &[nowhere(9)], SOON).await?;
        let now = world.client.endpoints(&svc(&[]).cluster())?;
        ensure!(now.contains(&nowhere(1).to_string()), "{end} bytes of the file took it away: {now:?}");
    }
    std::fs::write(world.path("svc.yaml"), &whole)?;
    world.client.has_endpoints(&svc(&[]).cluster(), &[nowhere(1), nowhere(2)], SOON).await
}

/// A file that is absent from two listings is a deletion, and the removal shows its evidence.
#[tokio::test]
async fn deleted_file_removes_its_endpoints() -> Result<()> {
    let mut world = Watched::start().await?;
    std::fs::write(world.path("other.yaml"), Entry::http("other.test", 80).at(nowhere(3)).yaml())?;
    world.client.has_endpoints("outbound|80||other.test", &[nowhere(3)], SOON).await?;
    std::fs::remove_file(world.path("svc.yaml"))?;
    world.client.holds(tributary_suites::ads::CDS, &["outbound|80||other.test"], SOON).await?;
    ensure!(world.client.endpoints("outbound|80||other.test")?.len() == 1, "the other one went too");
    Ok(())
}

/// A storm of harmless accidents and real changes: the number of endpoints that a client sees falls only for
/// real removals.
#[tokio::test]
async fn every_decrease_has_evidence() -> Result<()> {
    let mut world = Watched::start().await?;
    let cluster = svc(&[]).cluster();
    let mut wanted = vec![nowhere(1), nowhere(2)];
    for round in 3_u8..15 {
        // Accidents: none of them may show.
        std::fs::write(world.path("svc.yaml"), "spec: [")?;
        std::fs::rename(world.path("svc.yaml"), world.path("svc.bak"))?;
        let away = world.outer.path().join("away");
        std::fs::rename(world.path(""), &away)?;
        std::fs::rename(&away, world.path(""))?;
        // Real changes, which mostly add endpoints.
        let least = wanted.len() - usize::from(round % 4 == 0);
        if round % 4 == 0 {
            wanted.remove(0);
        } else {
            wanted.push(nowhere(round));
        }
        std::fs::write(world.path(".new"), svc(&wanted).yaml())?;
        std::fs::rename(world.path(".new"), world.path("svc.yaml"))?;
        std::fs::remove_file(world.path("svc.bak"))?;
        let hosts: std::collections::BTreeSet<String> = wanted.iter().map(ToString::to_string).collect();
        let mut lowest = usize::MAX;
        let seen = |now: &Follower| {
            let have = now.endpoints(&cluster).ok()?;
            lowest = lowest.min(have.len());
            (have == hosts).then_some(())
        };
        world.client.until(&format!("round {round}"), SOON, seen).await?;
        ensure!(lowest >= least, "round {round}: it fell to {lowest}, and no removal explains it");
        ensure!(
            world.client.answers().iter().all(|answer| answer.removed.is_empty()),
            "a cluster was removed"
        );
    }
    Ok(())
}

/// The same with calls: the folder is removed for a while, without an effect on calls.
#[tokio::test]
async fn calls_continue_without_their_source() -> Result<()> {
    let backend = Backend::start("only").await?;
    let outer = Files::new()?;
    let folder = outer.path().join("docs");
    std::fs::create_dir(&folder)?;
    let entry = svc(&[backend.addr()]).protocol("GRPC");
    std::fs::write(folder.join("svc.yaml"), entry.yaml())?;
    let server = TestServer::start(ServerOptions::files(&folder)).await?;
    let mut client = GrpcClient::start(Language::Python, &GrpcConfig::new(server.xds())).await?;
    ensure!(client.call("svc.test:80", SOON, true).await?.ok);
    client.start_load("svc.test:80", 200, 8).await?;
    std::fs::remove_dir_all(&folder)?;
    eventually("the registry to be stale", SOON, || async {
        let items = server.items("registries").await?;
        ensure!(items.iter().all(|one| one["state"] != "Live"), "{items:?}");
        Ok(())
    })
    .await?;
    client.reaches("only", 100, SOON).await?;
    client.stop_load().await?.check_clean()
}
