//! Runs every world on the core.

use anyhow::{Context, Result, ensure};
use tributary_worlds::{CoreBackend, Order, run_in, worlds};

/// Runs all cases of a world, each with the documents of a step in both orders. Reports every failure, so one
/// broken rule does not hide others.
async fn hold(name: &str) -> Result<()> {
    let found = worlds()?.into_iter().find(|(file, _)| file == name);
    let (_, world) = found.with_context(|| format!("no world {name}"))?;
    let mut faults = Vec::new();
    for case in &world.cases {
        for order in [Order::Written, Order::Reversed] {
            if let Err(error) = run_in(order, &world, case, &mut CoreBackend::default()).await {
                faults.push(format!("{order:?}: {error:#}"));
            }
        }
    }
    ensure!(faults.is_empty(), "{name}:\n{}", faults.join("\n"));
    Ok(())
}

macro_rules! on_the_core {
    ($($test:ident $file:literal;)*) => {
        $(#[tokio::test]
        async fn $test() -> Result<()> {
            hold($file).await
        })*

        #[test]
        fn every_world_is_run() {
            let mut listed = vec![$($file),*];
            listed.sort_unstable();
            let all: Vec<String> = worlds().unwrap().into_iter().map(|(file, _)| file).collect();
            assert_eq!(listed, all);
        }
    };
}

on_the_core! {
    conversion "conversion.yaml";
    instances "instances.yaml";
    selection "selection.yaml";
    changes "changes.yaml";
    validation "validation.yaml";
    claims "claims.yaml";
    explain "explain.yaml";
    exports "exports.yaml";
    sidecars "sidecars.yaml";
    hybrid "hybrid.yaml";
    kube_mesh "kube_mesh.yaml";
    kube_services "kube_services.yaml";
    kube_endpoints "kube_endpoints.yaml";
    kube_pods "kube_pods.yaml";
    kube_entries "kube_entries.yaml";
    kube_scope "kube_scope.yaml";
    kube_networks "kube_networks.yaml";
    kube_mcs "kube_mcs.yaml";
}
