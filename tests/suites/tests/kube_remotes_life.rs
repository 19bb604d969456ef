//! The life of remote clusters that Secrets declare, on two real API servers and while a client of ADS is connected: Tributary is
//! killed and started again while the config cluster is away.

#[path = "kube_remotes_life/lab.rs"]
mod lab;

use anyhow::{Result, ensure};
use lab::{AWAY, GRACE, HOME, Lab, SOON, WATCHED};
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
