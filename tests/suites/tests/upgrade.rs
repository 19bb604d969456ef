//! Another version of Tributary and back: the binary of the previous commit and this one replace each other, with the same state
//! directory, behind a real Envoy with traffic. No request fails, and each version serves what the other kept while the source is away.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tributary_suites::{
    Backend, Entry, Envoy, EnvoyConfig, Load, LoadPlan, ServerOptions, Switch, TestServer, Variant,
    eventually, ports, tools,
};

const SOON: Duration = Duration::from_secs(60);
const HOST: &str = "echo.test";

/// A folder of declarations, and the state directories of two replicas.
struct World {
    folder: TempDir,
    port: u16,
}

impl World {
    fn start() -> Result<Self> {
        let world = Self { folder: tempfile::tempdir()?, port: ports::free_port()? };
        std::fs::create_dir(world.files())?;
        Ok(world)
    }
    fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }
    fn declare(&self, hosts: &[SocketAddr]) -> Result<()> {
        let entry = Entry::http(HOST, self.port).all(hosts).yaml();
        let (new, file) = (self.files().join("echo.new"), self.files().join("echo.yaml"));
        std::fs::write(&new, entry)?;
        std::fs::rename(new, file).context("replace the declaration")
    }
    fn options(&self, replica: &str, bin: &Path) -> ServerOptions {
        let state = self.folder.path().join(replica).display().to_string();
        ServerOptions::files(&self.files()).arg("--state-dir").arg(&state).bin(bin)
    }
    async fn serve(&self, replica: &str, bin: &Path) -> Result<TestServer> {
        TestServer::start(self.options(replica, bin)).await
    }
}

/// Ends a replica and starts another binary in its place, with its ports and its state.
async fn replace(world: &World, replica: &str, old: TestServer, bin: &Path) -> Result<TestServer> {
    let (xds, admin) = (old.xds(), old.admin());
    ensure!(old.stop(SOON).await?.success(), "the drain of {replica} failed");
    let server = TestServer::start(world.options(replica, bin).on(xds, admin)).await?;
    Ok(server)
}

#[tokio::test]
async fn rolling_upgrade_and_rollback_fail_no_request() -> Result<()> {
    let (previous, current) = (tools::previous()?, tools::tributary()?);
    let (world, first, second) =
        (World::start()?, Backend::start("first").await?, Backend::start("second").await?);
    world.declare(&[first.addr()])?;
    let mut replicas = [world.serve("a", &previous).await?, world.serve("b", &previous).await?];
    let switch = Switch::start(replicas[0].xds()).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(switch.addr(), Variant::Delta).sidecar("upgrade")).await?;
    envoy.live(SOON).await?;
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, world.port));
    let load = Load::start(&LoadPlan::to(target).host(HOST).at_least(200.0));
    load.reaches("first", 100, SOON).await?;
    for (bin, name, addr) in [(&current, "second", second.addr()), (&previous, "first", first.addr())] {
        // one replica at a time, and clients move to the other one meanwhile
        for (i, replica) in ["a", "b"].into_iter().enumerate() {
            let [a, b] = replicas;
            switch.to(if i == 0 { b.xds() } else { a.xds() });
            replicas = match i {
                0 => [replace(&world, replica, a, bin).await?, b],
                _ => [a, replace(&world, replica, b, bin).await?],
            };
            load.reaches(if name == "second" { "first" } else { "second" }, 50, SOON).await?;
        }
        world.declare(&[addr])?;
        load.reaches(name, 100, SOON)
            .await
            .with_context(|| format!("a change reaches a client of {}", bin.display()))?;
    }
    ensure!(envoy.refused().await? == 0, "Envoy refused an update");
    load.finish().await.check_clean()
}

#[tokio::test]
async fn each_version_serves_what_the_other_kept_while_the_source_is_away() -> Result<()> {
    let (previous, current) = (tools::previous()?, tools::tributary()?);
    let world = World::start()?;
    let hosts: Vec<SocketAddr> = (1..=3).map(|last| SocketAddr::from(([10, 77, 0, last], 80))).collect();
    world.declare(&hosts)?;
    let away = world.folder.path().join("away");
    let mut server = world.serve("a", &previous).await?;
    kept(&server).await?;
    for bin in [&current, &previous] {
        std::fs::rename(world.files(), &away)?;
        server = replace(&world, "a", server, bin).await?;
        let (status, out, err) = server.command(&["get", "endpoints"]).await?;
        ensure!(status.success() || status.code() == Some(7), "{status} {err}");
        for host in &hosts {
            ensure!(out.contains(&host.to_string()), "{} does not serve {host}: {out} {err}", bin.display());
        }
        kept(&server).await?;
        std::fs::rename(&away, world.files())?;
        server.registry_is("file", "Live", &[], SOON).await?;
        kept(&server).await?;
    }
    Ok(())
}

/// Waits until the state on disk is whole.
async fn kept(server: &TestServer) -> Result<()> {
    eventually("the state on disk", SOON, || async {
        let (_, out, err) = server.command(&["state", "show"]).await?;
        ensure!(out.contains("whole") && !out.contains("not whole"), "{out} {err}");
        Ok(())
    })
    .await
}
