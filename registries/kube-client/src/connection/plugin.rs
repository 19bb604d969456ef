//! Error text of a credential plugin.
//!
//! Repeats only the standard error of the plugin: its standard output holds the credential.

use kube::client::AuthError;

use crate::watch::causes;

/// Longest excerpt of the standard error, in characters.
const MOST: usize = 300;

/// Describes the failure for operators, without the plugin's standard output.
pub(crate) fn trouble(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            let complaint = String::from_utf8_lossy(&out.stderr);
            let parts: Vec<&str> = complaint.split_whitespace().collect();
            let text: String = parts.join(" ").chars().take(MOST).collect();
            let text = if text.is_empty() { "without an error text".to_owned() } else { text };
            format!("the credential plugin failed ({}): {text}", out.status)
        }
        AuthError::AuthExecStart(why) => format!("the credential plugin cannot be run: {why}"),
        AuthError::AuthExecParse(_) => "the credential plugin does not print an ExecCredential".to_owned(),
        other => causes(other),
    }
}

#[cfg(test)]
mod tests {
    use crate::{ConnectOptions, Connection, Env};

    async fn opened(script: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("k");
        let text = format!(
            "{{current-context: a, contexts: [{{name: a, context: {{cluster: c, user: u}}}}], \
             clusters: [{{name: c, cluster: {{server: 'https://c.test'}}}}], users: [{{name: u, user: {{exec: \
             {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, \
             args: ['-c', '{script}']}}}}}}]}}"
        );
        std::fs::write(&file, text).unwrap();
        let options = ConnectOptions { kubeconfig: Some(file), context: None };
        Connection::open(&options, Env::new(&|_| None)).unwrap_err().to_string()
    }

    #[tokio::test]
    async fn plugin_error_shows_its_stderr_and_hides_its_stdout() {
        let error = opened("echo hunter2; echo log in first >&2; exit 3").await;
        assert!(error.ends_with("the credential plugin failed (exit status: 3): log in first"), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("KUBERNETES_EXEC_INFO"), "{error}");
        let error = opened("echo [hunter2").await;
        assert!(error.ends_with("the credential plugin does not print an ExecCredential"), "{error}");
    }
}
