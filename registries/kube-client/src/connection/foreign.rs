//! Vetting of a kubeconfig of another origin.
//!
//! A kubeconfig can run programs and read files. Harmless fields are copied one by one into a new kubeconfig, so that an
//! unreviewed field is never used; other fields are rejected, all faults in one error.

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};
use tributary_registry_api::Credential;

use super::ConnectError;

/// Largest kubeconfig in bytes.
const LARGEST: usize = 1 << 20;

/// Returns a kubeconfig with one context that holds only harmless fields.
pub(super) fn vet(secret: &Credential, context: Option<&str>) -> Result<Kubeconfig, ConnectError> {
    let malformed = || ConnectError::Malformed("what was given".to_owned());
    let text = std::str::from_utf8(secret.expose()).map_err(|_| malformed())?;
    if text.len() > LARGEST {
        return Err(ConnectError::Refused(vec![format!("it is larger than {LARGEST} bytes")]));
    }
    let read = Kubeconfig::from_yaml(text).map_err(|_| malformed())?;
    let chosen = super::find::choose(&read, context, "it")?.context;
    let context = read.contexts.iter().find(|one| one.name == chosen).and_then(|one| one.context.as_ref());
    let context = context.ok_or_else(malformed)?;
    let cluster = read.clusters.iter().find(|one| one.name == context.cluster);
    let cluster = cluster.and_then(|one| one.cluster.as_ref());
    let user = read.auth_infos.iter().find(|one| Some(&one.name) == context.user.as_ref());
    let user = user.and_then(|one| one.auth_info.as_ref());
    let (Some(cluster), Some(user)) = (cluster, user) else {
        let lacks = "its context names a cluster or a user that it does not define".to_owned();
        return Err(ConnectError::Refused(vec![lacks]));
    };
    let mut faults = faults_of_cluster(cluster);
    faults.extend(faults_of_user(user));
    if faults.is_empty() { Ok(rebuilt(cluster, user)) } else { Err(ConnectError::Refused(faults)) }
}

fn faults_of_cluster(cluster: &Cluster) -> Vec<String> {
    let mut faults = Vec::new();
    let server = cluster.server.as_deref().unwrap_or_default();
    let mut refuse = |wrong: bool, what: &str| {
        if wrong {
            faults.push(what.to_owned());
        }
    };
    refuse(!server.starts_with("https://"), "its server is not an https address");
    refuse(server.contains('@'), "its server's address holds a user");
    refuse(
        cluster.certificate_authority.is_some(),
        "certificate-authority is a path: put certificate-authority-data in its place",
    );
    refuse(
        cluster.insecure_skip_tls_verify == Some(true),
        "insecure-skip-tls-verify is set: give the server's certificate-authority-data",
    );
    refuse(
        cluster.proxy_url.as_ref().is_some_and(|url| !url.is_empty()),
        "proxy-url is set, which is not supported",
    );
    faults.extend(unknown("cluster", cluster.other.keys()));
    faults
}

fn faults_of_user(user: &AuthInfo) -> Vec<String> {
    let refused = [
        (user.exec.is_some(), "exec runs a program"),
        (user.auth_provider.is_some(), "auth-provider may run a program"),
        (user.token_file.is_some(), "tokenFile is a path: put token in its place"),
        (
            user.client_certificate.is_some(),
            "client-certificate is a path: put client-certificate-data in its place",
        ),
        (user.client_key.is_some(), "client-key is a path: put client-key-data in its place"),
    ];
    let faults = refused.into_iter().filter(|(wrong, _)| *wrong).map(|(_, what)| what.to_owned());
    faults.chain(unknown("user", user.other.keys())).collect()
}

/// Returns faults for unreviewed fields; the first 8.
fn unknown<'a>(of: &str, fields: impl Iterator<Item = &'a String>) -> Vec<String> {
    let shown = fields.take(8).map(|field| field.chars().take(64).collect::<String>());
    shown.map(|field| format!("its {of} has the unsupported field {field:?}")).collect()
}

fn rebuilt(cluster: &Cluster, user: &AuthInfo) -> Kubeconfig {
    let name = || "vetted".to_owned();
    let cluster = Cluster {
        server: cluster.server.clone(),
        certificate_authority_data: cluster.certificate_authority_data.clone(),
        tls_server_name: cluster.tls_server_name.clone(),
        ..Cluster::default()
    };
    let user = AuthInfo {
        username: user.username.clone(),
        password: user.password.clone(),
        token: user.token.clone(),
        client_certificate_data: user.client_certificate_data.clone(),
        client_key_data: user.client_key_data.clone(),
        impersonate: user.impersonate.clone(),
        impersonate_uid: user.impersonate_uid.clone(),
        impersonate_groups: user.impersonate_groups.clone(),
        impersonate_user_extra: user.impersonate_user_extra.clone(),
        ..AuthInfo::default()
    };
    let context = Context { cluster: name(), user: Some(name()), ..Context::default() };
    Kubeconfig {
        clusters: vec![NamedCluster { name: name(), cluster: Some(cluster), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(user), ..NamedAuthInfo::default() }],
        contexts: vec![NamedContext { name: name(), context: Some(context), ..NamedContext::default() }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    }
}
