//! The API server of the operator's context, without its credential: what the kubeconfig of another machine needs to reach it.

use std::path::PathBuf;

use super::{ConnectError, ConnectOptions, Connection, Env, find};
use tributary_registry_api::Reason;

/// API server of a context.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// Name of the context.
    pub context: String,
    /// Address.
    pub server: String,
    /// Certificates of its authorities: the base64 of a PEM text.
    pub authority_data: Option<String>,
    /// File with these certificates.
    pub authority_file: Option<PathBuf>,
    /// Name in its certificate, if it is not the host of the address.
    pub tls_server_name: Option<String>,
}

impl Connection {
    /// Returns the server that [`Connection::open`] would connect to. Reads files, and runs no program.
    pub fn target(options: &ConnectOptions, env: Env<'_>) -> Result<Target, ConnectError> {
        let found = find::kubeconfig(options, env)?;
        let chosen = find::choose(&found.kubeconfig, options.context.as_deref(), &found.described)?;
        let at = format!("context {:?} of {}", chosen.context, found.described);
        let (cluster, _) = chosen.parts(&found.kubeconfig);
        let missing = || ConnectError::Unusable(at.clone(), Reason::new("it names no cluster with a server"));
        let cluster = cluster.ok_or_else(missing)?;
        let server = cluster.server.clone().filter(|server| !server.is_empty()).ok_or_else(missing)?;
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Ok(Target {
            context: chosen.context,
            server,
            authority_data: text(&cluster.certificate_authority_data),
            authority_file: text(&cluster.certificate_authority).map(PathBuf::from),
            tls_server_name: text(&cluster.tls_server_name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_of_a_context_has_no_credential() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config");
        let text = "current-context: a\n\
            contexts: [{name: a, context: {cluster: a, user: u}}, {name: b, context: {cluster: b, user: u}}]\n\
            clusters: [{name: a, cluster: {server: 'https://a.test', certificate-authority-data: Q0E=}}, \
            {name: b, cluster: {server: 'https://b.test', certificate-authority: ca.crt, tls-server-name: x}}]\n\
            users: [{name: u, user: {token: hunter2}}]\n";
        std::fs::write(&path, text).unwrap();
        let get = |_: &str| None;
        let target = |context: Option<&str>| {
            let options =
                ConnectOptions { kubeconfig: Some(path.clone()), context: context.map(str::to_owned) };
            Connection::target(&options, Env::new(&get))
        };
        let first = target(None).unwrap();
        assert_eq!(
            (first.server.as_str(), first.authority_data.as_deref()),
            ("https://a.test", Some("Q0E="))
        );
        let second = target(Some("b")).unwrap();
        assert_eq!(second.authority_file, Some(home.path().join("ca.crt")), "relative to the kubeconfig");
        assert_eq!(second.tls_server_name.as_deref(), Some("x"));
        assert!(!format!("{first:?}{second:?}").contains("hunter2"));
        assert!(matches!(target(Some("c")), Err(ConnectError::NoContext { .. })));
    }
}
