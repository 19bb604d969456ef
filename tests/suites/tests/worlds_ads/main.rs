//! Runs every world of `tests/worlds` through the whole server: documents are files in folders that the real
//! binary watches, and clients' resources are read over ADS.

use anyhow::Result;
use tributary_worlds::{Case, World, run, worlds};

mod backend;
mod cluster;
mod read;

use backend::AdsBackend;

/// Runs all cases of a world, two at a time, and reports every failure.
async fn hold(name: &str) -> Result<()> {
    let (_, world) =
        worlds()?.into_iter().find(|(file, _)| file == name).ok_or_else(|| anyhow::anyhow!("no {name}"))?;
    let mut faults = Vec::new();
    for pair in world.cases.chunks(2) {
        let done = futures::future::join_all(pair.iter().map(|case| one(&world, case))).await;
        faults.extend(done.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")));
    }
    anyhow::ensure!(faults.is_empty(), "{name}:\n{}", faults.join("\n"));
    Ok(())
}

async fn one(world: &World, case: &Case) -> Result<()> {
    run(world, case, &mut AdsBackend::default()).await
}

#[tokio::test]
async fn conversion_through_ads() -> Result<()> {
    hold("conversion.yaml").await
}

#[tokio::test]
async fn instances_through_ads() -> Result<()> {
    hold("instances.yaml").await
}

#[tokio::test]
async fn selection_through_ads() -> Result<()> {
    hold("selection.yaml").await
}

#[tokio::test]
async fn changes_through_ads() -> Result<()> {
    hold("changes.yaml").await
}

#[tokio::test]
async fn validation_through_ads() -> Result<()> {
    hold("validation.yaml").await
}

#[tokio::test]
async fn claims_through_ads() -> Result<()> {
    hold("claims.yaml").await
}

#[tokio::test]
async fn explain_through_ads() -> Result<()> {
    hold("explain.yaml").await
}

#[tokio::test]
async fn exports_through_ads() -> Result<()> {
    hold("exports.yaml").await
}

#[tokio::test]
async fn sidecars_through_ads() -> Result<()> {
    hold("sidecars.yaml").await
}

/// A new world must be added here.
#[test]
fn every_world_is_run_through_ads() -> Result<()> {
    let listed = include_str!("main.rs");
    // Worlds with a cluster run in kube_worlds.
    let files = worlds()?.into_iter().filter(|(_, world)| !world.has_cluster());
    let forgotten = files.filter(|(file, _)| !listed.contains(&format!("hold(\"{file}\")")));
    let forgotten: Vec<String> = forgotten.map(|(file, _)| file).collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
    Ok(())
}
