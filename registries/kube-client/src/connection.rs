//! Which API server, with which credential: from a flag, `KUBECONFIG`, `~/.kube/config`, or the pod's own account.
//!
//! The admin's own kubeconfig may say whatever kubectl takes, credential plugins included. One that came from
//! anywhere else (a Secret, a file that others write) is vetted: see `foreign`. Nothing here prints a secret.

mod find;
mod foreign;
mod login;
mod plugin;
mod refusals;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::Kubeconfig;
use tributary_registry_api::{Credential, Reason};

pub use login::Login;
pub(crate) use plugin::trouble as plugin_trouble;
pub use refusals::Refusal;
use refusals::Refusals;

/// A server that does not take a connection within this is not there.
const CONNECT: Duration = Duration::from_secs(10);
/// A server that does not take what is written within this is not there.
const WRITE: Duration = Duration::from_secs(30);

/// The environment as a value: the process's is read once, at start; tests pass maps.
#[derive(Clone, Copy)]
pub struct Env<'a>(&'a dyn Fn(&str) -> Option<String>);

impl<'a> Env<'a> {
    /// Looks variables up with this.
    #[must_use]
    pub const fn new(get: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(get)
    }
    /// A variable's value; an empty one counts as not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }
}

/// What the admin asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectOptions {
    /// `--kubeconfig`: this file and no other.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`: this context of it.
    pub context: Option<String>,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a pod's account was found.
    #[error("no kubeconfig was found and this is no pod: pass --kubeconfig, or set KUBECONFIG")]
    Nothing,
    /// A file cannot be read.
    #[error("kubeconfig {0} cannot be read: {1}")]
    Read(String, String),
    /// A file is not what it should be. Its content is not repeated: it may hold secrets.
    #[error("{0} is not a kubeconfig that can be read; `kubectl config view` says where")]
    Malformed(String),
    /// There is no such context.
    #[error("{at} has no context {name:?}; it has {known}")]
    NoContext {
        /// Which kubeconfig.
        at: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The context cannot be used.
    #[error("{0} cannot be used: {1}")]
    Unusable(String, Reason),
    /// A kubeconfig from elsewhere says what only the admin's own may.
    #[error("the kubeconfig is refused: {}", .0.join("; "))]
    Refused(Vec<String>),
}

/// An API server and how to speak to it. Clones share their connections.
#[derive(Clone)]
pub struct Connection {
    client: kube::Client,
    described: String,
    server: String,
    login: Option<Login>,
    refusals: Refusals,
}

impl Connection {
    /// From the flag, `KUBECONFIG`, `~/.kube/config` or the pod's account, the first that is there. Needs a tokio
    /// runtime to be entered. The admin's own kubeconfig may run credential plugins.
    pub fn open(options: &ConnectOptions, env: Env<'_>) -> Result<Self, ConnectError> {
        let found = find::kubeconfig(options, env)?;
        Self::connect(found.kubeconfig, options.context.as_deref(), &found.described, found.rotating_ca)
    }
    /// From a kubeconfig that came from elsewhere: vetted, with only what is known to be harmless taken over.
    pub fn foreign(secret: &Credential, context: Option<&str>) -> Result<Self, ConnectError> {
        let vetted = foreign::vet(secret, context)?;
        Self::connect(vetted, None, "a vetted kubeconfig", None)
    }
    /// Over any client: for tests, and for servers that are reached in another way.
    #[must_use]
    pub fn over(client: kube::Client, described: impl Into<String>, server: impl Into<String>) -> Self {
        let (described, server) = (described.into(), server.into());
        Self { client, described, server, login: None, refusals: Refusals::default() }
    }
    /// What [`Connection::open`] would log in with now; nothing where that cannot be read. Runs no plugin.
    #[must_use]
    pub fn login_now(options: &ConnectOptions, env: Env<'_>) -> Option<Login> {
        let found = find::kubeconfig(options, env).ok()?;
        let chosen = find::choose(&found.kubeconfig, options.context.as_deref(), &found.described).ok()?;
        Some(Login::of(&found.kubeconfig, &chosen))
    }

    fn connect(
        mut kubeconfig: Kubeconfig,
        context: Option<&str>,
        at: &str,
        rotating_ca: Option<PathBuf>,
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
        // a proxy of the environment is for the outside; the API server is reached directly
        config.proxy_url = None;
        // retries that nobody sees would hide how the source is doing
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT);
        config.write_timeout = Some(WRITE);
        let server = config.cluster_url.to_string();
        let refusals = Refusals::default();
        let client = ClientBuilder::try_from(config).map_err(|error| match &error {
            kube::Error::Auth(why) => unusable(&plugin_trouble(why)),
            other => unusable(other),
        })?;
        let client = client.with_layer(&refusals.layer()).build();
        Ok(Self { client, described: chosen.describe(at), server, login, refusals })
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }
    /// Which credential is used, for people; no secret.
    #[must_use]
    pub fn described(&self) -> &str {
        &self.described
    }
    /// The address of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }
    /// What it logged in with when it was opened; nothing where it was not opened here.
    #[must_use]
    pub const fn login(&self) -> Option<Login> {
        self.login
    }
    /// Waits until the server has refused the credential, or a right, since this was last waited for.
    pub async fn refused(&self) -> Refusal {
        self.refusals.next().await
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({} by {})", self.server, self.described)
    }
}
