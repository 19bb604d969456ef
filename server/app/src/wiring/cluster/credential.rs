//! A credential that ends while a run goes on: once there is another one, the run makes room for the next, which
//! opens a connection with it.
//!
//! Called by each run of a cluster's registries. Nothing is looked at while the server takes the credential and
//! lets it read, so that a file that others write all the time costs nothing and moves nothing.

use std::time::Duration;

use tokio::time::Instant;
use tributary_kube_client::{Connection, Login, Refusal};
use tributary_registry_api::{CancellationToken, Registry, RegistryError, RegistryIo};

use super::Cluster;

/// How long after a refusal the next one is waited for: all kinds are refused together.
const REST: Duration = Duration::from_secs(2);
/// A plugin says whatever it says: it is asked again for a refused credential, but not all the time.
const PLUGIN_REST: Duration = Duration::from_secs(60);

impl Cluster {
    /// Waits until the server refuses the connection's credential, or a right, and there is another credential.
    pub(super) async fn outdated(&self, connection: &Connection) {
        let opened = Instant::now();
        loop {
            let refusal = connection.refused().await;
            let cluster = self.clone();
            let now = tokio::task::spawn_blocking(move || cluster.login_now()).await;
            if now
                .ok()
                .flatten()
                .is_some_and(|now| is_other(connection.login(), now, refusal, opened.elapsed()))
            {
                return;
            }
            tokio::time::sleep(REST).await;
        }
    }
    fn login_now(&self) -> Option<Login> {
        let get = |name: &str| self.env.get(name).map(ToOwned::to_owned);
        Connection::login_now(&self.connect, tributary_kube_client::Env::new(&get))
    }
}

/// Whether a connection that was opened so long ago would log in otherwise now. A plugin is not asked again for a
/// right that is missing: that may be so for good, and every new run would meet it again.
fn is_other(opened: Option<Login>, now: Login, refusal: Refusal, ago: Duration) -> bool {
    let ask_again = refusal == Refusal::Credential && now.asks_a_plugin() && ago >= PLUGIN_REST;
    opened != Some(now) || ask_again
}

/// Runs until the run ends, or until its credential is outdated: then it is stopped and the next is due.
pub(super) async fn run(
    run: Box<dyn Registry>,
    io: RegistryIo,
    stop: CancellationToken,
    outdated: impl Future<Output = ()>,
) -> Result<(), RegistryError> {
    let ends = stop.child_token();
    let mut run = run.run(io, ends.clone());
    tokio::select! {
        done = &mut run => return done,
        () = outdated => ends.cancel(),
    }
    run.await?;
    Err(RegistryError::retryable(
        "the credential was refused, or a right was missing, and there is another credential now",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_kube_client::{ConnectOptions, Env};

    fn login(path: &std::path::Path, user: &str) -> Login {
        let text = format!(
            "{{current-context: a, contexts: [{{name: a, context: {{cluster: c, user: u}}}}], \
             clusters: [{{name: c, cluster: {{server: 'https://c.test'}}}}], users: [{{name: u, user: {user}}}]}}"
        );
        std::fs::write(path, text).unwrap();
        let options = ConnectOptions { kubeconfig: Some(path.into()), context: None };
        Connection::login_now(&options, Env::new(&|_| None)).unwrap()
    }

    #[test]
    fn another_token_certificate_or_a_plugin_that_may_know_better_is_another_credential() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("k");
        let certificate = folder.path().join("crt");
        std::fs::write(&certificate, "old").unwrap();
        let soon = Duration::from_secs(1);
        let first = login(&file, "{token: a}");
        assert!(!is_other(Some(first), login(&file, "{token: a}"), Refusal::Credential, PLUGIN_REST));
        assert!(is_other(Some(first), login(&file, "{token: b}"), Refusal::Credential, soon));

        let user = format!("{{client-certificate: '{}'}}", certificate.display());
        let first = login(&file, &user);
        std::fs::write(&certificate, "new").unwrap();
        assert!(
            is_other(Some(first), login(&file, &user), Refusal::Credential, soon),
            "the file is what counts, not its name"
        );

        let plugin = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: touch}}";
        let first = login(&file, plugin);
        assert!(
            !is_other(Some(first), login(&file, plugin), Refusal::Credential, soon),
            "it has only just been asked"
        );
        assert!(is_other(Some(first), login(&file, plugin), Refusal::Credential, PLUGIN_REST));
        assert!(
            !is_other(Some(first), login(&file, plugin), Refusal::Right, PLUGIN_REST),
            "rights are missing for good"
        );
    }
}
