//! The Secret of a new cluster: a kubeconfig with the token of one service account, and the object around it.
//!
//! The commands that add and rotate a cluster call it. What it composes is read back by [`VettedKubeconfig::parse`] before it is used, so
//! that no command writes what a server would refuse. Texts with a token are in a type that cannot be printed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tributary_registry_api::Credential;
use zeroize::Zeroizing;

use crate::allowed::Allowed;
use crate::kubeconfig::VettedKubeconfig;
use crate::manifest::LABELS;
use crate::refusal::{Refused, unreadable};
use crate::roster::PREFIX;

/// API server of a remote cluster, without a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteServer {
    /// Address.
    pub server: String,
    /// Certificates of its authorities: the base64 of a PEM text.
    pub authority_data: String,
    /// Name in its certificate, if it is not the host of the address.
    pub tls_server_name: Option<String>,
}

impl RemoteServer {
    /// Creates a server whose authorities are this PEM text.
    #[must_use]
    pub fn new(server: &str, authorities: &[u8], tls_server_name: Option<&str>) -> Self {
        Self {
            server: server.to_owned(),
            authority_data: STANDARD.encode(authorities),
            tls_server_name: tls_server_name.map(str::to_owned),
        }
    }
    /// Returns the server of a kubeconfig; `None` if it names no authority.
    #[must_use]
    pub fn of(kubeconfig: &VettedKubeconfig) -> Option<Self> {
        let authorities = kubeconfig.authorities()?;
        Some(Self::new(kubeconfig.server(), authorities, kubeconfig.tls_server_name()))
    }
    /// Composes the kubeconfig with this token, and vets it.
    pub fn kubeconfig(
        &self,
        cluster: &str,
        token: &Credential,
        allowed: &Allowed,
    ) -> Result<(Credential, VettedKubeconfig), Refused> {
        let token =
            std::str::from_utf8(token.expose()).map_err(|_| unreadable("has a token that is not text"))?;
        let mut server = json!({"server": self.server, "certificate-authority-data": self.authority_data});
        if let Some(name) = &self.tls_server_name {
            server["tls-server-name"] = json!(name);
        }
        let document = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": cluster,
            "clusters": [{"name": cluster, "cluster": server}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
            "users": [{"name": cluster, "user": {"token": token}}],
        });
        let text = serde_saphyr::to_string(&document).map_err(|_| unreadable("cannot be written"))?;
        let text = Credential::new(text.into_bytes());
        let vetted = VettedKubeconfig::parse(text.expose(), allowed)?;
        Ok((text, vetted))
    }
}

/// Returns the name of the Secret of a new cluster. Names of objects have no capital letters.
#[must_use]
pub fn secret_name(cluster: &str) -> String {
    format!("tributary-cluster-{}", cluster.to_ascii_lowercase())
}

/// Secret that declares one cluster. Its `Debug` shows no kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSecret {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Cluster ID.
    pub cluster: String,
    /// Its kubeconfig.
    pub kubeconfig: Credential,
    /// Whether servers renew its token.
    pub renew: bool,
}

impl NewSecret {
    /// Returns the object. It holds the credential: print it only where that was requested.
    #[must_use]
    pub fn object(&self) -> Value {
        let text = Zeroizing::new(String::from_utf8_lossy(self.kubeconfig.expose()).into_owned());
        let [_, label] = LABELS;
        let mut object = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"namespace": self.namespace, "name": self.name, "labels": {label: "true"}},
            "stringData": {&self.cluster: text.as_str()},
        });
        if self.renew {
            object["metadata"]["annotations"] = json!({format!("{PREFIX}renew"): "true"});
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use rcgen::generate_simple_self_signed;

    use super::*;
    use crate::manifest::read_file;

    fn mk_server(address: &str) -> RemoteServer {
        let made = generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        RemoteServer::new(address, made.cert.pem().as_bytes(), Some("kube.test"))
    }

    fn token(text: &str) -> Credential {
        Credential::new(text.as_bytes().to_vec())
    }

    #[test]
    fn composed_secret_is_what_a_server_accepts() {
        let server = mk_server("https://10.4.0.1:6443");
        let allowed = Allowed::default();
        let (kubeconfig, vetted) = server.kubeconfig("East.1", &token("hunter2"), &allowed).unwrap();
        assert_eq!((vetted.server(), vetted.authentication()), ("https://10.4.0.1:6443", vec!["token"]));
        assert_eq!(RemoteServer::of(&vetted), Some(server), "nothing is lost");
        let name = secret_name("East.1");
        let secret = NewSecret {
            namespace: "system".into(),
            name,
            cluster: "East.1".into(),
            kubeconfig,
            renew: false,
        };
        assert!(!format!("{secret:?}").contains("hunter2"));
        let yaml = serde_saphyr::to_string(&secret.object()).unwrap();
        let declared = read_file(yaml.as_bytes(), "-", &allowed);
        assert_eq!(declared.len(), 1);
        assert_eq!(
            (declared[0].cluster.as_str(), declared[0].secret.as_str()),
            ("East.1", "system/tributary-cluster-east.1")
        );
        assert_eq!(declared[0].verdict.as_ref().ok(), Some(&vetted));
        assert!(secret.object()["metadata"].get("annotations").is_none(), "nothing renews it");
        let renewed = NewSecret { renew: true, ..secret }.object();
        assert_eq!(renewed["metadata"]["annotations"], json!({"tributary.dev/renew": "true"}));
    }

    #[test]
    fn server_that_vetting_refuses_is_never_composed() {
        for (address, text) in
            [("https://127.0.0.1:6443", "t"), ("http://10.0.0.1", "t"), ("https://10.0.0.1", "hunter2 x")]
        {
            let refused = mk_server(address).kubeconfig("east", &token(text), &Allowed::default());
            let why = refused.unwrap_err().to_string();
            assert!(!why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn account_is_that_of_the_token() {
        // {"sub":"system:serviceaccount:system:reader"}
        let jwt = "e30.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6c3lzdGVtOnJlYWRlciJ9.c2ln";
        let account = |text: &str| {
            let made = mk_server("https://10.0.0.1").kubeconfig("east", &token(text), &Allowed::default());
            made.unwrap().1.account()
        };
        assert_eq!(account(jwt), Some(("system".to_owned(), "reader".to_owned())));
        assert_eq!(account("opaque"), None);
    }
}
