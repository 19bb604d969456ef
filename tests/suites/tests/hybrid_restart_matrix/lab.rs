//! A source, what a server served of it before it was killed, and what that server left on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use tributary_suites::{Follower, ServerOptions, TestServer, eventually, ports};

use crate::cell::{SOON, endpoints, follow, held};
use crate::journal::{self, Left};
use crate::origin::{MARK, Origin, SERVICES};
use crate::table::{Journal, Source};

/// Versions and endpoints of assignments.
pub(crate) type Assignments = BTreeMap<String, (String, BTreeSet<String>)>;

/// See the module.
pub(crate) struct Lab<O> {
    pub(crate) origin: O,
    home: TempDir,
    left: Left,
    /// What was served.
    pub(crate) before: Assignments,
    /// How many endpoints `get endpoints` had.
    pub(crate) endpoints: usize,
    /// When the server that is killed was started.
    pub(crate) launched: Instant,
    /// When it was killed.
    pub(crate) killed: Instant,
    /// The ports of each place in the matrix: those of a source that is down must not be taken.
    ports: Vec<(SocketAddr, SocketAddr)>,
}

impl<O: Origin> Lab<O> {
    /// Serves everything once, and kills the server.
    pub(crate) async fn start(origin: O, places: usize) -> Result<Self> {
        let home = tempfile::tempdir()?;
        origin.fill().await?;
        let config = json!({"apiVersion": "tributary.dev/v1alpha1", "kind": "Config", "registries": [origin.config()]});
        std::fs::write(home.path().join("config.json"), config.to_string())?;
        let launched = Instant::now();
        let state = home.path().join("state");
        let mut server = TestServer::launch(options(&home, ServerOptions::default(), &state)?)?;
        server.ready(SOON).await?;
        server.registry_is(origin.registry(), "Live", &[], SOON).await?;
        let names = names(&origin);
        let before = held(&mut follow(&server, &names).await?, names.len()).await?;
        let sizes = before.values().map(|(_, endpoints)| endpoints.len());
        ensure!(sizes.sum::<usize>() == 4, "{before:?}");
        let endpoints = endpoints(&server, &origin).await?;
        remembers_all(&server).await?;
        let killed = Instant::now();
        drop(server);
        let left = Left::read(&state, &format!("{}.{}", SERVICES[0].0, origin.domain()))?;
        let ports =
            (0..places).map(|_| Ok((ports::free_addr()?, ports::free_addr()?))).collect::<Result<_>>()?;
        Ok(Self { origin, home, left, before, endpoints, launched, killed, ports })
    }
    /// Starts a server over a copy of what the killed one left.
    pub(crate) fn launch(
        &self,
        source: Source,
        journal: Journal,
        place: usize,
    ) -> Result<(TestServer, PathBuf)> {
        let state = self.home.path().join(format!("state-{source:?}-{place}"));
        self.left.put(&state, journal)?;
        let (xds, admin) = self.ports[place];
        let first = journal::options(self.home.path(), &state, journal)?;
        Ok((TestServer::launch(options(&self.home, first, &state)?.on(xds, admin))?, state))
    }
    /// A stream that asks for everything.
    pub(crate) async fn follow(&self, server: &TestServer) -> Result<Follower> {
        follow(server, &names(&self.origin)).await
    }
}

fn names(origin: &impl Origin) -> Vec<String> {
    SERVICES.iter().map(|(name, _)| *name).chain([MARK]).map(|name| origin.assignment(name)).collect()
}

/// Without a source that answers, and without a journal, such a server is never ready.
fn options(home: &TempDir, first: ServerOptions, state: &Path) -> Result<ServerOptions> {
    let options = first.config(&home.path().join("config.json")).arg("--state-dir");
    Ok(options.arg(state.to_str().context("a path that is text")?).arg("--first-sync-timeout").arg("0"))
}

/// The server is killed: what it has served must be on disk by then.
async fn remembers_all(server: &TestServer) -> Result<()> {
    eventually("everything to be written", SOON, || async {
        let state = server.debug("state").await?;
        let registries = state["registries"].as_array().context("registries")?;
        ensure!(registries.len() > 1 && registries.iter().all(|one| one["whole"] == true), "{state}");
        ensure!(state["journal"]["pendingKeys"] == 0, "{state}");
        Ok(())
    })
    .await
}
