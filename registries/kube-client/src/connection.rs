//! API server and credential, from a flag, `KUBECONFIG`, `~/.kube/config`, or the pod's service account.
//!
//! The operator's own kubeconfig may use everything that kubectl accepts, including credential plugins. One from another
//! origin (a Secret, a file that others write) is read by an allow-list in `tributary-remote`, which opens the result with
//! [`Connection::guarded`]. This module prints no secret.

mod find;
mod guarded;
mod http;
mod login;
mod plugin;
mod refusals;
mod target;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use guarded::GuardedConnector;
use http::Versions;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::config::Kubeconfig;
use tributary_registry_api::Reason;

pub use guarded::AddressCheck;
pub use login::{Login, Presented};
pub(crate) use plugin::trouble as plugin_trouble;
pub use refusals::Refusal;
use refusals::Refusals;
pub use target::Target;

/// Environment variables as a value: the process environment is read once at start; tests pass maps.
#[derive(Clone, Copy)]
pub struct Env<'a>(&'a dyn Fn(&str) -> Option<String>);

impl<'a> Env<'a> {
    /// Creates an environment from a lookup function.
    #[must_use]
    pub const fn new(get: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(get)
    }
    /// Returns a variable; an empty value counts as unset.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }
}

/// Kubeconfig options of the operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectOptions {
    /// `--kubeconfig`: the only file to read.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`: context to use instead of the current one.
    pub context: Option<String>,
}

/// Reason for a connection that cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a pod's service account exists.
    #[error("no kubeconfig found, and no pod service account; pass --kubeconfig or set KUBECONFIG")]
    Nothing,
    /// A file cannot be read.
    #[error("kubeconfig {0} cannot be read: {1}")]
    Read(String, String),
    /// A file has an invalid format. The error does not repeat its content, which can hold secrets.
    #[error("{0} is not a valid kubeconfig; `kubectl config view` shows the position")]
    Malformed(String),
    /// The context does not exist.
    #[error("{at}: context {name:?} not found; use one of {known}")]
    NoContext {
        /// Description of the kubeconfig.
        at: String,
        /// Requested context.
        name: String,
        /// Existing contexts.
        known: String,
    },
    /// The context cannot be used.
    #[error("{0} cannot be used: {1}")]
    Unusable(String, Reason),
}

/// API server and the client that reaches it. Clones share their connections, which close with the last of them.
#[derive(Clone)]
pub struct Connection(Arc<Opened>);

struct Opened {
    client: kube::Client,
    described: String,
    server: String,
    login: Option<Login>,
    refusals: Refusals,
}

/// Connection that is known to be open for as long as others hold it.
#[derive(Clone, Default)]
pub(crate) struct WeakConnection(Weak<Opened>);

impl WeakConnection {
    /// Returns the connection if one holds it.
    pub(crate) fn upgrade(&self) -> Option<Connection> {
        self.0.upgrade().map(Connection)
    }
}

impl Connection {
    /// Connects with the first kubeconfig that exists: the flag's, `KUBECONFIG`, `~/.kube/config`, the pod's service account.
    /// Requires a tokio runtime context. The operator's own kubeconfig may run credential plugins.
    pub fn open(options: &ConnectOptions, env: Env<'_>) -> Result<Self, ConnectError> {
        Self::open_with(options, env, Versions::Any)
    }
    /// Connects as [`Connection::open`] does, by HTTP/1.1 alone: requests of the connection can upgrade to WebSockets.
    pub fn open_for_upgrades(options: &ConnectOptions, env: Env<'_>) -> Result<Self, ConnectError> {
        Self::open_with(options, env, Versions::Http1)
    }
    fn open_with(options: &ConnectOptions, env: Env<'_>, versions: Versions) -> Result<Self, ConnectError> {
        let found = find::kubeconfig(options, env)?;
        let (context, ca) = (options.context.as_deref(), found.rotating_ca);
        Self::connect(found.kubeconfig, (context, &found.described), ca, versions)
    }
    /// Connects to a server that others name: every address is checked when it is dialled. `config` must be complete: no file, no
    /// program and no variable is read. `described` names the credential for operators.
    pub fn guarded(
        config: kube::Config,
        check: AddressCheck,
        described: String,
    ) -> Result<Self, ConnectError> {
        let at = described.clone();
        let unusable = |error: kube::Error| ConnectError::Unusable(at.clone(), Reason::new(&error));
        let refusals = Refusals::default();
        let client = http::client(&config, GuardedConnector::new(check), &refusals, Versions::Any)
            .map_err(unusable)?;
        Ok(Self::new(client, (described, config.cluster_url.to_string()), None, refusals))
    }
    /// Wraps an existing client: for tests, and for servers that are reached in another way.
    #[must_use]
    pub fn over(client: kube::Client, described: impl Into<String>, server: impl Into<String>) -> Self {
        Self::new(client, (described.into(), server.into()), None, Refusals::default())
    }
    fn new(
        client: kube::Client,
        (described, server): (String, String),
        login: Option<Login>,
        refusals: Refusals,
    ) -> Self {
        Self(Arc::new(Opened { client, described, server, login, refusals }))
    }
    /// Returns a reference that does not keep it open.
    pub(crate) fn downgrade(&self) -> WeakConnection {
        WeakConnection(Arc::downgrade(&self.0))
    }
    /// Returns what [`Connection::open`] would log in with now, or `None` if it cannot be read. Runs no plugin.
    #[must_use]
    pub fn login_now(options: &ConnectOptions, env: Env<'_>) -> Option<Login> {
        let found = find::kubeconfig(options, env).ok()?;
        let chosen = find::choose(&found.kubeconfig, options.context.as_deref(), &found.described).ok()?;
        Some(Login::of(&found.kubeconfig, &chosen))
    }

    /// Returns what [`Connection::open`] would present now; nothing of it if it cannot be read. Runs no plugin.
    #[must_use]
    pub fn presented_now(options: &ConnectOptions, env: Env<'_>) -> Presented {
        let Ok(found) = find::kubeconfig(options, env) else { return Presented::default() };
        let chosen = find::choose(&found.kubeconfig, options.context.as_deref(), &found.described);
        chosen.map(|chosen| Presented::of(&found.kubeconfig, &chosen)).unwrap_or_default()
    }

    fn connect(
        mut kubeconfig: Kubeconfig,
        (context, at): (Option<&str>, &str),
        rotating_ca: Option<PathBuf>,
        versions: Versions,
    ) -> Result<Self, ConnectError> {
        let chosen = find::choose(&kubeconfig, context, at)?;
        kubeconfig.current_context = Some(chosen.context.clone());
        let login = Some(Login::of(&kubeconfig, &chosen));
        let unusable = |error: &dyn std::fmt::Display| {
            ConnectError::Unusable(format!("context {:?} of {at}", chosen.context), Reason::new(error))
        };
        if chosen.proxied {
            return Err(unusable(&"proxy-url is not supported: reach the server without one"));
        }
        let mut config = kube::Config::try_from(kubeconfig).map_err(|error| unusable(&error))?;
        config.root_cert_file = rotating_ca;
        // a proxy variable of the environment applies to external traffic; the API server is reached directly
        config.proxy_url = None;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        let server = config.cluster_url.to_string();
        let refusals = Refusals::default();
        let client = http::client(&config, connector, &refusals, versions).map_err(|error| match &error {
            kube::Error::Auth(why) => unusable(&plugin_trouble(why)),
            other => unusable(other),
        })?;
        Ok(Self::new(client, (chosen.describe(at), server), login, refusals))
    }

    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.0.client.clone()
    }
    /// Returns a description of the credential for operators, without secrets.
    #[must_use]
    pub fn described(&self) -> &str {
        &self.0.described
    }
    /// Returns the address of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.0.server
    }
    /// Returns what the connection logged in with when it was opened; `None` for a wrapped client.
    #[must_use]
    pub fn login(&self) -> Option<Login> {
        self.0.login
    }
    /// Waits until the server refuses the credential or a right; each refusal is returned once.
    pub async fn refused(&self) -> Refusal {
        self.0.refusals.next().await
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({} by {})", self.server(), self.described())
    }
}
