//! Dashboards and alerts in Debian's Prometheus, which scrapes real servers: each alert fires by a real fault, none on a healthy server,
//! and every query of the dashboards returns data.

mod faults;
mod rules;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use faults::{HEALTHY, Servers};
use parking_lot::Mutex;
use serde_json::Value;
use tributary_suites::prometheus::{Prometheus, check_metrics, promtool};
use tributary_suites::{eventually, http_client};

const SOON: Duration = Duration::from_secs(25);
const ABSENT: &str = "TributaryAbsent";

/// Alert and the job whose servers fire it.
const EXPECTED: &[(&str, &str)] = &[
    ("TributaryNotReady", "unready"),
    ("TributaryCatalogIncomplete", "unready"),
    ("TributaryConfigReloadFailed", "main"),
    ("TributaryReplicasDiffer", "replicas"),
    ("TributaryRegistryNotLive", "main"),
    ("TributaryRegistryStale", "main"),
    ("TributaryScopeNotLive", "main"),
    ("TributaryRunWaiting", "consul"),
    ("TributaryRemovalsHeld", "consul"),
    ("TributaryProblemsGrew", "main"),
    ("TributaryGatewayNamesFailing", "cluster"),
    ("TributaryClusterNotLive", "main"),
    ("TributaryClusterDeclarationUnused", "main"),
    ("TributaryClusterCredentialExpiring", "main"),
    ("TributaryClusterCredentialExpiresSoon", "main"),
    ("TributaryClusterCredentialExpired", "main"),
    ("TributaryClientsRejecting", "main"),
    ("TributaryHighNackRate", "main"),
    ("TributaryConvergenceSlow", "slow"),
    ("TributaryConvergenceDegraded", "slow"),
    ("TributaryTokenReviewsFailing", "cluster"),
    ("TributaryConnectionsRefused", "cluster"),
    ("TributaryStateNotKept", "disk"),
    ("TributaryJournalNotWritten", "disk"),
    ("TributaryStateIncomplete", "disk"),
];

/// Returns alert and job of each alert that fires now.
async fn firing(prometheus: &Prometheus) -> Result<BTreeSet<(String, String)>> {
    let all = prometheus.query("ALERTS{alertstate=\"firing\"}").await?;
    let label = |one: &Value, name: &str| one["metric"][name].as_str().unwrap_or_default().to_owned();
    Ok(all.iter().map(|one| (label(one, "alertname"), label(one, "job"))).collect())
}

#[tokio::test]
async fn rule_file_is_valid_and_unreachable_alerts_fire_on_made_up_series() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::copy(rules::file(), folder.path().join("rules.yml"))?;
    promtool(folder.path(), &["check", "rules", "rules.yml"]).await?;
    std::fs::write(folder.path().join("rules.yml"), rules::without_texts()?.to_string())?;
    std::fs::write(folder.path().join("test.yml"), rules::unreachable_test().to_string())?;
    promtool(folder.path(), &["test", "rules", "test.yml"]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_alert_fires_by_its_fault_and_each_query_returns_data() -> Result<()> {
    let expected = EXPECTED.iter().map(|(alert, _)| *alert).chain(rules::UNREACHABLE).chain([ABSENT]);
    ensure!(
        expected.collect::<BTreeSet<_>>() == rules::alerts()?.iter().map(String::as_str).collect(),
        "an alert is not tested"
    );

    let mut servers = Box::pin(Servers::start()).await?;
    let prometheus = Prometheus::start(&rules::shortened()?, &servers.targets()).await?;
    let began = Instant::now();
    servers.break_all().await?;
    let seen = all_fire(&prometheus).await?;
    let of_healthy = format!("count_over_time(ALERTS{{job=\"{HEALTHY}\", alertstate=\"firing\"}}[10m])");
    let fired = prometheus.query(&of_healthy).await?;
    ensure!(fired.is_empty(), "alerts on a healthy server: {fired:?}");
    let without_job = seen.iter().filter(|(_, job)| job.is_empty()).collect::<Vec<_>>();
    ensure!(without_job.is_empty(), "alerts without a job: {without_job:?}");
    for (title, query) in rules::queries()? {
        let series = prometheus.query_range(&query, began.elapsed()).await?;
        let values = series.iter().flat_map(|one| one["values"].as_array().into_iter().flatten());
        ensure!(
            values.filter_map(|value| value[1].as_str()).any(|value| value != "NaN"),
            "{title}: {query} is empty"
        );
    }
    has_names_of_istio(&prometheus).await?;
    // Prometheus accepts OpenMetrics, so what it scraped was that. A client that accepts anything gets the older format.
    for (job, health) in servers.targets() {
        let text = http_client::get_text(health, "/metrics").await?;
        check_metrics(&text).await.with_context(|| format!("metrics of {job}"))?;
    }

    drop(servers);
    eventually(ABSENT, SOON, || async {
        ensure!(firing(&prometheus).await?.iter().any(|(alert, _)| alert == ABSENT), "it does not fire");
        Ok(())
    })
    .await
}

/// Waits until every alert has fired for its job. Returns all that did.
async fn all_fire(prometheus: &Prometheus) -> Result<BTreeSet<(String, String)>> {
    let seen = Mutex::new(BTreeSet::new());
    eventually("every alert to fire", SOON, || async {
        let now = firing(prometheus).await?;
        let mut seen = seen.lock();
        seen.extend(now);
        let has = |(alert, job): &&(&str, &str)| seen.contains(&((*alert).to_owned(), (*job).to_owned()));
        let missing: Vec<_> = EXPECTED.iter().filter(|one| !has(one)).collect();
        ensure!(missing.is_empty(), "these do not: {missing:?}");
        Ok(())
    })
    .await?;
    Ok(seen.into_inner())
}

/// The server of job `cluster` serves names of Istio beside its own, with the same values; no other server does.
async fn has_names_of_istio(prometheus: &Prometheus) -> Result<()> {
    let jobs = prometheus.query("count by (job) (pilot_services)").await?;
    ensure!(jobs.len() == 1 && jobs[0]["metric"]["job"] == "cluster", "{jobs:?}");
    for (name, ours) in [
        ("sum(pilot_xds_pushes)", "sum(tributary_xds_push_duration_seconds_count{job=\"cluster\"})"),
        ("sum(pilot_total_xds_rejects)", "sum(tributary_xds_nacks_total{job=\"cluster\"})"),
        (
            "sum(pilot_proxy_convergence_time_count)",
            "sum(tributary_convergence_seconds_count{job=\"cluster\"})",
        ),
        (
            "sum(pilot_xds_push_time_count{type=\"cds\"})",
            "sum(tributary_xds_push_duration_seconds_count{job=\"cluster\", type=\"CDS\"})",
        ),
        ("istiod_managed_clusters{cluster_type=\"local\"}", "vector(1)"),
        ("sum(pilot_xds)", "sum(tributary_xds_clients{job=\"cluster\"})"),
    ] {
        let same = prometheus.query(&format!("{name} == on () {ours}")).await?;
        ensure!(same.len() == 1, "{name} is not {ours}");
    }
    Ok(())
}
