//! Credentials of the clusters of the configuration: when each ends, as it states it.
//!
//! The server starts it. It reads the files that the configuration names at an interval, since other programs replace them, runs no plugin,
//! and publishes times only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tributary_kube_client::Presented;
use tributary_remote::Validity;

use super::factories::Factories;
use crate::config::Config;
use crate::ops::clusters::board::{Board, ConfiguredCredential};
use crate::reload::Running;

/// Interval of the reads.
const INTERVAL: Duration = Duration::from_secs(30);

/// Reads until stopped.
pub async fn run(factories: Factories, running: Arc<Running>, board: Board, stop: CancellationToken) {
    loop {
        let (factories, config) = (factories.clone(), running.config());
        if let Ok(all) = tokio::task::spawn_blocking(move || read(&factories, &config)).await {
            board.set_configured(all);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Returns the credentials that state when they end, by cluster ID.
fn read(factories: &Factories, config: &Config) -> BTreeMap<String, ConfiguredCredential> {
    let clusters = factories.clusters(config).unwrap_or_default();
    let all = clusters.into_iter().filter_map(|cluster| {
        let credential = stated(&cluster.connector().presented_now())?;
        Some((cluster.options.cluster.to_string(), credential))
    });
    all.collect()
}

/// Returns when a credential ends, if it states that.
pub(crate) fn stated(presented: &Presented) -> Option<ConfiguredCredential> {
    let Presented { token, certificate, is_refreshed } = presented;
    let validity = Validity::of(token.as_ref(), certificate.as_ref())?;
    Some(ConfiguredCredential { validity, is_refreshed: *is_refreshed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;

    #[test]
    fn end_of_a_token_and_of_a_certificate_is_read_from_the_kubeconfig_of_a_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k");
        // {"iat":1000,"exp":2000}
        let jwt = "e30.eyJpYXQiOjEwMDAsImV4cCI6MjAwMH0.c2ln";
        let ends = |user: &str| {
            let text = format!(
                "{{current-context: a, contexts: [{{name: a, context: {{cluster: c, user: u}}}}], \
                 clusters: [{{name: c, cluster: {{server: 'https://c.test'}}}}], users: [{{name: u, user: {user}}}]}}"
            );
            std::fs::write(&path, text).unwrap();
            let config =
                format!("{{registries: [{{kind: kubernetes, name: k, kubeconfig: '{}'}}]}}", path.display());
            let config: Config = serde_saphyr::from_str(&config).unwrap();
            let all = read(&Factories::new(Environment::default()), &config);
            all.get("Kubernetes").map(|one| (one.validity.until.as_second(), one.is_refreshed))
        };
        assert_eq!(ends(&format!("{{token: {jwt}}}")), Some((2000, false)));
        assert_eq!(ends("{token: opaque}"), None, "it states nothing");
        let file = folder.path().join("token");
        std::fs::write(&file, format!("{jwt}\n")).unwrap();
        assert_eq!(ends(&format!("{{tokenFile: '{}'}}", file.display())), Some((2000, true)));
        let certificate = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap().cert.pem();
        let pem = folder.path().join("crt");
        std::fs::write(&pem, certificate).unwrap();
        assert!(ends(&format!("{{client-certificate: '{}'}}", pem.display())).is_some());
    }
}
