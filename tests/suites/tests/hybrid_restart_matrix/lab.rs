//! A source, the assignments that a server served from it before it was killed, and the state directory that
//! the server left.

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

/// A source with the results of a killed server; see the module.
pub(crate) struct Lab<O> {
    pub(crate) origin: O,
    home: TempDir,
    left: Left,
    /// Served assignments.
    pub(crate) before: Assignments,
    /// Number of endpoints in `get endpoints`.
    pub(crate) endpoints: usize,
    /// Start time of the killed server.
    pub(crate) launched: Instant,
    /// Time of the kill.
    pub(crate) killed: Instant,
    /// Ports of each cell: those of a source that is down must not be taken.
    ports: Vec<(SocketAddr, SocketAddr)>,
}

impl<O: Origin> Lab<O> {
    /// Serves everything once, and kills the server.
    pub(crate) async fn start(origin: O, cells: usize) -> Result<Self> {
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
            (0..cells).map(|_| Ok((ports::free_addr()?, ports::free_addr()?))).collect::<Result<_>>()?;
        Ok(Self { origin, home, left, before, endpoints, launched, killed, ports })
    }
    /// Starts a server over a copy of the killed server's state directory.
    pub(crate) fn launch(
        &self,
        source: Source,
        journal: Journal,
        place: usize,
    ) -> Result<(TestServer, PathBuf)> {
        let state = self.home.path().join(format!("state-{source:?}-{place}"));
        self.left.put(&state, journal)?;
        let (xds, admin) = self.ports[place];
        let first = journal::options(&state, journal)?;
        Ok((TestServer::launch(options(&self.home, first, &state)?.on(xds, admin))?, state))
    }
    /// Opens a stream that requests everything.
    pub(crate) async fn follow(&self, server: &TestServer) -> Result<Follower> {
        follow(server, &names(&self.origin)).await
    }
}

fn names(origin: &impl Origin) -> Vec<String> {
    SERVICES.iter().map(|(name, _)| *name).chain([MARK]).map(|name| origin.assignment(name)).collect()
}

/// Without an answering source, and without a journal, such a server is never ready.
fn options(home: &TempDir, first: ServerOptions, state: &Path) -> Result<ServerOptions> {
    let options = first.config(&home.path().join("config.json")).arg("--state-dir");
    Ok(options.arg(state.to_str().context("a path that is text")?).arg("--first-sync-timeout").arg("0"))
}

/// The server is killed: everything it served must be on disk by then.
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
