//! The rules of priorities and shares of localities, one test each, so that the ledger names the test of each rule. They are the
//! cases of two worlds, whose sources are two clusters, a Consul and files. `core` runs them with all others, and kube_worlds those
//! without a remote cluster and a Consul on a real API server.

use anyhow::Result;
use tributary_worlds::run_on_core;

const LOCALITIES: &str = "localities.yaml";
const SOURCES: &str = "locality_sources.yaml";

#[tokio::test]
async fn nearest_locality_is_first_and_a_failover_region_precedes_others() -> Result<()> {
    run_on_core(LOCALITIES, "with outlier detection the nearest").await
}

#[tokio::test]
async fn labels_order_endpoints_in_place_of_localities() -> Result<()> {
    run_on_core(LOCALITIES, "labels decide in place of localities").await
}

#[tokio::test]
async fn shares_replace_the_weights_of_localities() -> Result<()> {
    run_on_core(LOCALITIES, "shares replace the weights").await
}

#[tokio::test]
async fn shares_and_failover_exclude_each_other() -> Result<()> {
    run_on_core(LOCALITIES, "shares and failover").await
}

#[tokio::test]
async fn rule_precedes_the_traffic_distribution_and_that_the_mesh() -> Result<()> {
    run_on_core(LOCALITIES, "a rule precedes the traffic distribution").await
}

#[tokio::test]
async fn same_node_precedes_subzone_zone_and_region() -> Result<()> {
    run_on_core(LOCALITIES, "PreferSameNode prefers the node").await
}

#[tokio::test]
async fn locality_of_two_clusters_and_files_has_the_sum_of_their_weights() -> Result<()> {
    run_on_core(SOURCES, "a locality of two clusters and files").await
}

#[tokio::test]
async fn gateways_of_two_clusters_share_the_weights_of_the_reference() -> Result<()> {
    run_on_core(SOURCES, "the weight of endpoints in another network").await
}

#[tokio::test]
async fn gateways_follow_the_endpoints_of_the_own_network() -> Result<()> {
    run_on_core(SOURCES, "with a traffic distribution, gateways").await
}

#[tokio::test]
async fn federated_service_has_one_order_and_its_alias_none() -> Result<()> {
    run_on_core(SOURCES, "a federated service of a cluster").await
}
