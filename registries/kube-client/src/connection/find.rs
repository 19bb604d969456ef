//! Location of the operator's credential, and selection of its context.

use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

use super::{ConnectError, ConnectOptions, Env};

/// Directory of a pod's service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Largest kubeconfig in bytes.
const LARGEST: u64 = 4 << 20;

/// Kubeconfig with its description.
pub(super) struct Found {
    pub(super) kubeconfig: Kubeconfig,
    pub(super) described: String,
    /// CA bundle that rotates while the process runs.
    pub(super) rotating_ca: Option<PathBuf>,
}

/// Returns the first that exists of: the flag's file, the `KUBECONFIG` list, the home directory, the service account.
pub(super) fn kubeconfig(options: &ConnectOptions, env: Env<'_>) -> Result<Found, ConnectError> {
    if let Some(path) = &options.kubeconfig {
        return from_files(std::slice::from_ref(path));
    }
    if let Some(list) = env.get("KUBECONFIG") {
        return from_list(&list);
    }
    let home = env.get("HOME").map(|home| Path::new(&home).join(".kube/config"));
    match home.filter(|path| path.exists()) {
        Some(path) => from_files(&[path]),
        None => pod(env, Path::new(ACCOUNT)).ok_or(ConnectError::Nothing),
    }
}

/// Merges a list of files; skips missing ones, as kubectl does.
fn from_list(list: &str) -> Result<Found, ConnectError> {
    let named = std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty());
    let there: Vec<PathBuf> = named.filter(|path| path.exists()).collect();
    if there.is_empty() {
        let why = "none of the listed files exists".to_owned();
        return Err(ConnectError::Read(list.to_owned(), why));
    }
    from_files(&there)
}

fn from_files(paths: &[PathBuf]) -> Result<Found, ConnectError> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        let shown = path.display().to_string();
        let read = read(path, &shown)?;
        merged = merged.merge(read).map_err(|_| ConnectError::Malformed(format!("kubeconfig {shown}")))?;
    }
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let described = format!("kubeconfig {}", names.join(" merged with "));
    Ok(Found { kubeconfig: merged, described, rotating_ca: None })
}

fn read(path: &Path, shown: &str) -> Result<Kubeconfig, ConnectError> {
    let unreadable = |why: &dyn std::fmt::Display| ConnectError::Read(shown.to_owned(), why.to_string());
    let about = std::fs::metadata(path).map_err(|error| unreadable(&error))?;
    if !about.is_file() {
        return Err(unreadable(&"it is not a regular file"));
    }
    if about.len() > LARGEST {
        return Err(unreadable(&format_args!("it is larger than {LARGEST} bytes")));
    }
    std::fs::File::open(path).map_err(|error| unreadable(&error))?;
    Kubeconfig::read_from(path).map_err(|_| ConnectError::Malformed(format!("kubeconfig {shown}")))
}

/// Returns the service account of the pod, if the process runs in one.
fn pod(env: Env<'_>, account: &Path) -> Option<Found> {
    let (host, port) = (env.get("KUBERNETES_SERVICE_HOST")?, env.get("KUBERNETES_SERVICE_PORT")?);
    let (token, ca) = (account.join("token"), account.join("ca.crt"));
    if !token.exists() {
        return None;
    }
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let name = || "pod".to_owned();
    let ca_path = Some(ca.display().to_string());
    let cluster = Cluster {
        server: Some(format!("https://{host}:{port}")),
        certificate_authority: ca_path,
        ..Cluster::default()
    };
    let user = AuthInfo { token_file: Some(token.display().to_string()), ..AuthInfo::default() };
    let context = Context { cluster: name(), user: Some(name()), ..Context::default() };
    let kubeconfig = Kubeconfig {
        clusters: vec![NamedCluster { name: name(), cluster: Some(cluster), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(user), ..NamedAuthInfo::default() }],
        contexts: vec![NamedContext { name: name(), context: Some(context), ..NamedContext::default() }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    };
    Some(Found { kubeconfig, described: "the pod's own account".to_owned(), rotating_ca: Some(ca) })
}

/// Selected context and its description.
pub(super) struct Chosen {
    pub(super) context: String,
    cluster: String,
    user: Option<String>,
    means: &'static str,
    pub(super) proxied: bool,
}

impl Chosen {
    /// Returns the cluster and the user that the context names.
    pub(super) fn parts<'k>(&self, all: &'k Kubeconfig) -> (Option<&'k Cluster>, Option<&'k AuthInfo>) {
        let clusters = all.clusters.iter().filter(|one| one.name == self.cluster);
        let users = all.auth_infos.iter().filter(|one| Some(&one.name) == self.user.as_ref());
        let cluster = clusters.filter_map(|one| one.cluster.as_ref()).next();
        (cluster, users.filter_map(|one| one.auth_info.as_ref()).next())
    }
    /// Describes the credential without secrets.
    pub(super) fn describe(&self, at: &str) -> String {
        match &self.user {
            _ if self.context == "pod" && !at.starts_with("kubeconfig") => format!("{at} (token file)"),
            Some(user) => format!("{at}, context {}, user {user} ({})", self.context, self.means),
            None => format!("{at}, context {}, no user", self.context),
        }
    }
}

/// Selects the requested context, or the current one.
pub(super) fn choose(kubeconfig: &Kubeconfig, asked: Option<&str>, at: &str) -> Result<Chosen, ConnectError> {
    let name = asked.or(kubeconfig.current_context.as_deref()).unwrap_or_default();
    let found = kubeconfig.contexts.iter().find(|one| one.name == name);
    let Some(context) = found.and_then(|one| one.context.as_ref()) else {
        let known: Vec<&str> = kubeconfig.contexts.iter().take(32).map(|one| one.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(ConnectError::NoContext { at: at.to_owned(), name: name.to_owned(), known });
    };
    let user = context.user.as_ref();
    let users = kubeconfig.auth_infos.iter().filter(|one| Some(&one.name) == user);
    let means = users.filter_map(|one| one.auth_info.as_ref()).map(means).next();
    let clusters = kubeconfig.clusters.iter().filter(|one| one.name == context.cluster);
    let proxied = clusters
        .filter_map(|one| one.cluster.as_ref())
        .any(|cluster| cluster.proxy_url.as_ref().is_some_and(|url| !url.is_empty()));
    Ok(Chosen {
        context: name.to_owned(),
        cluster: context.cluster.clone(),
        user: user.cloned(),
        means: means.unwrap_or("not defined"),
        proxied,
    })
}

fn means(user: &AuthInfo) -> &'static str {
    if user.exec.is_some() {
        "credential plugin"
    } else if user.auth_provider.is_some() {
        "auth provider"
    } else if user.token.is_some() {
        "token"
    } else if user.token_file.is_some() {
        "token file"
    } else if user.client_certificate.is_some() || user.client_certificate_data.is_some() {
        "client certificate"
    } else if user.username.is_some() {
        "password"
    } else {
        "no credential"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_uses_its_service_account_by_files() {
        let home = tempfile::tempdir().unwrap();
        let get = |name: &str| match name {
            "KUBERNETES_SERVICE_HOST" => Some("fd00::1".to_owned()),
            "KUBERNETES_SERVICE_PORT" => Some("443".to_owned()),
            _ => None,
        };
        let env = Env::new(&get);
        assert!(pod(env, home.path()).is_none(), "a pod has a token");
        std::fs::write(home.path().join("token"), "hunter2").unwrap();
        let found = pod(env, home.path()).unwrap();
        let cluster = found.kubeconfig.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://[fd00::1]:443"));
        let user = found.kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
        assert!(user.token.is_none() && user.token_file.as_ref().unwrap().ends_with("/token"));
        assert_eq!(found.rotating_ca, Some(home.path().join("ca.crt")));
        let chosen = choose(&found.kubeconfig, None, &found.described).unwrap();
        assert_eq!(chosen.describe(&found.described), "the pod's own account (token file)");
    }
}
