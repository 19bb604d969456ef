//! Every world of `tests/worlds` again, through the whole server: documents are files in folders that the real
//! binary watches, and what clients are told is read back over ADS.

use anyhow::Result;
use tributary_worlds::{Case, World, run, worlds};

mod backend;
mod read;

use backend::AdsBackend;

/// Runs all cases of a world, two at a time, and tells all that fail.
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

macro_rules! through_ads {
    ($($test:ident $file:literal;)*) => {
        $(#[tokio::test]
        async fn $test() -> Result<()> {
            hold($file).await
        })*

        #[test]
        fn every_world_is_run_through_ads() -> Result<()> {
            let mut listed = vec![$($file),*];
            listed.sort_unstable();
            let all: Vec<String> = worlds()?.into_iter().map(|(file, _)| file).collect();
            assert_eq!(listed, all);
            Ok(())
        }
    };
}

through_ads! {
    conversion_through_ads "conversion.yaml";
    instances_through_ads "instances.yaml";
    selection_through_ads "selection.yaml";
    changes_through_ads "changes.yaml";
    validation_through_ads "validation.yaml";
    claims_through_ads "claims.yaml";
    explain_through_ads "explain.yaml";
}
