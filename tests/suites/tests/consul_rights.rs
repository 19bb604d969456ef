//! Rights that a token loses on a real Consul, and is given back: in its policy, by another token in its file, and by a
//! token that a reloaded configuration names. A client records that no assignment shrinks.

mod consul_support;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use consul_support::{Recorder, at, none_held, registry, says, served};
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
    /// With a token of the policy `first`, which has these rules.
    async fn start(rules: &str) -> Result<Self> {
        let consul = Consul::start_with(ConsulOptions::default().acl()).await?;
        for (service, last) in [("web", 1), ("pay", 3), ("other", 5)] {
            consul.instance(service, &format!("{service}-1"), "n1", at(last)).await?;
        }
        let (_, secret) = consul.token("first", rules).await?;
        let home = tempfile::tempdir()?;
        std::fs::write(file_in(&home, "token"), secret)?;
        let served = Served::start(&config(&consul, &home, "token", "auto")).await?;
        consul_support::served(&served.server, "web", &[1], SOON).await?;
        consul_support::served(&served.server, "pay", &[3], SOON).await?;
        let recorder = Recorder::start(&served.server, PAY).await?;
        Ok(Self { consul, served, recorder, home })
    }
    async fn says_less(&self) -> Result<()> {
        says(&self.served.server, "sees less", LATER).await
    }
    /// Of a token whose view was filtered before, only content shows that it sees less: the catalog moves until it has
    /// been read with the new rules, which servers take up after a while.
    async fn moves_until_it_says_less(&self) -> Result<()> {
        eventually("the registry to see less", LATER, || async {
            for last in [6, 7] {
                self.consul.instance("other", "other-2", "n3", at(last)).await?;
            }
            let said = registry(&self.served.server).await?.to_string();
            anyhow::ensure!(said.contains("sees less"), "{said}");
            Ok(())
        })
        .await
    }
    /// A change that the token may see is followed, and what it may not is still served.
    async fn follows(&self, last: u8) -> Result<()> {
        self.consul.instance("web", &format!("web-{last}"), "n2", at(last)).await?;
        let want: Vec<u8> = [1].into_iter().chain(2..=last).collect();
        served(&self.served.server, "web", &want, LATER).await?;
        served(&self.served.server, "pay", &[3], SOON).await
    }
    /// All is seen again: nothing was lost, and what goes from now on goes.
    async fn ends_whole(self) -> Result<()> {
        eventually("the view to be whole", LATER, || async {
            let said = registry(&self.served.server).await?.to_string();
            anyhow::ensure!(!said.contains("sees less"), "{said}");
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

fn config(consul: &Consul, home: &TempDir, token: &str, mode: &str) -> Value {
    let token = file_in(home, token);
    json!({"registries": [{"kind": "consul", "name": "consul", "addresses": [consul.url()], "mode": mode,
        "tokenFile": token}]})
}

#[tokio::test]
async fn a_policy_that_loses_rights_shrinks_no_assignment_whether_or_not_it_saw_all() -> Result<()> {
    for rules in [ALL, BOTH] {
        let world = World::start(rules).await?;
        world.consul.allow("first", WEB).await?;
        world.moves_until_it_says_less().await?;
        world.follows(2).await?;
        world.consul.allow("first", rules).await?;
        world.ends_whole().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_narrower_token_in_the_file_shrinks_no_assignment() -> Result<()> {
    for (before, after) in [(ALL, BOTH), (ALL, WEB), (BOTH, WEB)] {
        let world = World::start(before).await?;
        let first = std::fs::read(file_in(&world.home, "token"))?;
        let (_, narrow) = world.consul.token("narrow", after).await?;
        std::fs::write(file_in(&world.home, "token"), narrow)?;
        world.says_less().await?;
        world.follows(2).await?;
        std::fs::write(file_in(&world.home, "token"), first)?;
        world.ends_whole().await?;
    }
    Ok(())
}

/// The run that follows the reload begins on what the last one has left.
#[tokio::test]
async fn a_reload_with_a_narrower_token_shrinks_no_assignment() -> Result<()> {
    let world = World::start(ALL).await?;
    let (_, narrow) = world.consul.token("narrow", WEB).await?;
    std::fs::write(file_in(&world.home, "narrow"), narrow)?;
    world.served.reload(&config(&world.consul, &world.home, "narrow", "auto"))?;
    world.follows(2).await?;
    // the run that would see less waits, and the one before goes on
    says(&world.served.server, "the new run can read less of", LATER).await?;
    world.served.reload(&config(&world.consul, &world.home, "token", "auto"))?;
    world.follows(3).await?;
    world.ends_whole().await
}

#[tokio::test]
async fn a_reload_that_changes_nothing_of_the_rights_shrinks_no_assignment() -> Result<()> {
    for rules in [ALL, BOTH] {
        let world = World::start(rules).await?;
        world.served.reload(&config(&world.consul, &world.home, "token", "notifyAndFetch"))?;
        says(&world.served.server, "notifyAndFetch", LATER).await?;
        world.follows(2).await?;
        world.ends_whole().await?;
    }
    Ok(())
}
