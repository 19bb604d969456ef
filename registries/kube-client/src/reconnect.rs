//! Credential that expires during a run: once another one is available, the run ends, and the next run
//! connects with it.
//!
//! Each run of a `connect` factory calls it. It reads nothing while the server accepts the credential and
//! permits the reads, so a file that is rewritten constantly has no cost.

use std::time::Duration;

use tokio::time::Instant;
use tributary_registry_api::{CancellationToken, Registry, RegistryError, RegistryIo};

use crate::connection::{Connection, Login, Refusal};

/// Pause after a refusal: all kinds are refused together.
const REST: Duration = Duration::from_secs(2);
/// Minimum age of a connection before a plugin runs again for a refused credential.
const PLUGIN_REST: Duration = Duration::from_secs(60);

/// Waits until the server refuses the connection's credential or a right, and another credential is available.
/// `login_now` reads files and returns what a new connection would log in with.
pub(crate) async fn outdated(
    connection: &Connection,
    login_now: impl Fn() -> Option<Login> + Clone + Send + 'static,
) {
    let opened = Instant::now();
    loop {
        let refusal = connection.refused().await;
        let now = tokio::task::spawn_blocking(login_now.clone()).await.ok().flatten();
        if now.is_some_and(|now| is_other(connection.login(), now, refusal, opened.elapsed())) {
            return;
        }
        tokio::time::sleep(REST).await;
    }
}

/// Whether a new connection would use another login than one that was opened `ago`. A plugin does not run
/// again for a missing right: the right may be missing for good, and every new run would repeat the call.
fn is_other(opened: Option<Login>, now: Login, refusal: Refusal, ago: Duration) -> bool {
    let ask_again = refusal == Refusal::Credential && now.asks_a_plugin() && ago >= PLUGIN_REST;
    opened != Some(now) || ask_again
}

/// Runs until the run ends or its credential is outdated; an outdated run is stopped, and its error requests
/// the next run.
pub(crate) async fn run_until_outdated(
    run: Box<dyn Registry>,
    io: RegistryIo,
    stop: CancellationToken,
    outdated: impl Future<Output = ()>,
) -> Result<(), RegistryError> {
    let ends = stop.child_token();
    let mut run = run.run(io, ends.clone());
    tokio::select! {
        biased;
        done = &mut run => return done,
        () = outdated => ends.cancel(),
    }
    run.await?;
    Err(RegistryError::retryable("the credential or a right was refused; retrying with another credential"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{ConnectOptions, Env};

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
    fn new_token_certificate_or_plugin_call_is_another_credential() {
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
            "the content of the file decides, not its name"
        );

        let plugin = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: touch}}";
        let first = login(&file, plugin);
        assert!(
            !is_other(Some(first), login(&file, plugin), Refusal::Credential, soon),
            "the plugin has just run"
        );
        assert!(is_other(Some(first), login(&file, plugin), Refusal::Credential, PLUGIN_REST));
        assert!(
            !is_other(Some(first), login(&file, plugin), Refusal::Right, PLUGIN_REST),
            "a plugin cannot add a right"
        );
    }
}
