//! What went wrong with the program that is asked for a credential, in words.
//!
//! Of what it wrote only its complaints are repeated: its output is where the credential stands.

use kube::client::AuthError;

use crate::watch::causes;

/// How much of a complaint is repeated.
const MOST: usize = 300;

/// For people; without the output.
pub(crate) fn trouble(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            let complaint = String::from_utf8_lossy(&out.stderr);
            let words: Vec<&str> = complaint.split_whitespace().collect();
            let words: String = words.join(" ").chars().take(MOST).collect();
            let words = if words.is_empty() { "it says nothing".to_owned() } else { words };
            format!("the credential plugin failed ({}): {words}", out.status)
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
    async fn a_plugins_complaint_is_told_and_its_output_is_not() {
        let told = opened("echo hunter2; echo log in first >&2; exit 3").await;
        assert!(told.ends_with("the credential plugin failed (exit status: 3): log in first"), "{told}");
        assert!(!told.contains("hunter2") && !told.contains("KUBERNETES_EXEC_INFO"), "{told}");
        let told = opened("echo [hunter2").await;
        assert!(told.ends_with("the credential plugin does not print an ExecCredential"), "{told}");
    }
}
