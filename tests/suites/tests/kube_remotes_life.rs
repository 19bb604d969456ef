//! The life of remote clusters that Secrets declare, on two real API servers and while a client of ADS is connected: Tributary is
//! killed and started again while the config cluster is away.

#[path = "kube_remotes_life/lab.rs"]
mod lab;

use anyhow::{Result, ensure};
use lab::{AWAY, DRAIN, GRACE, HOME, Lab, SOON, WATCHED, uid_of};
use tributary_suites::eventually;

#[tokio::test]
async fn remembered_cluster_is_served_without_the_config_cluster() -> Result<()> {
    let mut lab = Lab::joined().await?;
    lab.is_written().await?;
    lab.home.daemon().kill();
    lab.restart().await?;
    lab.serves(&[HOME, AWAY]).await?;
    lab.server()?.registry_is("away", "Stale", &[], SOON).await?;
    lab.recorder()?.forget();

    // the Secret is there when the config cluster is back: nothing moves
    lab.home.restart().await?;
    lab.server()?.registry_is("away", "Live", &[], SOON).await?;
    lab.server()?.registry_is("away-entries", "Live", &[], SOON).await?;
    lab.sends_nothing(WATCHED).await
}

#[tokio::test]
async fn cluster_undeclared_while_the_server_is_down_leaves_after_the_grace() -> Result<()> {
    let mut lab = Lab::joined().await?;
    lab.is_written().await?;
    lab.kill();
    lab.undeclare().await?;
    lab.home.daemon().kill();
    lab.restart().await?;
    lab.serves(&[HOME, AWAY]).await?;
    lab.recorder()?.forget();
    lab.sends_nothing(GRACE * 2).await?;

    // only the list of the Secrets proves that the cluster is gone
    lab.home.restart().await?;
    lab.serves(&[HOME]).await?;
    lab.is_gone().await?;
    lab.is_written().await?;
    lab.restart().await?;
    lab.serves(&[HOME]).await?;
    let state = lab.server()?.debug("state").await?;
    ensure!(!state.to_string().contains("away"), "the journal forgot the cluster: {state}");
    let receipts = lab.server()?.items("receipts").await?;
    ensure!(receipts.len() == 1 && receipts[0]["cluster"] == "away", "also after a restart: {receipts:?}");
    Ok(())
}

#[tokio::test]
async fn server_without_remembered_clusters_waits_for_the_secrets() -> Result<()> {
    let mut lab = Lab::joined().await?;
    lab.is_written().await?;
    lab.kill();
    lab.forget_state()?;
    lab.home.daemon().kill();
    lab.launch()?;
    eventually("the server to report that it is not ready", SOON, || async {
        let (status, body) = lab.readyz().await?;
        ensure!(status == 503 && body.contains("kubernetes"), "{status}: {body}");
        Ok(())
    })
    .await?;
    lab.home.restart().await?;
    lab.is_ready().await?;
    lab.serves(&[HOME, AWAY]).await
}

/// What it has is unknown, not empty: a client that holds its endpoints would lose them.
#[tokio::test]
async fn start_without_a_journal_waits_for_a_declared_cluster_that_was_never_read() -> Result<()> {
    let mut lab = Lab::joined().await?;
    for (why, is_refused) in [("its declarations are refused", true), ("it is paused", false)] {
        lab.kill();
        lab.forget_state()?;
        match is_refused {
            true => lab.declare_refused().await?,
            false => lab.declare(&[("tributary.dev/paused", "true")]).await?,
        }
        lab.launch()?;
        eventually("the server to name the cluster", SOON, || async {
            let (_, body) = lab.readyz().await?;
            ensure!(body.contains("cluster away") && body.contains(why), "{body}");
            Ok(())
        })
        .await?;
        lab.is_ready().await?;
        let (_, body) = lab.readyz().await?;
        ensure!(body.contains("the timeout of the first sync has passed"), "{body}");
    }
    lab.declare(&[]).await?;
    lab.serves(&[HOME, AWAY]).await?;
    let (_, body) = lab.readyz().await?;
    ensure!(!body.contains("cluster away"), "{body}");
    Ok(())
}

#[tokio::test]
async fn cluster_that_leaves_is_planned_drained_and_receipted() -> Result<()> {
    let mut lab = Lab::joined().await?;
    lab.undeclare().await?;
    is_draining(&lab).await?;
    // declared again within the drain: it has its priority again and stays
    lab.declare(&[]).await?;
    eventually("the endpoints to have their priority again", SOON, || async {
        ensure!(!lab.is_demoted().await?, "still demoted");
        Ok(())
    })
    .await?;
    lab.recorder()?.settle(DRAIN * 2).await?;
    lab.serves(&[HOME, AWAY]).await?;
    let receipts = lab.server()?.items("receipts").await?;
    ensure!(receipts.is_empty(), "nothing left: {receipts:?}");

    lab.undeclare().await?;
    is_draining(&lab).await?;
    lab.serves(&[HOME, AWAY]).await?;
    lab.serves(&[HOME]).await?;
    lab.is_gone().await?;
    let receipts = lab.server()?.items("receipts").await?;
    ensure!(receipts.len() == 1, "{receipts:?}");
    let receipt = &receipts[0];
    ensure!(receipt["cluster"] == "away" && receipt["object"] == "tributary-system/remote-away", "{receipt}");
    ensure!(receipt["plan"]["endpoints"] == 1 && receipt["plan"]["emptied"] == 0, "{receipt}");
    ensure!(receipt["generation"].as_u64() > Some(0), "{receipt}");
    Ok(())
}

async fn is_draining(lab: &Lab) -> Result<()> {
    eventually("the endpoints of the cluster to be used last", SOON, || async {
        ensure!(lab.is_demoted().await?, "not demoted");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn paused_cluster_keeps_its_facts_and_resumes() -> Result<()> {
    let mut lab = Lab::joined().await?;
    lab.declare(&[("tributary.dev/paused", "true")]).await?;
    lab.server()?.registry_is("away", "Stale", &["its declaration asks for a pause"], SOON).await?;
    lab.server()?.registry_is("away-entries", "Stale", &["its declaration asks for a pause"], SOON).await?;
    lab.move_away(&["10.78.0.11"]).await?;
    lab.sends_nothing(WATCHED).await?;

    // a restart does not end the pause
    lab.is_written().await?;
    lab.restart().await?;
    lab.serves(&[HOME, AWAY]).await?;
    lab.server()?.registry_is("kubernetes", "Live", &[], SOON).await?;
    lab.recorder()?.forget();
    lab.sends_nothing(WATCHED).await?;

    lab.declare(&[]).await?;
    lab.serves(&[HOME, "10.78.0.11:8080"]).await?;
    lab.is_live().await?;

    // the annotation removes the cluster without a grace, although it is declared
    lab.declare(&[("tributary.dev/remove", "true")]).await?;
    lab.serves(&[HOME]).await?;
    lab.is_gone().await
}

#[tokio::test]
async fn another_cluster_under_the_same_name_waits_until_its_uid_is_accepted() -> Result<()> {
    let mut lab = Lab::joined().await?;
    let other = lab.another("10.79.0.10").await?;
    lab.declare_at(&other, &[]).await?;
    waits_for_acceptance(&lab).await?;
    lab.sends_nothing(WATCHED).await?;

    // the identity is in the journal: a restart does not accept the other cluster either
    lab.is_written().await?;
    lab.restart().await?;
    lab.serves(&[HOME, AWAY]).await?;
    waits_for_acceptance(&lab).await?;
    lab.recorder()?.forget();
    lab.declare_at(&other, &[("tributary.dev/accept-uid", "0b54ab2f-0000-4000-8000-000000000000")]).await?;
    lab.sends_nothing(WATCHED).await?;

    let uid = uid_of(&other).await?;
    // the command accepts the identity that the server found
    let kubeconfig = lab.home.admin_kubeconfig()?.display().to_string();
    let (status, out, notes) =
        lab.server()?.command(&["cluster", "accept", "away", "--kubeconfig", &kubeconfig]).await?;
    ensure!(status.success() && notes.contains(&uid), "{out}\n{notes}");
    lab.serves(&[HOME, "10.79.0.10:8080"]).await?;
    lab.is_live().await?;
    let shown = lab.server()?.registry("away").await?;
    ensure!(shown["identity"] == uid.as_str(), "{shown}");
    Ok(())
}

async fn waits_for_acceptance(lab: &Lab) -> Result<()> {
    waits_for_acceptance_of(lab, &["away", "away-entries"]).await
}

async fn waits_for_acceptance_of(lab: &Lab, registries: &[&str]) -> Result<()> {
    eventually("the registries to wait for an acceptance", SOON, || async {
        for name in registries {
            let shown = lab.server()?.registry(name).await?;
            ensure!(shown["needsAccept"] == true, "{shown}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn credential_that_may_read_less_waits_until_it_is_accepted() -> Result<()> {
    let mut lab = Lab::joined().await?;
    let api = lab.away.api();
    let kinds = ["namespaces", "pods", "services", "nodes", "discovery.k8s.io/endpointslices"];
    api.allow("reader", &["get", "list", "watch"], &kinds[..4]).await?;
    // without the nodes, the zones of endpoints are not known
    api.allow("other", &["get", "list", "watch"], &[&kinds[..3], &kinds[4..]].concat()).await?;
    lab.declare_as(&lab.away, "reader", &[]).await?;
    waits_for_acceptance_of(&lab, &["away"]).await?;
    let shown = lab.server()?.registry("away").await?;
    ensure!(
        shown["waitsFor"].as_str().is_some_and(|why| why.contains("may not read endpointslices")),
        "{shown}"
    );
    // the credential before is valid: what it reads is served
    lab.move_away(&["10.78.0.11"]).await?;
    let moved = "10.78.0.11:8080";
    lab.serves(&[HOME, moved]).await?;
    let generation = shown["generation"].clone();

    let kubeconfig = lab.home.admin_kubeconfig()?.display().to_string();
    let accept = ["cluster", "accept", "away", "--rights", "--kubeconfig", &kubeconfig];
    let (status, out, notes) = lab.server()?.command(&accept).await?;
    ensure!(status.success() && out.contains("by this credential"), "{out}\n{notes}");
    lab.recorder()?.forget();
    eventually("the accepted credential to be used", SOON, || async {
        let shown = lab.server()?.registry("away").await?;
        ensure!(shown["generation"] != generation && shown["needsAccept"] == false, "{shown}");
        Ok(())
    })
    .await?;
    lab.sends_nothing(WATCHED).await?;
    lab.serves(&[HOME, moved]).await?;

    // a later credential is not accepted with it
    lab.declare(&[]).await?;
    lab.is_live().await?;
    lab.declare_as(&lab.away, "other", &[]).await?;
    waits_for_acceptance_of(&lab, &["away"]).await?;
    lab.sends_nothing(WATCHED).await
}

#[tokio::test]
async fn changed_settings_reach_a_cluster_of_a_secret() -> Result<()> {
    let lab = Lab::joined().await?;
    lab.configure("settings: {domain: corp}")?;
    for registry in ["kubernetes", "away"] {
        eventually("the services to have the new domain", SOON, || async {
            let found = lab.server()?.items(&format!("endpoints?registry={registry}")).await?;
            let is_new = |one: &serde_json::Value| one["host"] == "pay.shop.svc.corp";
            ensure!(found.len() == 1 && found.iter().all(is_new), "{registry}: {found:?}");
            Ok(())
        })
        .await?;
    }
    lab.is_live().await
}
