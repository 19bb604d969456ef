//! Permissions that a token of a real Consul loses and regains: by its policy, by another token in its file,
//! and by a token that a reloaded configuration names. A client records that no assignment shrinks.

mod consul_support;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use consul_support::{Recorder, at, none_held, registry, reports, served};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_suites::consul::{Consul, ConsulOptions, Served};
use tributary_suites::eventually;

const SOON: Duration = Duration::from_secs(20);
const LATER: Duration = Duration::from_secs(60);
const ALL: &str = r#"service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }"#;
const BOTH: &str = r#"service "web" { policy = "read" } service "pay" { policy = "read" }
    node_prefix "" { policy = "read" }"#;
const WEB: &str = r#"service_prefix "web" { policy = "read" } node_prefix "" { policy = "read" }"#;
const PAY: &str = "pay.service.consul";

/// A server over a Consul with `web`, `pay` and `other`, and a client that records.
struct World {
    consul: Consul,
    served: Served,
    recorder: Recorder,
    home: TempDir,
}

impl World {
    /// Starts with a token of the policy `first`, which has these rules.
    async fn start(rules: &str) -> Result<Self> {
        let consul = Consul::start_with(ConsulOptions::default().acl()).await?;
        for (service, last) in [("web", 1), ("pay", 3), ("other", 5)] {
            consul.instance(service, &format!("{service}-1"), "n1", at(last)).await?;
        }
        let (_, secret) = consul.token("first", rules).await?;
        let home = tempfile::tempdir()?;
        std::fs::write(file_in(&home, "token"), secret)?;
        let served = Served::start(&config(&consul, &home, "token", MANY)).await?;
        consul_support::served(&served.server, "web", &[1], SOON).await?;
        consul_support::served(&served.server, "pay", &[3], SOON).await?;
        let recorder = Recorder::start(&served.server, PAY).await?;
        Ok(Self { consul, served, recorder, home })
    }
    async fn reports_less(&self) -> Result<()> {
        reports(&self.served.server, "sees less", LATER).await
    }
    /// Changes the catalog until the server has read it with the new rules, which Consul's servers apply after
    /// a while. For a token whose view was filtered before, only content shows that it sees less.
    async fn changes_until_it_reports_less(&self) -> Result<()> {
        eventually("the registry to see less", LATER, || async {
            for last in [6, 7] {
                self.consul.instance("other", "other-2", "n3", at(last)).await?;
            }
            let report = registry(&self.served.server).await?.to_string();
            anyhow::ensure!(report.contains("sees less"), "{report}");
            Ok(())
        })
        .await
    }
    /// Asserts that a change that the token may read is followed, and that other services stay served.
    async fn follows(&self, last: u8) -> Result<()> {
        self.consul.instance("web", &format!("web-{last}"), "n2", at(last)).await?;
        let want: Vec<u8> = [1].into_iter().chain(2..=last).collect();
        served(&self.served.server, "web", &want, LATER).await?;
        served(&self.served.server, "pay", &[3], SOON).await
    }
    /// Asserts that everything is seen again: nothing was lost, and removals apply from now on.
    async fn ends_whole(self) -> Result<()> {
        eventually("the view to be whole", LATER, || async {
            let report = registry(&self.served.server).await?.to_string();
            anyhow::ensure!(!report.contains("sees less"), "{report}");
            Ok(())
        })
        .await?;
        self.recorder.has_seen_no_loss().await?;
        self.consul.deregister("n1", "pay-1").await?;
        served(&self.served.server, "pay", &[], LATER).await?;
        none_held(&self.served.server, SOON).await
    }
}

fn file_in(home: &TempDir, name: &str) -> PathBuf {
    home.path().join(name)
}

/// Connections that give each service a long poll, and connections that give none.
const MANY: u32 = 150;
const FEW: u32 = 20;

fn config(consul: &Consul, home: &TempDir, token: &str, connections: u32) -> Value {
    let token = file_in(home, token);
    json!({"registries": [{"kind": "consul", "name": "consul", "addresses": [consul.url()], "tokenFile": token,
        "connections": connections}]})
}

#[tokio::test]
async fn policy_that_loses_permissions_shrinks_no_assignment() -> Result<()> {
    for rules in [ALL, BOTH] {
        let world = World::start(rules).await?;
        world.consul.allow("first", WEB).await?;
        world.changes_until_it_reports_less().await?;
        world.follows(2).await?;
        world.consul.allow("first", rules).await?;
        world.ends_whole().await?;
    }
    Ok(())
}

#[tokio::test]
async fn narrower_token_in_the_file_shrinks_no_assignment() -> Result<()> {
    for (before, after) in [(ALL, BOTH), (ALL, WEB), (BOTH, WEB)] {
        let world = World::start(before).await?;
        let first = std::fs::read(file_in(&world.home, "token"))?;
        let (_, narrow) = world.consul.token("narrow", after).await?;
        std::fs::write(file_in(&world.home, "token"), narrow)?;
        world.reports_less().await?;
        world.follows(2).await?;
        std::fs::write(file_in(&world.home, "token"), first)?;
        world.ends_whole().await?;
    }
    Ok(())
}

/// The run after the reload starts with the facts of the last one.
#[tokio::test]
async fn reload_with_a_narrower_token_shrinks_no_assignment() -> Result<()> {
    let world = World::start(ALL).await?;
    let (_, narrow) = world.consul.token("narrow", WEB).await?;
    std::fs::write(file_in(&world.home, "narrow"), narrow)?;
    world.served.reload(&config(&world.consul, &world.home, "narrow", MANY))?;
    world.follows(2).await?;
    // the run that would see less waits, and the previous one continues
    reports(&world.served.server, "the new run can read less of", LATER).await?;
    world.served.reload(&config(&world.consul, &world.home, "token", MANY))?;
    world.follows(3).await?;
    world.ends_whole().await
}

#[tokio::test]
async fn reload_with_the_same_permissions_shrinks_no_assignment() -> Result<()> {
    for rules in [ALL, BOTH] {
        let world = World::start(rules).await?;
        world.served.reload(&config(&world.consul, &world.home, "token", FEW))?;
        reports(&world.served.server, "notifyAndFetch", LATER).await?;
        world.follows(2).await?;
        world.ends_whole().await?;
    }
    Ok(())
}
