//! Runs every world with a Kubernetes cluster through a real API server: objects are applied to it, the real
//! binary watches it, and clients' resources are read over ADS.

use anyhow::Result;
use tributary_worlds::{run, worlds};

#[path = "../worlds_ads/backend.rs"]
mod backend;
#[path = "../worlds_ads/cluster.rs"]
mod cluster;
#[path = "../worlds_ads/read.rs"]
mod read;

use backend::AdsBackend;

/// Runs all cases of all worlds, sequentially because they share the cluster, and reports every failure.
/// `TRIBUTARY_WORLD` and `TRIBUTARY_CASE` select by a part of their names.
#[tokio::test]
async fn worlds_through_the_api_server() -> Result<()> {
    let part = |variable: &str| std::env::var(variable).unwrap_or_default();
    let (wanted_world, wanted_case) = (part("TRIBUTARY_WORLD"), part("TRIBUTARY_CASE"));
    // Held so that the server outlives the single cases.
    let _server = tributary_suites::ApiServer::shared().await?;
    let (mut faults, mut ran) = (Vec::new(), 0);
    for (file, world) in worlds()?.into_iter().filter(|(file, _)| file.contains(&wanted_world)) {
        // a case with a Consul or a remote cluster runs on the core only
        let own = |case: &&tributary_worlds::Case| {
            let stage = world.stage(case);
            stage.kubernetes.is_some() && stage.remote.is_none() && stage.consul.is_none()
        };
        for case in world.cases.iter().filter(own).filter(|case| case.case.contains(&wanted_case)) {
            ran += 1;
            if let Err(error) = run(&world, case, &mut AdsBackend::default()).await {
                faults.push(format!("{file}: {error:#}"));
            }
        }
    }
    anyhow::ensure!(faults.is_empty(), "{} of {ran} cases:\n{}", faults.len(), faults.join("\n"));
    anyhow::ensure!(ran > 0, "no case was run");
    Ok(())
}
