//! Runs every world on the core.

use anyhow::Result;
use tributary_worlds::{run_on_core, worlds};

macro_rules! on_the_core {
    ($($test:ident $file:literal;)*) => {
        $(#[tokio::test]
        async fn $test() -> Result<()> {
            run_on_core($file, "").await
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
    localities "localities.yaml";
    locality_sources "locality_sources.yaml";
}
